"""Settings for every test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.outbound import outbound_guard

# A shared machine stalls now and then; how long an example takes is not what any test is about.
settings.register_profile("ondol", deadline=None)
settings.load_profile("ondol")

GUARDS = str(Path(outbound_guard.__file__).parent)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="Run the long figures of the reliability tests.")


def pytest_configure() -> None:
    """Nothing leaves this machine: neither from this process nor from those that tests begin."""
    os.environ[outbound_guard.NOTES] = tempfile.mkstemp(prefix="ondol-outbound-")[1]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [GUARDS, *(path for path in paths if path not in ("", GUARDS))]
    )
    outbound_guard.arm()


def pytest_unconfigure() -> None:
    Path(os.environ[outbound_guard.NOTES]).unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those first that mostly wait: two workers have something to do beside them."""
    items.sort(key=lambda item: "reliability" not in item.path.parts)


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long figures are wanted."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session", autouse=True)
def nothing_left_this_machine() -> Iterator[None]:
    """Row 29 of the reliability plan, to the end of the last server."""
    yield
    assert outbound_guard.notes() == []


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine() -> Iterator[None]:
    """The same for each test, so that it is known which."""
    before = len(outbound_guard.notes())
    yield
    assert outbound_guard.notes()[before:] == []
