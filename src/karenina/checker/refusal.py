"""What is said when something cannot be re-derived."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):
    """A claim that does not follow, or data that says nothing; the text names the first thing that fails."""
