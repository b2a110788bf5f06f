"""Ending a preparation that nobody wants any more."""

from __future__ import annotations

import threading

from inference.errors import ModelUnavailable


def raise_if_cancelled(cancelled: threading.Event) -> None:
    """Raise ModelUnavailable once somebody asked for the preparation to end."""
    if cancelled.is_set():
        raise ModelUnavailable("Fetching the model was stopped; start again to fetch it.")
