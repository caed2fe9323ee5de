"""Branch and bound as in `explore`, eight boxes at a time, for queries without constraints.

Enters and leaves: the same. Activations are kinks that bend upwards, or S-curves. The four boxes of the highest bounds
are halved together: the order of the work differs a little, and boxes are as many.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.abreast_room import Abreast, new_abreast
from karenina.engine.abreast_steps import axes_abreast, bound_abreast, clip_abreast, loose_abreast, values_abreast
from karenina.engine.explore import EASY, aim, halve, offer, over, pop, push, root, settle, target_of, worth_it
from karenina.engine.lanes import WIDE, any_of, lesser, load, store
from karenina.engine.lines import compiled, write_lines
from karenina.engine.packed import Best, Flags, Heap, Integers, Plan, Question, Weights
from karenina.engine.room import Room, new_room
from karenina.engine.tighten_box import Steps, new_steps

__all__ = ["explore_abreast", "plant_abreast"]


@compiled
def explore_abreast(net: Weights, ask: Question, plan: Plan, heap: Heap, best: Best, boxes: int) -> int:
    """Halve the boxes of the highest bounds, until so many have been bounded or a few more; how many have been."""
    group, room, steps = new_abreast(net, ask), new_room(net), new_steps(net, ask)
    slots, is_open, done, count = np.empty(WIDE, np.int64), np.empty(WIDE, np.bool_), 0, heap.filled[0]
    while count > 0 and done < boxes and count + 2 <= len(heap.order):
        if over(plan, best, heap.bound[heap.order[0]]):
            break
        count, parents = _take(plan, heap, best, count)  # at least one: the first is open
        for j in range(parents):
            halve(heap, heap.order[count + j], heap.order[count + parents + j])
        for j in range(2 * parents):
            slots[j] = heap.order[count + j]
        _bound(net, ask, plan, heap, best, group, room, steps, slots, 2 * parents, is_open)
        count = _put_back(heap, count, slots, 2 * parents, is_open)
        done += 2 * parents
    heap.filled[0] = count
    return done


@compiled
def plant_abreast(net: Weights, ask: Question, plan: Plan, heap: Heap, best: Best) -> int:
    """Bound the box of every case and put the open ones on the heap, which has room for them and nothing on it yet."""
    group, room, steps = new_abreast(net, ask), new_room(net), new_steps(net, ask)
    slots, is_open, count, cases = np.empty(WIDE, np.int64), np.empty(WIDE, np.bool_), 0, len(ask.offset)
    for first in range(0, cases, WIDE):
        size = min(WIDE, cases - first)
        for j in range(size):
            slots[j] = heap.order[count + j]
            root(ask, heap, slots[j], first + j)
        _bound(net, ask, plan, heap, best, group, room, steps, slots, size, is_open)
        count = _put_back(heap, count, slots, size, is_open)
    heap.filled[0] = count
    return cases


@compiled
def _put_back(heap: Heap, count: int, slots: Integers, size: int, is_open: Flags) -> int:
    """The open ones of the first free slots go on the heap; how many are on it then."""
    last = count + size - 1
    for j in range(size):
        if is_open[j]:
            heap.order[count] = slots[j]
            count = push(heap, count)
        else:
            heap.order[last] = slots[j]
            last -= 1
    return count


@compiled
def _take(plan: Plan, heap: Heap, best: Best, count: int) -> tuple[int, int]:
    """Take up to four open boxes off the heap; how many it has left, and how many were taken.

    Their slots are the first free ones.
    """
    parents, target = 0, target_of(plan, best)
    while parents < WIDE // 2 and count > 0 and count + 2 * parents + 1 <= len(heap.order):
        if count <= plan.most_open:
            if heap.bound[heap.order[0]] <= target:
                break
            count = pop(heap, count)
        else:  # depth first: the last leaf, without which the rest is still a heap
            count -= 1
            slot = heap.order[count]
            if heap.bound[slot] <= target:
                best.closed[0] = max(best.closed[0], heap.bound[slot])
                heap.order[count], heap.order[count + parents] = heap.order[count + parents], slot
                continue
        parents += 1
    return count, parents


@compiled
def _bound(
    net: Weights,
    ask: Question,
    plan: Plan,
    heap: Heap,
    best: Best,
    group: Abreast,
    room: Room,
    steps: Steps,
    slots: Integers,
    count: int,
    is_open: Flags,
) -> None:
    """Bound the boxes in some slots; which of them stay open, smaller and with the next axis chosen."""
    best.effort[0] += count
    for lane in range(WIDE):
        _enter(ask, heap, group, slots[lane if lane < count else 0], lane)
    before, target = load(group.found, 0), target_of(plan, best)
    tight = bound_abreast(net, group, load(group.found, 1), before, target, aim(plan, best, target), plan.steps)
    values = values_abreast(net, group) + load(group.found, 2)
    if any_of(values > best.value[0]):
        store(group.found, 2, values)
        _offer_corners(net, ask, heap, best, group, room, steps, slots, count)
    found, target = lesser(tight, before), target_of(plan, best)
    store(group.found, 1, found)
    if any_of(found > target):
        store(group.found, 3, axes_abreast(net, group))
        if plan.programmes > 0:
            store(group.found, 2, loose_abreast(group))
            _settle_few(net, ask, plan, heap, best, group, room, steps, slots, count)
            target = target_of(plan, best)
        clip_abreast(group, tight, target)
    for lane in range(count):
        bound, axis = group.found[1, lane], int(group.found[3, lane])
        is_open[lane] = bound > target and axis >= 0
        if is_open[lane]:
            heap.bound[slots[lane]], heap.axis[slots[lane]] = bound, axis
            best.closed[0] = max(best.closed[0], target)  # what was cut off attains at most that
            _leave(heap, group, slots[lane], lane)
        else:  # closed, or it cannot shrink any more: that is what float64 has to give
            best.closed[0] = max(best.closed[0], bound)


@compiled
def _enter(ask: Question, heap: Heap, group: Abreast, slot: int, lane: int) -> None:
    case = heap.case[slot]
    group.found[0, lane] = heap.bound[slot]
    group.found[1, lane] = ask.offset[case] + ask.error[case]
    group.found[2, lane] = ask.offset[case] - ask.error[case]
    for i in range(len(group.lower)):
        group.lower[i, lane], group.upper[i, lane] = heap.lower[slot, i], heap.upper[slot, i]
        group.shortest[i, lane] = ask.least_width[case, i]
    kept = heap.low.shape[1]  # of all neurons, or of none
    for n in range(kept):
        group.low[n, lane], group.high[n, lane] = heap.low[slot, n], heap.high[slot, n]
        group.best_slopes[n, lane] = heap.slopes[slot, n]
    for n in range(kept, len(group.low)):
        group.low[n, lane], group.high[n, lane], group.best_slopes[n, lane] = -np.inf, np.inf, np.nan
    for m in range(len(group.objective)):
        group.objective[m, lane] = ask.objective[case, m]


@compiled
def _leave(heap: Heap, group: Abreast, slot: int, lane: int) -> None:
    heap.near[slot] = 0
    for i in range(len(group.lower)):
        heap.lower[slot, i], heap.upper[slot, i] = group.lower[i, lane], group.upper[i, lane]
    for n in range(heap.low.shape[1]):
        heap.low[slot, n], heap.high[slot, n] = group.low[n, lane], group.high[n, lane]
        heap.slopes[slot, n] = group.best_slopes[n, lane]


@compiled
def _offer_corners(
    net: Weights,
    ask: Question,
    heap: Heap,
    best: Best,
    group: Abreast,
    room: Room,
    steps: Steps,
    slots: Integers,
    count: int,
) -> None:
    """Offer the corners that seem to attain more than the best so far."""
    for lane in range(count):
        if group.found[2, lane] > best.value[0]:
            for i in range(len(room.corner)):
                room.corner[i] = group.best_corner[i, lane]
            offer(net, ask, heap.case[slots[lane]], best, room.corner, room.matrix[0], steps.y)


@compiled
def _settle_few(
    net: Weights,
    ask: Question,
    plan: Plan,
    heap: Heap,
    best: Best,
    group: Abreast,
    room: Room,
    steps: Steps,
    slots: Integers,
    count: int,
) -> None:
    """Search over the loose neurons of open boxes, where those are few and it pays, or nothing else is left."""
    for lane in range(count):
        bound, loose, last = group.found[1, lane], group.found[2, lane], group.found[3, lane] < 0
        if bound <= target_of(plan, best) or loose > plan.loose:
            continue
        if loose <= EASY or last or worth_it(best):
            _single(net, group, room, steps, lane)
            case = heap.case[slots[lane]]
            group.found[1, lane] = settle(net, ask, plan, best, room, steps, case, bound, last)


@compiled
def _single(net: Weights, group: Abreast, room: Room, steps: Steps, lane: int) -> None:
    """One of the boxes by itself."""
    for i in range(len(room.lower)):
        room.lower[i], room.upper[i] = group.lower[i, lane], group.upper[i, lane]
    stack = len(net.weights)
    for k in range(len(net.sizes) - 2):
        width, place = net.sizes[k + 1], net.bias_at[k]
        for m in range(stack * width):
            n = stack * place + m
            room.low[n], room.high[n] = group.low[n, lane], group.high[n, lane]
            steps.best_slopes[n] = group.best_slopes[n, lane]
            write_lines(net.kinds, place + m % width, room.low[n], room.high[n], room.lines, room.curve, n)
