"""Settings for every test."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A shared machine stalls now and then; how long an example takes is not what any test is about.
settings.register_profile("ondol", deadline=None)
settings.load_profile("ondol")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="Run the long figures of the reliability tests.")


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long figures are wanted."""
    return bool(request.config.getoption("--long"))
