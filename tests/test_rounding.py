"""Rounding: bounds and certified values against exact rational arithmetic, on weights chosen to round badly.

Every comparison is between fractions, with no tolerance at all.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from cancelling_networks import MAGNITUDES, cancelling_query, exact_row, exact_value, some_points
from hypothesis import given, settings
from hypothesis import strategies as st
from near_copies import near_copy
from random_networks import FITTING, PIECEWISE_LINEAR

from karenina.domain import Box
from karenina.engine import Engine
from karenina.engine.bounds import hidden_bounds
from karenina.engine.cases import Cases
from karenina.engine.exact import evaluate_exactly
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer, flat
from karenina.engine.rounding import Rounding
from karenina.engine.tighten import Bounder, evaluate
from karenina.network import Layer, Network
from karenina.query import Case, Goal, Query, Status

CPU = torch.device("cpu")
seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_pre_activations_in_rationals_lie_in_their_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = cancelling_query(rng)
    joint, box = Joint.of(query.networks, CPU), query.cases[0].box
    lower, upper = torch.as_tensor(box.lower)[None], torch.as_tensor(box.upper)[None]
    rounding = Rounding.of(joint, lower[0], upper[0])
    infinite = [torch.full((joint.stack, 1, n), torch.inf, dtype=torch.float64) for n in joint.widths]
    hidden = hidden_bounds(joint, rounding, lower, upper, [(-t, t) for t in infinite])
    for x in some_points(rng, box)[:8]:
        for k in range(joint.depth):
            pre = [value for s in range(joint.stack) for value in _pre_activations(joint, s, k, x)]
            low, high = hidden.lower[k].flatten().tolist(), hidden.upper[k].flatten().tolist()
            assert all(Fraction(a) <= z <= Fraction(b) for a, z, b in zip(low, pre, high, strict=True))


def _pre_activations(joint: Joint, s: int, k: int, x: list[float]) -> list[Fraction]:
    """Of layer k in network s of the joint."""
    layers = [Layer(joint.weights[j][s], joint.biases[j][s, 0], joint.kinds[j].activations) for j in range(k)]
    layers.append(Layer.of(joint.weights[k][s], joint.biases[k][s, 0]))
    return evaluate_exactly(Network(tuple(layers)), x)


@given(seeds, st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_certified_values_and_bounds_hold_in_rationals(seed: int, constraints: int) -> None:
    """certified <= exact value <= bound; certain constraints hold exactly."""
    rng = np.random.default_rng(seed)
    query = cancelling_query(rng, constraints)
    joint, case = Joint.of(query.networks, CPU), query.cases[0]
    cases, rounding = Cases.of(query, joint, CPU)
    shared = Bounder(joint, cases, rounding)
    neurons = joint.stack * sum(joint.widths)
    nodes = Nodes.roots(cases.lower, cases.upper, constraints, neurons)
    known = list(zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), strict=True))
    hidden = hidden_bounds(joint, rounding, cases.lower, cases.upper, known)
    nodes = nodes.with_(slopes=torch.as_tensor(rng.normal(size=(1, neurons))))
    bound = Fraction(evaluate(shared, nodes, hidden.lines)[0].bound.item())
    start = nodes.with_(slopes=flat([lines.start for lines in hidden.lines]))
    bound = min(bound, Fraction(evaluate(shared, start, hidden.lines)[0].bound.item()))
    for x in some_points(rng, case.box):
        value = exact_value(query, x)
        outputs = joint.outputs(torch.tensor([x], dtype=torch.float64))
        values, holds = cases.certified(torch.zeros(1, dtype=torch.int64), outputs)
        certified = values.item() if holds.item() > 0 else -np.inf
        assert value <= bound
        if certified > -np.inf:
            assert Fraction(certified) <= value <= Fraction(certified) + 2 * Fraction(cases.error[0].item())
            for row, offset in zip(case.constraints.tolist(), case.constraint_offsets.tolist(), strict=True):
                assert exact_row(query, row, offset, x) >= 0
        assert value >= Fraction(cases.least)


@given(seeds, st.floats(1.0, 1e9))
@settings(max_examples=60, deadline=None)
def test_prices_of_constraints_allow_for_their_rounding(seed: int, price: float) -> None:
    """At a point where the constraint is all but tight, a high price on it must not push the bound below the value."""
    rng = np.random.default_rng(seed)
    free = cancelling_query(rng)
    x = free.cases[0].box.lower.tolist()
    row = rng.normal(size=free.output_size)
    offset = float(np.nextafter(float(-exact_row(free, row.tolist(), 0.0, x)), np.inf))
    assert exact_row(free, row.tolist(), offset, x) >= 0
    case = Case(Box(x, x), free.cases[0].objective, free.cases[0].offset, row[None], np.array([offset]))
    query = Query(free.networks, (case,))
    joint = Joint.of(query.networks, CPU)
    cases, rounding = Cases.of(query, joint, CPU)
    nodes = Nodes.roots(cases.lower, cases.upper, 1, joint.stack * sum(joint.widths))
    known = list(zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), strict=True))
    hidden = hidden_bounds(joint, rounding, cases.lower, cases.upper, known)
    nodes = nodes.with_(
        slopes=flat([lines.start for lines in hidden.lines]), multipliers=torch.tensor([[price]], dtype=torch.float64)
    )
    bound = evaluate(Bounder(joint, cases, rounding), nodes, hidden.lines)[0].bound.item()
    assert exact_value(query, x) <= Fraction(bound)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_constraint_missed_by_a_hair_is_never_certified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = cancelling_query(rng)
    x = free.cases[0].box.lower.tolist()
    row = rng.normal(size=free.output_size)
    offset = float(np.nextafter(float(-exact_row(free, row.tolist(), 0.0, x)), -np.inf))
    if exact_row(free, row.tolist(), offset, x) >= 0:
        return
    case = Case(Box(x, x), free.cases[0].objective, 0.0, row[None], np.array([offset]))
    query = Query(free.networks, (case,))
    joint = Joint.of(query.networks, CPU)
    cases, _ = Cases.of(query, joint, CPU)
    outputs = joint.outputs(torch.tensor([x], dtype=torch.float64))
    _, holds = cases.certified(torch.zeros(1, dtype=torch.int64), outputs)
    assert holds.item() <= 0


def near_cancelling_query(rng: np.random.Generator) -> Query:
    """A cancelling network and a copy of it that differs in last digits, or in a few thousandths, of its weights."""
    first = cancelling_query(rng).networks[0]
    second = near_copy(rng, first, str(rng.choice(["equal", "by a billionth", "by one per cent", "one sign"])))
    objective, centre = rng.normal(size=first.output_size), rng.normal(size=first.input_size)
    radius = rng.random(first.input_size) * rng.choice([1e-3, 1.0, 1e6])  # wide, so that neurons are loose
    case = Case(Box(centre - radius, centre + radius), np.concatenate([objective, -objective]), float(rng.normal()))
    return Query((first, second), (case,))


@pytest.mark.parametrize("near", [False, True], ids=["each by itself", "by differences"])
@given(seeds)
@settings(max_examples=60, deadline=None)
def test_compiled_bounds_hold_in_rationals(near: bool, seed: int) -> None:
    """Of pre-activations, of their differences, of the lines of those, and of the objective with any slopes."""
    pytest.importorskip("numba")
    from packed_boxes import pack, root_of

    from karenina.engine.tighten_box import evaluate as compiled_evaluate

    rng = np.random.default_rng(seed)
    query = near_cancelling_query(rng) if near else cancelling_query(rng)
    packed = pack(query, near)
    assert not near or packed.joint.stack == 2
    room = root_of(packed)
    slopes = (room.start, rng.normal(size=len(room.start)))
    bounds = [compiled_evaluate(packed.net, packed.ask, 0, room, t, np.zeros(0), near) for t in slopes]
    for x in some_points(rng, query.cases[0].box)[:8]:
        assert exact_value(query, x) <= Fraction(min(bounds))
        at = 0
        for k, width in enumerate(packed.joint.widths):
            z = [_pre_activations(packed.joint, s, k, x) for s in range(packed.joint.stack)]
            for s, m in itertools.product(range(packed.joint.stack), range(width)):
                neuron = packed.joint.stack * at + s * width + m
                assert Fraction(room.low[neuron]) <= z[s][m] <= Fraction(room.high[neuron])
            for m in range(width) if near else ():
                check_difference(room.apart[:, at + m], z[0][m], z[1][m])
            at += width


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_bounds_of_eight_boxes_hold_in_rationals(seed: int) -> None:
    """Of pre-activations and of the objective, on the whole box and on halves of it."""
    pytest.importorskip("numba")
    from eight_boxes import abreast, bounded
    from packed_boxes import pack

    rng = np.random.default_rng(seed)
    query = cancelling_query(rng, activations=[each for each in FITTING if each.piecewise_linear])
    packed, box = pack(query), query.cases[0].box
    middle, boxes = (box.lower + box.upper) / 2, [box]
    for lane in range(7):
        side = np.arange(box.size) == lane % box.size
        lower, upper = np.where(side, middle, box.lower), np.where(side, middle, box.upper)
        boxes.append(Box(lower, box.upper) if lane % 2 else Box(box.lower, upper))
    group = abreast(packed, boxes)
    bounded(packed.net, group, -np.inf, 0.0, int(rng.integers(4)))
    for lane, part in enumerate(boxes):
        for x in some_points(rng, part)[:4]:
            assert exact_value(query, x) <= Fraction(group.found[0, lane])
            check_pre_activations(packed.joint, x, group.low[:, lane], group.high[:, lane])


def check_pre_activations(joint: Joint, x: list[float], low: np.ndarray, high: np.ndarray) -> None:
    """Every neuron's, exactly, lies in its bounds."""
    at = 0
    for k, width in enumerate(joint.widths):
        for s, m in itertools.product(range(joint.stack), range(width)):
            neuron = joint.stack * at + s * width + m
            assert Fraction(low[neuron]) <= _pre_activations(joint, s, k, x)[m] <= Fraction(high[neuron])
        at += width


