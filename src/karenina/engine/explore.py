"""Branch and bound on one query, compiled: boxes are taken from a heap, halved, bounded, and put back if still open.

Enters: the weights, what is asked (`Question`), the open boxes (`Heap`) and the best value so far (`Best`). Leaves:
the same, after a number of boxes or when nothing is open. The order of the work depends on nothing else: how often one
comes back to look at the clock makes no difference.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.box import hidden_bounds
from karenina.engine.dive import dive, no_record
from karenina.engine.forward import forward
from karenina.engine.lines import compiled, has_one_kink
from karenina.engine.near import APART
from karenina.engine.packed import Array, Best, Heap, Node, Plan, Question, Weights
from karenina.engine.room import Room, new_room
from karenina.engine.tighten_box import Steps, evaluate, new_steps, tighten

__all__ = [
    "EASY",
    "aim",
    "choose_axis",
    "clip",
    "count_loose",
    "explore",
    "halve",
    "node_of",
    "offer",
    "over",
    "plant",
    "pop",
    "push",
    "root",
    "settle",
    "target_of",
    "worth_it",
]

EASY = 6  # loose neurons so few that linear programmes always pay
LONG = 1 << 16  # boxes from which on a search may do with more linear programmes
INSIDE = 2e-9  # how far inside the constraints the programmes stay: more than they may be off


@compiled
def explore(net: Weights, ask: Question, plan: Plan, heap: Heap, best: Best, boxes: int) -> int:
    """Halve the box of the highest bound, until so many have been bounded at most; how many have been."""
    room, steps, done, count = new_room(net), new_steps(net, ask), 0, heap.filled[0]
    while count > 0 and done < boxes and count + 2 <= len(heap.order):
        slot = heap.order[0]
        if over(plan, best, heap.bound[slot]):
            break
        if count <= plan.most_open:
            count = pop(heap, count)
        else:  # depth first: the last leaf, without which the rest is still a heap
            count -= 1
            slot = heap.order[count]
            if heap.bound[slot] <= target_of(plan, best):
                best.closed[0] = max(best.closed[0], heap.bound[slot])
                continue
        halve(heap, slot, heap.order[count + 1])
        for _ in range(2):
            slot = heap.order[count]
            if _bound(net, ask, plan, heap, best, room, steps, slot):
                count = push(heap, count)
            else:
                heap.order[count], heap.order[count + 1] = heap.order[count + 1], slot
        done += 2
    heap.filled[0] = count
    return done


@compiled
def plant(net: Weights, ask: Question, plan: Plan, heap: Heap, best: Best) -> int:
    """Bound the box of every case and put the open ones on the heap, which has room for them and nothing on it yet."""
    room, steps, count = new_room(net), new_steps(net, ask), 0
    for case in range(len(ask.offset)):
        slot = heap.order[count]
        root(ask, heap, slot, case)
        if _bound(net, ask, plan, heap, best, room, steps, slot):
            count = push(heap, count)
    heap.filled[0] = count
    return len(ask.offset)


@compiled
def root(ask: Question, heap: Heap, slot: int, case: int) -> None:
    """Write the box of a case to a slot, of which nothing is known."""
    heap.case[slot], heap.bound[slot], heap.near[slot] = case, np.inf, ask.near
    for i in range(heap.lower.shape[1]):
        heap.lower[slot, i], heap.upper[slot, i] = ask.lower[case, i], ask.upper[case, i]
    for neuron in range(heap.low.shape[1]):
        heap.low[slot, neuron], heap.high[slot, neuron], heap.slopes[slot, neuron] = -np.inf, np.inf, np.nan
    for r in range(ask.rows.shape[1]):
        heap.multipliers[slot, r] = 0.0


@compiled
def target_of(plan: Plan, best: Best) -> float:
    """A box with no larger bound is closed."""
    if not np.isnan(plan.threshold):
        return plan.threshold
    value = best.value[0]
    if value == -np.inf:
        return plan.least
    return float(value + max(0.99 * max(plan.tolerance, plan.relative_tolerance * abs(value)), plan.least_gap))


@compiled
def aim(plan: Plan, best: Best, target: float) -> float:
    """Where tightening steps head for: a little below the target."""
    if not np.isnan(plan.threshold) or best.value[0] == -np.inf:
        return target - max(1e-6 * abs(target), plan.least_gap)
    return float((target + best.value[0]) / 2)


@compiled
def over(plan: Plan, best: Best, highest: float) -> bool:
    """Whether nothing is open above the target, or the interval is narrow enough, or the best value decides."""
    value = best.value[0]
    if highest <= target_of(plan, best) or value >= plan.ceiling:
        return True
    if not np.isnan(plan.threshold):
        return bool(value > plan.threshold or highest <= plan.threshold + plan.least_gap)
    width = max(highest, best.closed[0]) - value
    return bool(width <= plan.enough or (value > -np.inf and width <= plan.relative_enough * abs(value)))


@compiled
def pop(heap: Heap, count: int) -> int:
    """Take the first slot off the heap: it becomes the first free one."""
    count -= 1
    slot, moved = heap.order[0], heap.order[count]
    heap.order[count] = slot
    at, child = 0, 1
    while child < count:
        if child + 1 < count and heap.bound[heap.order[child + 1]] > heap.bound[heap.order[child]]:
            child += 1
        if heap.bound[heap.order[child]] <= heap.bound[moved]:
            break
        heap.order[at] = heap.order[child]
        at, child = child, 2 * child + 1
    if count:
        heap.order[at] = moved
    return count


@compiled
def push(heap: Heap, count: int) -> int:
    """Put the first free slot on the heap."""
    slot, at = heap.order[count], count
    while at > 0:
        parent = (at - 1) // 2
        if heap.bound[heap.order[parent]] >= heap.bound[slot]:
            break
        heap.order[at] = heap.order[parent]
        at = parent
    heap.order[at] = slot
    return count + 1


@compiled
def halve(heap: Heap, slot: int, other: int) -> None:
    """One half stays in the slot, the other half goes to another."""
    heap.bound[other], heap.case[other], heap.near[other] = heap.bound[slot], heap.case[slot], heap.near[slot]
    for i in range(heap.lower.shape[1]):
        heap.lower[other, i], heap.upper[other, i] = heap.lower[slot, i], heap.upper[slot, i]
    for neuron in range(heap.low.shape[1]):
        heap.low[other, neuron], heap.high[other, neuron] = heap.low[slot, neuron], heap.high[slot, neuron]
        heap.slopes[other, neuron] = heap.slopes[slot, neuron]
    for r in range(heap.multipliers.shape[1]):
        heap.multipliers[other, r] = heap.multipliers[slot, r]
    axis = heap.axis[slot]
    middle = (heap.lower[slot, axis] + heap.upper[slot, axis]) / 2
    heap.upper[slot, axis] = heap.lower[other, axis] = middle


@compiled
def _bound(
    net: Weights, ask: Question, plan: Plan, heap: Heap, best: Best, room: Room, steps: Steps, slot: int
) -> bool:
    """Bound the box in a slot; whether it stays open, smaller and with the next axis chosen."""
    case, before, near = heap.case[slot], heap.bound[slot], heap.near[slot] == 1
    best.effort[0] += 1
    _enter(heap, room, steps, slot)
    hidden_bounds(net, room, near)
    for neuron in range(len(steps.slopes)):
        if np.isnan(steps.slopes[neuron]) or room.curve[3, neuron] > room.curve[2, neuron]:
            steps.slopes[neuron] = room.start[neuron]
    target = target_of(plan, best)
    bound = evaluate(net, ask, case, room, steps.slopes, steps.multipliers, near)
    tight = bound
    if min(bound, before) > target:
        tight = tighten(net, ask, case, room, steps, bound, aim(plan, best, target), target, plan.steps, near)
        offer(net, ask, case, best, steps.best_corner, room.matrix[0], steps.y)
    found = min(tight, before)
    target = target_of(plan, best)
    if found <= target:
        best.closed[0] = max(best.closed[0], found)
        return False
    axis = choose_axis(net, ask, case, room, steps)  # before the box shrinks: scores belong to what was bounded
    if plan.programmes > 0:
        found = settle(net, ask, plan, best, room, steps, case, found, axis < 0)
        target = target_of(plan, best)
        if found <= target:
            best.closed[0] = max(best.closed[0], found)
            return False
    clip(room, steps, tight, target)
    best.closed[0] = max(best.closed[0], target)  # what was cut off attains at most that
    if axis < 0:
        best.closed[0] = max(best.closed[0], found)  # it cannot shrink any more: that is what float64 has to give
        return False
    heap.bound[slot], heap.axis[slot], heap.near[slot] = found, axis, near and _differences_help(room)
    _leave(heap, room, steps, slot)
    return True


@compiled
def _differences_help(room: Room) -> bool:
    """Whether a pair of neurons was taken by its difference."""
    taken = 0
    for way in room.way:
        taken += way != APART
    return taken > 0


@compiled
def settle(
    net: Weights, ask: Question, plan: Plan, best: Best, room: Room, steps: Steps, case: int, bound: float, last: bool
) -> float:
    """The bound after a search over the loose neurons, where those are few and it pays, or nothing else is left."""
    count = count_loose(room)
    if count > plan.loose or (count > EASY and not last and not worth_it(best)):
        return bound
    node, x = node_of(net, ask, case, room, steps, count), np.empty(len(room.lower))
    found, closed, programmes = dive(net, node, target_of(plan, best), plan.programmes, x, no_record(), 0)
    best.effort[1] += programmes
    best.effort[2] += programmes if closed else 0
    offer(net, ask, case, best, x, room.matrix[0], steps.y)
    return found if closed else min(bound, found)


@compiled
def count_loose(room: Room) -> int:
    """How many neurons have lines that differ."""
    count = 0
    for n in range(len(room.low)):
        count += _is_loose(room.lines, room.low[n], room.high[n], n)
    return count


@compiled
def node_of(net: Weights, ask: Question, case: int, room: Room, steps: Steps, count: int) -> Node:
    """The box in hand, with so many loose neurons, as linear programmes read it."""
    neurons = len(room.low)
    loose, place, splittable = np.empty(count, np.int64), np.empty(neurons, np.int64), np.zeros(neurons, np.bool_)
    found = 0
    for k in range(len(net.sizes) - 2):
        for s in range(len(net.weights)):
            for m in range(net.sizes[k + 1]):
                n = len(net.weights) * net.bias_at[k] + s * net.sizes[k + 1] + m
                place[n] = -1
                if _is_loose(room.lines, room.low[n], room.high[n], n):
                    place[n], loose[found] = found, n
                    found += 1
                    splittable[n] = has_one_kink(net.kinds, net.bias_at[k] + m, room.low[n], room.high[n])
    rows = ask.rows[case]
    offsets, inside = np.empty(len(rows)), np.empty(len(rows))
    for r in range(len(rows)):
        offsets[r] = ask.row_offset[case, r] + 2 * ask.row_error[case, r]
        inside[r] = ask.row_offset[case, r] - 8 * ask.row_error[case, r] - INSIDE
    return Node(
        room.lower,
        room.upper,
        room.lines,
        room.low,
        room.high,
        loose,
        place,
        splittable,
        steps.best_slopes,
        ask.objective[case],
        ask.offset[case] + ask.error[case],
        rows,
        offsets,
        inside,
    )


@compiled
def worth_it(best: Best) -> bool:
    """Programmes take longer than boxes: they begin where splitting alone has not ended, and go on while they help."""
    boxes, solved, useful = best.effort
    return bool(boxes >= LONG and solved <= boxes // 64 + 2 * useful)


@compiled
def _is_loose(lines: Array, low: float, high: float, n: int) -> bool:
    """Whether a neuron's lines differ somewhere in its range, or could."""
    if lines[1, n] > lines[0, n] or lines[5, n] > lines[4, n]:
        return True
    tilt = lines[0, n] - lines[4, n]
    shift = (lines[3, n] - lines[0, n] * lines[2, n]) - (lines[7, n] - lines[4, n] * lines[6, n])
    return bool(max(tilt * low, tilt * high) + shift > 0)


