"""What an interval says, by the definition of each distance: values known by hand, and brute force over samples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from certificates import NEARLY, exact_outputs, fractions, random_chain

from karenina.checker.activations import Kind
from karenina.checker.chain import IDENTITY, Chain, Layer
from karenina.checker.pairs import Condition, Distance, Pair, Witness
from karenina.checker.refusal import Refused

Array = npt.NDArray[Any]
NAMES = ("l1", "linf", "class", "c-distance")


def affine(weight: Sequence[Sequence[float]], bias: Sequence[float]) -> Chain:
    return Chain((Layer(np.array(weight), np.array(bias), ((IDENTITY, 0, len(bias)),)),))


def box(*sides: tuple[float, float]) -> tuple[Array, Array]:
    lower, upper = np.array(sides).T
    return lower, upper


FIRST, SECOND = affine([[1.0], [0.0]], [0.0, 0.0]), affine([[-1.0], [0.0]], [0.0, 1.0])
# On [0, 2]: N1 = (x, 0), N2 = (-x, 1); |N1 - N2| = (2x, 1).
ABOVE, BELOW = Condition(np.array([[1.0, 0.0]]), np.array([0.0])), Condition(np.array([[-1.0, 0.0]]), np.array([0.0]))


def pair(name: str, *, conditions: tuple[Condition, ...] = (), domain: Any = None) -> Pair:
    return Pair(FIRST, SECOND, domain or [box((0.0, 2.0))], Distance(name, conditions))


@pytest.mark.parametrize(("name", "most"), [("l1", 5.0), ("linf", 4.0), ("class", 5.0)])
def test_a_lower_end_is_what_a_witness_attains(name: str, most: float) -> None:
    """The first network's class is 0, the second's 1: N1_0 - N1_1 + N2_1 - N2_0 = x + 1 + x."""
    asked, there = pair(name), Witness(0, 0, np.array([2.0]))
    asked.check_lower(most, [there])
    with pytest.raises(Refused, match="attains"):
        asked.check_lower(np.nextafter(most, np.inf), [there])
    with pytest.raises(Refused, match="attains"):
        asked.check_lower(most, [Witness(0, 0, np.array([1.999999]))])
    with pytest.raises(Refused, match="not in the domain"):
        asked.check_lower(most, [Witness(0, 0, np.array([2.0000001]))])
    for nowhere in (1, -1):
        with pytest.raises(Refused, match="no box"):
            asked.check_lower(most, [Witness(nowhere, 0, np.array([2.0]))])
    with pytest.raises(Refused, match="no witness"):
        asked.check_lower(most, [])
    with pytest.raises(Refused, match="not in the domain"):
        asked.check_lower(most, [Witness(0, 0, np.array([np.nan]))])


@pytest.mark.parametrize("name", ["l1", "linf", "class"])
def test_nothing_needs_no_witness(name: str) -> None:
    """A distance is never below 0."""
    pair(name).check_lower(0.0, [])
    pair(name).check_lower(-1.0, [])


def test_networks_of_one_class_do_not_disagree_by_class() -> None:
    same = Pair(FIRST, FIRST, [box((0.0, 2.0))], Distance("class"))
    with pytest.raises(Refused, match="do not surely choose different classes"):
        same.check_lower(1e-300, [Witness(0, 0, np.array([1.0]))])


def test_a_c_distance_needs_a_witness_for_every_condition_in_one_box() -> None:
    """y0 >= 0 holds for both only at x = 0, y0 <= 0 likewise: there they are 1 apart."""
    asked = pair("c-distance", conditions=(ABOVE, BELOW), domain=[box((0.0, 2.0)), box((0.0, 1.0))])
    zero = np.zeros(1)
    asked.check_lower(1.0, [Witness(1, 0, zero), Witness(1, 1, zero)])
    for bad in (
        [Witness(0, 0, zero)],
        [Witness(0, 0, zero), Witness(1, 1, zero)],
        [Witness(0, 0, zero), Witness(0, 0, zero)],
        [Witness(0, 1, zero), Witness(0, 0, zero)],
        [Witness(0, 0, zero), Witness(0, 1, zero), Witness(0, 1, zero)],
    ):
        with pytest.raises(Refused, match="every condition"):
            asked.check_lower(1.0, bad)
    with pytest.raises(Refused, match="satisfy its condition"):
        asked.check_lower(1.0, [Witness(0, 0, np.array([5e-324])), Witness(0, 1, zero)])


def goals(asked: Pair, choices: Sequence[int]) -> list[Any]:
    return list(asked.questions(1.0, choices))


def test_every_box_and_every_sign_is_asked() -> None:
    two = [box((0.0, 2.0)), box((-3.0, -1.0))]
    assert len(goals(pair("l1", domain=two), (0, 0))) == 2 * 4
    assert len(goals(pair("linf", domain=two), (0, 0))) == 2 * 4
    assert len(goals(pair("class", domain=two), (0, 0))) == 2 * 2
    assert len(goals(pair("c-distance", domain=two, conditions=(ABOVE, BELOW)), (0, 1))) == 2 * 4
    asked = [(float(q.lower[0]), float(q.upper[0])) for q in goals(pair("l1", domain=two), (0, 0))]
    assert asked == [(0.0, 2.0)] * 4 + [(-3.0, -1.0)] * 4
    miscounted: list[tuple[int, ...]] = [(), (0,), (0, 0, 0)]
    for choices in miscounted:
        with pytest.raises(Refused, match="each box"):
            goals(pair("l1", domain=two), choices)
    for choices in [(0, 2), (-1, 0)]:
        with pytest.raises(Refused, match="no condition"):
            goals(pair("c-distance", domain=two, conditions=(ABOVE, BELOW)), choices)


@pytest.mark.parametrize("claim", [-1e-300, -1.0, np.nan])
def test_nothing_below_zero_is_claimed(claim: float) -> None:
    with pytest.raises(Refused, match="below 0"):
        list(pair("l1").questions(claim, (0,)))


def test_pairs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(Refused, match="no distance"):
        Distance("l2")
    with pytest.raises(Refused, match="conditions"):
        Distance("l1", (ABOVE,))
    with pytest.raises(Refused, match="conditions"):
        Distance("c-distance")
    with pytest.raises(Refused, match="as many inputs"):
        pair("l1", domain=[box((0.0, 1.0), (0.0, 1.0))])
    with pytest.raises(Refused, match="two outputs"):
        Pair(affine([[1.0]], [0.0]), affine([[1.0]], [0.0]), [box((0.0, 1.0))], Distance("class"))
    for rows, offsets in (([[1.0]], [0.0]), ([[1.0, 0.0]], [0.0, 1.0]), ([[1.0, 0.0], [0.0, 1.0]], [0.0])):
        with pytest.raises(Refused, match="as many outputs"):
            pair("c-distance", conditions=(Condition(np.array(rows), np.array(offsets)),))


def by_definition(name: str, a: list[Fraction], b: list[Fraction]) -> Fraction:
    """How far outputs are apart."""
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    if name == "linf":
        return max(gaps)
    if name != "class":
        return sum(gaps, Fraction(0))
    tops = [[i for i in range(len(a)) if each[i] == max(each)] for each in (a, b)]
    return max(a[i] - a[j] + b[j] - b[i] for i, j in itertools.product(*tops))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5])
def test_the_questions_are_the_distance(name: str, outputs: int) -> None:
    """At every input, the largest objective whose constraints hold is what the definition says."""
    if name == "class" and outputs == 1:
        pytest.skip("one output has one class")
    for seed in range(4):
        rng = np.random.default_rng([seed, outputs])
        first, second = (random_chain(rng, 2, outputs, int(rng.integers(1, 4))) for _ in range(2))
        condition = Condition(rng.normal(size=(2, outputs)), rng.normal(size=2) + 1)
        distance = Distance(name, (condition,) if name == "c-distance" else ())
        asked = Pair(first, second, [box((-1.0, 1.0), (-1.0, 1.0))], distance)
        for x in rng.uniform(-1, 1, size=(4, 2)):
            a, b = (exact_outputs(each, fractions(x)) for each in (first, second))
            chain = exact_outputs(asked.bounder.chain, fractions(x))
            values = [
                _dot(question.goal.objective, chain)
                for question in asked.questions(0.0, (0,))
                if all(
                    _dot(r, chain) + Fraction(o) >= 0
                    for r, o in zip(question.goal.rows, question.goal.offsets, strict=True)
                )
            ]
            holds = all(
                _dot(r, y) + Fraction(o) >= 0
                for y in (a, b)
                for r, o in zip(condition.rows, condition.offsets, strict=True)
            )
            if name == "c-distance" and not holds:
                assert not values
            else:
                assert abs(max(values, default=Fraction(0)) - by_definition(name, a, b)) <= NEARLY


@pytest.mark.parametrize("name", NAMES)
def test_a_witness_is_worth_what_it_attains(name: str) -> None:
    """Just below its exact value a claim is proven, just above refused; smooth activations leave a hair."""
    rng, tried = np.random.default_rng(7), 0
    for _ in range(30):
        first, second = (random_chain(rng, 2, 3, 2) for _ in range(2))
        x = rng.uniform(-1, 1, size=2)
        value = by_definition(name, *(exact_outputs(each, fractions(x)) for each in (first, second)))
        if float(value) <= 1e-6:
            continue
        anything = Condition(np.zeros((1, 3)), np.zeros(1))
        distance = Distance(name, (anything,) if name == "c-distance" else ())
        asked = Pair(first, second, [box((-1.0, 1.0), (-1.0, 1.0))], distance)
        asked.check_lower(float(value) * (1 - 1e-12), [Witness(0, 0, x)])
        with pytest.raises(Refused):
            asked.check_lower(float(value) * (1 + 1e-12), [Witness(0, 0, x)])
        tried += 1
    assert tried >= 5


def _dot(row: Array, values: list[Fraction]) -> Fraction:
    return sum((Fraction(float(a)) * b for a, b in zip(row, values, strict=True)), Fraction(0))


def test_tanh_outputs_tied_within_rounding_have_no_sure_class() -> None:
    """Where it is not certain which output is on top, nothing is claimed of classes."""
    bent = Chain((Layer(np.array([[1.0], [1.0]]), np.array([0.0, 0.0]), ((Kind("tanh"), 0, 2),)),))
    asked = Pair(bent, SECOND, [box((0.0, 2.0))], Distance("class"))
    with pytest.raises(Refused, match="do not surely choose"):
        asked.check_lower(0.1, [Witness(0, 0, np.array([1.0]))])
