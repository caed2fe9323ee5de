"""Exact arithmetic: rationals where float64 rounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import ALL, PIECEWISE_LINEAR, random_network

from karenina.domain import Box
from karenina.engine.exact import evaluate_exactly, reaches_exactly
from karenina.network import Activation, Layer, Network
from karenina.query import Case, Query


def single(activation: Activation) -> Network:
    return Network((Layer.of([[1.0]], [0.0], activation),))


def test_float64_numbers_are_taken_as_the_rationals_they_are() -> None:
    network = Network((Layer.of([[0.1, 1.0]], [0.2]),))
    assert evaluate_exactly(network, [1.0, 0.0]) == [Fraction(0.1) + Fraction(0.2)]
    assert Fraction(0.1) + Fraction(0.2) != Fraction(0.1 + 0.2)


def test_what_float64_absorbs_is_kept() -> None:
    network = Network((Layer.of([[1e17, -1e17]], [1.0]),))
    assert evaluate_exactly(network, [3.0, 3.0]) == [1]
    assert evaluate_exactly(network, [1 + 2**-52, 1.0]) == [1 + Fraction(10**17, 2**52)]


@pytest.mark.parametrize(
    ("activation", "z", "expected"),
    [
        (Activation("identity"), -2.5, Fraction(-5, 2)),
        (Activation("relu"), -2.5, Fraction(0)),
        (Activation("relu"), 2.5, Fraction(5, 2)),
        (Activation("leaky_relu", (0.25,)), -2.0, Fraction(-1, 2)),
        (Activation("leaky_relu", (-0.5,)), -2.0, Fraction(1)),
        (Activation("leaky_relu", (0.25,)), 2.0, Fraction(2)),
        (Activation("abs"), -2.0, Fraction(2)),
        (Activation("clip", (-1.0, 0.5)), -2.0, Fraction(-1)),
        (Activation("clip", (-1.0, 0.5)), 0.25, Fraction(1, 4)),
        (Activation("clip", (-1.0, 0.5)), 2.0, Fraction(1, 2)),
    ],
    ids=str,
)
def test_every_piecewise_linear_activation(activation: Activation, z: float, expected: Fraction) -> None:
    assert evaluate_exactly(single(activation), [z]) == [expected]


@pytest.mark.parametrize("activation", [a for a in ALL if not a.piecewise_linear], ids=str)
def test_smooth_activations_have_no_rational_value(activation: Activation) -> None:
    with pytest.raises(ValueError, match=activation.name):
        evaluate_exactly(single(activation), [1.0])
    query = Query((single(activation),), (Case(Box([0.0], [1.0]), np.ones(1)),))
    assert not reaches_exactly(query, query.cases[0], [1.0], -10.0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_float64_evaluation_is_near_the_exact_one(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, 2, depth, PIECEWISE_LINEAR)
    x = rng.normal(size=3)
    exact = np.array([float(v) for v in evaluate_exactly(network, x)])
    assert np.allclose(network(x), exact, rtol=1e-9, atol=1e-9)


def test_reaching_is_decided_to_the_last_bit() -> None:
    """0.1 * 3 is a little more than float64's 0.3, and float64 rounds it up further."""
    network = Network((Layer.of([[0.1]], [0.0]),))
    query = Query((network,), (Case(Box([0.0], [3.0]), np.ones(1)),))
    case, product = query.cases[0], 0.1 * 3
    assert product > 0.3
    assert reaches_exactly(query, case, [3.0], 0.3)
    assert reaches_exactly(query, case, [3.0], product) == (3 * Fraction(0.1) >= Fraction(product))
    assert not reaches_exactly(query, case, [3.0], np.nextafter(product, 1))


def test_reaching_needs_the_box_the_constraints_and_the_offset() -> None:
    network = Network((Layer.of([[1.0], [-1.0]], [0.0, 0.0]),))
    rows, offsets = np.array([[0.0, 1.0]]), np.array([0.5])  # -x + 0.5 >= 0
    case = Case(Box([0.0], [1.0]), np.array([1.0, 0.0]), 2.0, rows, offsets)
    query = Query((network,), (case,))
    assert reaches_exactly(query, case, [0.5], 2.5)
    assert not reaches_exactly(query, case, [0.5], 2.6)
    assert not reaches_exactly(query, case, [np.nextafter(0.5, 1)], 2.0)
    assert not reaches_exactly(query, case, [-0.1], 1.0)


def test_two_networks_outputs_stand_one_after_the_other() -> None:
    first, second = Network((Layer.of([[1.0]], [0.0]),)), Network((Layer.of([[3.0]], [0.0]),))
    case = Case(Box([0.0], [1.0]), np.array([1.0, -1.0]))
    query = Query((first, second), (case,))
    assert reaches_exactly(query, case, [0.25], -0.5)
    assert not reaches_exactly(query, case, [0.25], -0.49)
