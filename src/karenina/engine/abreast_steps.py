"""Eight boxes from bounds to halves, compiled: tightened, shrunk, and the next axis of each chosen.

Enters: boxes in an `Abreast`, the target and where steps head for. Leaves: their best bounds, what made them, smaller
boxes and axes. By the same steps as `tighten_box` and `explore` take for one box.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.abreast import bounds_abreast, descend_abreast, forward_abreast
from karenina.engine.abreast_lines import bend
from karenina.engine.abreast_room import Abreast
from karenina.engine.lanes import (
    Lanes,
    Mask,
    absolute,
    any_of,
    greater,
    lesser,
    load,
    select,
    splat,
    square_root,
    store,
)
from karenina.engine.lines import compiled
from karenina.engine.packed import KINK, SIGMOID, Array, Weights

__all__ = ["axes_abreast", "bound_abreast", "clip_abreast", "loose_abreast", "values_abreast"]


@compiled
def bound_abreast(
    net: Weights, room: Abreast, constant: Lanes, before: Lanes, target: float, aim: float, most: int
) -> Lanes:
    """The best bounds after so many steps at most; constant: what the objective adds, rounding included."""
    bounds_abreast(net, room)
    _start(net, room)
    bound = _finite(descend_abreast(net, room) + constant)
    best, reach = bound, splat(1.0)
    _keep(room, splat(1.0) > 0.0)
    for n in range(len(room.squares)):
        store(room.squares, n, 0.0)
        store(room.momentum, n, 0.0)
    for step in range(most):
        if not any_of((best > target) & (before > target)):
            break
        forward_abreast(net, room, room.corner, False, False)
        _move(net, room, reach * (bound - aim), 1.0 / (2 + step))
        bound = _finite(descend_abreast(net, room) + constant)
        better = bound < best
        if any_of(better):
            _keep(room, better)
        best, reach = select(better, bound, best), select(better, reach, 0.9 * reach)  # it overshot: be humbler
    return best


@compiled
def _finite(bound: Lanes) -> Lanes:
    return select(absolute(bound) < np.inf, bound, np.inf)


@compiled
def _start(net: Weights, room: Abreast) -> None:
    """Kinks begin with the slopes of the box that theirs is part of, where those are known; curves with the chord."""
    stack = len(net.weights)
    for k in range(len(net.sizes) - 2):
        width, place = net.sizes[k + 1], net.bias_at[k]
        for m in range(stack * width):
            n = stack * place + m
            if net.kinds[place + m % width, 0] == KINK:
                slopes = load(room.best_slopes, n)
                known = select(slopes == slopes, slopes, load(room.down, n))
                store(room.down, n, lesser(greater(known, load(room.least, n)), load(room.most, n)))


@compiled
def _keep(room: Abreast, better: Mask) -> None:
    """Let what was just evaluated be the best, where it is better."""
    for n in range(len(room.down)):
        store(room.best_slopes, n, select(better, load(room.down, n), load(room.best_slopes, n)))
        store(room.best_reach, n, select(better, load(room.reach, n), load(room.best_reach, n)))
    for i in range(len(room.total)):
        store(room.best_total, i, select(better, load(room.total, i), load(room.best_total, i)))
        store(room.best_corner, i, select(better, load(room.corner, i), load(room.best_corner, i)))


@compiled
def _move(net: Weights, room: Abreast, excess: Lanes, part: float) -> None:
    """Kinks: Polyak's step in coordinates scaled by the derivatives seen so far, with momentum. Curves: `bend`."""
    stack, length = len(net.weights), splat(0.0)
    for k in range(len(net.sizes) - 2):
        for s in range(stack):
            place, first = net.bias_at[k], stack * net.bias_at[k] + s * net.sizes[k + 1]
            for p in range(room.actives[s, k]):
                m = room.active[s, k, p]
                n = first + m
                if net.kinds[place + m, 0] != KINK:
                    bend(net.kinds[place + m, 0] == SIGMOID, room, n, part)
                    continue
                c, free = load(room.reach, n), load(room.most, n) > load(room.least, n)
                g = select(free & (c < 0.0), c * load(room.z, n), 0.0)
                squares = load(room.squares, n) + g * g
                scaled = g / (square_root(squares) + 1e-290)
                length += g * scaled
                store(room.squares, n, squares)
                store(room.share, n, scaled)
    length = excess / greater(length, 1e-290)
    length = select(absolute(length) < np.inf, length, 0.0)
    for k in range(len(net.sizes) - 2):
        for s in range(stack):
            place, first = net.bias_at[k], stack * net.bias_at[k] + s * net.sizes[k + 1]
            for p in range(room.actives[s, k]):
                m = room.active[s, k, p]
                n = first + m
                if net.kinds[place + m, 0] == KINK:
                    share, slope = load(room.share, n), load(room.down, n)
                    momentum = 0.5 * load(room.momentum, n) + share
                    moved = lesser(greater(slope - length * momentum, load(room.least, n)), load(room.most, n))
                    store(room.momentum, n, momentum)
                    store(room.down, n, select(share != 0.0, moved, slope))


