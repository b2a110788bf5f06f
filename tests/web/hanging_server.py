"""A server as `ondol serve` starts it, whose double makes so many steps and then hangs."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path

from tests.inference.doubles import prepare_double, scripted_loader
from tests.web.serving import SmallSettings
from web.app import build_app
from web.server import run_server

if __name__ == "__main__":
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    prepare_double(folder / "model")
    settings = SmallSettings(
        model="smollm2-135m",
        port=0,
        system_prompt="Be brief.",
        data_dir=folder / "data",
        models_dir=folder / "models",
        changes={"step_limit_s": 1.0},
    )
    build = partial(
        build_app,
        prepare_model=lambda *_: prepare_double(folder / "model"),
        backend=scripted_loader(lambda prompt: "abcdefghij" * 20, [], threading.Semaphore(steps)),
    )
    run_server(settings, build)
