"""Laws that any disagreement obeys, whatever the networks: permutations, shifts, scales, sub-boxes, unions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_networks import added, dense_network, hat, permuted, random_box, random_network, scaled

from karenina.disagreement import Disagreement, pairwise_disagreement_threshold
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.network import RELU, Activation, Layer, Network, concatenate
from karenina.query import Case, Goal, Query, Status

TANH = Activation("tanh")
seeds = st.integers(0, 2**32 - 1)
activations = st.sampled_from([RELU, TANH, Activation("leaky_relu", (0.1,)), Activation("softplus")])
TOLERANCE = 1e-3


def pdt(first: Network, second: Network, domain: Box | Domain, distance: str = "l1") -> Disagreement:
    domain = Domain(domain) if isinstance(domain, Box) else domain
    goal = Goal(TOLERANCE, time_limit=5)
    return pairwise_disagreement_threshold(first, second, domain, distance, goal=goal, backend=Engine("cpu"))


def same(a: Disagreement, b: Disagreement, factor: float = 1.0) -> bool:
    """Whether the intervals of a, times factor, and b can hold the same number."""
    slack = 1e-9 * (1 + abs(b.upper))
    return factor * a.lower <= b.upper + slack and b.lower <= factor * a.upper + slack


def pair(rng: np.random.Generator, outputs: int = 1, activation: Activation = RELU) -> tuple[Network, Network]:
    first, second = (dense_network(rng, (3, 8, 5, outputs), activation) for _ in range(2))
    return first, second


@given(seeds, activations, st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_permuted_neurons_disagree_by_nothing(seed: int, activation: Activation, depth: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    network = dense_network(rng, (4, *[12] * depth, outputs), activation)
    found = pdt(network, permuted(network, rng), random_box(rng, 4), "linf")
    assert found.lower == 0
    assert found.upper <= 1e-9
    assert found.boxes == 2 * outputs
    assert found.status is Status.EXACT


@given(seeds, activations)
@settings(max_examples=15, deadline=None)
def test_a_network_disagrees_with_itself_by_nothing(seed: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    network = dense_network(rng, (4, 20, 20, 2), activation)
    found = pdt(network, network.named("copy"), random_box(rng, 4))
    assert (found.lower, found.status) == (0, Status.EXACT)
    assert found.upper <= 1e-9


@given(seeds, st.floats(-5, 5))
@settings(max_examples=30, deadline=None)
def test_one_trunk_with_two_head_biases_disagrees_by_their_difference(seed: int, c: float) -> None:
    rng = np.random.default_rng(seed)
    network = dense_network(rng, (4, 16, 16, 1))
    found = pdt(network, scaled(network, 1.0, c), random_box(rng, 4))
    assert found.boxes <= 4
    assert found.upper == pytest.approx(abs(c), abs=1e-9)
    assert found.lower == pytest.approx(abs(c), abs=1e-9)


@given(seeds, st.integers(1, 3), st.floats(0.5, 10))
@settings(max_examples=20, deadline=None)
def test_a_bump_is_found_with_its_height(seed: int, inputs: int, height: float) -> None:
    """Added to a network, at a place that no sample of the networks' difference points to."""
    rng = np.random.default_rng(seed)
    network = dense_network(rng, (inputs, 8, 6, 1))
    bump = hat(rng.uniform(-0.8, 0.8, inputs), height, 0.15)
    found = pdt(network, added(network, bump), Box(-np.ones(inputs), np.ones(inputs)))
    assert found.status is Status.EXACT
    assert found.lower <= height * (1 + 1e-12)
    assert found.upper >= height * (1 - 1e-12)


