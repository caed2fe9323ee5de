"""The lines that enclose activations, in eight boxes at once: what `lines` does for one, for kinks and for S-curves.

A kink bends upwards: its upper line is the chord, its lower line turns about 0. An S-curve is tanh, scaled and shifted;
its lines have one slope. Any slope is sound; what must be right is what a line adds.
"""

from __future__ import annotations

import math

import numpy as np

from karenina.engine.abreast_room import Abreast
from karenina.engine.lanes import (
    MAGIC,
    Lanes,
    absolute,
    any_of,
    exponent,
    greater,
    lesser,
    load,
    mantissa,
    select,
    splat,
    square_root,
    store,
    two_to_the,
)
from karenina.engine.lines import NARROW, TINY, compiled
from karenina.engine.packed import CLIP, KINK, SIGMOID, SOFTPLUS, TANH, Array

__all__ = ["activate", "bend", "relax", "steepness", "tanh", "turn"]

LOG2_E, LN_2 = 1 / math.log(2.0), math.log(2.0)
LN_2_HIGH = 0x162E42FEE0000 * 2.0**-49  # times an integer of some hundreds, it is exact
LN_2_LOW = 1.9082149292705877e-10
EXPONENTIAL = tuple(1 / math.factorial(n) for n in range(14, 0, -1))  # of (e^x - 1) / x
INVERSE = tuple(1 / (2 * n + 1) for n in range(12, -1, -1))  # of artanh(x) / x, in x^2
FAR = 20.0  # tanh of more is 1
NEAR = 0.17  # up to here the series of artanh is all that is needed


@compiled
def _exponential_less_one(x: Lanes) -> Lanes:
    """Of x >= 0, within a few units in the last place; more than 2 FAR is taken for that."""
    size = lesser(x, 2.0 * FAR)
    whole = size * LOG2_E + MAGIC - MAGIC
    rest = (size - whole * LN_2_HIGH) - whole * LN_2_LOW
    series = splat(EXPONENTIAL[0])
    for coefficient in EXPONENTIAL[1:]:
        series = series * rest + coefficient
    scale = two_to_the(whole)
    return scale * (series * rest) + (scale - 1.0)


@compiled
def tanh(x: Lanes) -> Lanes:
    """Within a few units in the last place."""
    raised = _exponential_less_one(2.0 * absolute(x))
    value = raised / (raised + 2.0)
    return select(x < 0.0, -value, value)


@compiled
def _artanh(x: Lanes) -> Lanes:
    """Of [0, 1], within a few units in the last place: half the logarithm of (1 + x) / (1 - x); infinite at 1."""
    ratio = (1.0 + x) / (1.0 - x)
    power, part = exponent(ratio), mantissa(ratio)
    large = part > 1.4142135623730951
    power, part = select(large, power + 1.0, power), select(large, 0.5 * part, part)
    small = x < NEAR
    x_of_part = select(small, x, (part - 1.0) / (part + 1.0))
    power = select(small, 0.0, power)
    square = x_of_part * x_of_part
    series = splat(INVERSE[0])
    for coefficient in INVERSE[1:]:
        series = series * square + coefficient
    return select(x < 1.0, series * x_of_part + power * (0.5 * LN_2), np.inf)


@compiled
def _logarithm(x: Lanes) -> Lanes:
    """Of a positive number, roughly: through artanh."""
    power, part = exponent(x), mantissa(x)
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    return power * LN_2 + 2.0 * ratio * (1.0 + square * (1.0 / 3 + square * (0.2 + square / 7.0)))


@compiled
def relax(kinds: Array, p: int, room: Abreast, n: int) -> bool:
    """Lines of neuron n to begin with; whether those of all boxes are parallel."""
    if kinds[p, 0] == KINK:
        return _relax_kink(kinds[p, 1], kinds[p, 2], room, n)
    _relax_curve(kinds[p, 0] == SIGMOID, room, n)
    return True


@compiled
def _relax_kink(left: float, right: float, room: Abreast, n: int) -> bool:
    low, high = load(room.low, n), load(room.high, n)
    below, above = lesser(low, 0.0), greater(high, 0.0)
    share, rise = above / (above - below + TINY), right - left
    chord = select(share == 1.0, right, left + rise * share)  # exactly: past its kink it has one line, not two
    add = -rise * share * below
    at_left, at_right = select(low >= 0.0, right, left), select(high <= 0.0, left, right)
    least, most = lesser(at_left, at_right), greater(at_left, at_right)
    slope = lesser(greater(select(above > -below, right, left), least), most)
    tilt = chord - slope
    gap = greater(tilt * low, tilt * high) + add
    store(room.up, n, chord)
    store(room.up_by, n, add)
    store(room.down, n, slope)
    store(room.down_by, n, 0.0)
    store(room.least, n, least)
    store(room.most, n, most)
    store(room.loose, n, select(gap > 0.0, 1.0, 0.0))
    return not any_of(chord != slope)


