"""The real-valued network at a point, with no rounding that matters: the fuzzer's oracle.

Enters: networks and points of float64 numbers, which are fractions over powers of two. Leaves: outputs, objectives and
constraints as fractions. Affine maps and kinks are computed in whole numbers, exactly; smooth activations in
decimals of 100 digits, which `doubt` bounds. Shares nothing with the engine but the networks' weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.network import Activation, Layer, Network
from karenina.query import Case, Query

__all__ = ["doubt", "exact_feasible", "exact_outputs", "exact_value", "exceeds"]

Array = npt.NDArray[np.float64]
DIGITS = 100
PLACES = 1600  # binary digits after the point that a smooth activation keeps: 500 more than float64 has
SMALL = Decimal("1e-25")  # below, two terms of a series are better than a difference


@dataclass(frozen=True)
class Dyadic:
    """whole / 2**shift, one for each neuron."""

    whole: npt.NDArray[Any]  # of int
    shift: int

    @classmethod
    def of(cls, values: Array) -> Dyadic:
        ratios = [float(v).as_integer_ratio() for v in values.ravel().tolist()]
        shift = max((below.bit_length() - 1 for _, below in ratios), default=0)
        whole = np.empty(len(ratios), dtype=object)
        whole[:] = [above << (shift - below.bit_length() + 1) for above, below in ratios]
        return cls(whole.reshape(values.shape), shift)

    def to(self, shift: int) -> npt.NDArray[Any]:
        """The whole numbers for a longer shift."""
        return self.whole * (1 << (shift - self.shift))

    def fractions(self) -> list[Fraction]:
        return [Fraction(int(n), 1 << self.shift) for n in self.whole]


def exact_outputs(network: Network, x: Sequence[float]) -> list[Fraction]:
    """The outputs at x, as the real-valued network has them."""
    h = Dyadic.of(np.asarray(x, dtype=np.float64))
    for layer in network.layers:
        h = _activate(layer, _affine(layer, h))
    return h.fractions()


def _affine(layer: Layer, h: Dyadic) -> Dyadic:
    weight, bias = Dyadic.of(layer.weight.cpu().numpy()), Dyadic.of(layer.bias.cpu().numpy())
    product = Dyadic(weight.whole @ h.whole, weight.shift + h.shift)
    shift = max(product.shift, bias.shift)
    return Dyadic(product.to(shift) + bias.to(shift), shift)


def _activate(layer: Layer, z: Dyadic) -> Dyadic:
    parts, start = [], 0
    for activation, count in layer.activations:
        part = Dyadic(z.whole[start : start + count], z.shift)
        parts.append(_kinked(activation, part) if activation.piecewise_linear else _smooth(activation, part))
        start += count
    shift = max(part.shift for part in parts)
    return Dyadic(np.concatenate([part.to(shift) for part in parts]), shift)


def _kinked(activation: Activation, z: Dyadic) -> Dyadic:
    match activation.name:
        case "relu":
            return Dyadic(np.maximum(z.whole, 0), z.shift)
        case "abs":
            return Dyadic(np.abs(z.whole), z.shift)
        case "leaky_relu":
            slope = Dyadic.of(np.array(activation.parameters))
            bent = np.where(z.whole >= 0, z.whole * (1 << slope.shift), z.whole * slope.whole[0])
            return Dyadic(bent, z.shift + slope.shift)
        case "clip":
            ends = Dyadic.of(np.array(activation.parameters))
            shift = max(z.shift, ends.shift)
            low, high = ends.to(shift)
            return Dyadic(np.minimum(np.maximum(z.to(shift), low), high), shift)
    return z


def _smooth(activation: Activation, z: Dyadic) -> Dyadic:
    whole = np.empty(len(z.whole), dtype=object)
    with localcontext(Context(prec=DIGITS, Emax=10**9, Emin=-(10**9))):
        values = [_at(activation, Decimal(int(n)) / Decimal(1 << z.shift)) for n in z.whole]
        whole[:] = [round(Fraction(value) * (1 << PLACES)) for value in values]
    return Dyadic(whole, PLACES)


def _at(activation: Activation, z: Decimal) -> Decimal:
    if activation.name == "elu":
        return z if z >= 0 else Decimal(activation.parameters[0]) * _expm1(z)
    return _FUNCTIONS[activation.name](z)


def _exp(z: Decimal) -> Decimal:
    return z.exp() if z > -3000 else Decimal(0)  # less than the places kept


def _expm1(z: Decimal) -> Decimal:
    return z + z * z / 2 if abs(z) < SMALL else _exp(z) - 1


def _tanh(z: Decimal) -> Decimal:
    if abs(z) < SMALL:
        return z - z * z * z / 3
    twice = _expm1(-2 * abs(z))
    return (-twice / (2 + twice)).copy_sign(z)


def _sigmoid(z: Decimal) -> Decimal:
    small = _exp(-abs(z))
    return (1 if z >= 0 else small) / (1 + small)


def _softplus(z: Decimal) -> Decimal:
    small = _exp(-abs(z))
    return max(z, Decimal(0)) + (small - small * small / 2 if small < SMALL else (1 + small).ln())


_FUNCTIONS: dict[str, Callable[[Decimal], Decimal]] = {"tanh": _tanh, "sigmoid": _sigmoid, "softplus": _softplus}


def _row(row: Array, offset: float, y: Sequence[Fraction]) -> Fraction:
    return Fraction(offset) + sum((Fraction(a) * b for a, b in zip(row.tolist(), y, strict=True) if a), Fraction(0))


def exact_value(query: Query, case: Case, x: Sequence[float]) -> Fraction:
    """The case's objective at x."""
    y = [value for network in query.networks for value in exact_outputs(network, x)]
    return _row(case.objective, case.offset, y)


