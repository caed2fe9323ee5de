"""Gradient ascent from many points, eight at a time, compiled: witnesses to begin with.

Enters: the weights, what is asked, and the best value so far. Leaves: a better one, if one was found. Nothing here
needs to be right for soundness: points are certified when they are offered.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.abreast import back_abreast, forward_abreast
from karenina.engine.abreast_room import Abreast, new_abreast
from karenina.engine.explore import offer
from karenina.engine.lanes import WIDE, any_of, greater, lesser, load, select, splat, store
from karenina.engine.lines import compiled
from karenina.engine.packed import Array, Best, Edge, Question, Weights

__all__ = ["climb"]


@compiled
def climb(net: Weights, ask: Question, best: Best, starts: Array, case: int, steps: int, edge: Edge) -> None:
    """Signed steps that shrink, from each start (a point of the unit cube) in the case's box; offers every end.

    Where there are constraints, offers every point on the way too, and notes those on an edge while none was taken.
    """
    room, lower, upper = new_abreast(net, ask), ask.lower[case], ask.upper[case]
    for k in range(len(net.sizes) - 2):
        for s in range(len(net.weights)):
            room.actives[s, k] = net.sizes[k + 1]
            for m in range(net.sizes[k + 1]):
                room.active[s, k, m] = m
    for first in range(0, len(starts), WIDE):
        for lane in range(WIDE):
            start = starts[min(first + lane, len(starts) - 1)]
            for i in range(len(start)):
                room.corner[i, lane] = lower[i] + start[i] * (upper[i] - lower[i])
        length = 0.5
        for step in range(steps + 1):
            forward_abreast(net, room, room.corner, True, True)
            if step == steps or ask.rows.shape[1]:
                _offer_all(net, ask, case, best, room, edge)
            if step == steps:
                break
            _aim(ask, case, room)
            back_abreast(net, room, False)
            for i in range(len(lower)):
                slope, move = load(room.total, i), length * (upper[i] - lower[i])
                sign = select(slope > 0.0, 1.0, select(slope < 0.0, -1.0, 0.0))
                store(room.corner, i, lesser(greater(load(room.corner, i) + move * sign, lower[i]), upper[i]))
            length *= 0.8


@compiled
def _aim(ask: Question, case: int, room: Abreast) -> None:
    """The row over the outputs to climb: the objective, or, outside the constraints, those that are violated."""
    outside = splat(0.0)
    for m in range(len(room.y)):
        store(room.objective, m, 0.0)
    for r in range(ask.rows.shape[1]):
        slack = splat(ask.row_offset[case, r] - 2 * ask.row_error[case, r])
        for m in range(len(room.y)):
            slack += ask.rows[case, r, m] * load(room.y, m)
        violated = select(slack < 0.0, 1.0, 0.0)
        outside = greater(outside, violated)
        for m in range(len(room.y)):
            store(room.objective, m, load(room.objective, m) + violated * ask.rows[case, r, m])
    for m in range(len(room.y)):
        store(room.objective, m, select(outside > 0.0, load(room.objective, m), ask.objective[case, m]))


@compiled
def _offer_all(net: Weights, ask: Question, case: int, best: Best, room: Abreast, edge: Edge) -> None:
    """Offer the points that seem to satisfy the constraints and to attain more than the best so far."""
    value = splat(ask.offset[case] - ask.error[case])
    for m in range(len(room.y)):
        value += ask.objective[case, m] * load(room.y, m)
    doubtful = value
    for r in range(ask.rows.shape[1]):
        slack, error = splat(ask.row_offset[case, r]), ask.row_error[case, r]
        for m in range(len(room.y)):
            slack += ask.rows[case, r, m] * load(room.y, m)
        value = select(slack >= error, value, -np.inf)
        doubtful = select(slack >= -error, doubtful, -np.inf)
    if any_of(value > best.value[0]):
        store(room.found, 0, value)
        x, work, y = np.empty(len(room.corner)), np.empty((2, net.widest)), np.empty(len(room.y))
        for lane in range(WIDE):
            if room.found[0, lane] > best.value[0]:
                for i in range(len(x)):
                    x[i] = room.corner[i, lane]
                offer(net, ask, case, best, x, work, y)
    elif best.case[0] < 0 and any_of(doubtful > best.value[0]):
        store(room.found, 0, doubtful)
        for lane in range(WIDE):
            if room.found[0, lane] > best.value[0] and edge.filled[0] < len(edge.case):
                edge.case[edge.filled[0]] = case
                for i in range(len(room.corner)):
                    edge.x[edge.filled[0], i] = room.corner[i, lane]
                edge.filled[0] += 1
