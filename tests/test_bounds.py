"""Linear bounds: on random boxes, with any slopes and multipliers, no sampled value exceeds its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import PIECEWISE_LINEAR, random_network, random_query

from karenina.domain import Box
from karenina.engine.bounds import Hidden, hidden_bounds, maximum
from karenina.engine.branching import clip_box, split
from karenina.engine.cases import Cases
from karenina.engine.cuts import tighten_by_cuts
from karenina.engine.incumbent import Incumbent
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer, flat
from karenina.engine.tighten import Bounder, evaluate, tighten
from karenina.network import Network
from karenina.query import Case, Query

Tensor = torch.Tensor

CPU = torch.device("cpu")
seeds = st.integers(0, 2**32 - 1)


def stacked_pair(rng: np.random.Generator) -> tuple[Network, Network]:
    """Two networks of one architecture: the joint stacks them."""
    first = random_network(rng, 3, 2, int(rng.integers(1, 4)))
    layers = [
        type(layer).of(rng.normal(size=layer.weight.shape), rng.normal(size=layer.bias.shape), layer.activations)
        for layer in first.layers
    ]
    return first, Network(tuple(layers), "other")


def shared_of(query: Query) -> Bounder:
    joint = Joint.of(query.networks, CPU)
    cases, rounding = Cases.of(query, joint, CPU)
    return Bounder(joint, cases, rounding)


def query_of(rng: np.random.Generator, networks: Sequence[Network], constraints: int = 0) -> Query:
    """One box, one objective."""
    inputs, outputs = networks[0].input_size, sum(n.output_size for n in networks)
    centre, radius = rng.normal(size=inputs), rng.random(inputs) * rng.choice([0.01, 0.3, 2.0])
    rows, offsets = rng.normal(size=(constraints, outputs)), rng.normal(size=constraints) + 1
    box = Box(centre - radius, centre + radius)
    return Query(tuple(networks), (Case(box, rng.normal(size=outputs), float(rng.normal()), rows, offsets),))


def sub_boxes(rng: np.random.Generator, box: Box, count: int) -> tuple[Tensor, Tensor]:
    """Random boxes inside a box, the box itself first, the last one a point."""
    ends = np.sort(rng.uniform(box.lower, box.upper, (2, count, box.size)), axis=0)
    ends[0, 0], ends[1, 0] = box.lower, box.upper
    ends[0, -1] = ends[1, -1]
    return torch.as_tensor(ends[0]), torch.as_tensor(ends[1])


def samples(rng: np.random.Generator, lower: Tensor, upper: Tensor, count: int = 300) -> Tensor:
    """Points of each box and some corners, (boxes, count, inputs)."""
    unit = torch.as_tensor(rng.random((len(lower), count, lower.shape[1])))
    unit[:, : count // 4] = unit[:, : count // 4].round()
    x = lower[:, None] + unit * (upper - lower)[:, None]
    return torch.minimum(torch.maximum(x, lower[:, None]), upper[:, None])


def unknown(shared: Bounder, boxes: int) -> list[tuple[Tensor, Tensor]]:
    infinite = [torch.full((shared.joint.stack, boxes, n), math.inf, dtype=torch.float64) for n in shared.joint.widths]
    return [(-t, t) for t in infinite]


def bounded(shared: Bounder, lower: Tensor, upper: Tensor) -> Hidden:
    return hidden_bounds(shared.joint, shared.rounding, lower, upper, unknown(shared, len(lower)))


def random_nodes(rng: np.random.Generator, shared: Bounder, lower: Tensor, upper: Tensor, hidden: Hidden) -> Nodes:
    """Nodes on the boxes with random slopes and multipliers of both kinds."""
    neurons, rows = shared.joint.stack * sum(shared.joint.widths), shared.cases.rows.shape[1]
    nodes = Nodes.roots(lower, upper, rows, neurons)
    price = rng.normal(size=(len(lower), neurons)) * (rng.random((len(lower), neurons)) < 0.5)
    return nodes.with_(
        case=torch.zeros(len(lower), dtype=torch.int64),
        slopes=torch.as_tensor(rng.normal(size=(len(lower), neurons)) * 2),
        multipliers=torch.as_tensor(rng.exponential(size=(len(lower), rows))),
        neuron_multipliers=torch.as_tensor(price),
        neuron_lower=flat(hidden.lower),
        neuron_upper=flat(hidden.upper),
    )


def values_at(shared: Bounder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Objective, whether the constraints hold, and flat pre-activations at points (boxes, count, inputs)."""
    flat_x = x.flatten(0, 1)
    case = torch.zeros(len(flat_x), dtype=torch.int64)
    hidden, _ = shared.joint.forward(flat_x)
    y = shared.joint.outputs(flat_x)
    value = y @ shared.cases.objective[0] + shared.cases.offset[0]
    feasible = (shared.cases.slack(case, y) >= 0).all(1)
    shape = x.shape[:2]
    return value.view(shape), feasible.view(shape), flat(hidden).view(*shape, -1)


