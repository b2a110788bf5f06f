"""Backends: the computation behind the engine. Importing this package imports none of them."""

from __future__ import annotations

import logging
import os

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress


def load_backend(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> Backend:
    """The backend for a model, loaded. The import alone takes seconds: on the worker thread only."""
    # Two OpenMP pools live here, torch's and bitsandbytes'. While one spins waiting for work, the other's
    # threads get no core: on two busy cores a step took 840 ms instead of 70. Read when the libraries load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # At import it advises a package that downloads code from the Hub, which Ondol never does.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from inference.backends.transformers_bnb import TransformersBackend

    return TransformersBackend.load(prepared, config, progress)
