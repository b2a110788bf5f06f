"""Servers for the tests of reliability."""

from __future__ import annotations

from tests.web.conftest import serve

__all__ = ["serve"]
