"""Bounds in words. Enters: numbers. Leaves: text that claims no more than the numbers do."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

__all__ = ["at_most"]


def at_most(bound: float, digits: int = 6) -> str:
    """Some digits, rounded up: a bound that is rounded down is none."""
    if math.isinf(bound):
        return "inf" if bound > 0 else "-inf"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(bound):g}"
