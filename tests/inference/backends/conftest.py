"""The compiled kernels, compiled here where a checkout was not installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inference.backends.native.library import NativeUnavailable, load_library

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler")
    try:
        return load_library()
    except NativeUnavailable:
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=ROOT, check=True)
        return load_library()
