"""Polishing: it ends on exact local maxima, inside the box, and never below where it began."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import PIECEWISE_LINEAR, Array, added, dense_network, feasible_values, hat, random_query

from karenina.domain import Box
from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.engine.polish import Polisher
from karenina.network import RELU, Layer, Network
from karenina.query import Case, Query

CPU = torch.device("cpu")


def polished(query: Query, x: Array, case: int = 0) -> Array:
    joint = Joint.of(query.networks, CPU)
    return Polisher(joint, Cases.of(query, joint, CPU)[0], case)(x, math.inf)


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=80, deadline=None)
def test_it_stays_in_the_box_and_does_not_get_worse(seed: int, constrained: bool) -> None:
    rng = np.random.default_rng(seed)
    query = random_query(rng, PIECEWISE_LINEAR, constrained=constrained)
    case = int(rng.integers(len(query.cases)))
    box = query.cases[case].box
    for x in box.sample(5, rng):
        start = feasible_values(query, query.cases[case], np.clip(x, box.lower, box.upper)[None])
        end = polished(query, np.clip(x, box.lower, box.upper), case)
        assert box.contains(end)
        if len(start):
            value = query.cases[case].value(query.outputs(end))
            assert value >= start[0] - 1e-9 * (1 + abs(start[0]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_it_climbs_a_hat_to_its_very_tip(seed: int, inputs: int) -> None:
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-0.5, 0.5, inputs)
    query = Query((hat(centre, 3.0, 0.4),), (Case(Box(-np.ones(inputs), np.ones(inputs)), np.ones(1)),))
    start = centre + rng.uniform(-1, 1, inputs) * 0.3 / inputs
    assert query.outputs(polished(query, start))[0] == pytest.approx(3.0, rel=1e-9)


def test_it_goes_to_the_corner_of_an_affine_network() -> None:
    network = Network((Layer.of([[1.0, -2.0, 0.5]], [0.0]),))
    query = Query((network,), (Case(Box([-1, -1, -1], [2, 3, 4]), np.ones(1)),))
    assert polished(query, np.zeros(3)).tolist() == [2, -1, 4]


def test_it_stops_at_a_constraint() -> None:
    """Maximise x + y where x + y <= 1 after a ReLU: the wall, not the corner."""
    network = Network((Layer.of(np.eye(2), np.zeros(2), RELU), Layer.of([[1.0, 1.0]], [0.0])))
    case = Case(Box([0, 0], [1, 1]), np.ones(1), 0.0, np.array([[-1.0]]), np.array([1.0]))
    end = polished(Query((network,), (case,)), np.array([0.1, 0.2]))
    assert end.sum() == pytest.approx(1.0, abs=1e-9)
    assert end.sum() <= 1.0


def test_it_usually_ends_on_a_local_maximum() -> None:
    """Around the end no nearby point is better: a vertex of kinks, which gradient steps only approach."""
    ends = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        network = added(dense_network(rng, (3, 8, 6, 1)), hat(np.zeros(3), 5.0, 0.5))
        query = Query((network,), (Case(Box(-np.ones(3), np.ones(3)), np.ones(1)),))
        starts = rng.uniform(-1, 1, (200, 3))
        end = polished(query, starts[network(starts)[:, 0].argmax()])
        near = np.clip(end + 1e-5 * rng.normal(size=(5000, 3)), -1, 1)
        ends += bool(network(near).max() <= network(end)[0] + 1e-9)
    assert ends >= 15