@pytest.mark.parametrize("inputs", [2000, 1])
def test_many_terms_and_a_huge_bias_do_not_round_the_bounds_of_eight_boxes(inputs: int) -> None:
    """Small terms added to 2**53 one by one would all be lost: many inputs, or a wide layer, under a huge bias."""
    pytest.importorskip("numba")
    from eight_boxes import abreast, bounded
    from packed_boxes import pack

    wide = 2001 - inputs
    layers = (
        Layer.of(np.full((wide, inputs), 0.001), np.zeros(wide), PIECEWISE_LINEAR[1]),
        Layer.of(np.full((1, wide), 0.3), [2.0**53], PIECEWISE_LINEAR[1]),
        Layer.of([[1.0]], [2.0**53]),
    )
    x = [1.0] * inputs
    query = Query((Network(layers),), (Case(Box([-1.0] * inputs, x), np.ones(1)),))
    packed = pack(query)
    group = abreast(packed, [query.cases[0].box] * 8)
    bounded(packed.net, group, -np.inf, 0.0, 1)
    assert exact_value(query, x) <= Fraction(group.found[0, 0])
    check_pre_activations(packed.joint, x, group.low[:, 0], group.high[:, 0])


def check_difference(apart: np.ndarray, one: Fraction, two: Fraction) -> None:
    """The difference of two paired pre-activations lies in its range, where it was needed."""
    if np.isfinite(apart[6]):
        assert Fraction(apart[0]) <= two - one <= Fraction(apart[1])


