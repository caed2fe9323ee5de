"""The proof of one pair's interval, as bytes: grown by the engine, looked at by the checker before it is written.

Enters: two networks, a domain, a distance and an interval. Leaves: a `Proof`, all of whose nodes the checker's own
arithmetic accepts, or `NotProven`.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.certificate.growth import Grower, NotProven, Tree, chain_of
from karenina.checker.bounds import Boxes
from karenina.checker.pairs import Condition as CheckedCondition
from karenina.checker.pairs import Distance as CheckedDistance
from karenina.checker.pairs import Pair, Witness
from karenina.checker.reading import Stream
from karenina.checker.refusal import Refused
from karenina.checker.tree import BATCH, CUT, FINE, LEAF, SPLIT, Nodes, Question, cut_off, halved, joined, without_sides
from karenina.distance import CDistance, Condition, Distance
from karenina.domain import Domain
from karenina.engine import Engine
from karenina.network import Network
from karenina.query import Goal, Query, Verdict

__all__ = ["Proof", "checked_distance", "prove"]

Array = npt.NDArray[Any]
WIDER = 1e-6  # by which share of its width, and by which of its size, an interval may be made wider to be proven
RELATIVE = 1e-12
ROUNDED_UP = 1e-6  # what a back end may have rounded a lower end upwards
REGROWN = 1 << 12  # nodes that the checker may refuse before it is given up


@dataclass(frozen=True, eq=False)
class Proof:
    """An interval, a little wider than it was found; its witnesses; for each box a condition; its nodes."""

    lower: float
    upper: float
    witnesses: tuple[Witness, ...]
    choices: tuple[int, ...]
    nodes: bytes
    count: int


def checked_distance(distance: Distance, outputs: int) -> CheckedDistance:
    """A distance as the checker sees it."""
    if not isinstance(distance, CDistance):
        return CheckedDistance(distance.name)
    parsed = [Condition.parse(text, outputs) for text in distance.conditions]
    return CheckedDistance(distance.name, tuple(CheckedCondition(c.rows, c.offsets) for c in parsed))


def prove(
    first: Network,
    second: Network,
    domain: Domain,
    distance: Distance,
    lower: float,
    upper: float,
    witness: npt.ArrayLike | None,
    *,
    seconds: float = math.inf,
) -> Proof:
    """A proof that the disagreement lies in the interval, or in one that is wider by rounding."""
    deadline = time.perf_counter() + seconds
    witness = None if witness is None else np.asarray(witness, dtype=np.float64)
    if not math.isfinite(upper):
        raise NotProven("no finite upper end is known")
    boxes = [(box.lower, box.upper) for box in domain.boxes]
    pair = Pair(chain_of(first), chain_of(second), boxes, checked_distance(distance, first.output_size))
    upper = max(upper, 0.0) + WIDER * (upper - lower) + RELATIVE * abs(upper) + _rounding(pair)
    witnesses, choices = _evidence(pair, (first, second), domain, distance, lower, upper, witness, deadline)
    lower = _attained_by_all(pair, lower, witnesses)
    file, count = io.BytesIO(), 0
    grower = Grower(pair.bounder.chain, (first, second), deadline)
    for question in pair.questions(upper, choices):
        grower.prepare(question, lower)
        count += _write(question, grower, file)
    return Proof(lower, upper, witnesses, choices, file.getvalue(), count)


def _attained_by_all(pair: Pair, lower: float, witnesses: Sequence[Witness]) -> float:
    """The lower end, or what the witnesses attain exactly: another back end's may be rounded upwards."""
    try:
        for value in map(pair.attained, witnesses):
            if value < Fraction(lower) <= value + Fraction(ROUNDED_UP * (1 + abs(lower))):
                lower = float(value) if Fraction(float(value)) <= value else math.nextafter(float(value), -math.inf)
        pair.check_lower(lower, witnesses)
    except Refused as error:
        raise NotProven(f"the lower end is not proven: {error}") from error
    return lower


def _rounding(pair: Pair) -> float:
    """More than the engine's and the checker's rounding of a bound on the whole domain, about."""
    sizes = []
    for lower, upper in pair.domain:
        size = np.maximum(np.abs(lower), np.abs(upper))
        for layer in pair.bounder.chain.layers:
            size = np.abs(layer.weight) @ size + np.abs(layer.bias) + 1
        sizes.append(float(size.max()))
    return 256 * pair.bounder.gamma * max(sizes)


def _evidence(
    pair: Pair,
    networks: tuple[Network, Network],
    domain: Domain,
    distance: Distance,
    lower: float,
    upper: float,
    witness: Array | None,
    deadline: float,
) -> tuple[tuple[Witness, ...], tuple[int, ...]]:
    """Inputs that attain the lower end, and for each box a condition under which nothing exceeds the upper end."""
    if not pair.distance.conditions:
        found = () if witness is None else (Witness(_box_of(domain, witness), 0, witness),)
        return found, (0,) * len(domain.boxes)
    groups = distance.queries(*networks, domain)
    choices = tuple(_choice(group, upper, deadline) for group in groups)
    if lower <= 0:
        return (), choices
    for box, group in enumerate(groups):
        inputs = [_attained(query, lower, deadline) for query in group]
        if all(x is not None for x in inputs):
            return tuple(Witness(box, k, x) for k, x in enumerate(inputs) if x is not None), choices
    raise NotProven("no box has a witness for every condition")


