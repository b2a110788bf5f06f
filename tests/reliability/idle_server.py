"""A server as `ondol serve` starts it, with a double that answers at once."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from tests.inference.doubles import prepare_double, scripted_loader
from tests.web.serving import SmallSettings
from web.app import build_app
from web.server import run_server

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    prepare_double(folder / "model")
    settings = SmallSettings(
        model="smollm2-135m",
        port=0,
        system_prompt="Be brief.",
        data_dir=folder / "data",
        models_dir=folder / "models",
    )
    build = partial(
        build_app,
        prepare_model=lambda *_: prepare_double(folder / "model"),
        backend=scripted_loader(lambda prompt: "yes", []),
    )
    run_server(settings, build)
