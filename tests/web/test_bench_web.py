"""`ondol bench --web`: what it prints. No test looks at a figure's size."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from inference.models.prepared import PreparedModel
from tests.inference.doubles import prepare_double
from web.bench_reach import Reach
from web.bench_web import LABELS, Sizes, print_table, run_bench_web
from web.settings import Settings

SMALL = Sizes(
    messages=8,
    long_chars=9_000,
    opened=2,
    rendered=2,
    found=40,
    imported=3,
    reach=Reach(words=2, every_s=0.02, held=(40,), held_s=1, held_words=1, pause_s=0, idle_s=0.2),
)


def double(folder: Path, *_: object) -> PreparedModel:
    return prepare_double(folder, window=2_048)


def test_the_web_layer_is_measured_in_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_bench_web(Settings(), as_json=True, sizes=SMALL, prepare=partial(double, tmp_path))
    figures = json.loads(capsys.readouterr().out)
    assert set(figures) == set(LABELS)
    assert figures["first_load_bytes"] > 50_000
    print_table(figures, SMALL)
    table = capsys.readouterr().out
    assert "opening 8 messages" in table
