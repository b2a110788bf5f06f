"""Servers for the tests of the reliability plan."""

from tests.web.conftest import serve

__all__ = ["serve"]
