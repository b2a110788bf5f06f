"""What a turn stores."""

from __future__ import annotations

import json
from dataclasses import fields

from inference.types import SamplingParams
from web.turns import as_json


def test_every_sampling_param_is_stored() -> None:
    params = SamplingParams(min_p=0.1, frequency_penalty=0.5, seed=3, stop=("END",), ignore_eos=True)
    stored = json.loads(json.dumps(as_json(params)))
    assert stored == {field.name: getattr(params, field.name) for field in fields(params)} | {"stop": ["END"]}
