"""The lines that enclose a neuron's activation, compiled: what `relaxation` does, one neuron at a time.

Enters: an activation's number and parameters, and bounds of the pre-activation. Leaves: eight numbers, for the upper
and then for the lower line: the least and the greatest slope, and a point with its value about which the line turns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from karenina.engine.packed import CLIP, ELU, KINK, SIGMOID, SOFTPLUS, TANH, Array

__all__ = [
    "activation",
    "compiled",
    "dot",
    "dot_absolute",
    "has_one_kink",
    "slope_at",
    "slope_range",
    "vectorised",
    "write_lines",
]

TINY = 2.0**-1074  # keeps 0 / 0 at 0, and is no more than what underflow is allowed
NARROW = 1e-6  # a chord across less is all rounding
OUTWARD = 1e-12  # more than the relative rounding of a derivative

Function = TypeVar("Function", bound=Callable[..., object])


def _sources() -> str:
    """What all compiled modules say, in short."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_bytes()
        if path.name in ("lines.py", "packed.py") or b"from karenina.engine.lines import" in source:
            digest.update(source)
    return digest.hexdigest()


SOURCES = _sources()


def _with_all_sources(dispatcher: Any) -> Any:
    """Numba keeps machine code while a function's own file is unchanged, though it holds that of other files too.

    Here it is kept while no file of compiled code has changed.
    """
    if hasattr(dispatcher, "_cache"):  # not where numba is told to compile nothing
        dispatcher._cache._cache_file._source_stamp = SOURCES
    return dispatcher


def compiled(function: Function) -> Function:
    """Machine code that runs beside other threads, is kept on disk, and divides by zero as numpy does.

    Products and sums may be fused: the rounding analysis holds with and without.
    """
    decorator = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
    return cast(Function, _with_all_sources(decorator(function)))


def vectorised(function: Function) -> Function:
    """The same, with sums in whatever order is fastest: the rounding analysis holds in any."""
    decorator = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
    return cast(Function, _with_all_sources(decorator(function)))


@vectorised
def dot(row: Array, x: Array, size: int) -> float:
    """The first entries' row @ x."""
    total = 0.0
    for i in range(size):
        total += row[i] * x[i]
    return total


@vectorised
def dot_absolute(row: Array, x: Array, size: int) -> float:
    """The first entries' |row| @ x."""
    total = 0.0
    for i in range(size):
        total += abs(row[i]) * x[i]
    return total


@compiled
def activation(kinds: Array, p: int, z: float) -> float:
    """The activation at z. Row p of kinds: its number, two parameters, its least and greatest slope."""
    code = kinds[p, 0]
    if code == KINK:
        return float(kinds[p, 2] * z if z > 0 else kinds[p, 1] * z)
    if code == TANH:
        return math.tanh(z)
    if code == CLIP:
        return float(min(max(z, kinds[p, 1]), kinds[p, 2]))
    if code == SIGMOID:
        return 0.5 + 0.5 * math.tanh(0.5 * z)
    if code == SOFTPLUS:
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))
    return z if z > 0 else kinds[p, 1] * math.expm1(z)


@compiled
def slope_at(kinds: Array, p: int, z: float) -> float:
    """The derivative at z."""
    code = kinds[p, 0]
    if code == KINK:
        return float(kinds[p, 2] if z > 0 else kinds[p, 1])
    if code == TANH:
        t = math.tanh(z)
        return 1 - t * t
    if code == CLIP:
        return 1.0 if kinds[p, 1] < z < kinds[p, 2] else 0.0
    if code == SIGMOID:
        t = math.tanh(0.5 * z)
        return 0.25 * (1 - t * t)
    if code == SOFTPLUS:
        return 0.5 + 0.5 * math.tanh(0.5 * z)
    return 1.0 if z > 0 else kinds[p, 1] * math.exp(z)


@compiled
def slope_range(kinds: Array, p: int, low: float, high: float) -> tuple[float, float]:
    """The least and the greatest slope of any chord in [low, high]."""
    code, left, right = kinds[p, 0], slope_at(kinds, p, low), slope_at(kinds, p, high)
    least, most = min(left, right), max(left, right)
    if code in (KINK, CLIP):
        if code == CLIP and low <= kinds[p, 2] and high >= kinds[p, 1]:
            most = 1.0
            if low <= kinds[p, 1] or high >= kinds[p, 2]:
                least = 0.0
        if code == KINK and low <= 0 <= high:
            least, most = min(kinds[p, 1], kinds[p, 2]), max(kinds[p, 1], kinds[p, 2])
        return least, most
    if code in (TANH, SIGMOID) and low <= 0 <= high:
        most = 1.0 if code == TANH else 0.25
    if code == ELU and low <= 0 <= high:
        most = max(most, kinds[p, 1])
        least = min(least, kinds[p, 1])
    spread = OUTWARD * max(1.0, abs(most))
    return least - spread, most + spread


