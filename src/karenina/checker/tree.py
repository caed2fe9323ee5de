"""The tree of splits of one question: its leaves cover the box, and none of them exceeds the claim.

Enters: a box and a stream of nodes. Leaves: nothing, if every leaf was proven; else `Refused`.

Nodes are taken from a stack, up to BATCH at a time from its top, in the order in which they stand there; their children
are put on top of it, both of the first node, then both of the second. A node is
- SPLIT: halved, along an input, or by the sign of a neuron's pre-activation;
- CUT: bounded by a linear function; where that is at most the claim, nothing is left to prove, and what is left of the
  box is halved;
- LEAF, or FINE (with slopes and coefficients in full): bounded by at most the claim.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from karenina.checker.bounds import UNIT, Bounder, Boxes, Goal, Hints, Linear
from karenina.checker.chain import exact
from karenina.checker.refusal import Refused

__all__ = [
    "BATCH",
    "CUT",
    "FINE",
    "LEAF",
    "SPLIT",
    "Nodes",
    "Question",
    "Sample",
    "Source",
    "cut_off",
    "halved",
    "joined",
    "replay",
    "without_sides",
]

Array = npt.NDArray[Any]
BATCH = 256
MOST_OPEN, MOST_BYTES = 1 << 18, 1 << 28  # nodes on the stack, and their size: more is no proof but an attack
SPLIT, CUT, LEAF, FINE = range(4)


@dataclass(frozen=True, eq=False)
class Question:
    """That no input of the box, where the constraints hold, has an objective above the claim."""

    bounder: Bounder
    goal: Goal
    lower: Array  # (inputs,)
    upper: Array
    claim: float


@dataclass(frozen=True, eq=False)
class Nodes:
    """Some nodes, and hints for those of them that are not SPLIT."""

    kinds: Array  # (nodes,)
    axes: Array  # (nodes,) what to split: an input, or after all of them a neuron
    hints: Hints


class Source(Protocol):
    """Whoever says what the next nodes are."""

    def take(self, count: int) -> Nodes: ...


class Sample:
    """Some nodes, chosen at random as they come along, to be looked at in exact arithmetic."""

    def __init__(self, size: int) -> None:
        self._size, self._seen, self._random = size, 0, random.SystemRandom()
        self._chosen: list[tuple[Question, Boxes, Hints, Boxes | None]] = []

    @property
    def seen(self) -> int:
        return self._seen

    def offer(self, question: Question, boxes: Boxes, hints: Hints, cut: Boxes, is_cut: Array) -> None:
        for i in range(len(is_cut)):
            self._seen += 1
            place = len(self._chosen) if len(self._chosen) < self._size else self._random.randrange(self._seen)
            if place < self._size:
                one = slice(i, i + 1)
                entry = question, boxes[one], hints[one], cut[one] if is_cut[i] else None
                self._chosen[place : place + 1] = [entry]

    def verify(self) -> int:
        """Re-derive the chosen ones exactly; how many."""
        for question, boxes, hints, cut in self._chosen:
            try:
                linear = question.bounder.verify(question.goal, boxes, hints)
            except (OverflowError, ValueError) as error:  # of infinity or NaN
                raise Refused("the bounds of a node are beyond float64, and exact arithmetic has none") from error
            claim = Fraction(question.claim)
            holds = linear.most[0] <= claim if cut is None else _cut_holds(linear, boxes, cut, claim)
            if not holds:
                raise Refused("exact arithmetic refutes a bound that rounded arithmetic has given")
        return len(self._chosen)


def replay(question: Question, source: Source, sample: Sample) -> int:
    """Go through the tree; how many nodes it has."""
    inputs, bounder, nodes = len(question.lower), question.bounder, 0
    stack = Boxes(question.lower[None], question.upper[None], np.zeros((1, bounder.neurons), np.int8))
    while len(stack.lower):
        count = min(BATCH, len(stack.lower))
        batch, stack = stack[-count:], stack[:-count]
        taken = source.take(count)
        batch = _bounded(question, batch, taken, nodes, sample)
        split = taken.kinds <= CUT
        children = halved(batch[split], taken.axes[split], inputs)
        stack = joined(stack, children)
        nodes += count
        if len(stack.lower) > MOST_OPEN or sum(part.nbytes for part in _parts(stack)) > MOST_BYTES:
            raise Refused(f"{len(stack.lower)} nodes are open at once, which is too many")
    return nodes


def joined(first: Boxes, second: Boxes) -> Boxes:
    """All of the first, then all of the second."""
    return Boxes(*(np.concatenate(both) for both in zip(_parts(first), _parts(second), strict=True)))


def _parts(boxes: Boxes) -> tuple[Array, Array, Array]:
    return boxes.lower, boxes.upper, boxes.sides


def _bounded(question: Question, batch: Boxes, nodes: Nodes, before: int, sample: Sample) -> Boxes:
    """The batch after its cuts, if its leaves are proven."""
    where = np.flatnonzero(nodes.kinds != SPLIT)
    if not len(where):
        return batch
    boxes, kinds = without_sides(batch[where], nodes.kinds[where]), nodes.kinds[where]
    linear = question.bounder.bound(question.goal, boxes, nodes.hints)
    proven = (linear.most <= question.claim) | (kinds == CUT)  # NaN is not
    if not proven.all():
        first = int(np.flatnonzero(~proven)[0])
        raise Refused(f"node {before + int(where[first])} is bounded by {linear.most[first]}, not by the claim")
    cut = cut_off(linear, boxes, question.claim)
    told = np.isfinite(linear.most) | (kinds != CUT)  # else nothing was cut off
    sample.offer(question, boxes[told], nodes.hints[told], cut[told], kinds[told] == CUT)
    lower, upper = batch.lower.copy(), batch.upper.copy()
    lower[where[kinds == CUT]], upper[where[kinds == CUT]] = cut.lower[kinds == CUT], cut.upper[kinds == CUT]
    return Boxes(lower, upper, batch.sides)


def without_sides(boxes: Boxes, kinds: Array) -> Boxes:
    """What is known of neurons counts in FINE leaves only: without prices it makes bounds worse."""
    return Boxes(boxes.lower, boxes.upper, np.where((kinds == FINE)[:, None], boxes.sides, np.int8(0)))


def cut_off(linear: Linear, boxes: Boxes, claim: float) -> Boxes:
    """Without the parts in which the linear function is at most the claim; rounded so as to keep more.

    For a > 0, x <= upper - move has a x at least (most - claim) below its maximum if a move >= most - claim.
    """
    with np.errstate(all="ignore"):
        move = np.maximum(linear.most - claim, 0.0)[:, None] / np.abs(linear.coefficients) * (1 + 16 * UNIT)
    useful = np.isfinite(move) & np.isfinite(linear.most)[:, None]
    lower, upper = np.nextafter(boxes.upper - move, -np.inf), np.nextafter(boxes.lower + move, np.inf)
    rising, falling = useful & (linear.coefficients > 0), useful & (linear.coefficients < 0)
    return Boxes(
        np.where(rising, np.maximum(boxes.lower, lower), boxes.lower),
        np.where(falling, np.minimum(boxes.upper, upper), boxes.upper),
        boxes.sides,
    )


def _cut_holds(linear: Linear, boxes: Boxes, cut: Boxes, claim: Fraction) -> bool:
    """Whether what was cut off attains at most the claim, exactly: each part by itself."""
    lower, upper = exact(boxes.lower[0]), exact(boxes.upper[0])
    slopes, highest = linear.coefficients[0], linear.most[0]
    for i, (a, new_lower, new_upper) in enumerate(zip(slopes, exact(cut.lower[0]), exact(cut.upper[0]), strict=True)):
        rest = highest - max(a * lower[i], a * upper[i])
        if new_lower > lower[i] and rest + max(a * lower[i], a * new_lower) > claim:
            return False
        if new_upper < upper[i] and rest + max(a * new_upper, a * upper[i]) > claim:
            return False
    return True


def halved(boxes: Boxes, axes: Array, inputs: int) -> Boxes:
    """Both halves of each box, one after the other."""
    if len(axes) and axes.max() >= inputs + boxes.sides.shape[1]:
        raise Refused(f"there is no input or neuron {int(axes.max())} to split")
    lower, upper, sides = (np.repeat(part, 2, axis=0) for part in _parts(boxes))
    first, axis = np.arange(0, 2 * len(axes), 2), np.minimum(axes, inputs - 1)
    along = axes < inputs
    low, high = lower[first, axis], upper[first, axis]
    middle = np.clip(low / 2 + high / 2, low, high)  # any number between them covers the box
    upper[first[along], axis[along]] = lower[first[along] + 1, axis[along]] = middle[along]
    neuron = axes[~along] - inputs
    sides[first[~along], neuron], sides[first[~along] + 1, neuron] = -1, 1
    return Boxes(lower, upper, sides)
