"""Servers in processes of their own, on disks that can fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.disk import Disk, build_library
from tests.reliability.servers import Servers, servers


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Starts servers."""
    with servers(build_library(tmp_path_factory.mktemp("library"))) as running:
        yield running


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk for one server."""
    with Disk(tmp_path / "control") as made:
        yield made
