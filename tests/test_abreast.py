"""Eight boxes at once: their lines, bounds and steps against those of one box, and against samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import FITTING, points, random_network

from karenina.domain import Box
from karenina.engine.compiled_search import goes_abreast
from karenina.network import RELU, Activation, Network
from karenina.query import Case, Query

pytest.importorskip("numba")

import numba
from eight_boxes import abreast, bounded, one_neuron, relaxed
from packed_boxes import Packed, pack, pre_activations, room_on

from karenina.engine.abreast import bounds_abreast
from karenina.engine.abreast_lines import activate, bend, tanh, turn
from karenina.engine.abreast_room import Abreast
from karenina.engine.abreast_steps import clip_abreast
from karenina.engine.explore import choose_axis, clip, count_loose
from karenina.engine.lanes import WIDE, load, store
from karenina.engine.lines import envelope_slope, write_lines
from karenina.engine.packed import SIGMOID
from karenina.engine.tighten_box import Steps, evaluate, new_steps, tighten

Array = npt.NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)
KINKS = tuple(activation for activation in FITTING if activation.piecewise_linear)
CURVES = tuple(activation for activation in FITTING if not activation.piecewise_linear)
OTHERS = (
    Activation("leaky_relu", (1.7,)),
    Activation("clip", (-1.0, 0.5)),
    Activation("elu", (1.0,)),
    Activation("softplus"),
)


def jit(function: Any) -> Any:
    return numba.njit(error_model="numpy", fastmath={"contract"})(function)


@jit
def many_tanh(x: Array, out: Array) -> None:
    for row in range(len(x)):
        store(out, row, tanh(load(x, row)))


@jit
def many_activations(kinds: Array, p: int, x: Array, out: Array) -> None:
    for row in range(len(x)):
        store(out, row, activate(kinds, p, load(x, row)))


@jit
def turned(sigmoid: bool, room: Abreast, wished: Array) -> None:
    turn(sigmoid, room, 0, load(wished, 0))


@jit
def bent(sigmoid: bool, room: Abreast) -> None:
    bend(sigmoid, room, 0, 1.0)


@jit
def clipped(room: Abreast, target: float) -> None:
    clip_abreast(room, load(room.found, 0), target)


def query_of(rng: np.random.Generator, *, stack: int = 2, deepest: int = 4) -> Query:
    """One or two networks of what fits, of any depth, on a box of one of three scales."""
    inputs, outputs, depth = int(rng.integers(1, 8)), int(rng.integers(1, 4)), int(rng.integers(1, deepest))
    kinds = (KINKS, CURVES, FITTING)[int(rng.integers(3))]
    networks = tuple(random_network(rng, inputs, outputs, depth, kinds) for _ in range(stack))
    centre, radius = rng.normal(size=inputs), rng.random(inputs) * rng.choice([0.01, 0.3, 2.0])
    objective = rng.normal(size=stack * outputs)
    return Query(networks, (Case(Box(centre - radius, centre + radius), objective, float(rng.normal())),))


def boxes_in(rng: np.random.Generator, box: Box) -> list[Box]:
    """The box itself and seven inside it, one of them a point."""
    ends = np.sort(rng.uniform(box.lower, box.upper, (WIDE, 2, box.size)), axis=1)
    ends[0], ends[1, 1] = (box.lower, box.upper), ends[1, 0]
    return [Box(lower, upper) for lower, upper in ends]


def ulps(ours: Array, theirs: npt.NDArray[Any]) -> Array:
    return np.asarray(np.abs(ours - theirs) / np.spacing(np.abs(theirs).astype(np.float64)), float)


def test_tanh_is_within_a_few_units_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    sizes = np.concatenate([10.0 ** rng.uniform(-300, 3, 40_000), rng.uniform(0, 25, 40_000)])
    x = (np.sign(rng.normal(size=sizes.shape)) * sizes).reshape(-1, WIDE)
    ours = np.empty_like(x)
    many_tanh(x, ours)
    assert ulps(ours, np.tanh(x.astype(np.longdouble))).max() <= 4
    odd = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 19.0, 1e308]])
    many_tanh(odd, ours)
    assert ours[0] == pytest.approx(np.tanh(odd[0]), rel=2e-16, abs=0, nan_ok=True)


@pytest.mark.parametrize("activation", [*FITTING, *OTHERS], ids=str)
def test_activations_are_the_networks(activation: Activation) -> None:
    network = random_network(np.random.default_rng(3), 1, 1, 1, (activation,))
    packed = pack(Query((network,), (Case(Box([-1.0], [1.0]), np.ones(1)),)))
    x = np.random.default_rng(1).normal(size=(200, WIDE)) * 5
    ours = np.empty_like(x)
    many_activations(packed.net.kinds, 0, x, ours)
    theirs = np.array([[packed_activation(packed, z) for z in row] for row in x])
    assert ours == pytest.approx(theirs, rel=1e-14, abs=1e-15)


def packed_activation(packed: Packed, z: float) -> float:
    from karenina.engine.lines import activation

    return float(activation(packed.net.kinds, 0, float(z)))


ends = st.one_of(st.sampled_from([0.0, -0.0, 1e-9, -1e-9, 5e-324, 40.0, -40.0, 800.0, -800.0]), st.floats(-10, 10))
widths = st.one_of(st.sampled_from([0.0, 1e-12, 1e-7, 1e-6, 1.1e-6, 1e-3]), st.floats(0, 100))


def check_enclosed(activation: Activation, packed: Packed, group: Abreast, at: float) -> None:
    """Both lines of neuron 0 in all boxes hold the activation between them, at both ends, 0 and between."""
    for lane in range(WIDE):
        low, high = float(group.low[0, lane]), float(group.high[0, lane])
        slack = 1e-14 * (1 + max(abs(low), abs(high)))
        for z in (low, high, min(low + at * (high - low), high), *((0.0,) if low <= 0 <= high else ())):
            value = packed_activation(packed, z)
            assert value <= group.up[0, lane] * z + group.up_by[0, lane] + slack, activation
            assert group.down[0, lane] * z + group.down_by[0, lane] <= value + slack, activation


@pytest.mark.parametrize("activation", FITTING, ids=str)
@given(
    low=st.lists(ends, min_size=WIDE, max_size=WIDE),
    width=st.lists(widths, min_size=WIDE, max_size=WIDE),
    at=st.floats(0, 1),
    slope=st.floats(-0.5, 1.5),
)
@settings(max_examples=40, deadline=None)
def test_lines_enclose_the_activation_and_are_those_of_one_box(
    activation: Activation, low: list[float], width: list[float], at: float, slope: float
) -> None:
    lows, highs = np.array(low), np.array(low) + np.array(width)
    packed, group = one_neuron(activation, lows, highs)
    relaxed(packed.net.kinds, group)
    check_enclosed(activation, packed, group, at)
    for lane in range(WIDE):
        lines, curve = np.empty((8, 1)), np.empty((4, 1))
        start = write_lines(packed.net.kinds, 0, lows[lane], highs[lane], lines, curve, 0)
        scale = 1 + max(abs(lows[lane]), abs(highs[lane]))
        if activation in KINKS:
            assert group.up[0, lane] == pytest.approx(lines[0, 0], rel=1e-14)
            assert group.up_by[0, lane] == pytest.approx(lines[3, 0], rel=1e-14)
            assert (group.least[0, lane], group.most[0, lane]) == (lines[4, 0], lines[5, 0])
            assert group.down[0, lane] == min(max(start, lines[4, 0]), lines[5, 0])
        elif width[lane] > 1e-3:
            assert group.up[0, lane] == pytest.approx(lines[0, 0], rel=1e-10, abs=1e-14)
            ours, theirs = group.up_by[0, lane], lines[3, 0] - lines[0, 0] * lines[2, 0]
            assert ours == pytest.approx(theirs, abs=1e-12 * scale)
            ours, theirs = group.down_by[0, lane], lines[7, 0] - lines[4, 0] * lines[6, 0]
            assert ours == pytest.approx(theirs, abs=1e-12 * scale)
    if activation in CURVES:
        turned(packed.net.kinds[0, 0] == SIGMOID, group, np.full((1, WIDE), slope))
        assert np.array_equal(group.up[0], group.down[0])
        check_enclosed(activation, packed, group, at)


@pytest.mark.parametrize("activation", CURVES, ids=str)
@given(seeds)
@settings(max_examples=40, deadline=None)
def test_lines_bend_to_the_slope_of_the_envelope(activation: Activation, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.normal(size=WIDE) * 3
    high = low + rng.exponential(size=WIDE) * 3 + 0.01
    packed, group = one_neuron(activation, low, high)
    relaxed(packed.net.kinds, group)
    group.z[0], group.reach[0] = rng.uniform(low, high), rng.normal(size=WIDE)
    chord = group.chord[0].copy()
    bent(packed.net.kinds[0, 0] == SIGMOID, group)
    check_enclosed(activation, packed, group, rng.random())
    for lane in range(WIDE):
        best = envelope_slope(
            packed.net.kinds, 0, low[lane], high[lane], group.z[0, lane], group.reach[0, lane] >= 0, chord[lane]
        )
        best = min(max(best, group.least[0, lane]), group.most[0, lane])
        assert group.down[0, lane] == pytest.approx(best, abs=0.02)  # the logarithm in it is a rough one


@given(seeds, st.integers(1, 2))
@settings(max_examples=80, deadline=None)
def test_bounds_are_those_of_one_box_and_hold(seed: int, stack: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(rng, stack=stack)
    packed, boxes = pack(query), boxes_in(rng, query.cases[0].box)
    assert goes_abreast(query)
    group = abreast(packed, boxes)
    bounds_abreast(packed.net, group)
    root = room_on(packed, boxes[0].lower, boxes[0].upper)
    for lane, box in enumerate(boxes):
        z = pre_activations(packed.joint, points(box, rng, 200))
        assert (group.low[:, lane] <= z).all()
        assert (z <= group.high[:, lane]).all()
        one = room_on(packed, box.lower, box.upper, (root.low, root.high))
        loose = one.gap > 1e-9  # a neuron that was linear may be left as it was, or not
        assert (np.abs(group.low[:, lane] - one.low) <= 4 * packed.net.errors + 1e-12)[loose].all()
        assert (np.abs(group.high[:, lane] - one.high) <= 4 * packed.net.errors + 1e-12)[loose].all()


def one_box(packed: Packed, box: Box, root: Any, aim: float, steps: int) -> tuple[float, Any, Steps]:
    """The best bound of a box by itself."""
    room, work = room_on(packed, box.lower, box.upper, (root.low, root.high)), new_steps(packed.net, packed.ask)
    work.slopes[:] = room.start
    bound = evaluate(packed.net, packed.ask, 0, room, work.slopes, work.multipliers, False)
    return tighten(packed.net, packed.ask, 0, room, work, bound, aim, -np.inf, steps, False), room, work


@given(seeds, st.integers(1, 2), st.integers(0, 4))
@settings(max_examples=80, deadline=None)
def test_steps_are_those_of_one_box_and_bounds_hold(seed: int, stack: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(rng, stack=stack)
    packed, boxes, case = pack(query), boxes_in(rng, query.cases[0].box), query.cases[0]
    group, root = abreast(packed, boxes), room_on(packed, case.box.lower, case.box.upper)
    aim = float((query.outputs(points(case.box, rng, 200)) @ case.objective + case.offset).max())
    bounded(packed.net, group, -np.inf, aim, steps)
    target, slack = aim, 1e-9
    kept = group.lower.copy(), group.upper.copy()
    clipped(group, target)
    for lane, box in enumerate(boxes):
        x = points(box, rng, 300)
        values = query.outputs(x) @ case.objective + case.offset
        bound, value, loose, axis = group.found[:, lane].tolist()
        assert (values <= bound).all()
        corner = group.best_corner[:, lane]
        linear = bound + (x - corner) @ group.best_total[:, lane]
        scale = 1 + abs(bound) + np.abs(group.best_total[:, lane]) @ np.maximum(np.abs(box.lower), np.abs(box.upper))
        assert (values <= linear + 1e-12 * scale).all()
        expected = query.outputs(corner[None])[0] @ case.objective
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
        cut_off = ~((group.lower[:, lane] <= x) & (x <= group.upper[:, lane])).all(1)
        assert (values[cut_off] <= target).all()
        assert (kept[0][:, lane] <= group.lower[:, lane]).all()
        assert (group.upper[:, lane] <= kept[1][:, lane]).all()
        theirs, room, work = one_box(packed, box, root, aim, steps)
        assert bound == pytest.approx(theirs, rel=1e-3 if steps else slack, abs=1e-3 if steps else slack)
        if steps == 0:
            assert loose >= count_loose(room)
            check_axis(packed, room, work, int(axis), box)
            clip(room, work, theirs, target)
            assert group.lower[:, lane] == pytest.approx(room.lower, rel=1e-6, abs=1e-6)


def check_axis(packed: Packed, room: Any, work: Steps, axis: int, box: Box) -> None:
    """The axis that is chosen for one box, or one as good."""
    theirs = choose_axis(packed.net, packed.ask, 0, room, work)
    assert (axis < 0) == (theirs < 0)
    if axis >= 0:
        promise = room.middle[0] * (box.upper - box.lower)  # where the scores are
        assert promise[axis] >= (1 - 1e-6) * promise[theirs] - 1e-9


@pytest.mark.parametrize("activation", OTHERS, ids=str)
def test_other_activations_and_constraints_go_one_by_one(activation: Activation) -> None:
    rng = np.random.default_rng(0)
    fitting, other = (random_network(rng, 1, 1, 2, (kind,)) for kind in (RELU, activation))
    assert suits((fitting,))
    assert not suits((other,))
    assert not suits((fitting, other))
    assert not suits((fitting,), constraints=1)


def suits(networks: tuple[Network, ...], *, constraints: int = 0) -> bool:
    rows, offsets = np.ones((constraints, len(networks))), np.zeros(constraints)
    return goes_abreast(Query(networks, (Case(Box([-1.0], [1.0]), np.ones(len(networks)), 0.0, rows, offsets),)))
