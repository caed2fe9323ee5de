"""Property tests try the same examples in every run, so that a run that passes passes again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