def exact_feasible(query: Query, case: Case, x: Sequence[float]) -> bool:
    """Whether x surely satisfies the case's constraints."""
    if not len(case.constraint_offsets):
        return True
    y = [value for network in query.networks for value in exact_outputs(network, x)]
    rows = zip(case.constraints, case.constraint_offsets.tolist(), strict=True)
    return all(_row(row, offset, y) >= doubt(query, row, x) for row, offset in rows)


def exceeds(query: Query, case: Case, x: Sequence[float], claim: float) -> bool:
    """Whether x surely satisfies the constraints and surely attains more than the claim."""
    if claim == math.inf or not exact_feasible(query, case, x):
        return False
    return exact_value(query, case, x) > Fraction(claim) + doubt(query, case.objective, x)


def doubt(query: Query, row: Array, x: Sequence[float]) -> Fraction:
    """How far a row of `exact_value` may be off: nothing, or, with smooth activations, the last of its many digits."""
    if all(network.piecewise_linear for network in query.networks):
        return Fraction(0)
    with localcontext(Context(prec=12, Emax=10**9, Emin=-(10**9))):
        errors = [error for network in query.networks for error in _errors(network, x)]
        total = sum((abs(Decimal(a)) * error for a, error in zip(row.tolist(), errors, strict=True)), Decimal(0))
        return 2 * Fraction(total)


def _errors(network: Network, x: Sequence[float]) -> list[Decimal]:
    """Of each output: what the smooth activations below have lost, times the weights between."""
    h, errors = Dyadic.of(np.asarray(x, dtype=np.float64)), [Decimal(0)] * len(x)
    for layer in network.layers:
        h = _activate(layer, _affine(layer, h))
        kinds = [activation for activation, count in layer.activations for _ in range(count)]
        below = [_weighted(row, errors) for row in layer.weight.tolist()]
        errors = [Decimal(kind.lipschitz) * error for kind, error in zip(kinds, below, strict=True)]
        for m, kind in enumerate(kinds):
            if not kind.piecewise_linear:
                size = abs(Decimal(int(h.whole[m])) / Decimal(1 << h.shift))
                errors[m] += size * Decimal("1e-70") + Decimal("1e-480")
    return errors


def _weighted(row: Sequence[float], errors: Sequence[Decimal]) -> Decimal:
    return sum((abs(Decimal(a)) * error for a, error in zip(row, errors, strict=True)), Decimal(0))
