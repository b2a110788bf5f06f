"""Settings for every test."""

from __future__ import annotations

from hypothesis import settings

# A shared machine stalls now and then; how long an example takes is not what any test is about.
settings.register_profile("ondol", deadline=None)
settings.load_profile("ondol")