@compiled
def has_one_kink(kinds: Array, p: int, low: float, high: float) -> bool:
    """Whether a piecewise-linear activation bends exactly once inside the range."""
    if kinds[p, 0] == KINK:
        return bool(low < 0 < high and kinds[p, 1] != kinds[p, 2])
    if kinds[p, 0] == CLIP:
        return bool((low < kinds[p, 1] < high) != (low < kinds[p, 2] < high))
    return False


@compiled
def write_lines(kinds: Array, p: int, low: float, high: float, lines: Array, n: int) -> float:
    """Write column n of lines for a neuron with its pre-activation in [low, high]; the slope to start from."""
    if kinds[p, 0] == KINK:
        return _kink(kinds[p, 1], kinds[p, 2], low, high, lines, n)
    if kinds[p, 0] == CLIP:
        return _clip(kinds, p, low, high, lines, n)
    return _smooth(kinds, p, low, high, lines, n)


@compiled
def _kink(left: float, right: float, low: float, high: float, lines: Array, n: int) -> float:
    """Slope `left` below 0 and `right` above: the chord on one side, a line that turns about 0 on the other."""
    below, above = min(low, 0.0), max(high, 0.0)
    share = above / (above - below + TINY)
    bend = right - left
    slope = left + bend * share if share != 1.0 else right  # exactly: a neuron past its kink has one line, not two
    chord, turning = (0, 4) if bend >= 0 else (4, 0)
    lines[chord, n], lines[chord + 1, n], lines[chord + 2, n] = slope, slope, 0.0
    lines[chord + 3, n] = -bend * share * below
    at_left = right if low >= 0 else left
    at_right = left if high <= 0 else right
    lines[turning, n], lines[turning + 1, n] = min(at_left, at_right), max(at_left, at_right)
    lines[turning + 2, n] = lines[turning + 3, n] = 0.0
    return right if above > -below else left


@compiled
def _clip(kinds: Array, p: int, low: float, high: float, lines: Array, n: int) -> float:
    """min(max(z, a), b): past b the upper line turns about (b, b), past a the lower line about (a, a)."""
    a, b = kinds[p, 1], kinds[p, 2]
    at_low, at_high = activation(kinds, p, low), activation(kinds, p, high)
    chord = (at_high - at_low) / (high - low + TINY)
    lines[0, n] = lines[1, n] = lines[4, n] = lines[5, n] = chord
    lines[2, n] = lines[6, n] = low
    lines[3, n] = lines[7, n] = at_low
    if high > b:
        lines[0, n], lines[2, n], lines[3, n] = 0.0, b, b
        lines[1, n] = min(1.0, (b - at_low) / (max(b - low, 0.0) + TINY))
    if low < a:
        lines[4, n], lines[6, n], lines[7, n] = 0.0, a, a
        lines[5, n] = min(1.0, (at_high - a) / (max(high - a, 0.0) + TINY))
    lines[1, n], lines[5, n] = min(lines[1, n], 1.0), min(lines[5, n], 1.0)
    return chord


@compiled
def _smooth(kinds: Array, p: int, low: float, high: float, lines: Array, n: int) -> float:
    """One slope for both sides, the chord's; intercepts at the extremes of activation(z) - slope * z."""
    width, at_low, at_high = high - low, activation(kinds, p, low), activation(kinds, p, high)
    slope = (at_high - at_low) / width if width > NARROW else slope_at(kinds, p, low + width / 2)
    if not np.isfinite(width):  # comparisons below would pass over NaN
        slope = np.nan
    slope = min(max(slope, kinds[p, 3]), kinds[p, 4])
    most, least = max(at_low - slope * low, at_high - slope * high), min(at_low - slope * low, at_high - slope * high)
    for side in range(2):
        z = min(max(_stationary(kinds, p, slope, side), low), high)
        value = activation(kinds, p, z) - slope * z
        most, least = max(most, value), min(least, value)
    lines[0, n] = lines[1, n] = lines[4, n] = lines[5, n] = slope
    lines[2, n] = lines[6, n] = 0.0
    lines[3, n], lines[7, n] = most, least
    return float(slope)


@compiled
def _stationary(kinds: Array, p: int, slope: float, side: int) -> float:
    """A point, one of two, where activation(z) - slope * z may have an extreme."""
    code, sign = kinds[p, 0], 1.0 - 2.0 * side
    if code == TANH:
        return sign * math.atanh(math.sqrt(min(max(1 - slope, 0.0), 1.0)))
    if code == SIGMOID:
        return sign * 2 * math.atanh(math.sqrt(min(max(1 - 4 * slope, 0.0), 1.0)))
    if code == SOFTPLUS:
        share = min(max(slope, 0.0), 1.0)
        return float(np.log(share / (1 - share)))
    if side == 0:
        return 0.0
    return float(min(0.0, np.log(slope / kinds[p, 1] if kinds[p, 1] != 0.0 else slope)))
