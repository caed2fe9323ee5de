"""Whether compiled code can run here, and the threads it runs in. Needs numba (extra `fast`)."""

from __future__ import annotations

import importlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from functools import cache

__all__ = ["available", "threads"]


@cache
def available() -> bool:
    """Whether numba is there, and has a place to keep what it compiles."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        for name in ("lanes", "lines"):
            importlib.import_module(f"karenina.engine.{name}")
    except (ImportError, RuntimeError):
        return False
    return True


@cache
def threads(count: int) -> ThreadPoolExecutor:
    """So many threads, kept for the next call."""
    return ThreadPoolExecutor(count, thread_name_prefix="karenina")