@given(seeds, st.sampled_from([1e-3, 0.5, 2.0, 100.0]), activations)
@settings(max_examples=15, deadline=None)
def test_scaling_both_outputs_scales_the_threshold(seed: int, factor: float, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    first, second = pair(rng, 1, activation)
    box = Box(-np.ones(3), np.ones(3))
    assert same(pdt(first, second, box), pdt(scaled(first, factor), scaled(second, factor), box), factor)


@given(seeds, st.floats(-100, 100))
@settings(max_examples=15, deadline=None)
def test_shifting_one_output_shifts_the_one_sided_maximum(seed: int, c: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = pair(rng)
    case, engine = Case(Box(-np.ones(3), np.ones(3)), np.array([1.0, -1.0])), Engine("cpu")
    plain = engine.answer(Query((first, second), (case,)), Goal(TOLERANCE, time_limit=5))
    shifted = engine.answer(Query((scaled(first, 1.0, c), second), (case,)), Goal(TOLERANCE, time_limit=5))
    assert plain.lower + c <= shifted.upper + 1e-9
    assert shifted.lower <= plain.upper + c + 1e-9


@given(seeds, activations)
@settings(max_examples=15, deadline=None)
def test_a_sub_box_never_gives_more(seed: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    first, second = pair(rng, 2, activation)
    ends = np.sort(rng.uniform(-1, 1, (2, 3)), axis=0)
    inner, outer = pdt(first, second, Box(*ends)), pdt(first, second, Box(-np.ones(3), np.ones(3)))
    assert inner.lower <= outer.upper


@given(seeds, st.sampled_from(["l1", "linf", "c-distance", "class"]))
@settings(max_examples=15, deadline=None)
def test_a_union_gives_the_maximum_over_its_boxes(seed: int, distance: str) -> None:
    rng = np.random.default_rng(seed)
    first, second = pair(rng, 2)
    boxes = [random_box(rng, 3) for _ in range(3)]
    union, parts = pdt(first, second, Domain(boxes), distance), [pdt(first, second, box, distance) for box in boxes]
    assert union.lower <= max(part.upper for part in parts) + 1e-9
    assert max(part.lower for part in parts) <= union.upper + 1e-9


@given(seeds, st.integers(1, 5), activations)
@settings(max_examples=15, deadline=None)
def test_l1_lies_between_linf_and_the_outputs_times_it(seed: int, outputs: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 6, outputs), activation) for _ in range(2))
    box = random_box(rng, 2)
    one, largest = pdt(first, second, box, "l1"), pdt(first, second, box, "linf")
    assert largest.lower <= one.upper
    assert one.lower <= outputs * largest.upper
    if outputs == 1:
        assert same(one, largest)


@given(seeds, st.sampled_from(["l1", "linf", "c-distance", "class"]), activations)
@settings(max_examples=20, deadline=None)
def test_swapping_the_networks_changes_nothing(seed: int, distance: str, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    first, second = pair(rng, 2, activation)
    box = random_box(rng, 3)
    assert same(pdt(first, second, box, distance), pdt(second, first, box, distance))


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_one_concatenated_network_gives_what_the_pair_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (random_network(rng, 2, 1, int(rng.integers(0, 4))) for _ in range(2))
    box, objective, engine = random_box(rng, 2), np.array([1.0, -1.0]), Engine("cpu")
    goal = Goal(TOLERANCE, time_limit=5)
    two = engine.answer(Query((first, second), (Case(box, objective),)), goal)
    one = engine.answer(Query((concatenate(first, second),), (Case(box, objective),)), goal)
    assert one.lower <= two.upper + 1e-9
    assert two.lower <= one.upper + 1e-9


@given(seeds)
@example(490)
@settings(max_examples=15, deadline=None)
def test_the_same_network_through_twice_as_many_layers(seed: int) -> None:
    """relu(relu(z)) = relu(z): doubled layers change nothing but the depth, and no neuron is shared."""
    rng = np.random.default_rng(seed)
    network = dense_network(rng, (2, 6, 6, 1))
    layers: list[Layer] = []
    for layer in network.layers[:-1]:
        size = len(layer.bias)
        layers += [layer, Layer.of(np.eye(size), np.zeros(size), RELU)]  # what a ReLU gives is >= 0: another keeps it
    deep = Network((*layers, network.layers[-1]), "deep")
    found = pdt(network, deep, random_box(rng, 2))
    assert found.lower <= 1e-9
    assert found.upper <= TOLERANCE