@given(seeds, st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_constants_for_differences_cover_what_rounding_does(seed: int, by_layer_above: bool) -> None:
    """`descend` alone, from any layer and with coefficients that cancel: off by no more than the constants say."""
    pytest.importorskip("numba")
    from packed_boxes import pack, root_of

    from karenina.engine.box import descend

    rng = np.random.default_rng(seed)
    query = near_cancelling_query(rng)
    packed = pack(query, near=True)
    room, at = root_of(packed), 0
    for k, width in enumerate(packed.joint.widths):
        rows = rng.normal(size=(2, width)) * rng.choice(MAGNITUDES, size=(1, width) if by_layer_above else (1, 1))
        rows[1] = -rows[0] * (1 + rng.choice([0.0, 2**-52, 1e-9], size=width))
        room.above[:, :width] = rows
        bound = Fraction(descend(packed.net, room, k, room.start, True))
        errors = packed.net.errors[2 * at : 2 * (at + width)].reshape(2, width)
        error = sum((Fraction(a) for a in (np.abs(rows) * errors).flatten().tolist()), Fraction(0))
        for x in some_points(rng, query.cases[0].box)[:6]:
            z = [_pre_activations(packed.joint, s, k, x) for s in range(2)]
            value = sum((Fraction(rows[s, m]) * z[s][m] for s in range(2) for m in range(width)), Fraction(0))
            assert value <= bound + error
        at += width


@given(seeds, st.booleans())
@settings(max_examples=60, deadline=None)
def test_compiled_offers_hold_in_rationals(seed: int, near: bool) -> None:
    """A point is taken only where its value and its constraints hold exactly, however close they are."""
    pytest.importorskip("numba")
    from packed_boxes import pack

    from karenina.engine.explore import offer
    from karenina.engine.packed import Best

    rng = np.random.default_rng(seed)
    free = near_cancelling_query(rng) if near else cancelling_query(rng)
    box, row = free.cases[0].box, rng.normal(size=free.output_size)
    for x in some_points(rng, box)[:6]:
        edge = float(-exact_row(free, row.tolist(), 0.0, x))
        for offset in (np.nextafter(edge, -np.inf), edge, np.nextafter(edge, np.inf), edge + abs(edge) * 1e-6 + 1e-6):
            case = Case(box, free.cases[0].objective, free.cases[0].offset, row[None], np.array([offset]))
            packed = pack(Query(free.networks, (case,)), near)
            best = Best(np.array([-np.inf]), np.zeros(box.size), np.array([-1]), np.zeros(1), np.zeros(3, np.int64))
            work, y = np.empty((2, packed.net.widest)), np.empty(free.output_size)
            if offer(packed.net, packed.ask, 0, best, np.array(x), work, y):
                assert exact_row(free, row.tolist(), float(offset), x) >= 0
                assert Fraction(best.value[0]) <= exact_value(free, x)
                assert best.x.tolist() == x
            else:
                assert best.case[0] == -1


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_the_engines_interval_of_near_copies_holds_in_rationals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = near_cancelling_query(rng)
    answer = Engine("cpu").answer(query, Goal(0.0, 1e-3, time_limit=0.2))
    if answer.witness is not None:
        assert Fraction(answer.lower) <= exact_value(query, answer.witness.tolist())
    for x in some_points(rng, query.cases[0].box):
        assert exact_value(query, x) <= Fraction(answer.upper)


def certified(query: Query, seed: int, x: list[float]) -> Fraction:
    """What `certify` says with random prices, the neurons on the sides where x has them."""
    pytest.importorskip("numba")
    from packed_boxes import node_on, pack, pre_activations, root_of

    from karenina.engine.dive import FREE, LEFT, RIGHT, certify
    from karenina.engine.packed import Prices

    rng, packed = np.random.default_rng(seed), pack(query)
    node = node_on(packed, root_of(packed))
    z = pre_activations(packed.joint, np.array([x]))[0]
    kink = np.where(node.lines[1] > node.lines[0], node.lines[2], node.lines[6])
    size = np.maximum(np.abs(node.low), np.abs(node.high))
    sure = node.splittable & (np.abs(z - kink) > 1e-3 * size)  # far beyond rounding
    state = np.where(sure & (rng.random(len(z)) < 0.5), np.where(z < kink, LEFT, RIGHT), FREE)
    wanted = np.where(node.place >= 0, rng.normal(size=len(z)), np.nan)
    prices = np.where(rng.random(len(z)) < 0.3, rng.normal(size=len(z)), 0.0)
    dual = Prices(wanted, np.zeros_like(z), prices, np.zeros_like(z), np.zeros(0))
    return Fraction(certify(packed.net, node, state, dual))


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_certificates_hold_in_rationals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = cancelling_query(rng)
    for x in some_points(rng, query.cases[0].box):
        assert exact_value(query, x) <= certified(query, seed, x)


def test_many_inputs_and_a_huge_bias_do_not_round_a_certificate() -> None:
    """Small terms added to 2**53 one by one would all be lost."""
    inputs = 2000
    layer = Layer.of(np.full((1, inputs), 0.001), [0.0], PIECEWISE_LINEAR[1])
    network = Network((layer, Layer.of([[1.0]], [2.0**53])))
    x = [1.0] * inputs
    query = Query((network,), (Case(Box([-1.0] * inputs, x), np.ones(1)),))
    assert exact_value(query, x) <= certified(query, 0, x)


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_the_engines_interval_holds_in_rationals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = cancelling_query(rng)
    answer = Engine("cpu").answer(query, Goal(0.0, 1e-3, time_limit=0.2))
    if answer.witness is not None:
        assert Fraction(answer.lower) <= exact_value(query, answer.witness.tolist())
    for x in some_points(rng, query.cases[0].box):
        assert exact_value(query, x) <= Fraction(answer.upper)


def test_a_difference_that_float64_loses_is_still_inside_the_interval() -> None:
    """1e8 * x + 1e-8 - 1e8 * x: float64 says 0 for x near 1, the truth is 1e-8."""
    network = Network((Layer.of([[1e8], [1e8]], [1e-8, 0.0], PIECEWISE_LINEAR[1]), Layer.of([[1.0, -1.0]], [0.0])))
    query = Query((network,), (Case(Box([1.0], [2.0]), np.ones(1)),))
    answer = Engine("cpu").answer(query, Goal(1e-3))
    truth = max(exact_value(query, [x]) for x in (1.0, 1.5, 2.0))
    assert truth > 0
    assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
    assert answer.status is Status.EXACT


def test_asking_for_more_than_float64_has_is_said_and_stays_sound() -> None:
    network = Network((Layer.of([[1e8], [-1e8]], [1.0, 1.0], PIECEWISE_LINEAR[1]), Layer.of([[1.0, 1.0]], [-1e8])))
    query = Query((network,), (Case(Box([-1.0], [1.0]), np.ones(1)),))
    answer = Engine("cpu").answer(query, Goal(0.0, time_limit=5))
    assert answer.status is Status.PRECISION
    assert Fraction(answer.lower) <= 1 <= Fraction(answer.upper)
    assert answer.upper - answer.lower < 1e-4


@given(seeds, st.floats(0.1, 1.0))
@settings(max_examples=40, deadline=None)
def test_errors_grow_with_the_box(seed: int, share: float) -> None:
    """Constants of a box serve all boxes inside it."""
    rng = np.random.default_rng(seed)
    query = cancelling_query(rng)
    joint, box = Joint.of(query.networks, CPU), query.cases[0].box
    lower, upper = torch.as_tensor(box.lower), torch.as_tensor(box.upper)
    outer, inner = Rounding.of(joint, lower, upper), Rounding.of(joint, lower, lower + share * (upper - lower))
    assert outer.finite
    assert all((a >= b * (1 - 1e-12)).all() for a, b in zip(outer.hidden, inner.hidden, strict=True))
    assert (outer.outputs >= inner.outputs * (1 - 1e-12)).all()
    assert (outer.magnitude >= joint.outputs(lower[None])[0].abs()).all()
