"""The search on the CPU: compiled branch and bound, some boxes at a time, until the goal is reached.

Enters: a query and a goal. Leaves: lower and upper bounds of the maximum, at any time. Same interface as `Search`.
Between two looks at the clock the work is all in compiled code, which other threads do not wait for. A search that
takes long is shared out: its boxes go to a fixed number of heaps, so that the result does not depend on how many
threads there are. A search may be run again for a finer goal: it goes on where it stopped.
"""

from __future__ import annotations

import math
import time
from functools import cache, lru_cache

import numpy as np
import torch

from karenina.domain import Box
from karenina.engine import compiled
from karenina.engine.cases import Cases
from karenina.engine.heaps import copied, merged, new_heap, shared_out, size_of, slot_bytes, with_room
from karenina.engine.incumbent import Incumbent
from karenina.engine.joint import Joint, architecture
from karenina.engine.packed import KINK, SIGMOID, TANH, Array, Best, Edge, Heap, Plan
from karenina.engine.packing import kind_of, pack_question, pack_weights
from karenina.engine.settings import Settings
from karenina.engine.tighten import Bounder
from karenina.network import RELU, Layer, Network
from karenina.query import Case, Goal, Query

__all__ = ["CompiledSearch", "goes_abreast", "near_copies", "warm_up"]

FIRST_SLOTS = 128
FIRST_BOXES = 32  # before the first look at the clock; then twice as many each time, up to
MOST_BOXES = 2048
FREE_TURNS = 3
HEAPS = 4  # to which a search is shared out
SHARED_FROM = 256  # boxes
ALIKE = 0.5  # the relative difference of weights from which on networks are not taken for near copies
EDGE = 16  # points on the edge of a constraint that are looked at
MUCH_TIGHTER = 0.8  # by which factor differences must lower the first bound to be worth their time
CPU = torch.device("cpu")


