"""When memory is not enough. Enters: an exception. Leaves: whether that is what it says.

Python, numpy and numba raise MemoryError; torch raises a RuntimeError and tells by its words.
"""

from __future__ import annotations

import errno

__all__ = ["OUT_OF_MEMORY", "out_of_memory"]

OUT_OF_MEMORY = 12  # the exit code of a worker process that had too little
_WORDS = ("out of memory", "allocate memory")


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was not enough: what failed may succeed elsewhere, or later."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = str(error).lower()
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(w in told for w in _WORDS))
