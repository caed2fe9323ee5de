"""How the simulators are compiled, said once. Enters: a function of numbers and arrays. Leaves: the same, compiled.

No threads of its own and no fused or reordered arithmetic: a run gives the same bits wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["compiled", "inlined"]

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """A function called from Python: compiled when it is first called, and kept on disk."""
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """A function called from compiled ones only."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
