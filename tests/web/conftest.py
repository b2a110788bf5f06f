"""Servers for the tests of `web`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.serving import Served


def echo(prompt: str) -> str:
    """The double's reply: what the user wrote last."""
    return prompt.rpartition("user\n")[2].strip()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts servers on one data folder; all are ended after the test."""
    started: list[Served] = []

    def start(reply: Callable[[str], str] = echo, **options: Any) -> Served:
        served = Served(tmp_path, reply, **options)
        started.append(served)
        return served

    yield start
    for served in started:
        served.close()
