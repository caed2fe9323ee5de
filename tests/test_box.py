"""Compiled bounds on one box: against torch's, against samples; and by differences, for near copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from near_copies import KINDS, ONE_PLACE, near_copy
from random_networks import ALL, points, random_network, random_query

from karenina.domain import Box
from karenina.engine.bounds import hidden_bounds
from karenina.engine.nodes import Nodes, by_layer, flat
from karenina.engine.relaxation import Lines
from karenina.engine.tighten import Bounder
from karenina.engine.tighten import evaluate as torch_evaluate
from karenina.engine.tighten import tighten as torch_tighten
from karenina.network import Layer, Network
from karenina.query import Case, Query

pytest.importorskip("numba")

from packed_boxes import Packed, pack, pre_activations, room_on

from karenina.engine.box import descend
from karenina.engine.forward import forward
from karenina.engine.near import APART
from karenina.engine.room import Room
from karenina.engine.tighten_box import Steps, evaluate, new_steps, tighten

Array = npt.NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)
copies = st.sampled_from([*KINDS, *ONE_PLACE])


def networks_of(rng: np.random.Generator, stack: int) -> tuple[Network, ...]:
    """One network, or two of one architecture."""
    first = random_network(rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 5)))
    if stack == 1:
        return (first,)
    layers = [
        Layer.of(rng.normal(size=layer.weight.shape), rng.normal(size=layer.bias.shape), layer.activations)
        for layer in first.layers
    ]
    return first, Network(tuple(layers), "other")


def near_pair(rng: np.random.Generator, kind: str) -> tuple[Network, Network]:
    first = random_network(rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 5)))
    return first, near_copy(rng, first, kind)


def query_on(rng: np.random.Generator, networks: tuple[Network, ...], constraints: int = 0) -> Query:
    """One box of one of three scales, one objective; for pairs often the difference of two outputs."""
    inputs, outputs = networks[0].input_size, sum(n.output_size for n in networks)
    centre, radius = rng.normal(size=inputs), rng.random(inputs) * rng.choice([0.01, 0.3, 2.0])
    objective = rng.normal(size=outputs)
    if len(networks) == 2 and rng.random() < 0.7:
        objective[outputs // 2 :] = -objective[: outputs // 2]
    rows, offsets = rng.normal(size=(constraints, outputs)), rng.normal(size=constraints) + 1
    return Query(
        networks, (Case(Box(centre - radius, centre + radius), objective, float(rng.normal()), rows, offsets),)
    )


def box_inside(rng: np.random.Generator, box: Box) -> Box:
    """The box, a random one in it, or a point."""
    draw = rng.random()
    if draw < 0.3:
        return box
    lower, upper = np.sort(rng.uniform(box.lower, box.upper, (2, box.size)), axis=0)
    return Box(lower, lower) if draw < 0.4 else Box(lower, upper)


def torch_hidden(packed: Packed, box: Box, known: Room | None = None) -> tuple[Nodes, list[Array], list[Lines]]:
    """A node on the box, its bounds and its lines as torch has them."""
    joint, lower, upper = packed.joint, torch.as_tensor(box.lower)[None], torch.as_tensor(box.upper)[None]
    neurons = joint.stack * sum(joint.widths)
    nodes = Nodes.roots(lower, upper, packed.cases.rows.shape[1], neurons)
    low, high = nodes.neuron_lower, nodes.neuron_upper
    if known is not None:
        low, high = (torch.as_tensor(t.copy())[None] for t in (known.low, known.high))
    pairs = list(zip(by_layer(joint, low), by_layer(joint, high), strict=True))
    hidden = hidden_bounds(joint, packed.rounding, lower, upper, pairs)
    nodes = nodes.with_(
        neuron_lower=flat(hidden.lower), neuron_upper=flat(hidden.upper), slopes=flat([x.start for x in hidden.lines])
    )
    rows = np.concatenate([r[0].expand(-1, 1, -1, -1).movedim(0, 1)[0].flatten(0, 1).numpy() for r in hidden.rows])
    return nodes, [flat(hidden.lower)[0].numpy(), flat(hidden.upper)[0].numpy(), rows], list(hidden.lines)


def values_at(query: Query, x: Array) -> Array:
    """The objective at points x, minus infinity where a constraint does not hold."""
    case, y = query.cases[0], query.outputs(x)
    values = y @ case.objective + case.offset
    if len(case.constraint_offsets):
        values = np.where((y @ case.constraints.T + case.constraint_offsets >= 0).all(1), values, -np.inf)
    return np.asarray(values)


def random_choice(rng: np.random.Generator, packed: Packed, room: Room) -> tuple[Array, Array]:
    """Slopes, in and out of range, and multipliers."""
    neurons, rows = len(room.low), packed.ask.rows.shape[1]
    slopes = np.where(rng.random(neurons) < 0.5, room.start, rng.normal(size=neurons) * 2)
    return slopes, rng.exponential(size=rows) * rng.choice([0.0, 1.0, 10.0])


def check_linear_function(room: Room, bound: float, x: Array, values: Array) -> None:
    """What `descend` leaves behind: corner, total; no value exceeds the linear function anywhere on the box."""
    assert np.array_equal(room.corner, np.where(room.total >= 0, room.upper, room.lower))
    scale = 1 + abs(bound) + np.abs(room.total) @ np.maximum(np.abs(room.lower), np.abs(room.upper))
    assert (values <= bound + (x - room.corner) @ room.total + 1e-12 * scale).all()
    assert (values <= bound).all()


@given(seeds, st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_hidden_bounds_are_those_of_torch(seed: int, stack: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, networks_of(rng, stack))
    packed, box = pack(query), box_inside(rng, query.cases[0].box)
    assert packed.joint.stack == stack
    room = room_on(packed, box.lower, box.upper)
    _, (low, high, rows), _ = torch_hidden(packed, box)
    assert (np.abs(room.low - low) <= 2 * packed.net.errors).all()
    assert (np.abs(room.high - high) <= 2 * packed.net.errors).all()
    assert np.abs(room.rows - rows).max() <= 1e-9 * (1 + np.abs(rows).max())


@given(seeds, st.integers(1, 2), st.booleans())
@settings(max_examples=60, deadline=None)
def test_bounds_hold_and_what_is_known_is_kept(seed: int, stack: int, unequal: bool) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, random_query(rng).networks if unequal else networks_of(rng, stack))
    packed, outer = pack(query), query.cases[0].box
    box = box_inside(rng, outer)
    parent = room_on(packed, outer.lower, outer.upper)
    child = room_on(packed, box.lower, box.upper, (parent.low, parent.high))
    alone = room_on(packed, box.lower, box.upper)
    assert (parent.low <= child.low).all()
    assert (child.high <= parent.high).all()
    x = points(box, rng, 300)
    z = pre_activations(packed.joint, x)
    for room in (child, alone):
        assert (room.low <= z).all()
        assert (z <= room.high).all()
    _, (low, high, _), _ = torch_hidden(packed, box, parent)
    linear = child.gap == 0  # a neuron that was linear on the parent is left as it was
    assert ((np.abs(child.low - low) <= 2 * packed.net.errors) | linear).all()
    assert ((np.abs(child.high - high) <= 2 * packed.net.errors) | linear).all()


@given(seeds, st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_bounds_hold_where_only_some_inputs_are_inside_what_is_known(seed: int, stack: int) -> None:
    """Ranges of neurons cut off at random: bounds hold for the inputs whose neurons lie in them."""
    rng = np.random.default_rng(seed)
    query = query_on(rng, networks_of(rng, stack))
    packed, box = pack(query), query.cases[0].box
    free = room_on(packed, box.lower, box.upper)
    draw, point = rng.random(len(free.low)), rng.uniform(free.low, free.high)
    low, high = np.where(draw < 0.15, point, free.low), np.where(draw > 0.85, point, free.high)
    room = room_on(packed, box.lower, box.upper, (low, high))
    x = points(box, rng, 1000)
    z = pre_activations(packed.joint, x)
    inside = ((low <= z) & (z <= high)).all(1)
    assert ((room.low <= z) & (z <= room.high))[inside].all()
    slopes, multipliers = random_choice(rng, packed, room)
    bound = evaluate(packed.net, packed.ask, 0, room, slopes, multipliers, False)
    assert (values_at(query, x)[inside] <= bound).all()


@given(seeds, st.integers(1, 2), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_any_slopes_and_multipliers_give_a_bound_as_in_torch(seed: int, stack: int, constraints: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, networks_of(rng, stack), constraints)
    packed, box = pack(query), box_inside(rng, query.cases[0].box)
    room = room_on(packed, box.lower, box.upper)
    nodes, _, lines = torch_hidden(packed, box)
    x = points(box, rng, 300)
    values = values_at(query, x)
    for _ in range(3):
        slopes, multipliers = random_choice(rng, packed, room)
        bound = evaluate(packed.net, packed.ask, 0, room, slopes, multipliers, False)
        check_linear_function(room, bound, x, values)
        chosen = nodes.with_(slopes=torch.as_tensor(slopes)[None], multipliers=torch.as_tensor(multipliers)[None])
        shared = Bounder(packed.joint, packed.cases, packed.rounding)
        theirs, _ = torch_evaluate(shared, chosen, lines)
        error = packed.ask.error[0] + multipliers @ packed.ask.row_error[0]
        assert abs(bound - theirs.bound.item()) <= 4 * error + 1e-12 * abs(bound)


def tightened(packed: Packed, room: Room, aim: float, enough: float, steps: int) -> tuple[float, float, Steps]:
    """The bound before and after so many steps."""
    work = new_steps(packed.net, packed.ask)
    work.slopes[:], work.multipliers[:] = room.start, 0.0
    near = packed.ask.near
    before = evaluate(packed.net, packed.ask, 0, room, work.slopes, work.multipliers, near)
    after = tighten(packed.net, packed.ask, 0, room, work, before, aim, enough, steps, near)
    return before, after, work


@given(seeds, st.integers(1, 2), st.integers(0, 2), st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_tightening_takes_the_steps_of_torch(seed: int, stack: int, constraints: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, networks_of(rng, stack), constraints)
    packed, box = pack(query), box_inside(rng, query.cases[0].box)
    room = room_on(packed, box.lower, box.upper)
    x = points(box, rng, 300)
    values = values_at(query, x)
    best = float(values.max())
    aim = best if np.isfinite(best) else -10.0
    before, after, work = tightened(packed, room, aim, aim, steps)
    assert best <= after <= before
    assert (work.best_multipliers >= 0).all()
    nodes, _, lines = torch_hidden(packed, box)
    shared = Bounder(packed.joint, packed.cases, packed.rounding)
    theirs = torch_tighten(shared, nodes, lines, aim, aim, steps)
    assert after == pytest.approx(theirs.bound.item(), rel=1e-6, abs=1e-6)
    again = evaluate(packed.net, packed.ask, 0, room, work.best_slopes, work.best_multipliers, False)
    assert again == after
    assert np.array_equal(room.total, work.best_total)
    assert np.array_equal(room.corner, work.best_corner)
    check_linear_function(room, after, x, values)


@given(seeds, copies)
@settings(max_examples=80, deadline=None)
def test_differences_of_paired_neurons_lie_in_their_bounds_and_lines(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, near_pair(rng, kind))
    packed, box = pack(query, near=True), box_inside(rng, query.cases[0].box)
    assert packed.joint.stack == 2
    room = room_on(packed, box.lower, box.upper)
    z = pre_activations(packed.joint, points(box, rng, 300))
    assert (room.low <= z).all()
    assert (z <= room.high).all()
    at = 0
    for k, width in enumerate(packed.joint.widths):
        z1, z2 = z[:, 2 * at : 2 * at + width], z[:, 2 * at + width : 2 * (at + width)]
        d = z2 - z1
        h1, h2 = (packed.joint.kinds[k].activate(torch.as_tensor(t)).numpy() for t in (z1, z2))
        left, right, up, up_constant, down, down_constant, gap = room.apart[:, at : at + width]
        known = np.isfinite(gap)
        slack = 1e-12 * (1 + np.abs(z1) + np.abs(z2))
        assert ((left <= d) & (d <= right) | ~known).all()
        with np.errstate(all="ignore"):  # lines that are not known may be anything
            assert ((h2 - h1 <= up * d + up_constant + slack) | ~known).all()
            assert ((down * d + down_constant - slack <= h2 - h1) | ~known).all()
        at += width


@given(seeds, copies, st.integers(0, 2))
@settings(max_examples=80, deadline=None)
def test_bounds_by_differences_hold(seed: int, kind: str, constraints: int) -> None:
    """With any slopes and multipliers, and after tightening; the derivative that steers it is that of the bound."""
    rng = np.random.default_rng(seed)
    query = query_on(rng, near_pair(rng, kind), constraints)
    packed, box = pack(query, near=True), box_inside(rng, query.cases[0].box)
    room = room_on(packed, box.lower, box.upper)
    x = points(box, rng, 300)
    values = values_at(query, x)
    for _ in range(3):
        slopes, multipliers = random_choice(rng, packed, room)
        bound = evaluate(packed.net, packed.ask, 0, room, slopes, multipliers, True)
        check_linear_function(room, bound, x, values)
    before, after, work = tightened(packed, room, float(values.min()), -np.inf, 3)
    assert values.max() <= after <= before
    assert evaluate(packed.net, packed.ask, 0, room, work.best_slopes, work.best_multipliers, True) == after


@given(seeds, copies)
@settings(max_examples=60, deadline=None)
def test_descending_from_any_layer_bounds_any_function_of_it(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, near_pair(rng, kind))
    packed, box = pack(query, near=True), box_inside(rng, query.cases[0].box)
    room = room_on(packed, box.lower, box.upper)
    z = pre_activations(packed.joint, points(box, rng, 300))
    at = 0
    for k, width in enumerate(packed.joint.widths):
        rows = rng.normal(size=(2, width))
        if rng.random() < 0.5:
            rows[1] = -rows[0] * (1 + 1e-3 * rng.normal(size=width))
        for near in (False, True):
            room.above[:, :width] = rows
            bound = descend(packed.net, room, k, room.start, near)
            mine = slice(2 * at, 2 * (at + width))
            error = np.abs(rows.flatten()) @ packed.net.errors[mine]
            assert (z[:, mine] @ rows.flatten() <= bound + error).all()
        at += width


def test_differences_tighten_the_bound_of_a_near_copy() -> None:
    """What they are for: with weights a thousandth apart, the bound of the difference falls by more than half."""
    rng = np.random.default_rng(0)
    for activation in ALL:
        first = Network(tuple(Layer.of(rng.normal(size=(6, n)), rng.normal(size=6), activation) for n in (3, 6, 6)))
        first = Network((*first.layers, Layer.of(rng.normal(size=(1, 6)), [0.0])))
        second = near_copy(rng, first, "by a billionth")
        query = Query((first, second), (Case(Box([-1.0] * 3, [1.0] * 3), np.array([1.0, -1.0])),))
        bounds = {}
        for near in (False, True):
            packed = pack(query, near)
            room = room_on(packed, packed.ask.lower[0], packed.ask.upper[0])
            bounds[near] = evaluate(packed.net, packed.ask, 0, room, room.start, np.zeros(0), near)
        stable = not (room.gap > 0).any()
        assert stable or bounds[True] < 0.5 * bounds[False], activation
        assert stable or (room.way != APART).any(), activation


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_outputs_are_those_of_the_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_on(rng, random_query(rng).networks)
    packed = pack(query)
    for x in points(query.cases[0].box, rng, 5)[:5]:
        y = np.empty(query.output_size)
        forward(packed.net, x, np.empty(len(packed.net.errors)), y, np.empty((2, packed.net.widest)))
        expected = packed.joint.outputs(torch.as_tensor(x)[None])[0].numpy()
        assert (np.abs(y - expected) <= packed.rounding.outputs.numpy()).all()
