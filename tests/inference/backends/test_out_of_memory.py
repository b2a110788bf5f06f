"""How torch says that there is no memory, by what it really raises."""

from __future__ import annotations

import pytest
import torch

from inference.backends.out_of_memory import telling_out_of_memory
from inference.errors import OutOfMemory


def test_the_cpu_allocators_own_error_is_told_as_ours() -> None:
    with pytest.raises(OutOfMemory) as told, telling_out_of_memory():
        torch.empty(2**55)
    assert str(2**57) in told.value.detail


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory. Tried"), MemoryError()])
def test_other_ways_of_saying_it_are_known(error: Exception) -> None:
    with pytest.raises(OutOfMemory), telling_out_of_memory():
        raise error


def test_any_other_failure_stays_what_it_is() -> None:
    @telling_out_of_memory()
    def multiply() -> torch.Tensor:
        return torch.zeros(2, 3) @ torch.zeros(2, 3)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        multiply()
