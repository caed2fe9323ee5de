"""Compiled branch and bound: at every moment against brute force, and the same whatever the budget of each call."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from near_copies import KINDS, ONE_PLACE, near_copy
from random_networks import (
    ALL,
    FITTING,
    PIECEWISE_LINEAR,
    dense_network,
    feasible_values,
    points,
    random_network,
    random_query,
)

from karenina.domain import Box, Domain
from karenina.engine import Engine, Settings
from karenina.engine.compiled_search import goes_abreast
from karenina.network import RELU, Activation, Layer, Network
from karenina.query import Goal, Query, Status

pytest.importorskip("numba")

from packed_boxes import Packed, pack, pre_activations

from karenina.engine.explore import explore, offer, plant, target_of
from karenina.engine.explore_abreast import explore_abreast, plant_abreast
from karenina.engine.heaps import new_heap
from karenina.engine.packed import KINK, Best, Heap, Plan

Array = npt.NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)
# 1 - (1 - slope) is not slope, in float64, for the first of them.
ODD = (
    Activation("leaky_relu", (-1.3373787375082207,)),
    Activation("leaky_relu", (0.37921,)),
    Activation("clip", (-0.3, 0.9)),
)


class Run(NamedTuple):
    """A search under way."""

    query: Query
    packed: Packed
    plan: Plan
    heap: Heap
    best: Best
    abreast: bool

    @property
    def open(self) -> npt.NDArray[np.int64]:
        """Slots on the heap."""
        slots: npt.NDArray[np.int64] = self.heap.order[: self.heap.filled[0]]
        return slots

    @property
    def upper(self) -> float:
        waiting = self.heap.bound[self.open].max(initial=-math.inf)
        return float(max(self.best.value[0], self.best.closed[0], waiting))

    def explore(self, boxes: int) -> int:
        work_on = explore_abreast if self.abreast else explore
        return work_on(self.packed.net, self.packed.ask, self.plan, self.heap, self.best, boxes)


def planted(query: Query, *, near: bool = False, slots: int = 512, abreast: bool = False, **changes: float) -> Run:
    """The boxes of all cases, bounded; abreast: eight at a time from then on; `changes` are of the plan."""
    packed = pack(query, near)
    assert not abreast or goes_abreast(query)
    plan = Plan(
        tolerance=1e-3,
        relative_tolerance=0.0,
        least_gap=4 * float(packed.ask.error.max()),
        enough=0.0,
        relative_enough=0.0,
        threshold=math.nan,
        ceiling=math.inf,
        least=packed.cases.least,
        steps=3,
        loose=40,
        programmes=16,
        most_open=1 << 40,
    )._replace(**changes)  # type: ignore[arg-type]
    best = Best(
        np.array([query.floor]), np.zeros(packed.joint.inputs), np.array([-1]), np.array([-math.inf]), np.zeros(3, int)
    )
    kept = 0 if abreast and (packed.net.kinds[:, 0] != KINK).all() else len(packed.net.errors)
    run = Run(query, packed, plan, new_heap(packed.ask, kept, slots), best, abreast)
    first = plant_abreast if abreast else plant
    assert first(packed.net, packed.ask, plan, run.heap, best) == len(query.cases)
    return run


def near_query(rng: np.random.Generator, kind: str, constraints: int) -> Query:
    first = random_network(rng, int(rng.integers(1, 4)), 2, int(rng.integers(1, 4)))
    objective = rng.normal(size=2)
    return Query.maximise(
        (first, near_copy(rng, first, kind)),
        Domain(Box(-rng.random(first.input_size), rng.random(first.input_size))),
        [np.concatenate([objective, -objective]), np.concatenate([-objective, objective])],
        constraints=rng.normal(size=(constraints, 4)),
        constraint_offsets=1 + rng.normal(size=constraints),
    )


def queries(seed: int, constrained: bool, abreast: bool = False) -> tuple[Query, bool]:
    """A query, and whether its networks are nearly the same; abreast: one for eight boxes at a time."""
    rng = np.random.default_rng(seed)
    if abreast:
        fitting = (FITTING, FITTING[:5], FITTING[5:])[int(rng.integers(3))]
        return random_query(rng, fitting, deepest=3), False
    if seed % 3 == 0:
        return near_query(rng, str(rng.choice([*KINDS, *ONE_PLACE])), int(constrained)), True
    activations = (ALL, PIECEWISE_LINEAR, ODD)[int(rng.integers(3))]
    return random_query(rng, activations, constrained=constrained, deepest=3), False


def check_heap(run: Run) -> None:
    """Every parent's bound is at least its children's, and every slot is there once."""
    bounds = run.heap.bound[run.open]
    for child in range(1, len(bounds)):
        assert bounds[(child - 1) // 2] >= bounds[child]
    assert sorted(run.heap.order.tolist()) == list(range(len(run.heap.order)))


def check_nothing_is_lost(run: Run, rng: np.random.Generator) -> None:
    """A sampled input that attains more than `closed` and than the best value is in an open box, below its bound."""
    heap, best = run.heap, run.best
    for number, case in enumerate(run.query.cases):
        x = points(case.box, rng, 400)
        y = run.query.outputs(x)
        values = y @ case.objective + case.offset
        if len(case.constraint_offsets):
            values = np.where((y @ case.constraints.T + case.constraint_offsets >= 0).all(1), values, -math.inf)
        z = pre_activations(run.packed.joint, x)
        covered = values <= max(best.closed[0], best.value[0])
        for slot in run.open[heap.case[run.open] == number]:
            inside = ((heap.lower[slot] <= x) & (x <= heap.upper[slot])).all(1)
            assert (values[inside] <= heap.bound[slot]).all()
            if heap.low.shape[1]:
                assert (heap.low[slot] <= z[inside]).all()
                assert (z[inside] <= heap.high[slot]).all()
            assert (case.box.lower <= heap.lower[slot]).all()
            assert (heap.upper[slot] <= case.box.upper).all()
            covered |= inside
        assert covered.all()


def check_best(run: Run) -> None:
    """The best value is attained where it says, inside box and constraints."""
    number = int(run.best.case[0])
    if number < 0:
        return
    case, x = run.query.cases[number], run.best.x
    assert case.box.contains(x)
    assert len(feasible_values(run.query, case, x[None])) == 1
    assert feasible_values(run.query, case, x[None])[0] >= run.best.value[0]


@pytest.mark.parametrize("abreast", [False, True])
@given(seeds, st.booleans(), st.integers(1, 12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_at_every_moment_the_bounds_hold(
    abreast: bool, seed: int, constrained: bool, calls: int, depth_first: bool
) -> None:
    query, near = queries(seed, constrained, abreast)
    run = planted(query, near=near, abreast=abreast, most_open=5 if depth_first else 1 << 40)
    rng = np.random.default_rng(seed)
    for _ in range(calls):
        check_heap(run)
        before, value, boxes = run.upper, float(run.best.value[0]), int(run.best.effort[0])
        done = run.explore(8)
        assert done == run.best.effort[0] - boxes
        assert done <= (14 if abreast else 8)
        assert run.best.value[0] >= value
        assert run.upper <= max(before, target_of(run.plan, run.best))
        check_best(run)
    check_heap(run)
    check_nothing_is_lost(run, rng)


@pytest.mark.parametrize("abreast", [False, True])
@given(seeds, st.booleans(), st.sampled_from([2, 4, 14]))
@settings(max_examples=60, deadline=None)
def test_the_budget_of_a_call_makes_no_difference(abreast: bool, seed: int, constrained: bool, budget: int) -> None:
    """Many calls end with the same heap as one, bit for bit."""
    query, near = queries(seed, constrained, abreast)
    if seed % 3 == 1:  # the slope past its kink must be 1 exactly: linear neurons are passed over
        rng = np.random.default_rng(seed)
        pair = [dense_network(rng, (3, 6, 6, 2), ODD[0]) for _ in range(2)]
        query, near = Query.maximise(pair, Domain(Box([-1.0] * 3, [1.0] * 3)), [rng.normal(size=4)]), False
    changes = {"tolerance": 1e-6, "programmes": 16 * (seed % 2), "abreast": abreast}
    often, once = (planted(query, near=near, **changes) for _ in range(2))  # type: ignore[arg-type]
    total = sum(often.explore(budget) for _ in range(96 // budget))
    assert once.explore(total) == total
    assert np.array_equal(often.open, once.open)
    for ours, theirs in zip(often.best, once.best, strict=True):
        assert np.array_equal(ours, theirs)
    for name in Heap._fields[2:]:
        ours, theirs = (getattr(run.heap, name)[run.open] for run in (often, once))
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"), name


@pytest.mark.parametrize("abreast", [False, True])
@given(seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_interval_is_that_of_the_search_in_torch(abreast: bool, seed: int, constrained: bool) -> None:
    query, near = queries(seed, constrained, abreast)
    run = planted(query, near=near, slots=4096, abreast=abreast, tolerance=1e-2)
    run.explore(2000)
    theirs = Engine("cpu", Settings(threads=0)).answer(query, Goal(1e-2, time_limit=0.5))
    if theirs.status is Status.INFEASIBLE:
        assert run.best.case[0] == -1
        return
    assert run.best.value[0] <= theirs.upper
    assert theirs.lower <= run.upper
    if not len(run.open) and run.best.case[0] >= 0:
        assert run.upper - run.best.value[0] <= max(1e-2, run.plan.least_gap)


@pytest.mark.parametrize("abreast", [False, True])
@given(seeds, st.booleans(), st.floats(-2, 2))
@settings(max_examples=40, deadline=None)
def test_a_threshold_is_decided_as_samples_say(abreast: bool, seed: int, constrained: bool, shift: float) -> None:
    query, near = queries(seed, constrained, abreast)
    rng = np.random.default_rng(seed)
    values = np.concatenate([feasible_values(query, case, points(case.box, rng, 400)) for case in query.cases])
    threshold = float(values.max(initial=-math.inf if len(values) else 0.0)) + shift
    run = planted(query, near=near, abreast=abreast, threshold=threshold)
    run.explore(300)
    check_best(run)
    if not len(run.open) and run.best.value[0] <= threshold:  # all is closed: no input attains more
        assert run.best.closed[0] <= threshold + run.plan.least_gap  # which is what float64 has to give
        assert (values <= max(threshold, run.best.closed[0])).all()
    if run.best.value[0] > threshold:
        assert run.explore(100) == 0


@pytest.mark.parametrize("abreast", [False, True])
def test_a_search_stops_at_its_ceiling_and_when_the_interval_is_narrow_enough(abreast: bool) -> None:
    rng = np.random.default_rng(1)
    network = random_network(rng, 3, 1, 3, (Activation("tanh"), RELU))
    query = Query.maximise(network, Domain(Box([-2.0] * 3, [2.0] * 3)), [np.ones(1)])
    free = planted(query, slots=4096, tolerance=1e-9, abreast=abreast)
    free.explore(4000)
    reached = planted(query, tolerance=1e-9, ceiling=float(free.best.value[0]) - 1.0, abreast=abreast)
    reached.explore(4000)
    assert reached.explore(100) == 0
    assert reached.best.effort[0] < free.best.effort[0]
    wide = planted(query, tolerance=1e-9, enough=0.5, slots=4096, abreast=abreast)
    wide.explore(4000)
    assert wide.upper - wide.best.value[0] <= 0.5
    assert wide.best.effort[0] <= free.best.effort[0]


@pytest.mark.parametrize("abreast", [False, True])
def test_a_full_heap_is_left_alone(abreast: bool) -> None:
    rng = np.random.default_rng(5)
    network = random_network(rng, 3, 1, 3, (Activation("tanh"),))
    query = Query.maximise(network, Domain(Box([-2.0] * 3, [2.0] * 3)), [np.ones(1)])
    run = planted(query, slots=8, tolerance=1e-9, abreast=abreast)
    assert run.explore(1000) > 0
    assert len(run.open) >= 7
    assert run.explore(1000) == 0
    check_heap(run)
    check_nothing_is_lost(run, rng)


def test_targets_are_above_the_best_value_by_the_tolerance() -> None:
    query = Query.maximise(Network((Layer.of([[1.0]], [0.0]),)), Domain(Box([0.0], [1.0])), [np.ones(1)])
    run = planted(query, tolerance=0.25)
    for value in (-100.0, 0.0, 3.0):
        run.best.value[0] = value
        assert value < target_of(run.plan, run.best) <= value + 0.25
        relative = run.plan._replace(relative_tolerance=0.1)
        assert value < target_of(relative, run.best) <= value + max(0.25, 0.1 * abs(value))
        assert target_of(run.plan._replace(threshold=7.0), run.best) == 7.0
        assert target_of(run.plan._replace(tolerance=0.0, least_gap=0.5), run.best) == value + 0.5
    run.best.value[0] = -math.inf
    assert target_of(run.plan, run.best) == run.plan.least


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_only_better_points_inside_the_constraints_are_taken(seed: int) -> None:
    query, near = queries(seed, True)
    packed, rng = pack(query, near), np.random.default_rng(seed)
    y, work = np.empty(query.output_size), np.empty((2, packed.net.widest))
    best = Best(np.array([-math.inf]), np.zeros(packed.joint.inputs), np.array([-1]), np.zeros(1), np.zeros(3, int))
    for number, case in enumerate(query.cases):
        for x in points(case.box, rng, 20)[:20]:
            before, value = float(best.value[0]), feasible_values(query, case, x[None])
            if offer(packed.net, packed.ask, number, best, x, work, y):
                assert len(value) == 1
                assert before < best.value[0] <= value[0]
                assert best.case[0] == number
                assert np.array_equal(best.x, x)
            else:
                assert best.value[0] == before
                assert not len(value) or value[0] <= before + 4 * packed.ask.error[number] or _on_edge(query, packed, x)


def _on_edge(query: Query, packed: Packed, x: Array) -> bool:
    """Whether rounding leaves it open if a constraint holds."""
    slack = np.stack([case.slack(query.outputs(x)) for case in query.cases])
    return bool((np.abs(slack) <= 2 * packed.ask.row_error).any())


WARM = """
import numpy as np
from karenina.engine.compiled_search import warm_up
from karenina.engine.climb import climb
from karenina.engine.explore import explore, plant
from karenina.engine.explore_abreast import explore_abreast, plant_abreast
from random_networks import dense_network
from karenina import Box, Domain, Engine, Goal
from karenina.distance import distance
from karenina.engine import Settings
rng = np.random.default_rng(0)
first, second = (dense_network(rng, (3, 8, 8, 1)) for _ in range(2))
for name, compiled in (("l1", (climb, plant_abreast, explore_abreast)), ("c-distance", (climb, plant, explore))):
    groups = distance(name).queries(first, second, Domain(Box([-2.0] * 3, [2.0] * 3)))
    queries = [query for group in groups for query in group]
    warm_up(queries[0], Settings())
    before = [list(each.signatures) for each in compiled]
    assert all(len(signatures) == 1 for signatures in before), before
    assert sum(Engine("cpu").answer(query, Goal(1e-5)).boxes for query in queries) > 20
    assert [list(each.signatures) for each in compiled] == before
"""


def test_nothing_is_left_to_compile_when_the_clock_runs() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", WARM], env=environment, check=True)
