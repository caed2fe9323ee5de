"""The search on the CPU: compiled branch and bound, some boxes at a time, until the goal is reached.

Enters: a query and a goal. Leaves: lower and upper bounds of the maximum, at any time. Same interface as `Search`.
Between two looks at the clock the work is all in compiled code, which other threads do not wait for.
"""

from __future__ import annotations

import math
import time
from functools import cache

import numpy as np
import torch

from karenina.domain import Box
from karenina.engine.cases import Cases
from karenina.engine.incumbent import Incumbent, ascend, random_starts
from karenina.engine.joint import Joint
from karenina.engine.packed import Array, Best, Heap, Plan
from karenina.engine.packing import new_heap, pack_question, pack_weights
from karenina.engine.settings import Settings
from karenina.engine.tighten import Bounder
from karenina.network import RELU, Layer, Network
from karenina.query import Case, Goal, Query

__all__ = ["CompiledSearch", "warm_up"]

FIRST_SLOTS = 256
FIRST_BOXES = 256  # before the first look at the clock; then twice as many each time, up to
MOST_BOXES = 2048
ALIKE = 0.5  # the relative difference of weights from which on networks are not taken for near copies
MUCH_TIGHTER = 0.8  # by which factor differences must lower the first bound to be worth their time


class CompiledSearch:
    """One query's search: the incumbent and `upper` hold the maximum between them at every moment."""

    def __init__(self, shared: Bounder, incumbent: Incumbent, goal: Goal, settings: Settings) -> None:
        self.shared, self.incumbent, self.goal, self.settings = shared, incumbent, goal, settings
        self.boxes = 0
        self._net, self._ask = pack_weights(shared.joint, shared.rounding), pack_question(shared.cases, False)
        self._heap: Heap | None = None
        nowhere, nothing = np.zeros(shared.joint.inputs), np.array([-math.inf])
        self._best = Best(np.array([incumbent.value]), nowhere, np.array([-1]), nothing, np.zeros(3, np.int64))
        self._plan = Plan(
            goal.tolerance,
            goal.relative_tolerance,
            4 * float(shared.cases.error.max()),
            0.0,
            math.nan if goal.threshold is None else math.nextafter(goal.threshold, -math.inf),
            goal.ceiling,
            shared.cases.least,
            settings.steps,
            settings.settled,
            settings.programmes,
        )

    @property
    def closed(self) -> float:
        """The largest bound of what has been closed or cut off."""
        return float(self._best.closed[0])

    @property
    def upper(self) -> float:
        """No input attains more."""
        if self._heap is None:
            return math.inf
        heap = self._heap
        waiting = float(heap.bound[heap.order[0]]) if heap.count[0] else -math.inf
        return max(self.incumbent.value, self.closed, waiting)

    @property
    def done(self) -> bool:
        """Whether nothing is open above the target."""
        heap = self._heap
        if heap is None or not heap.count[0]:
            return heap is not None
        from karenina.engine.explore import target_of

        return bool(heap.bound[heap.order[0]] <= target_of(self._plan, self._best))

    @property
    def decided(self) -> bool:
        """Whether the incumbent alone answers: it reaches the threshold, or the ceiling."""
        if self.incumbent.value >= self.goal.ceiling:
            return True
        return self.goal.threshold is not None and self.incumbent.reaches(self.goal.threshold)

    @property
    def beyond_precision(self) -> bool:
        """Whether all that is open lies within rounding of the threshold: no split will tell."""
        return self.goal.threshold is not None and self.upper <= self.goal.threshold + self._plan.least_gap

    def run(self, deadline: float) -> None:
        """Search until the goal is reached or the time is over; the first bounds are always computed."""
        from karenina.engine.explore import explore

        self._climb(deadline)
        if self.decided:
            return
        self._plant()
        net, ask, plan, best, heap = self._net, self._ask, self._plan, self._best, self._heap
        most, turn = FIRST_BOXES, 1
        while not self.done and not self.decided:
            if self.beyond_precision:
                self.incumbent.snap()
                break
            if time.perf_counter() >= deadline:
                break
            heap = self._heap = _with_room(heap)
            self.boxes += explore(net, ask, plan, heap, best, min(most, len(heap.order) - int(heap.count[0]) - 2))
            self._take()
            if turn & (turn - 1) == 0:  # in turns 1, 2, 4, 8, ...
                self.incumbent.polish(deadline)
                best.value[0] = max(best.value[0], self.incumbent.value)
            turn += 1
            most = min(2 * most, MOST_BOXES)

    def _plant(self) -> None:
        """Bound the boxes of all cases; where the networks look alike, also by differences, and keep what is tighter."""
        self._plant_once()
        plain, found = (self._net, self._ask, self._heap), self.upper
        joint = self.shared.joint
        if joint.stack != 2 or not len(self.shared.cases.offset) or not _alike(joint):
            return
        query, device = self.incumbent.query, torch.device("cpu")
        cases, rounding = Cases.of(query, joint, device, near=True)
        if not rounding.finite or not math.isfinite(cases.least):
            return
        self._net, self._ask = pack_weights(joint, rounding), pack_question(cases, True)
        self._plant_once()
        if self.upper > MUCH_TIGHTER * found:
            self._net, self._ask, self._heap = plain

    def _plant_once(self) -> None:
        from karenina.engine.explore import plant

        self._best.closed[0] = -math.inf
        self._heap = new_heap(self._net, self._ask, max(FIRST_SLOTS, 2 * len(self._ask.offset)))
        self.boxes += plant(self._net, self._ask, self._plan, self._heap, self._best)
        self._take()

    def _climb(self, deadline: float) -> None:
        """Witnesses to begin with."""
        from karenina.engine.climb import climb

        cases = self.shared.cases
        starts = _unit_points(max(1, min(self.settings.starts, 4096 // len(cases.offset))), self.shared.joint.inputs)
        for case in range(len(cases.offset)):
            climb(self._net, self._ask, self._best, starts, case, self.settings.ascent)
        self._take()
        if cases.constrained and self.incumbent.witness is None:  # perhaps on the very edge of a constraint
            x, case_of = random_starts(cases, self.settings.starts)
            box = cases.lower[case_of], cases.upper[case_of]
            ascend(self.shared.joint, cases, self.incumbent, x, case_of, box, steps=10, deadline=deadline)
            self._best.value[0] = self.incumbent.value

    def _take(self) -> None:
        """What compiled code has found becomes the incumbent."""
        best, incumbent = self._best, self.incumbent
        if best.case[0] >= 0 and (best.value[0] > incumbent.value or incumbent.witness is None):
            incumbent.value, incumbent.case = float(best.value[0]), int(best.case[0])
            incumbent.witness = torch.from_numpy(best.x.copy())


def _alike(joint: Joint) -> bool:
    """Whether the networks' weights differ by less than they measure."""
    apart = sum(float((w[0] - w[1]).square().sum()) for w in joint.weights)
    return apart < ALIKE**2 * sum(float(w.square().sum()) for w in joint.weights)


def _with_room(heap: Heap) -> Heap:
    """The heap, twice as large if it is half full."""
    slots, count = len(heap.order), int(heap.count[0])
    if 2 * count + 4 <= slots:
        return heap
    grown = [np.concatenate([array, np.empty_like(array)]) for array in heap[2:]]
    order = np.concatenate([heap.order, np.arange(slots, 2 * slots)])
    return Heap(heap.count, order, *grown)


@cache
def _unit_points(count: int, inputs: int) -> Array:
    """Points of the unit cube, the same in every search."""
    return np.random.default_rng(0).random((count, inputs))


@cache
def warm_up() -> None:
    """Compile the inner loops, or load them if an earlier process has: that is not to count towards a time limit."""
    from karenina.engine.engine import Engine

    layer = Layer.of([[1.0], [-1.0]], [0.0, 0.0], RELU)
    networks = tuple(Network((layer, Layer.of([[w, 1.0]], [0.0]))) for w in (1.0, 2.0))
    case = Case(Box([-1.0], [1.0]), np.array([1.0, -1.0]), 0.0, np.ones((1, 2)), np.zeros(1))
    Engine("cpu")._search(Query(networks, (case,)), Goal(1e-6), time.perf_counter())
