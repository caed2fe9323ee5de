"""What can go wrong, as exceptions a user can read.

KareninaError            every exception karenina raises on purpose
├── InputError           a file or an argument is wrong; the message says which, and what would be right
│   ├── UnsupportedModel a model file holds something karenina does not verify, named with its place
│   └── DomainError      a domain is malformed, or does not fit the network
├── MissingExtra         an optional library is needed; the message names the extra to install
└── WorkStopped          nobody's mistake: a full disk, workers that die; what is done so far is kept
"""

from __future__ import annotations

__all__ = ["DomainError", "InputError", "KareninaError", "MissingExtra", "UnsupportedModel", "WorkStopped"]


class KareninaError(Exception):
    """Base of every exception karenina raises on purpose."""


class InputError(KareninaError):
    """A file or an argument is wrong: the message names it and says what to fix."""


class UnsupportedModel(InputError):
    """A model holds an operator or a structure that karenina does not verify."""


class DomainError(InputError):
    """A domain is malformed or does not fit the network."""


class MissingExtra(KareninaError):
    """An optional library is needed for what was asked."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"this needs {library}: pip install 'karenina[{extra}]'")


class WorkStopped(KareninaError):
    """Work cannot go on, for a reason outside of what was asked: the message says why, and what is kept."""