@compiled
def values_abreast(net: Weights, room: Abreast) -> Lanes:
    """What the networks themselves attain at the best corners, but for the objective's constant."""
    forward_abreast(net, room, room.best_corner, True, False)
    value = splat(0.0)
    for m in range(len(room.y)):
        value += load(room.objective, m) * load(room.y, m)
    return value


@compiled
def loose_abreast(room: Abreast) -> Lanes:
    """How many neurons have lines that differ."""
    count = splat(0.0)
    for n in range(len(room.loose)):
        count += select(load(room.most, n) > load(room.least, n), 1.0, 0.0)
    return count


@compiled
def axes_abreast(net: Weights, room: Abreast) -> Lanes:
    """The input of each box whose halving promises to take most looseness away; -1 if all are too short."""
    scores = room.centre  # no longer needed
    _score(net, room, scores)
    axis, most, widest, longest = splat(-1.0), splat(0.0), splat(-1.0), splat(0.0)
    for i in range(net.sizes[0]):
        width = load(room.upper, i) - load(room.lower, i)
        width = select(width > load(room.shortest, i), width, 0.0)
        promise = load(scores, i) * width
        axis, most = select(promise > most, float(i), axis), greater(most, promise)
        widest, longest = select(width > longest, float(i), widest), greater(longest, width)
    return select(axis >= 0.0, axis, widest)


@compiled
def _score(net: Weights, room: Abreast, scores: Array) -> None:
    """What each input has to do with loose neurons, a unit of its width."""
    stack, inputs = len(net.weights), net.sizes[0]
    for i in range(inputs):
        store(scores, i, absolute(load(room.best_total, i)))
    for k in range(len(net.sizes) - 2):
        for s in range(stack):
            first = stack * net.bias_at[k] + s * net.sizes[k + 1]
            for p in range(room.actives[s, k]):
                n = first + room.active[s, k, p]
                loose = load(room.loose, n)
                if not any_of(loose > 0.0):
                    continue
                loss = absolute(load(room.best_reach, n)) * loose
                for i in range(inputs):
                    if k == 0:
                        score = loss * abs(net.weights[s, (n - first) * inputs + i])
                    else:
                        score = loss * absolute(load(room.rows, n * inputs + i))
                    store(scores, i, load(scores, i) + score)


@compiled
def clip_abreast(room: Abreast, bound: Lanes, target: float) -> None:
    """Keep the part of each box where the linear bound exceeds the target; the slack covers rounding."""
    scale = splat(0.0)
    for i in range(len(room.lower)):
        size = greater(absolute(load(room.lower, i)), absolute(load(room.upper, i)))
        scale += absolute(load(room.best_total, i)) * size
    space = greater(bound - target, 0.0) * (1 + 1e-12) + 1e-13 * (scale + absolute(bound) + abs(target))
    for i in range(len(room.lower)):
        slope, lower, upper = load(room.best_total, i), load(room.lower, i), load(room.upper, i)
        move = space / absolute(slope)
        store(room.lower, i, select(slope > 0.0, greater(lower, upper - move), lower))
        store(room.upper, i, select(slope < 0.0, lesser(upper, lower + move), upper))