@compiled
def _enter(heap: Heap, room: Room, steps: Steps, slot: int) -> None:
    for i in range(len(room.lower)):
        room.lower[i], room.upper[i] = heap.lower[slot, i], heap.upper[slot, i]
    for neuron in range(len(room.low)):
        room.low[neuron], room.high[neuron] = heap.low[slot, neuron], heap.high[slot, neuron]
        steps.slopes[neuron] = heap.slopes[slot, neuron]
    for r in range(len(steps.multipliers)):
        steps.multipliers[r] = heap.multipliers[slot, r]


@compiled
def _leave(heap: Heap, room: Room, steps: Steps, slot: int) -> None:
    for i in range(len(room.lower)):
        heap.lower[slot, i], heap.upper[slot, i] = room.lower[i], room.upper[i]
    for neuron in range(len(room.low)):
        heap.low[slot, neuron], heap.high[slot, neuron] = room.low[neuron], room.high[neuron]
        heap.slopes[slot, neuron] = steps.best_slopes[neuron]
    for r in range(len(steps.multipliers)):
        heap.multipliers[slot, r] = steps.best_multipliers[r]


@compiled
def offer(net: Weights, ask: Question, case: int, best: Best, x: Array, work: Array, y: Array) -> bool:
    """Take x if it surely satisfies the constraints and surely attains more than the best so far."""
    forward(net, x, np.empty(len(net.errors)), y, work)
    value = 0.0
    for m in range(len(y)):
        value += ask.objective[case, m] * y[m]
    value = value + ask.offset[case] - ask.error[case]
    if not value > best.value[0] or not np.isfinite(value):
        return False
    for r in range(ask.rows.shape[1]):
        slack = 0.0
        for m in range(len(y)):
            slack += ask.rows[case, r, m] * y[m]
        if not slack + ask.row_offset[case, r] >= ask.row_error[case, r]:
            return False
    best.value[0], best.case[0] = value, case
    for i in range(len(x)):
        best.x[i] = x[i]
    return True


