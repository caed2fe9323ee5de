"""Other answers to the same query: Marabou, MILP solvers, and a fake for tests.

Enters: a back end's name. Leaves: a `Backend`. Each module is imported when its back end is asked for, so this
package costs nothing to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina.errors import InputError

if TYPE_CHECKING:
    from karenina.query import Backend

__all__ = ["BACKENDS", "backend"]

BACKENDS = ("karenina", "marabou", "highs", "gurobi")


def backend(name: str, device: str = "auto") -> Backend:
    """The back end of that name; `device` is for our own engine, the others run on the CPU."""
    match name:
        case "karenina":
            from karenina.engine import Engine

            return Engine(device=device)
        case "marabou":
            from karenina.backends.marabou import Marabou

            return Marabou()
        case "highs" | "gurobi":
            from karenina.backends.milp import Milp

            return Milp(name)
    raise InputError(f"unknown back end {name!r}; known: {', '.join(BACKENDS)}")
