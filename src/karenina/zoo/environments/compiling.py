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
    """A function called from Python: compiled when it is first called, and kept on disk where there is a place."""
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))
    except RuntimeError:  # neither the package's folder nor the user's can be written to
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """A function called from compiled ones only.

    What is kept on disk does not notice when one of another module changes: `make clean` then.
    """
    return cast(Function, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
