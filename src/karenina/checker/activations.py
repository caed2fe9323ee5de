"""What the checker knows of activations: their values, their shape, and the lines that enclose them.

Enters: a kind, a slope, a range. Leaves: the extremes of activation(z) - slope * z on the range, never too narrow. So
any slope makes a sound line, whoever chose it.

Where a function is convex its maximum lies at an end, and no point lies below a tangent; where it is concave, the
reverse. A tangent at any point will do, so the point may be found by rough arithmetic. All functions here are convex or
concave on either side of 0 (`clip` is linear between its kinks).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.checker.refusal import Refused

__all__ = ["Kind"]

Array = npt.NDArray[Any]  # of float64, or of exact fractions
UNIT = 2.0**-53
LIBRARY = 32 * UNIT  # what tanh, exp, expm1 and log1p of numpy may be off, relatively; exact arithmetic checks samples
DIGITS = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
FAR = Fraction(10**4)  # beyond, a sigmoid is 1 to thousands of digits
PARAMETERS = {
    "identity": 0,
    "relu": 0,
    "leaky_relu": 1,
    "abs": 0,
    "clip": 2,
    "elu": 1,
    "tanh": 0,
    "sigmoid": 0,
    "softplus": 0,
}
LINEAR = ("identity", "relu", "leaky_relu", "abs", "clip")


@dataclass(frozen=True)
class Kind:
    """An activation: its name and its parameters."""

    name: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if PARAMETERS.get(self.name) != len(self.parameters) or not all(map(math.isfinite, self.parameters)):
            raise Refused(f"there is no activation {self.name!r} with parameters {self.parameters}")
        if self.name == "clip" and not self.parameters[0] < self.parameters[1]:
            raise Refused(f"clip needs low < high, not {self.parameters}")
        if self.name == "elu" and self.parameters[0] < 0:
            raise Refused("elu needs alpha >= 0")

    @property
    def linear(self) -> bool:
        """Whether it is made of straight pieces."""
        return self.name in LINEAR

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where straight pieces meet, or the curvature may change sign."""
        return self.parameters if self.name == "clip" else () if self.name == "identity" else (0.0,)

    @property
    def slopes(self) -> tuple[float, float]:
        """A range that coarse slopes are spread over: left and right of a kink at 0."""
        if self.name == "leaky_relu":
            return self.parameters[0], 1.0
        return (-1.0, 1.0) if self.name == "abs" else (0.0, 1.0)

    @property
    def steepest(self) -> float:
        """The largest |derivative| anywhere."""
        return max(1.0, abs(self.parameters[0])) if self.name in ("leaky_relu", "elu") else 1.0

    def is_convex(self, low: Array, high: Array) -> Array:
        """Where it surely is on [low, high]."""
        match self.name:
            case "tanh" | "sigmoid":
                return _truth(high <= 0)
            case "clip":
                return _truth((high <= self.parameters[1]) | (low >= self.parameters[1]))
            case "leaky_relu" | "elu":
                sure = self.parameters[0] <= 1
                return _truth((high <= 0) | (low >= 0) | sure)
        return np.ones(low.shape, bool)

    def is_concave(self, low: Array, high: Array) -> Array:
        match self.name:
            case "identity":
                return np.ones(low.shape, bool)
            case "tanh" | "sigmoid":
                return _truth(low >= 0)
            case "clip":
                return _truth((low >= self.parameters[0]) | (high <= self.parameters[0]))
            case "leaky_relu":
                return _truth((high <= 0) | (low >= 0) | (self.parameters[0] >= 1))
            case "relu" | "abs":
                return _truth((high <= 0) | (low >= 0))
            case "elu":
                return _truth(low >= 0)
        return np.zeros(low.shape, bool)

    def values(self, z: Array) -> tuple[Array, Array]:
        """Numbers below and above the activation at z."""
        if z.dtype == object:
            exactly: Any = np.frompyfunc(self._exactly, 1, 2)(z)
            return exactly[0], exactly[1]
        value = self.roughly(z)
        size = np.abs(value) + (1 if self.name == "sigmoid" else 0)
        error = (4 * UNIT if self.linear else LIBRARY) * size + 1e-300
        return value - error, value + error

    def roughly(self, z: Array) -> Array:
        """In float64, without a promise."""
        match self.name:
            case "relu":
                return np.maximum(z, 0.0)
            case "leaky_relu":
                return np.where(z >= 0, z, z * self.parameters[0])
            case "abs":
                return np.abs(z)
            case "clip":
                return _between(z, np.asarray(self.parameters[0]), np.asarray(self.parameters[1]))
            case "tanh":
                return np.tanh(z)
            case "sigmoid":
                return 0.5 + 0.5 * np.tanh(0.5 * z)
            case "softplus":
                return np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))
            case "elu":
                return np.where(z >= 0, z, self.parameters[0] * np.expm1(np.minimum(z, 0.0)))
        return z

    def _exactly(self, z: Fraction) -> tuple[Fraction, Fraction]:
        parameters = [Fraction(p) for p in self.parameters]
        match self.name:
            case "identity":
                return z, z
            case "relu":
                return (max(z, Fraction(0)),) * 2
            case "leaky_relu":
                return (z if z >= 0 else z * parameters[0],) * 2
            case "abs":
                return (abs(z),) * 2
            case "clip":
                return (min(max(z, parameters[0]), parameters[1]),) * 2
        return self._smooth(z, parameters)

    def _smooth(self, z: Fraction, parameters: list[Fraction]) -> tuple[Fraction, Fraction]:
        """By the exponential of the decimal module, which is right to 60 digits."""
        e_low, e_high = _exponential(min(z, FAR) * (2 if self.name == "tanh" else 1))
        match self.name:
            case "tanh":
                return 1 - 2 / (e_low + 1), Fraction(1) if z > FAR else 1 - 2 / (e_high + 1)
            case "sigmoid":
                return 1 - 1 / (e_low + 1), Fraction(1) if z > FAR else 1 - 1 / (e_high + 1)
            case "softplus":
                return (z, z + 1 / FAR**9) if z > FAR else (_logarithm(1 + e_low)[0], _logarithm(1 + e_high)[1])
        return (z, z) if z >= 0 else (parameters[0] * (e_low - 1), parameters[0] * (e_high - 1))

    def derivative(self, z: Array) -> Array:
        """Of a smooth one, roughly; at 0 of an elu, that of the left side."""
        match self.name:
            case "tanh":
                return 1 - np.tanh(z) ** 2
            case "sigmoid":
                return 0.25 * (1 - np.tanh(0.5 * z) ** 2)
            case "softplus":
                return 0.5 + 0.5 * np.tanh(0.5 * z)
        return np.where(z > 0, 1.0, self.parameters[0] * np.exp(np.minimum(z, 0.0)))

    def extremes(self, slope: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Numbers below the least and above the greatest value of activation(z) - slope * z on [low, high]."""
        exact = low.dtype == object
        points = [low, high, *(_between(_like(low, k), low, high) for k in self.kinks)]
        least, most = zip(*(_tilted(self.values(p), slope, p, exact) for p in points), strict=True)
        if not self.linear:
            sides = (-1,) if self.name == "elu" else (-1, 1)  # the right side of an elu is straight
            tangents = [self._tangent(slope, low, high, side, exact) for side in sides]
            least, most = (*least, *(t[0] for t in tangents)), (*most, *(t[1] for t in tangents))
        return _fold(np.minimum, least), _fold(np.maximum, most)

    def _tangent(self, slope: Array, low: Array, high: Array, side: int, exact: bool) -> tuple[Array, Array]:
        """What a tangent says of the part of the range on one side of 0."""
        zero = _like(low, 0.0)
        middle = _between(zero, low, high)
        left, right = (low, middle) if side < 0 else (middle, high)
        rough = [np.asarray(part, dtype=np.float64) for part in (slope, left, right)]
        point = _between(self._stationary(rough[0], side), rough[1], rough[2])
        point = _between(_lift(point, exact), left, right)
        tilt, error = self._steepness(point, exact)
        below, above = _tilted(self.values(point), slope, point, exact)
        ends = [(tilt - slope) * (end - point) for end in (left, right)]
        space = error * (right - left)
        rise, fall = _fold(np.maximum, ends) + space, _fold(np.minimum, ends) - space
        if not exact:
            slack = 8 * UNIT * (np.abs(tilt) + np.abs(slope)) * (right - left) + 1e-300
            rise, fall = rise + slack, fall - slack
        concave = side > 0 and self.name in ("tanh", "sigmoid")
        return (below, above + np.maximum(rise, zero)) if concave else (below + np.minimum(fall, zero), above)

    def _stationary(self, slope: Array, side: int) -> Array:
        """Roughly where activation(z) - slope * z is level."""
        with np.errstate(all="ignore"):
            match self.name:
                case "tanh":
                    z = side * np.arctanh(np.sqrt(np.clip(1 - slope, 0.0, 1.0)))
                case "sigmoid":
                    z = side * 2 * np.arctanh(np.sqrt(np.clip(1 - 4 * slope, 0.0, 1.0)))
                case "softplus":
                    z = np.log(slope / (1 - slope))
                case _:
                    z = np.log(slope / (self.parameters[0] or 1.0))
        return np.asarray(np.nan_to_num(z, nan=0.0, posinf=1e6, neginf=-1e6))

    def _steepness(self, z: Array, exact: bool) -> tuple[Array, Array]:
        """The derivative at z, and how far off it may be."""
        if not exact:
            value = self.derivative(z)
            return value, np.full(z.shape, 4 * LIBRARY * self.steepest + 1e-300)
        low, high = self.values(z)
        one = Fraction(1)
        match self.name:
            case "tanh":  # 1 - t^2 is steep in t by at most 2
                return one - low * low, 2 * (high - low)
            case "sigmoid":
                return low * (one - low), high - low
            case "softplus":
                below, above = Kind("sigmoid").values(z)
                return below, above - below
        alpha = Fraction(self.parameters[0])
        return np.where(_truth(z > 0), np.asarray(one), low + alpha), high - low


def _exponential(z: Fraction) -> tuple[Fraction, Fraction]:
    """Numbers below and above e^z, for z that is not far above 0."""
    if z < -2 * FAR:
        return Fraction(0), _exponential(-2 * FAR)[1]
    return _around(lambda: DIGITS.exp(DIGITS.divide(decimal.Decimal(z.numerator), decimal.Decimal(z.denominator))))


def _logarithm(z: Fraction) -> tuple[Fraction, Fraction]:
    return _around(lambda: DIGITS.ln(DIGITS.divide(decimal.Decimal(z.numerator), decimal.Decimal(z.denominator))))


def _around(compute: Callable[[], decimal.Decimal]) -> tuple[Fraction, Fraction]:
    """The rounded argument and the rounded result are off by less than 1e-50, relatively."""
    value = Fraction(compute())
    error = abs(value) / 10**50 + Fraction(1, 10**50)
    return max(value - error, Fraction(0)), value + error


def _tilted(values: tuple[Array, Array], slope: Array, z: Array, exact: bool) -> tuple[Array, Array]:
    """values - slope * z, outwards."""
    product = slope * z
    low, high = values[0] - product, values[1] - product
    if exact:
        return low, high
    error = 4 * UNIT * (np.abs(product) + np.abs(values[1])) + 1e-300
    return low - error, high + error


def _fold(pick: Callable[[Array, Array], Array], parts: Any) -> Array:
    result: Array = parts[0]
    for part in parts[1:]:
        result = pick(result, part)
    return result


def _between(values: Array, low: Array, high: Array) -> Array:
    return np.asarray(np.minimum(np.maximum(values, low), high))


def _truth(values: Any) -> Array:
    return np.asarray(values, dtype=bool)


def _lift(values: Array, exact: bool) -> Array:
    """Floats as exact fractions, where those are wanted."""
    return np.asarray(np.frompyfunc(Fraction, 1, 1)(values)) if exact else values


def _like(example: Array, value: float) -> Array:
    return np.full(example.shape, Fraction(value) if example.dtype == object else value)
