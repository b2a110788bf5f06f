"""Torch's ways of saying that there is no memory, as one error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from inference.errors import OutOfMemory

# The CPU's allocator and cuBLAS raise RuntimeError, told from others by their words alone.
SAYINGS = ("DefaultCPUAllocator: can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


@contextmanager
def telling_out_of_memory() -> Iterator[None]:
    """Raises `OutOfMemory` for what torch and Python raise in its place. Also a decorator."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(_first_line(error)) from error
    except RuntimeError as error:
        if not any(saying in str(error) for saying in SAYINGS):
            raise
        raise OutOfMemory(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
