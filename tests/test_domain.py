"""Boxes and unions: what they accept, what they refuse, and their text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina.domain import Box, Domain
from karenina.domain_file import domain_from_toml
from karenina.errors import DomainError
from karenina.network import Layer, Network

finite = st.floats(allow_nan=False, allow_infinity=False)


def test_a_box_holds_its_faces_and_nothing_beyond() -> None:
    box = Box([0, -1], [1, -1])
    assert box.size == 2
    assert box.contains([0, -1])
    assert box.contains([1, -1])
    assert not box.contains([1, -1.0000001])
    assert not box.contains([1.0000001, -1])


def test_samples_lie_in_the_box() -> None:
    box = Box([0, 5], [1, 5])
    points = box.sample(100, np.random.default_rng(0))
    assert points.shape == (100, 2)
    assert all(box.contains(point) for point in points)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0, 2], [1, 1], "input 1 has lower bound 2.0 above its upper bound 1.0"),
        ([0, math.nan], [1, 1], "input 1 has bounds [nan, 1.0]: bounds must be finite numbers"),
        ([-math.inf, 0], [1, 1], "input 0 has bounds [-inf, 1.0]: bounds must be finite numbers"),
        ([math.inf, 0], [math.inf, 1], "input 0 has bounds [inf, inf]: bounds must be finite numbers"),
        ([0, 0], [1, 1, 1], "a box needs as many lower as upper bounds, not (2,) and (3,)"),
        ([], [], "a box needs as many lower as upper bounds, not (0,) and (0,)"),
        ([[0]], [[1]], "a box needs as many lower as upper bounds, not (1, 1) and (1, 1)"),
    ],
)
def test_a_box_refuses(lower: list[float], upper: list[float], message: str) -> None:
    with pytest.raises(DomainError) as refused:
        Box(lower, upper)
    assert str(refused.value) == message


def test_a_box_does_not_share_memory_with_its_caller() -> None:
    lower = np.zeros(2)
    box = Box(lower, np.ones(2))
    lower[0] = 7
    assert box.lower[0] == 0


def test_a_union_holds_what_any_box_holds() -> None:
    domain = Domain([Box([0], [1]), Box([3], [4])])
    assert [domain.contains([x]) for x in (-1, 0.5, 2, 3.5)] == [False, True, False, True]
    assert domain.labels == ("x0",)


@pytest.mark.parametrize(
    ("boxes", "names", "message"),
    [
        ([], (), "the domain: a domain needs at least one box"),
        ([Box([0], [1]), Box([0, 0], [1, 1])], (), "the domain: the boxes of a domain must have one size, not [1, 2]"),
        ([Box([0], [1])], ("a", "b"), "the domain: a domain of 1 inputs has 2 names"),
        ([Box([0, 0], [1, 1])], ("a", "a"), "the domain: two inputs are named 'a'"),
        ([Box([0], [1])], (" ",), "the domain: an input's name must be printable text, not ' '"),
        ([Box([0], [1])], ("a\nb",), "the domain: an input's name must be printable text, not 'a\\nb'"),
    ],
)
def test_a_domain_refuses(boxes: list[Box], names: tuple[str, ...], message: str) -> None:
    with pytest.raises(DomainError) as refused:
        Domain(boxes, names)
    assert str(refused.value) == message


def test_a_size_that_does_not_fit_the_network_is_refused_by_name() -> None:
    network = Network((Layer.of([[1, 2, 3]], [0]),), name="policy.onnx")
    Domain(Box([0] * 3, [1] * 3)).require_size(network)
    with pytest.raises(DomainError, match=r"^d.toml has 2 inputs but policy.onnx takes 3$"):
        Domain(Box([0] * 2, [1] * 2), name="d.toml").require_size(network)


@given(
    st.lists(st.lists(st.tuples(finite, finite), min_size=2, max_size=2), min_size=1, max_size=3),
    st.lists(st.text().filter(lambda t: t.strip() != "" and t.isprintable()), min_size=2, max_size=2, unique=True),
    st.booleans(),
)
def test_a_domain_survives_its_toml_text(sides: list[list[tuple[float, float]]], names: list[str], named: bool) -> None:
    domain = Domain([Box([min(s) for s in box], [max(s) for s in box]) for box in sides], names if named else ())
    back = domain_from_toml(domain.to_toml())
    assert back.names == domain.names
    assert len(back.boxes) == len(domain.boxes)
    for box, copy in zip(domain.boxes, back.boxes, strict=True):
        assert box.lower.tobytes() == copy.lower.tobytes()
        assert box.upper.tobytes() == copy.upper.tobytes()
