"""Exact arithmetic: a piecewise-linear network evaluated in rationals, with no rounding at all.

Enters: a network and a point of float64 numbers, which are rationals. Leaves: the outputs as
fractions. Slow, and used where a comparison is closer than rounding can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from karenina.network import Activation, Network
from karenina.query import Case, Query

__all__ = ["evaluate_exactly", "reaches_exactly"]


def evaluate_exactly(network: Network, x: npt.ArrayLike) -> list[Fraction]:
    """The outputs at x, as the real-valued network has them."""
    values = [Fraction(v) for v in np.asarray(x, dtype=np.float64).tolist()]
    for layer in network.layers:
        weight, bias = layer.weight.cpu().tolist(), layer.bias.cpu().tolist()
        values = [Fraction(b) + _dot(row, values) for row, b in zip(weight, bias, strict=True)]
        kinds = [activation for activation, count in layer.activations for _ in range(count)]
        values = [_activate(kind, value) for kind, value in zip(kinds, values, strict=True)]
    return values


def reaches_exactly(query: Query, case: Case, x: npt.ArrayLike, threshold: float) -> bool:
    """Whether x satisfies the case's constraints and attains the threshold, decided without rounding."""
    if not all(network.piecewise_linear for network in query.networks) or not case.box.contains(x):
        return False
    y = [value for network in query.networks for value in evaluate_exactly(network, x)]
    value = Fraction(case.offset) + _dot(case.objective.tolist(), y)
    slack = [
        Fraction(h) + _dot(row, y)
        for row, h in zip(case.constraints.tolist(), case.constraint_offsets.tolist(), strict=False)
    ]
    return value >= Fraction(threshold) and all(s >= 0 for s in slack)


def _dot(row: Sequence[float], values: Sequence[Fraction]) -> Fraction:
    return sum((Fraction(w) * v for w, v in zip(row, values, strict=True) if w and v), Fraction(0))


def _activate(kind: Activation, z: Fraction) -> Fraction:
    match kind.name:
        case "relu":
            return max(z, Fraction(0))
        case "leaky_relu":
            return z if z >= 0 else Fraction(kind.parameters[0]) * z
        case "abs":
            return abs(z)
        case "clip":
            low, high = map(Fraction, kind.parameters)
            return min(max(z, low), high)
        case "identity":
            return z
    raise ValueError(f"{kind.name} has no exact value in rationals")