class CompiledSearch:
    """One query's search: the incumbent and `upper` hold the maximum between them at every moment."""

    def __init__(self, shared: Bounder, incumbent: Incumbent, goal: Goal, settings: Settings) -> None:
        self.shared, self.incumbent, self.goal, self.settings = shared, incumbent, goal, settings
        self.boxes = 0
        self._net, self._ask = pack_weights(shared.joint, shared.rounding), pack_question(shared.cases, False)
        self._fits = settings.abreast and goes_abreast(incumbent.query)
        self._curved = bool((self._net.kinds[:, 0] != KINK).all())
        self._heaps: list[Heap] = []  # none before the first bounds
        self._best = _no_best(incumbent.value, shared.joint.inputs)
        self._edge = Edge(np.zeros(1, np.int64), np.empty((EDGE, shared.joint.inputs)), np.empty(EDGE, np.int64))
        self._most, self._turn = FIRST_BOXES, 1

    @property
    def bytes(self) -> int:
        """What it takes, about."""
        return sum(map(size_of, self._heaps)) + 2 * self._net.weights.nbytes

    @property
    def closed(self) -> float:
        """The largest bound of what has been closed or cut off."""
        return float(self._best.closed[0])

    @property
    def upper(self) -> float:
        """No input attains more."""
        if not self._heaps:
            return math.inf
        return max(self.incumbent.value, self.closed, *map(_highest, self._heaps))

    @property
    def done(self) -> bool:
        """Whether nothing is open above the target."""
        from karenina.engine.explore import target_of

        return bool(self._heaps) and max(map(_highest, self._heaps)) <= target_of(self._plan, self._best)

    @property
    def decided(self) -> bool:
        """Whether the incumbent alone answers: it reaches the threshold, or the ceiling."""
        return self.incumbent.decides(self.goal)

    @property
    def beyond_precision(self) -> bool:
        """Whether all that is open lies within rounding of the threshold: no split will tell."""
        if self.goal.threshold is None or not self._heaps:
            return False
        return max(map(_highest, self._heaps)) <= self.goal.threshold + self._plan.least_gap

    @property
    def _wide_enough(self) -> bool:
        if self.goal.closing is not None and self._turn <= FREE_TURNS:
            return False  # to stop that early and go on later would cost more than it spares
        return self.goal.threshold is None and self.goal.reached(self.incumbent.value, self.upper)

    @property
    def _plan(self) -> Plan:
        goal, cases, settings = self.goal, self.shared.cases, self.settings
        closing, relative = (goal.tolerance, goal.relative_tolerance) if goal.closing is None else (goal.closing, 0.0)
        return Plan(
            closing,
            relative,
            4 * float(self._ask.error.max()),
            closing,  # what stops earlier is looked at between turns: it must not change what a turn does
            relative,
            math.nan if goal.threshold is None else math.nextafter(goal.threshold, -math.inf),
            goal.ceiling,
            cases.least,
            settings.steps,
            settings.settled,
            settings.programmes,
            max(64, settings.memory // HEAPS // slot_bytes(self._ask, self._kept)),
        )

    def run(self, deadline: float) -> None:
        """Search until the goal is reached or the time is over; the first bounds are always computed."""
        if not self._heaps:
            self._climb(_unit_points(self._starts, self.shared.joint.inputs), self.settings.ascent)
            if self.decided:
                return
            self._plant()
        while not (self.done or self.decided or self._wide_enough):
            if self.beyond_precision:
                self.incumbent.snap()
                break
            if time.perf_counter() >= deadline:
                break
            if not self._explore():
                break
            if self._turn >= 4 and self._turn & (self._turn - 1) == 0 and not self.done:  # in turns 4, 8, 16, ...
                self._climb_on(deadline)
            if self._turn == 2 and self._unseen:
                self._look_on_edges()
            self._turn += 1
            self._most = min(2 * self._most, MOST_BOXES)

        if self.done and self._unseen and self.closed > self.shared.cases.least:
            self._look_on_edges()

    @property
    def _unseen(self) -> bool:
        """Whether no input is known that satisfies the constraints."""
        return self.shared.cases.constrained and self.incumbent.witness is None

    def _explore(self) -> int:
        """One turn: each heap is worked on for a while, all of them from the same best value; how many boxes."""
        from karenina.engine.explore import explore
        from karenina.engine.explore_abreast import explore_abreast

        before, work_on = self.boxes, explore_abreast if self._abreast else explore
        if _uneven(self._heaps) if len(self._heaps) > 1 else self.boxes >= SHARED_FROM:
            self._heaps = shared_out(self._heaps, HEAPS)
        most = self._plan.most_open + 8 * MOST_BOXES  # depth first a heap hardly grows
        self._heaps = [with_room(heap, self._most + 16, most) for heap in self._heaps]
        if len(self._heaps) == 1:
            (heap,) = self._heaps
            self.boxes += work_on(self._net, self._ask, self._plan, heap, self._best, self._most)
        else:
            bests = [copied(self._best) for _ in self._heaps]
            pool = compiled.threads(self.settings.threads or 1)
            work = [
                pool.submit(work_on, self._net, self._ask, self._plan, heap, best, self._most)
                for heap, best in zip(self._heaps, bests, strict=True)
            ]
            self.boxes += sum(each.result() for each in work)
            self._best = merged(self._best, bests)
        self._take()
        return self.boxes - before

    def _plant(self) -> None:
        """Bound the boxes of all cases; where the networks look alike, also by differences, if that is tighter."""
        self._plant_once()
        plain, found, joint = (self._net, self._ask, self._heaps), self.upper, self.shared.joint
        if joint.stack != 2 or self.done or not near_copies(self.incumbent.query):
            return
        closed = self.closed
        cases, rounding = Cases.of(self.incumbent.query, joint, CPU, near=True)
        if not rounding.finite or not math.isfinite(cases.least):
            return
        self._net, self._ask = pack_weights(joint, rounding), pack_question(cases, True)
        self._plant_once()
        if not self.upper <= MUCH_TIGHTER * found:
            self._net, self._ask, self._heaps = plain
            self._best.closed[0] = closed

    def _plant_once(self) -> None:
        from karenina.engine.explore import plant
        from karenina.engine.explore_abreast import plant_abreast

        self._best.closed[0] = -math.inf
        heap = new_heap(self._ask, self._kept, max(FIRST_SLOTS, 2 * len(self._ask.offset)))
        first = plant_abreast if self._abreast else plant
        self.boxes += first(self._net, self._ask, self._plan, heap, self._best)
        self._heaps = [heap]
        self._take()

    @property
    def _abreast(self) -> bool:
        """Whether eight boxes at a time are bounded."""
        return self._fits and not self._ask.near

    @property
    def _kept(self) -> int:
        """Neurons whose bounds and slopes are kept with a box: those of curves are as soon found anew."""
        return 0 if self._abreast and self._curved else len(self._net.errors)

    @property
    def _starts(self) -> int:
        """Of gradient ascent in each case."""
        return max(1, min(self.settings.starts, 4096 // len(self.shared.cases.offset)))

    def _climb(self, starts: Array, steps: int) -> None:
        """Gradient ascent in every case."""
        from karenina.engine.climb import climb

        for case in range(len(self.shared.cases.offset)):
            climb(self._net, self._ask, self._best, starts, case, steps, self._edge)
        self._take()

    def _climb_on(self, deadline: float) -> None:
        """A better witness: along the kinks, or, where there are none to follow, from other points."""
        if all(network.piecewise_linear for network in self.incumbent.query.networks):
            self.incumbent.polish(deadline)
            self._best.value[0] = max(self._best.value[0], self.incumbent.value)
        elif self._turn > 4:
            points = np.random.default_rng(self._turn).random((4 * self._starts, self.shared.joint.inputs))
            self._climb(points, 3 * self.settings.ascent)

    def _look_on_edges(self) -> None:
        """Inputs on the very edge of a constraint, which only exact arithmetic tells from those outside."""
        count = int(self._edge.filled[0])
        for x, case in zip(self._edge.x[:count], self._edge.case[:count], strict=True):
            self.incumbent.offer(torch.from_numpy(x)[None], torch.tensor([int(case)]))
        self._edge.filled[0] = 0
        self._best.value[0] = max(self._best.value[0], self.incumbent.value)

    def _take(self) -> None:
        """What compiled code has found becomes the incumbent."""
        best, incumbent = self._best, self.incumbent
        if best.case[0] >= 0 and (best.value[0] > incumbent.value or incumbent.witness is None):
            incumbent.value, incumbent.case = float(best.value[0]), int(best.case[0])
            incumbent.witness = torch.from_numpy(best.x.copy())


def _no_best(value: float, inputs: int) -> Best:
    nothing = np.array([-math.inf])
    return Best(np.array([value]), np.zeros(inputs), np.array([-1]), nothing, np.zeros(3, np.int64))


def _highest(heap: Heap) -> float:
    return float(heap.bound[heap.order[0]]) if heap.filled[0] else -math.inf


def _uneven(heaps: list[Heap]) -> bool:
    """Whether one heap has run dry beside others that have not."""
    counts = [int(heap.filled[0]) for heap in heaps]
    return 4 * min(counts) < max(counts)


def near_copies(query: Query) -> bool:
    """Whether two networks have one architecture and weights that differ by less than they measure."""
    if len(query.networks) != 2:
        return False
    return _near_copies(*query.networks)


@lru_cache(maxsize=1 << 16)
def _near_copies(first: Network, second: Network) -> bool:
    if architecture(first.layers) != architecture(second.layers):
        return False
    pairs = list(zip(first.layers, second.layers, strict=True))
    apart = sum(float((a.weight - b.weight).square().sum()) for a, b in pairs)
    return apart < ALIKE**2 * sum(float(a.weight.square().sum() + b.weight.square().sum()) for a, b in pairs)


@cache
def _unit_points(count: int, inputs: int) -> Array:
    """Points of the unit cube, the same in every search."""
    return np.random.default_rng(0).random((count, inputs))


def goes_abreast(query: Query) -> bool:
    """Whether boxes can be bounded eight at a time: no constraints, and only kinks that bend upwards and S-curves."""
    free = all(len(case.constraint_offsets) == 0 for case in query.cases)
    return free and all(map(_all_fit, query.networks))


@lru_cache(maxsize=1 << 16)
def _all_fit(network: Network) -> bool:
    kinds = [kind_of(activation) for layer in network.layers for activation, _ in layer.activations]
    return all(code in (TANH, SIGMOID) or (code == KINK and left <= right) for code, left, right, *_ in kinds)


def warm_up(query: Query, settings: Settings) -> None:
    """Compile what a search needs, or load it if an earlier process has: that is not to count towards a time limit."""
    abreast = settings.abreast and goes_abreast(query)
    if abreast:
        _warm_up(0)
    if not abreast or near_copies(query):
        _warm_up(1)


@cache
def _warm_up(constraints: int) -> None:
    """Without constraints eight boxes at a time are bounded, and with them one by one."""
    layer = Layer.of([[1.0], [-1.0]], [0.0, 0.0], RELU)
    networks = tuple(Network((layer, Layer.of([[w, 1.0]], [0.0]))) for w in (1.0, -2.0))
    rows, offsets = np.ones((constraints, 2)), np.zeros(constraints)
    query = Query(networks, (Case(Box([-1.0], [1.0]), np.array([1.0, -1.0]), 0.0, rows, offsets),))
    joint = Joint.of(networks, CPU)
    cases, rounding = Cases.of(query, joint, CPU)
    shared, incumbent = Bounder(joint, cases, rounding), Incumbent(query, joint, cases)
    with torch.no_grad():
        search = CompiledSearch(shared, incumbent, Goal(1e-6), Settings(threads=1))
        search.run(time.perf_counter())
        search._explore()  # though nothing is left to explore
