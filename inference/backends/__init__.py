"""Backends: the computation behind the engine. Importing this package imports none of them."""

from __future__ import annotations

import logging

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress


def load_backend(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> Backend:
    """The backend for a model, loaded. The import alone takes seconds: on the worker thread only."""
    # At import it advises a package that downloads code from the Hub, which Ondol never does.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from inference.backends.transformers_bnb import TransformersBackend

    return TransformersBackend.load(prepared, config, progress)