@given(seeds, st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_pre_activation_leaves_its_bounds(seed: int, same_architecture: bool) -> None:
    rng = np.random.default_rng(seed)
    networks = stacked_pair(rng) if same_architecture else random_query(rng).networks
    query = query_of(rng, networks)
    shared = shared_of(query)
    assert not same_architecture or shared.joint.stack == 2
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    x = samples(rng, lower, upper)
    _, _, z = values_at(shared, x)
    hidden = bounded(shared, lower, upper)
    assert (flat(hidden.lower)[:, None] <= z).all()
    assert (z <= flat(hidden.upper)[:, None]).all()


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_what_is_known_of_a_parent_stays_true_and_only_helps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(rng, random_query(rng).networks)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    parent = bounded(shared, lower[:1], upper[:1])
    known = [(a.expand(-1, 6, -1), b.expand(-1, 6, -1)) for a, b in zip(parent.lower, parent.upper, strict=True)]
    _, _, z = values_at(shared, samples(rng, lower, upper))
    child = hidden_bounds(shared.joint, shared.rounding, lower, upper, known)
    for k, (low, high) in enumerate(known):
        assert (child.lower[k] >= low).all()
        assert (child.upper[k] <= high).all()
    assert (flat(child.lower)[:, None] <= z).all()
    assert (z <= flat(child.upper)[:, None]).all()


@given(seeds, st.booleans(), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_any_slopes_and_multipliers_give_a_bound(seed: int, same_architecture: bool, constraints: int) -> None:
    """Of the value, and of its linear function everywhere on the box."""
    rng = np.random.default_rng(seed)
    networks = stacked_pair(rng) if same_architecture else random_query(rng).networks
    query = query_of(rng, networks, constraints)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    hidden = bounded(shared, lower, upper)
    nodes = random_nodes(rng, shared, lower, upper, hidden)
    x = samples(rng, lower, upper)
    value, feasible, _ = values_at(shared, x)
    value = torch.where(feasible, value, -math.inf)
    tight, linear = evaluate(shared, nodes, hidden.lines)
    assert (value <= tight.bound[:, None]).all()
    at_x = tight.bound[:, None] + ((x - tight.corner[:, None]) * tight.slope[:, None]).sum(2)
    scale = 1 + tight.bound.abs() + (tight.slope.abs() * torch.maximum(lower.abs(), upper.abs())).sum(1)
    assert (value <= at_x + 1e-12 * scale[:, None]).all()
    assert torch.equal(tight.corner, torch.where(linear.slope >= 0, upper, lower))


def random_cuts(rng: np.random.Generator, hidden: Hidden) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Flat neuron bounds of which some are raised or lowered into the range, and which those are."""
    low, high = flat(hidden.lower), flat(hidden.upper)
    draw = torch.as_tensor(rng.random(low.shape))
    point = low + torch.as_tensor(rng.random(low.shape)) * (high - low)
    cut_low, cut_high = draw < 0.15, draw > 0.85
    return torch.where(cut_low, point, low), torch.where(cut_high, point, high), cut_low, cut_high


@given(seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_linear_functions_behind_the_bounds_lie_above_z_and_minus_z(seed: int, same_architecture: bool) -> None:
    rng = np.random.default_rng(seed)
    networks = stacked_pair(rng) if same_architecture else random_query(rng).networks
    query = query_of(rng, networks)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    x = samples(rng, lower, upper)
    pre, _ = shared.joint.forward(x.flatten(0, 1))
    hidden = bounded(shared, lower, upper)
    for k, error in enumerate(shared.rounding.hidden):
        z = pre[k].view(shared.joint.stack, *x.shape[:2], -1)
        above = torch.einsum("tsbni,bci->tsbcn", hidden.rows[k].expand(-1, -1, 6, -1, -1), x)
        above = above + hidden.constants[k][:, :, :, None]
        assert (z <= above[0] + error[:, None]).all()
        assert (-z <= above[1] + error[:, None]).all()


@given(seeds, st.integers(0, 2))
@settings(max_examples=50, deadline=None)
def test_cuts_hold_where_neurons_are_split(seed: int, constraints: int) -> None:
    """The linear programme over the split neurons' half-spaces: no input on their right side attains more."""
    rng = np.random.default_rng(seed)
    query = query_of(rng, random_query(rng).networks, constraints)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    low, high, cut_low, cut_high = random_cuts(rng, bounded(shared, lower, upper))
    known = list(zip(by_layer(shared.joint, low), by_layer(shared.joint, high), strict=True))
    value, feasible, z = values_at(shared, samples(rng, lower, upper, 1000))
    inside = feasible & ((low[:, None] <= z) & (z <= high[:, None])).all(2)
    best = torch.where(inside, value, -math.inf)
    hidden = hidden_bounds(shared.joint, shared.rounding, lower, upper, known)
    nodes = random_nodes(rng, shared, lower, upper, hidden).with_(cut_lower=cut_low, cut_upper=cut_high)
    tight, _ = evaluate(shared, nodes, hidden.lines)
    incumbent = Incumbent(query, shared.joint, shared.cases)
    found = tighten_by_cuts(shared, nodes, tight, hidden, incumbent, float(rng.normal()))
    assert (best <= found.bound[:, None]).all()
    assert (found.bound <= tight.bound).all()
    assert (found.multipliers >= 0).all()


@given(seeds, st.integers(0, 2))
@settings(max_examples=50, deadline=None)
def test_bounds_hold_where_neurons_are_split(seed: int, constraints: int) -> None:
    """Neuron bounds that only some inputs satisfy: the bound holds for those inputs."""
    rng = np.random.default_rng(seed)
    query = query_of(rng, random_query(rng).networks, constraints)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    low, high, _, _ = random_cuts(rng, bounded(shared, lower, upper))
    known = list(zip(by_layer(shared.joint, low), by_layer(shared.joint, high), strict=True))
    value, feasible, z = values_at(shared, samples(rng, lower, upper, 1000))
    inside = feasible & ((low[:, None] <= z) & (z <= high[:, None])).all(2)
    hidden = hidden_bounds(shared.joint, shared.rounding, lower, upper, known)
    assert ((flat(hidden.lower)[:, None] <= z) | ~inside[..., None]).all()
    assert ((z <= flat(hidden.upper)[:, None]) | ~inside[..., None]).all()
    nodes = random_nodes(rng, shared, lower, upper, hidden)
    tight, _ = evaluate(shared, nodes, hidden.lines)
    assert (torch.where(inside, value, -math.inf) <= tight.bound[:, None]).all()


@given(seeds, st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_tightening_never_raises_a_bound_and_keeps_it_one(seed: int, constraints: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(rng, random_query(rng).networks, constraints)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    hidden = bounded(shared, lower, upper)
    nodes = random_nodes(rng, shared, lower, upper, hidden)
    nodes = nodes.with_(neuron_multipliers=torch.zeros_like(nodes.neuron_multipliers))
    value, feasible, _ = values_at(shared, samples(rng, lower, upper))
    value = torch.where(feasible, value, -math.inf)
    before, _ = evaluate(shared, nodes, hidden.lines)
    target = float(value[value > -math.inf].max()) if feasible.any() else -10.0
    tight = tighten(shared, nodes, hidden.lines, target, target, 5)
    assert (tight.bound <= before.bound).all()
    assert (value <= tight.bound[:, None]).all()
    again = nodes.with_(slopes=tight.slopes, multipliers=tight.multipliers, neuron_multipliers=tight.neuron_multipliers)
    assert torch.allclose(evaluate(shared, again, hidden.lines)[0].bound, tight.bound, rtol=1e-12)
    assert (tight.multipliers >= 0).all()


@given(seeds, st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_clipping_cuts_off_only_what_cannot_exceed_the_target(seed: int, constraints: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(rng, random_query(rng).networks, constraints)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    hidden = bounded(shared, lower, upper)
    nodes = random_nodes(rng, shared, lower, upper, hidden)
    tight, _ = evaluate(shared, nodes, hidden.lines)
    x = samples(rng, lower, upper, 1000)
    value, feasible, _ = values_at(shared, x)
    target = float(value.quantile(rng.random()))
    new_lower, new_upper = clip_box(nodes, tight, target)
    assert (new_lower >= lower).all()
    assert (new_upper <= upper).all()
    kept = ((new_lower[:, None] <= x) & (x <= new_upper[:, None])).all(2)
    assert (kept | ~feasible | (value <= target)).all()


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_two_children_hold_every_point_of_their_parent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(rng, random_query(rng).networks)
    shared = shared_of(query)
    lower, upper = sub_boxes(rng, query.cases[0].box, 6)
    hidden = bounded(shared, lower, upper)
    nodes = random_nodes(rng, shared, lower, upper, hidden)
    choices = lower.shape[1] + nodes.slopes.shape[1]
    nodes = nodes.with_(split=torch.as_tensor(rng.integers(choices, size=6)))
    children = split(shared.joint, nodes)
    assert len(children) == 12
    x = samples(rng, lower, upper)
    _, _, z = values_at(shared, x)
    inside = []
    for child in (children[torch.arange(6)], children[torch.arange(6, 12)]):
        in_box = ((child.lower[:, None] <= x) & (x <= child.upper[:, None])).all(2)
        inside.append(in_box & ((child.neuron_lower[:, None] <= z) & (z <= child.neuron_upper[:, None])).all(2))
    assert (inside[0] | inside[1]).all()


def test_a_stable_piecewise_linear_network_is_bounded_exactly() -> None:
    """Where no neuron is at a kink the linear bound is the network itself, so the corner attains it."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        network = random_network(rng, 3, 1, 2, PIECEWISE_LINEAR)
        centre = rng.normal(size=3)
        query = Query((network,), (Case(Box(centre - 1e-9, centre + 1e-9), np.ones(1)),))
        shared = shared_of(query)
        lower, upper = shared.cases.lower, shared.cases.upper
        hidden = bounded(shared, lower, upper)
        slopes = by_layer(shared.joint, flat([lines.start for lines in hidden.lines]))
        linear = maximum(shared.joint, hidden.lines, lower, upper, shared.cases.objective, slopes)
        assert abs(linear.value.item() - network(linear.corner).item()) <= 1e-12 * (1 + abs(linear.value.item()))
