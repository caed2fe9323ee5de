"""Diving: linear programmes against HiGHS, leaves against sampling and MILP, certificates whatever the prices."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from near_copies import KINDS, ONE_PLACE, near_copy
from random_networks import ALL, PIECEWISE_LINEAR, dense_network, feasible_values, overlap, points, random_query

from karenina.backends.milp import Milp
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.network import RELU, Activation, Layer, Network
from karenina.query import Case, Goal, Query, Status

highspy = pytest.importorskip("highspy")
numba = pytest.importorskip("numba")

from packed_boxes import node_on, pack, pre_activations, root_of  # noqa: E402

from karenina.engine.dive import FREE, LEFT, RIGHT, certify, dive, no_record  # noqa: E402
from karenina.engine.packed import Node, Prices  # noqa: E402

Array = npt.NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


class Dived(NamedTuple):
    """What a dive on the root of one case has found."""

    node: Node
    bound: float
    closed: bool
    programmes: int
    point: Array


def dived(query: Query, target: float, programmes: int, case: int = 0) -> Dived:
    packed = pack(query)
    node = node_on(packed, root_of(packed, case), case)
    x = np.full(len(node.lower), np.nan)
    return Dived(node, *dive(packed.net, node, target, programmes, x, no_record(), 0), x)


def relaxed_optimum(query: Query, case: Case, lower: Array, upper: Array) -> float:
    """HiGHS's optimum of the triangle relaxation of a query on ReLU networks, given bounds of all neurons.

    Neurons are numbered as the engine does: layer by layer, within a layer network by network.
    """
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    x = [solver.addVariable(float(a), float(b)) for a, b in zip(case.box.lower, case.box.upper, strict=True)]
    below = [x for _ in query.networks]
    at = 0
    for k in range(len(query.networks[0].layers) - 1):
        for s, network in enumerate(query.networks):
            layer, outputs = network.layers[k], []
            for row, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True):
                low, high = float(lower[at]), float(upper[at])
                at += 1
                z = solver.addVariable(-highspy.kHighsInf, highspy.kHighsInf)
                terms = sum((w * v for w, v in zip(row, below[s], strict=True)), start=0 * x[0])
                solver.addConstr(z - terms == bias)
                y = solver.addVariable(0, highspy.kHighsInf)
                if high <= 0:
                    solver.addConstr(y == 0)
                elif low >= 0:
                    solver.addConstr(y - z == 0)
                else:
                    share = high / (high - low)
                    solver.addConstr(y - z >= 0)
                    solver.addConstr(y - share * z <= -share * low)
                outputs.append(y)
            below[s] = outputs
    outputs, constants = [], []
    for s, network in enumerate(query.networks):
        last = network.layers[-1]
        for row, bias in zip(last.weight.tolist(), last.bias.tolist(), strict=True):
            outputs.append(sum((w * v for w, v in zip(row, below[s], strict=True)), start=0 * x[0]))
            constants.append(bias)
    for row, offset in zip(case.constraints, case.constraint_offsets, strict=True):
        left = sum((float(w) * v for w, v in zip(row, outputs, strict=True)), start=0 * x[0])
        solver.addConstr(left >= -float(offset) - float(row @ constants))
    solver.maximize(sum((float(w) * v for w, v in zip(case.objective, outputs, strict=True)), start=0 * x[0]))
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return -math.inf
    return float(solver.getInfo().objective_function_value + case.objective @ constants + case.offset)


def relu_query(rng: np.random.Generator, depth: int, constraints: int) -> Query:
    """Two ReLU networks, one box, and constraints that the middle of the box satisfies."""
    sizes = [3, *rng.integers(2, 7, size=depth).tolist(), 2]
    networks = [dense_network(rng, sizes) for _ in range(2)]
    centre, radius = rng.normal(size=3), rng.random(3) * rng.choice([0.2, 1.0, 2.0])
    middle = np.concatenate([network(centre) for network in networks])
    rows = rng.normal(size=(constraints, 4))
    offsets = rng.random(constraints) - rows @ middle
    domain = Domain(Box(centre - radius, centre + radius))
    return Query.maximise(networks, domain, [rng.normal(size=4)], constraints=rows, constraint_offsets=offsets)


@given(seeds, st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_the_first_programme_has_the_optimum_of_the_relaxation(seed: int, depth: int, constraints: int) -> None:
    query = relu_query(np.random.default_rng(seed), depth, constraints)
    found = dived(query, -math.inf, 1)
    optimum = relaxed_optimum(query, query.cases[0], found.node.low, found.node.high)
    assert not found.closed
    assert found.programmes == 1
    assert found.bound == pytest.approx(optimum, rel=1e-7, abs=1e-7)


@given(seeds, st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_a_node_is_closed_just_above_its_maximum(seed: int, depth: int, constraints: int) -> None:
    query = relu_query(np.random.default_rng(seed), depth, constraints)
    theirs = Milp("highs").answer(query, Goal(0.0, 1e-5, time_limit=20))
    slack = theirs.upper - theirs.lower + 1e-6 * max(1.0, abs(theirs.upper))
    assert slack < 1e-4 * max(1.0, abs(theirs.upper))
    above = dived(query, theirs.upper + slack, 100_000)
    assert above.closed
    assert theirs.lower - slack <= above.bound <= theirs.upper + slack
    below = dived(query, theirs.lower - slack, 100_000)
    assert not below.closed
    assert query.cases[0].box.contains(below.point)
    if not constraints:  # the programme ended at an input that attains more than the target
        assert query.cases[0].value(query.outputs(below.point)) > theirs.lower - slack


def test_an_infeasible_node_is_closed() -> None:
    rng = np.random.default_rng(0)
    query = relu_query(rng, 2, 1)
    case = query.cases[0]
    never = Case(case.box, case.objective, 0.0, case.constraints, case.constraint_offsets - 1e3)
    assert dived(Query(query.networks, (never,)), -1e6, 1000).closed


@pytest.mark.parametrize("scale", [1e100, 1e150, 1e153])
def test_nothing_is_closed_by_overflow(scale: float) -> None:
    up, down = Layer.of([[scale], [-scale]], [0.0, 0.0], RELU), Layer.of([[scale, -scale]], [0.0])
    query = Query.maximise(Network((up, down)), Domain(Box([-1.0], [1.0])), [np.ones(1)])
    for target in (-1e300, 1.0, 0.5 * scale * scale):
        found = dived(query, target, 100)
        assert not found.closed
        assert found.bound >= scale * scale * (1 - 1e-9)


@given(seeds, st.booleans())
@settings(max_examples=60, deadline=None)
def test_closed_nodes_of_all_activations_hold(seed: int, constrained: bool) -> None:
    rng = np.random.default_rng(seed)
    query = random_query(rng, ALL if seed % 2 else PIECEWISE_LINEAR, constrained=constrained, deepest=3)
    values = [feasible_values(query, case, points(case.box, rng, 3000)) for case in query.cases]
    largest = max(float(v.max(initial=-1e3)) for v in values)
    for target in (largest + 0.1, largest - 0.1, largest - 10):
        for case, at_points in enumerate(values):
            found = dived(query, target, 200, case)
            assert at_points.max(initial=-math.inf) <= found.bound
            assert found.bound <= target or not found.closed
            assert found.programmes <= 200
            assert query.cases[case].box.contains(found.point)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_any_prices_certify_a_true_bound(seed: int) -> None:
    """Whatever coefficients, multipliers and sides it is given, `certify` bounds the inputs on those sides."""
    rng = np.random.default_rng(seed)
    query = random_query(rng, ALL if seed % 2 else PIECEWISE_LINEAR, constrained=bool(rng.integers(2)), deepest=3)
    packed, case = pack(query), query.cases[0]
    node = node_on(packed, root_of(packed))
    is_loose, neurons = node.place >= 0, len(node.place)
    state = np.where(node.splittable & (rng.random(neurons) < 0.5), rng.integers(1, 3, size=neurons), FREE)
    wanted = np.where(is_loose, rng.normal(size=neurons) * rng.choice([0.1, 1, 10]), np.nan)
    prices = np.where(rng.random(neurons) < 0.3, rng.normal(size=neurons), 0.0)
    dual = Prices(wanted, np.zeros(neurons), prices, np.zeros(neurons), rng.random(len(node.rows)))
    bound = certify(packed.net, node, state, dual)
    x = points(case.box, rng, 3000)
    z = pre_activations(packed.joint, x)
    turns = np.where(node.lines[1] > node.lines[0], node.lines[2], node.lines[6])
    on_side = ((state == FREE) | ((state == LEFT) & (z <= turns)) | ((state == RIGHT) & (z >= turns))).all(1)
    assert feasible_values(query, case, x[on_side]).max(initial=-math.inf) <= bound


@pytest.mark.parametrize("seed", range(3))
def test_deep_pairs_close_as_highs_has_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = Query.maximise(
        [dense_network(rng, (3, 6, 6, 6, 1)) for _ in range(2)],
        Domain(Box([-1.0] * 3, [1.0] * 3)),
        [np.array([1.0, -1.0]), np.array([-1.0, 1.0])],
    )
    goal = Goal(0.0, 1e-6, time_limit=60)
    ours, theirs = Engine("cpu").answer(query, goal), Milp("highs").answer(query, Goal(1e-4, time_limit=60))
    assert ours.status is theirs.status is Status.EXACT
    assert overlap(ours, theirs, 2e-5)


@pytest.mark.parametrize("kind", [*KINDS, *ONE_PLACE])
def test_near_copies_differ_as_highs_says(kind: str) -> None:
    """The engine bounds them by differences of paired neurons; HiGHS knows nothing of that."""
    rng = np.random.default_rng(0)
    for activation in (RELU, Activation("clip", (-0.5, 0.7))):
        first = dense_network(rng, (2, 4, 4, 1), activation)
        query = Query.maximise(
            (first, near_copy(rng, first, kind)),
            Domain(Box([-1.0] * 2, [1.0] * 2)),
            [np.array([1.0, -1.0]), np.array([-1.0, 1.0])],
        )
        ours, theirs = (solver.answer(query, Goal(1e-4, time_limit=60)) for solver in (Engine("cpu"), Milp("highs")))
        assert ours.status is theirs.status is Status.EXACT
        assert overlap(ours, theirs, 2e-5)
