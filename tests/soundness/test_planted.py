"""Planted maxima: networks whose maximum, and where it is, are known by construction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_networks import Array, added, dense_network, hat

from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.network import RELU, Activation, Layer, Network, append
from karenina.query import Answer, Case, Goal, Query, Status

seeds = st.integers(0, 2**32 - 1)


def maximise(network: Network, box: Box, goal: Goal) -> Answer:
    return Engine("cpu").answer(Query((network,), (Case(box, np.ones(1)),)), goal)


def check(answer: Answer, value: float, relative: float) -> None:
    assert answer.status is Status.EXACT
    slack = 1e-9 * (1 + abs(value))
    assert value - slack <= answer.upper
    assert answer.lower <= value + slack
    assert answer.upper - answer.lower <= relative * max(abs(answer.lower), 1e-12) * (1 + 1e-9)


def deepened(network: Network, blocks: int, rng: np.random.Generator) -> Network:
    """Blocks of ReLUs after the output that compute the identity: A^-1 (relu(A y) - relu(-A y))."""
    size = network.output_size
    layers = []
    for _ in range(blocks):
        matrix = rng.permutation(np.eye(size)) * rng.choice([0.5, 2.0, -4.0], size=size)  # exact in float64, both ways
        inverse = np.linalg.inv(matrix)
        layers.append(Layer.of(np.vstack([matrix, -matrix]), np.zeros(2 * size), RELU))
        layers.append(Layer.of(np.hstack([inverse, -inverse]), np.zeros(size)))
    return append(network, layers)


@given(seeds, st.integers(1, 4), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_the_highest_of_several_hats_is_found(seed: int, inputs: int, count: int) -> None:
    """Hats far enough apart not to touch."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * np.arange(count)[:, None] * np.eye(inputs)[0] + rng.uniform(-0.5, 0.5, (count, inputs))
    heights = rng.uniform(1, 5, count)
    network = hat(centres[0], heights[0], 0.4)
    for centre, height in zip(centres[1:], heights[1:], strict=True):
        network = added(network, hat(centre, height, 0.4))
    box = Box(np.full(inputs, -1.0), np.append(2.0 * count, np.ones(inputs - 1)))
    answer = maximise(network, box, Goal(0.0, 1e-6, time_limit=20))
    check(answer, heights.max(), 1e-6)
    assert answer.witness is not None
    assert np.abs(answer.witness - centres[heights.argmax()]).max() <= 1e-4


@given(seeds, st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_a_monotone_network_is_largest_at_its_corner(seed: int, depth: int) -> None:
    """Weights >= 0 after a first layer of one sign an input: the maximum is at a known corner."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=3)
    layers, before = [], 3
    for k in range(depth):
        weight = rng.random((6, before)) * (signs if k == 0 else 1)
        activation = (RELU, Activation("tanh"), Activation("softplus"), Activation("elu", (2.0,)))[rng.integers(4)]
        layers.append(Layer.of(weight, rng.normal(size=6), activation))
        before = 6
    network = Network((*layers, Layer.of(rng.random((1, before)), [0.0])))
    value = network(np.where(signs > 0, 1.0, -1.0))[0]
    answer = maximise(network, Box(-np.ones(3), np.ones(3)), Goal(1e-6, time_limit=20))
    assert answer.status is Status.EXACT
    assert answer.lower <= value <= answer.upper


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_six_layers_deep_a_hat_keeps_its_height(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-0.5, 0.5, 2)
    network = deepened(hat(centre, 2.5, 0.5), 3, rng)
    assert len(network.layers) == 9
    check(maximise(network, Box([-1, -1], [1, 1]), Goal(0.0, 1e-6, time_limit=20)), 2.5, 1e-6)


@given(seeds, st.integers(1, 3))
@example(12972832, 2)
@settings(max_examples=10, deadline=None)
def test_identity_blocks_do_not_change_a_random_maximum(seed: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    network, box = dense_network(rng, (3, 8, 3)), Box(-np.ones(3), np.ones(3))
    objective, goal = rng.normal(size=3), Goal(1e-4, time_limit=5)
    case = Case(box, objective)
    plain = Engine("cpu").answer(Query((network,), (case,)), goal)
    deep = Engine("cpu").answer(Query((deepened(network, blocks, rng),), (case,)), goal)
    assert deep.status is plain.status is Status.EXACT
    assert deep.lower <= plain.upper
    assert plain.lower <= deep.upper


@pytest.mark.parametrize("inputs", [1, 2, 5, 10])
def test_a_separable_sum_of_bumps(inputs: int) -> None:
    """sum over i of 1 - |x_i - c_i| is largest, `inputs`, at c, however many inputs there are."""
    rng = np.random.default_rng(inputs)
    centre: Array = rng.uniform(-0.9, 0.9, inputs)
    layers = (Layer.of(np.eye(inputs), -centre, Activation("abs")), Layer.of(-np.ones((1, inputs)), [float(inputs)]))
    answer = maximise(Network(layers), Box(-np.ones(inputs), np.ones(inputs)), Goal(0.0, 1e-6, time_limit=20))
    check(answer, inputs, 1e-6)


def test_a_needle_that_no_sample_meets_is_found() -> None:
    """A hat 1e-4 wide in a box of side 2, in two dimensions: sampling has no chance, the bounds do."""
    network = hat([0.123456, -0.654321], 1.0, 1e-4)
    box = Box([-1, -1], [1, 1])
    assert network(box.sample(100_000, np.random.default_rng(0))).max() < 0.9
    answer = maximise(network, box, Goal(1e-3, time_limit=30))
    check(answer, 1.0, 1e-3)


def test_needles_in_both_boxes_of_a_union() -> None:
    network = added(hat([0.3, 0.3], 1.0, 1e-2), hat([5.3, 5.3], 1.5, 1e-2))
    domain = Domain([Box([0, 0], [1, 1]), Box([5, 5], [6, 6])])
    answer = Engine("cpu").answer(Query.maximise(network, domain, [[1.0]]), Goal(0.0, 1e-6, time_limit=30))
    check(answer, 1.5, 1e-6)
    assert answer.case == 1
