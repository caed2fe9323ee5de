"""Bounds by differences, for pairs of nearly equal networks, compiled.

Enters: bounds of the differences of paired neurons' pre-activations. Leaves: lines for the differences of their
activations, and a second way through a layer.

With d = z2 - z1 the difference of two paired neurons' pre-activations, c1 f(z1) + c2 f(z2) = (c1 + c2) f(z1) +
c2 (f(z2) - f(z1)), and the last difference lies between two lines in d. Where d has a narrow range and c2 is nearly
-c1, that loses far less than enclosing f twice.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.lines import compiled, slope_range
from karenina.engine.packed import Array, Weights
from karenina.engine.room import Room

__all__ = ["APART", "FIRST", "difference_lines", "take_pairs"]

APART, FIRST, SECOND = 0.0, 1.0, 2.0  # a pair of neurons enclosed one by one, or as one and the difference from it


@compiled
def difference_lines(room: Room, kinds: Array, place: int, one: int, two: int) -> None:
    """Lines in d above and below f(z2) - f(z1): its slope lies in a range, so it lies between two wedges."""
    apart = room.apart
    least, most = slope_range(kinds, place, min(room.low[one], room.low[two]), max(room.high[one], room.high[two]))
    left, right = apart[0, place], apart[1, place]
    for side in range(2):
        sign = 1.0 - 2.0 * side  # a lower line is an upper line of the negative
        at_left, at_right = max(sign * least * left, sign * most * left), max(sign * least * right, sign * most * right)
        slope = min(max(sign * (at_right - at_left) / (right - left + 1e-300), least), most)
        apart[2 + 2 * side, place] = slope
        apart[3 + 2 * side, place] = sign * max(at_left - sign * slope * left, at_right - sign * slope * right)
    tilt, shift = apart[2, place] - apart[4, place], apart[3, place] - apart[5, place]
    apart[6, place] = max(tilt * left, tilt * right) + shift


@compiled
def take_pairs(net: Weights, room: Room, slopes: Array, k: int) -> float:
    """Take the paired neurons of layer k, each pair the way that loses least; the constant."""
    width, part, gap, apart = net.sizes[k + 1], 0.0, room.gap, room.apart
    for i in range(width):
        place, one = net.bias_at[k] + i, 2 * net.bias_at[k] + i
        two = one + width
        c, d, spread = room.below[0, i], room.below[1, i], apart[6, place]
        separate = abs(c) * gap[one] + abs(d) * gap[two]
        by_first, by_second = abs(c + d) * gap[one] + abs(d) * spread, abs(c + d) * gap[two] + abs(c) * spread
        if separate <= min(by_first, by_second) or not np.isfinite(spread):
            room.way[place] = APART
            part += _enclose(room.lines, room.taken, slopes, one, c) + _enclose(room.lines, room.taken, slopes, two, d)
            room.above[0, i], room.above[1, i] = c * room.taken[1, one], d * room.taken[1, two]
            continue
        if by_first <= by_second:  # (c + d) f(z1) + d (f(z2) - f(z1))
            room.way[place] = FIRST
            s, base, other, rest = 0, one, two, d
        else:  # (c + d) f(z2) - c (f(z2) - f(z1))
            room.way[place] = SECOND
            s, base, other, rest = 1, two, one, -c
        side = 2 if rest >= 0 else 4
        slope, intercept = apart[side, place], apart[side + 1, place]
        part += _enclose(room.lines, room.taken, slopes, base, c + d) + rest * intercept
        room.taken[0, other], room.taken[1, other], room.taken[2, other] = rest, slope, intercept
        room.above[0, i], room.above[1, i] = -rest * slope, rest * slope
        room.above[s, i] += (c + d) * room.taken[1, base]
    return part


@compiled
def _enclose(lines: Array, taken: Array, slopes: Array, n: int, c: float) -> float:
    """Take neuron n by its line for coefficient c; the constant."""
    side = 0 if c >= 0 else 4
    slope = min(max(slopes[n], lines[side, n]), lines[side + 1, n])
    taken[0, n], taken[1, n], taken[2, n] = c, slope, lines[side + 3, n] - slope * lines[side + 2, n]
    return float(c * taken[2, n])
