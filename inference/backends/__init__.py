"""Backends: the computation behind the engine. Importing this package imports none of them."""

from __future__ import annotations

import logging
import os

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress


def load_backend(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> Backend:
    """The backend for a model, loaded. The import alone takes seconds: on the worker thread only."""
    # Two OpenMP pools live here, torch's and bitsandbytes'. While the threads of one spin, waiting for work,
    # those of the other get no core: by default a step takes up to ten times as long once anything else runs
    # on this machine. Sleeping at once is slow too; spinning briefly costs next to nothing in either case.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # At import it advises a package that downloads code from the Hub, which Ondol never does.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from inference.backends.transformers_bnb import TransformersBackend

    return TransformersBackend.load(prepared, config, progress)
