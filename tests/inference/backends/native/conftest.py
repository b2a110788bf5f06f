"""Each set of kernels, and models to run on them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.inference.models.conftest import Preparing

KERNELS = ("plain C", "AVX2", "AVX-VNNI", "AVX-512 VNNI")


@pytest.fixture(params=KERNELS)
def kernels(request: pytest.FixtureRequest, library: ctypes.CDLL) -> bytes:
    """Each set of kernels that this CPU runs."""
    name: bytes = request.param.encode()
    if library.ondol_kernels_name(name) is None:
        pytest.skip("this CPU cannot run them")
    return name


@pytest.fixture
def preparing(tmp_path: Path) -> Preparing:
    return Preparing(tmp_path / "models")
