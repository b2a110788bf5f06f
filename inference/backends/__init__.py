"""Backends: the computation behind the engine. Importing this package imports none of them."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.errors import ModelUnusable
from inference.models.prepared import PreparedModel, Progress
from inference.types import ModelPhase, ModelStatus

NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def load_backend(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> Backend:
    """The backend for a model, loaded. That can take many seconds: on the worker thread only.

    Raises `ModelUnusable`, also where the native backend was asked for by name and cannot run the model.
    """
    if config.backend == "transformers":
        return _general(prepared, config, progress)
    from inference.backends.native.decoder import Unfit
    from inference.backends.native.library import NativeUnavailable

    try:
        return _native(prepared, config)
    except (Unfit, NativeUnavailable) as reason:
        if config.backend == "native":
            raise ModelUnusable(f"{prepared.name} cannot run on the native backend. {reason}") from reason
        if isinstance(reason, Unfit):  # nothing that anybody could mend
            return _general(prepared, config, progress)
        progress(ModelStatus(ModelPhase.LOADING, str(reason)))
        return _general(prepared, config, progress, note=str(reason))


def _native(prepared: PreparedModel, config: EngineConfig) -> Backend:
    """Raises `Unfit` or `NativeUnavailable`."""
    from inference.backends.native.backend import NativeBackend, fitting
    from inference.backends.native.decoder import Unfit
    from inference.backends.native.library import PLAIN, fastest_kernels

    if config.backend == "auto":
        if config.compute_dtype != "auto":
            raise Unfit(f"It does not compute in {config.compute_dtype}.")
        if NVIDIA_DRIVER.exists():
            raise Unfit("There is a GPU.")
        fitting(prepared)
        if fastest_kernels() == PLAIN:
            raise Unfit("This CPU lacks AVX2, FMA or F16C.")
    return NativeBackend(prepared)


def _general(prepared: PreparedModel, config: EngineConfig, progress: Progress, *, note: str = "") -> Backend:
    # Two OpenMP pools live here, torch's and bitsandbytes'. While the threads of one spin, waiting for work,
    # those of the other get no core: by default a step takes up to ten times as long once anything else runs
    # on this machine. Sleeping at once is slow too; spinning briefly costs next to nothing in either case.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # At import it advises a package that downloads code from the Hub, which Ondol never does.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from inference.backends.transformers_bnb import TransformersBackend

    backend = TransformersBackend.load(prepared, config, progress)
    backend.description = replace(backend.description, note=note)
    return backend
