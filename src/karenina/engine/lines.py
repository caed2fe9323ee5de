"""The lines that enclose a neuron's activation, compiled: what `relaxation` does, one neuron at a time.

Enters: an activation's number and parameters, and bounds of the pre-activation. Leaves: eight numbers, for the upper
and then for the lower line: the least and the greatest slope, and a point with its value about which the line turns.
The lines of smooth activations have one slope and touch the curve; any other slope has its own points (`turn`).
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
    "envelope_slope",
    "has_one_kink",
    "slope_at",
    "slope_range",
    "turn",
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
        if path.name in ("lanes.py", "lines.py", "packed.py") or b"from karenina.engine.lines import" in source:
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
def write_lines(kinds: Array, p: int, low: float, high: float, lines: Array, curve: Array, n: int) -> float:
    """Write column n of lines for a neuron with its pre-activation in [low, high]; the slope to start from.

    And column n of curve, of a smooth one: the activation at both ends, and the slopes that lines may be turned to.
    """
    if kinds[p, 0] <= CLIP:
        curve[2, n] = curve[3, n] = 0.0
    if kinds[p, 0] == KINK:
        return _kink(kinds[p, 1], kinds[p, 2], low, high, lines, n)
    if kinds[p, 0] == CLIP:
        return _clip(kinds, p, low, high, lines, n)
    return _smooth(kinds, p, low, high, lines, curve, n)


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
def _smooth(kinds: Array, p: int, low: float, high: float, lines: Array, curve: Array, n: int) -> float:
    """One slope for both sides, to begin with the chord's; `turn` gives them others."""
    width, at_low, at_high = high - low, activation(kinds, p, low), activation(kinds, p, high)
    slope = (at_high - at_low) / width if width > NARROW else slope_at(kinds, p, low + width / 2)
    curve[0, n], curve[1, n] = at_low, at_high
    curve[2, n], curve[3, n] = _useful_slopes(kinds, p, low, high, at_low, at_high)
    slope = min(max(slope, curve[2, n]), curve[3, n])
    turn(kinds, p, low, high, slope, lines, curve, n)
    return float(slope)


@compiled
def _useful_slopes(kinds: Array, p: int, low: float, high: float, at_low: float, at_high: float) -> tuple[float, float]:
    """The least and the greatest slope of the curve in its range: lines of others are as sound, and no use."""
    code, parameter = kinds[p, 0], kinds[p, 1]
    if code == TANH:
        left, right = 1 - at_low * at_low, 1 - at_high * at_high
    elif code == SIGMOID:
        left, right = at_low * (1 - at_low), at_high * (1 - at_high)
    elif code == SOFTPLUS:
        left, right = slope_at(kinds, p, low), slope_at(kinds, p, high)
    else:
        left, right = at_low + parameter if low <= 0 else 1.0, at_high + parameter if high <= 0 else 1.0
    least, most = min(left, right), max(left, right)
    if low <= 0 <= high:
        if code in (TANH, SIGMOID):
            most = kinds[p, 4]
        elif code == ELU:
            least, most = min(least, parameter), max(most, parameter)
    return max(least, kinds[p, 3]), min(most, kinds[p, 4])


@compiled
def turn(kinds: Array, p: int, low: float, high: float, wished: float, lines: Array, curve: Array, n: int) -> None:
    """Give both lines of a smooth neuron the wished slope: each touches the curve, or an end of it, at its point."""
    slope = min(max(wished, curve[2, n]), curve[3, n])
    if not np.isfinite(high - low):  # comparisons below would pass over NaN
        slope = np.nan
    up, down, at_up, at_down = low, low, curve[0, n], curve[0, n]
    most = least = curve[0, n] - slope * low
    value = curve[1, n] - slope * high
    if value > most:
        up, at_up, most = high, curve[1, n], value
    if value < least:
        down, at_down, least = high, curve[1, n], value
    if kinds[p, 0] in (TANH, SIGMOID):  # odd about its middle, concave on the right: one tangent above and one below
        scale, middle = (1.0, 0.0) if kinds[p, 0] == TANH else (0.5, 0.5)
        root = math.sqrt(max(1 - slope / (scale * scale), 0.0))
        z, rise = 0.5 / scale * math.log1p(2 * root / (1 - root)), scale * root
        if low < z < high and middle + rise - slope * z > most:
            up, at_up = z, middle + rise
        if low < -z < high and middle - rise + slope * z < least:
            down, at_down = -z, middle - rise
    else:
        for side in range(2):
            z = _stationary(kinds, p, slope, side)
            if low < z < high:
                at_z = activation(kinds, p, z)
                value = at_z - slope * z
                if value > most:
                    up, at_up, most = z, at_z, value
                if value < least:
                    down, at_down, least = z, at_z, value
    lines[0, n] = lines[1, n] = lines[4, n] = lines[5, n] = slope
    lines[2, n], lines[3, n], lines[6, n], lines[7, n] = up, at_up, down, at_down


@compiled
def envelope_slope(kinds: Array, p: int, low: float, high: float, z: float, above: bool, chord: float) -> float:
    """The slope at z of the concave function closest above a smooth activation, or of the convex one closest below.

    Roughly: any slope is sound, and lines of this one are the best at z.
    """
    if kinds[p, 0] not in (TANH, SIGMOID):  # convex
        return chord if above else slope_at(kinds, p, min(max(z, low), high))
    scale = 1.0 if kinds[p, 0] == TANH else 0.5
    left, right, at = scale * low, scale * high, scale * z
    if not above:  # the same from the other end
        left, right, at = -right, -left, -at
    at = min(max(at, left), right)
    if at < -0.5 * left:  # left of a line from the left end that touches the curve at `touch`, or at its right end
        touch = min(-0.5 * left, 0.5 * math.log(2 - 2 * left))
        t, run = math.tanh(touch), touch - left
        rise = (1 - t * t) * run
        touch -= (t - math.tanh(left) - rise) / (2 * t * rise)
        if not touch < right:
            return chord
        at = max(at, touch)
    t = math.tanh(at)
    return float(scale * scale * (1 - t * t))


@compiled
def _stationary(kinds: Array, p: int, slope: float, side: int) -> float:
    """A point, one of two, where softplus(z) - slope * z or that of an elu may have an extreme."""
    if kinds[p, 0] == SOFTPLUS:
        share = min(max(slope, 0.0), 1.0)
        return float(np.log(share / (1 - share)))
    if side == 0:
        return 0.0
    return float(min(0.0, np.log(slope / kinds[p, 1] if kinds[p, 1] != 0.0 else slope)))