@compiled
def clip(room: Room, steps: Steps, bound: float, target: float) -> None:
    """Keep the part of the box where the linear bound exceeds the target; the slack covers rounding."""
    scale = 0.0
    for i in range(len(room.lower)):
        scale += abs(steps.best_total[i]) * max(abs(room.lower[i]), abs(room.upper[i]))
    space = max(bound - target, 0.0) * (1 + 1e-12) + 1e-13 * (scale + abs(bound) + abs(target))
    for i in range(len(room.lower)):
        slope = steps.best_total[i]
        move = space / abs(slope) if slope != 0.0 else np.inf
        if np.isnan(move):
            continue
        if slope > 0:
            room.lower[i] = max(room.lower[i], room.upper[i] - move)
        elif slope < 0:
            room.upper[i] = min(room.upper[i], room.lower[i] + move)


@compiled
def choose_axis(net: Weights, ask: Question, case: int, room: Room, steps: Steps) -> int:
    """The input whose halving promises to take most looseness away; -1 if all are too short to be halved."""
    score = room.middle[0]  # no longer needed
    for i in range(len(score)):
        score[i] = abs(steps.best_total[i])
    stack = len(net.weights)
    for k in range(len(net.sizes) - 2):
        width = net.sizes[k + 1]
        for s in range(stack):
            for m in range(width):
                neuron = stack * net.bias_at[k] + s * width + m
                loss = abs(steps.best_reach[neuron])
                if room.gap[neuron] > 0.0:
                    share = loss
                    for i in range(len(score)):
                        score[i] += share * abs(room.rows[neuron, i])
    axis, most, widest, longest = -1, 0.0, -1, 0.0
    for i in range(len(score)):
        width = room.upper[i] - room.lower[i]
        if width <= ask.least_width[case, i]:
            continue
        if score[i] * width > most:
            axis, most = i, score[i] * width
        if width > longest:
            widest, longest = i, width
    return axis if axis >= 0 else widest