@compiled
def _relax_curve(sigmoid: bool, room: Abreast, n: int) -> None:
    scale, middle = (0.5, 0.5) if sigmoid else (1.0, 0.0)
    low, high = load(room.low, n), load(room.high, n)
    left, right = scale * tanh(scale * low), scale * tanh(scale * high)
    steepest = scale * scale
    slope_left, slope_right = steepest - left * left, steepest - right * right
    least, most = lesser(slope_left, slope_right), greater(slope_left, slope_right)
    most = select((low <= 0.0) & (high >= 0.0), steepest, most)
    least, most = greater(least, 0.0), lesser(most, steepest)
    width = high - low
    chord = (right - left) / width
    if any_of(width <= NARROW):
        inside = scale * tanh(scale * (low + 0.5 * width))
        chord = select(width > NARROW, chord, steepest - inside * inside)
    chord = lesser(greater(chord, least), most)
    store(room.at_low, n, middle + left)
    store(room.at_high, n, middle + right)
    store(room.least, n, least)
    store(room.most, n, most)
    store(room.chord, n, chord)
    store(room.side, n, 0.0)
    turn(sigmoid, room, n, chord)
    gap = load(room.up_by, n) - load(room.down_by, n)
    store(room.loose, n, select(gap > 0.0, 1.0, 0.0))


@compiled
def turn(sigmoid: bool, room: Abreast, n: int, wished: Lanes) -> None:
    """Give both lines of an S-curve the wished slope: each touches the curve, or an end of it."""
    scale, middle = (0.5, 0.5) if sigmoid else (1.0, 0.0)
    low, high = load(room.low, n), load(room.high, n)
    slope = lesser(greater(wished, load(room.least, n)), load(room.most, n))
    slope = select(high - low < np.inf, slope, np.nan)  # comparisons below would pass over NaN
    at_left, at_right = load(room.at_low, n) - slope * low, load(room.at_high, n) - slope * high
    root = square_root(greater(1.0 - slope / (scale * scale), 0.0))
    z, rise = _artanh(root) / scale, scale * root
    up, down = greater(at_left, at_right), lesser(at_left, at_right)
    above, below = middle + rise - slope * z, middle - rise + slope * z
    store(room.up_by, n, select((low < z) & (z < high) & (above > up), above, up))
    store(room.down_by, n, select((low < -z) & (-z < high) & (below < down), below, down))
    store(room.up, n, slope)
    store(room.down, n, slope)


@compiled
def bend(sigmoid: bool, room: Abreast, n: int, share: float) -> None:
    """Turn an S-curve's lines part of the way to the slope that is best at z: that of the curve's envelope there."""
    scale, above = 0.5 if sigmoid else 1.0, load(room.reach, n) >= 0.0
    low, high, z = load(room.low, n), load(room.high, n), load(room.z, n)
    left, right = select(above, scale * low, -scale * high), select(above, scale * high, -scale * low)
    at = lesser(greater(select(above, scale * z, -scale * z), left), right)
    side = select(above, 1.0, -1.0)
    if any_of(load(room.side, n) != side):
        store(room.side, n, side)
        store(room.touch, n, _touch(left))
    touch, outside = load(room.touch, n), at < -0.5 * left  # left of where a line from the left end touches the curve
    t = tanh(select(outside, greater(at, touch), at))
    curve, slope = scale * scale * (1.0 - t * t), load(room.down, n)
    best = select(outside, select(touch < right, curve, load(room.chord, n)), curve)
    turn(sigmoid, room, n, slope + share * (best - slope))


@compiled
def _touch(left: Lanes) -> Lanes:
    """Roughly where a line through tanh at the left touches the curve above it: one step of Newton's from a guess."""
    guess = lesser(-0.5 * left, 0.5 * _logarithm(greater(2.0 - 2.0 * left, 1.0)))
    t = tanh(guess)
    rise = (1.0 - t * t) * (guess - left)
    return guess - (t - tanh(left) - rise) / (2.0 * t * rise)


@compiled
def activate(kinds: Array, p: int, z: Lanes) -> Lanes:
    """The activation itself, whichever it is."""
    code = kinds[p, 0]
    if code == KINK:
        return select(z > 0.0, kinds[p, 2] * z, kinds[p, 1] * z)
    if code == TANH:
        return tanh(z)
    if code == SIGMOID:
        return 0.5 + 0.5 * tanh(0.5 * z)
    if code == CLIP:
        return lesser(greater(z, kinds[p, 1]), kinds[p, 2])
    falling = 1.0 / (1.0 + _exponential_less_one(absolute(z)))
    if code == SOFTPLUS:
        return greater(z, 0.0) + 2.0 * _artanh(falling / (2.0 + falling))
    return select(z > 0.0, z, kinds[p, 1] * (falling - 1.0))


@compiled
def steepness(kinds: Array, p: int, z: Lanes, value: Lanes) -> Lanes:
    """The derivative where the activation has this value, roughly: nothing sound rests on it."""
    code = kinds[p, 0]
    if code == KINK:
        return select(z > 0.0, kinds[p, 2], kinds[p, 1])
    if code == TANH:
        return 1.0 - value * value
    if code == SIGMOID:
        return value * (1.0 - value)
    if code == CLIP:
        return select((kinds[p, 1] < z) & (z < kinds[p, 2]), 1.0, 0.0)
    if code == SOFTPLUS:
        return 0.5 + 0.5 * tanh(0.5 * z)
    return select(z > 0.0, 1.0, value + kinds[p, 1])
