"""The compiled kernels, compiled here where a checkout was not installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inference.backends.native.library import NativeUnavailable, load_library
from tests.inference.models.conftest import Preparing

ROOT = Path(__file__).parents[4]
KERNELS = ("plain C", "AVX2", "AVX-VNNI", "AVX-512 VNNI")


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler")
    try:
        return load_library()
    except NativeUnavailable:
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=ROOT, check=True)
        return load_library()


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