def _box_of(domain: Domain, x: Array) -> int:
    inside = [k for k, box in enumerate(domain.boxes) if ((box.lower <= x) & (x <= box.upper)).all()]
    if not inside:
        raise NotProven("the witness is not in the domain")
    return inside[0]


def _choice(group: Sequence[Query], upper: float, deadline: float) -> int:
    """A condition whose largest disagreement is at most the upper end."""
    for number, query in enumerate(group):
        goal = Goal(threshold=np.nextafter(upper, math.inf), time_limit=max(0.0, deadline - time.perf_counter()))
        if Engine("cpu").answer(replace(query, floor=-math.inf), goal).verdict(goal.threshold or 0.0) is Verdict.UNSAT:
            return number
    raise NotProven("no condition keeps the disagreement below the upper end on every box")


def _attained(query: Query, lower: float, deadline: float) -> Array | None:
    goal = Goal(threshold=lower, time_limit=max(0.0, deadline - time.perf_counter()))
    answer = Engine("cpu").answer(replace(query, floor=-math.inf), goal)
    return answer.witness if answer.verdict(lower) is Verdict.SAT else None


def _write(question: Question, grower: Grower, file: io.BytesIO) -> int:
    """Grow the tree of a question, and write its nodes in the order in which the checker takes them."""
    tree, inputs, regrown, count = Tree(), len(question.lower), 0, 0
    grower.grow(tree, [(tree.add(), question.lower, question.upper)])
    sides = np.zeros((1, question.bounder.neurons), np.int8)
    stack, numbers = Boxes(question.lower[None], question.upper[None], sides), [0]
    while numbers:
        taken = min(BATCH, len(numbers))
        batch, stack = stack[-taken:], stack[:-taken]
        current, numbers = numbers[-taken:], numbers[:-taken]
        while True:
            data = _encoded(tree, current)
            nodes = Stream(io.BytesIO(data), question.bounder, len(question.goal.offsets)).take(taken)
            cut, refused = _looked_at(question, batch, nodes)
            if not len(refused):
                break
            regrown += len(refused)
            if regrown > REGROWN:
                raise NotProven("the checker's arithmetic refuses too many nodes")
            for place in refused:
                _split_further(tree, grower, current[place], batch[place : place + 1], inputs)
        file.write(data)
        split = nodes.kinds <= CUT
        stack = joined(stack, halved(cut[split], nodes.axes[split], inputs))
        numbers += [child for n in np.array(current)[split] for child in (tree.children[n], tree.children[n] + 1)]
        count += taken
    return count


def _looked_at(question: Question, batch: Boxes, nodes: Nodes) -> tuple[Boxes, Array]:
    """The boxes after their cuts, and the places of leaves that the checker would refuse."""
    where = np.flatnonzero(nodes.kinds != SPLIT)
    if not len(where):
        return batch, where
    kinds = nodes.kinds[where]
    leaf, boxes = kinds >= LEAF, without_sides(batch[where], kinds)
    linear = question.bounder.bound(question.goal, boxes, nodes.hints)
    cut = cut_off(linear, boxes, question.claim)
    lower, upper = batch.lower.copy(), batch.upper.copy()
    lower[where[~leaf]], upper[where[~leaf]] = cut.lower[~leaf], cut.upper[~leaf]
    return Boxes(lower, upper, batch.sides), where[leaf & ~(linear.most <= question.claim)]


def _split_further(tree: Tree, grower: Grower, number: int, box: Boxes, inputs: int) -> None:
    """Halve a leaf that was not enough along its longest side, and prove the halves."""
    axis = int(np.argmax(box.upper[0] - box.lower[0]))
    if not box.upper[0, axis] > box.lower[0, axis]:
        raise NotProven("a single input's bounds are wider than the interval")
    tree.kinds[number], tree.axes[number] = SPLIT, axis
    first, second = tree.add(), tree.add()
    tree.children[number] = first
    halves = halved(box, np.array([axis]), inputs)
    seeds = [(child, halves.lower[k], halves.upper[k]) for k, child in enumerate((first, second))]
    grower.grow(tree, seeds)


def _encoded(tree: Tree, numbers: Sequence[int]) -> bytes:
    """Nodes as `karenina.checker.reading.Stream` reads them."""
    return b"".join(_columns(tree, numbers))


def _columns(tree: Tree, numbers: Sequence[int]) -> Iterator[bytes]:
    kinds = [tree.kinds[n] for n in numbers]
    yield np.array(kinds, "<u1").tobytes()
    yield np.array([tree.axes[n] for n, kind in zip(numbers, kinds, strict=True) if kind <= CUT], "<u2").tobytes()
    coarse = [tree.coarse[n] for n, kind in zip(numbers, kinds, strict=True) if kind in (CUT, LEAF)]
    for column in range(2):
        yield from (entry[column].tobytes() for entry in coarse)
    fine = [tree.fine[n] for n, kind in zip(numbers, kinds, strict=True) if kind == FINE]
    for column in range(3):
        yield from (entry[column].astype("<f8").tobytes() for entry in fine)
