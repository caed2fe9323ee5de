"""Bounds and names in words. Enters: numbers, names. Leaves: text that claims no more than the numbers do, and that a
terminal can show."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

__all__ = ["at_most", "printable"]


def at_most(bound: float, digits: int = 6) -> str:
    """Some digits, rounded up: a bound that is rounded down is none."""
    if math.isinf(bound):
        return "inf" if bound > 0 else "-inf"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(bound):g}"


def printable(text: str) -> str:
    """Names come from files: a newline or an escape sequence in one must not reach the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
