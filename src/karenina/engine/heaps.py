"""Heaps of open boxes from outside: made, enlarged, shared out and joined. Compiled code works inside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karenina.engine.packed import Best, Heap, Integers, Question

__all__ = ["copied", "merged", "new_heap", "shared_out", "size_of", "slot_bytes", "with_room"]

LARGE = 4 << 20  # bytes: numpy asks for large pages then
GROWTH = 64  # times as many slots at once


def new_heap(ask: Question, neurons: int, slots: int) -> Heap:
    """An empty heap with so many slots; neurons: of how many it keeps bounds and slopes."""
    inputs, constraints = ask.lower.shape[1], ask.rows.shape[1]
    integers = (np.zeros(1, np.int64), np.arange(slots), np.empty(slots), *np.zeros((3, slots), np.int64))
    floats = (np.empty((slots, size)) for size in (inputs, inputs, neurons, neurons, neurons, constraints))
    return Heap(*integers, *floats)


def slot_bytes(ask: Question, neurons: int) -> int:
    """Bytes of one open box."""
    return 8 * (2 * int(ask.lower.shape[1]) + 3 * neurons + int(ask.rows.shape[1]) + 5)


def size_of(heap: Heap) -> int:
    """Bytes, about: slots that were never used take no memory."""
    used = heap.order[: heap.filled[0]]
    each = sum(array.nbytes for array in heap[1:]) // len(heap.order)
    return each * (int(used.max()) + 1 if len(used) else 0)


def with_room(heap: Heap, more: int, most: int) -> Heap:
    """The heap with room for so many boxes more: if need be twice as large, and up to `most` slots much larger.

    Slots that are not used yet take no memory, and what is rarely moved is rarely copied.
    """
    slots = len(heap.order)
    if int(heap.filled[0]) + more <= slots:
        return heap
    wanted = max(2 * slots, min(GROWTH * slots, most), _in_large_pages(heap))
    return _with_slots(heap.filled, heap.order, heap[2:], wanted)


def _in_large_pages(heap: Heap) -> int:
    """Slots from which on the largest fields come in large pages: else new memory costs as much as the work in it."""
    return LARGE // (8 * max(int(heap.lower.shape[1]), int(heap.low.shape[1])))


def _with_slots(filled: Integers, order: Integers, fields: Sequence[np.ndarray], slots: int) -> Heap:
    """The slots there are, and free ones behind them."""
    grown = [np.empty((slots, *field.shape[1:]), field.dtype) for field in fields]
    for new, old in zip(grown, fields, strict=True):
        new[: len(old)] = old
    return Heap(filled, np.concatenate([order, np.arange(len(order), slots)]), *grown)


def shared_out(heaps: Sequence[Heap], count: int) -> list[Heap]:
    """The same boxes on so many heaps, dealt out from the highest bound to the lowest."""
    slots = [heap.order[: heap.filled[0]] for heap in heaps]
    fields = [np.concatenate([a[s] for a, s in zip(arrays, slots, strict=True)]) for arrays in _fields(heaps)]
    highest_first = np.argsort(-fields[0], kind="stable")
    dealt = [highest_first[place::count] for place in range(count)]
    return [_heap_of([array[own] for array in fields], _in_large_pages(heaps[0])) for own in dealt]


def _fields(heaps: Sequence[Heap]) -> list[tuple[np.ndarray, ...]]:
    return list(zip(*(heap[2:] for heap in heaps), strict=True))


def _heap_of(fields: Sequence[np.ndarray], slots: int) -> Heap:
    """A heap of boxes that come with the highest bound first: such a list is a heap."""
    count = len(fields[0])
    return _with_slots(np.array([count]), np.arange(count), fields, max(2 * count + 8, slots))


def copied(best: Best) -> Best:
    """One that can change by itself."""
    return Best(best.value.copy(), best.x.copy(), best.case.copy(), best.closed.copy(), best.effort.copy())


def merged(before: Best, found: Sequence[Best]) -> Best:
    """The best of all, and the work of all; the first among equals."""
    best = max(found, key=lambda each: float(each.value[0]))
    closed = np.array([max(float(each.closed[0]) for each in found)])
    effort = before.effort + sum(each.effort - before.effort for each in found)
    return Best(best.value, best.x, best.case, closed, effort)
