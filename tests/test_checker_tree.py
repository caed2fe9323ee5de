"""Trees of splits, by hand: what is proven is accepted, and whatever is missing, too many or wrong is refused."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from karenina.checker import tree
from karenina.checker.activations import Kind
from karenina.checker.bounds import Bounder, Boxes, Goal, Hints, Linear
from karenina.checker.chain import IDENTITY, Chain, Layer
from karenina.checker.reading import Stream
from karenina.checker.refusal import Refused
from karenina.checker.tree import CUT, FINE, LEAF, SPLIT, Nodes, Question, Sample, replay

RELU = Kind("relu")
# x -> relu(x) + relu(-x) = |x|: at most 1 on [-1, 1], which linear bounds see only when x or a sign is split.
VEE = Chain(
    (
        Layer(np.array([[1.0], [-1.0]]), np.zeros(2), ((RELU, 0, 2),)),
        Layer(np.array([[1.0, 1.0]]), np.zeros(1), ((IDENTITY, 0, 1),)),
    )
)
TWICE = np.array([1.0])


class Listed:
    """Nodes from a list of (kind, axis), without hints."""

    def __init__(self, nodes: Sequence[tuple[int, int]], neurons: int, *, prices: float = np.nan) -> None:
        self._nodes, self._neurons, self._prices = list(nodes), neurons, prices

    def take(self, count: int) -> Nodes:
        if count > len(self._nodes):
            raise Refused("the nodes end too early")
        taken, self._nodes = self._nodes[:count], self._nodes[count:]
        kinds, axes = (np.array(column) for column in zip(*taken, strict=True))
        bounded = int((kinds != SPLIT).sum())
        nothing = np.full((bounded, self._neurons), np.nan)
        wanted = np.where((kinds == FINE)[kinds != SPLIT, None], self._prices, nothing)
        return Nodes(kinds, axes, Hints(nothing, np.zeros((bounded, 0)), wanted))


def question(claim: float, *, sign: float = 1.0, lower: float = -1.0, upper: float = 1.0) -> Question:
    goal = Goal(np.array([sign]), np.zeros((0, 1)), np.zeros(0))
    return Question(Bounder(VEE), goal, np.array([lower]), np.array([upper]), claim)


def nodes_of(asked: Question, *nodes: tuple[int, int], exactly: int = 8) -> tuple[int, int]:
    sample = Sample(exactly)
    return replay(asked, Listed(nodes, asked.bounder.neurons), sample), sample.verify()


SLACK = 1e-12


def test_a_leaf_whose_bound_is_the_claim_is_enough() -> None:
    assert nodes_of(question(2.0 + SLACK), (LEAF, 0)) == (1, 1)
    with pytest.raises(Refused, match="node 0 is bounded by"):
        nodes_of(question(-SLACK), (LEAF, 0))


def test_a_split_needs_both_halves() -> None:
    asked = question(1.0 + SLACK)
    assert nodes_of(asked, (SPLIT, 0), (LEAF, 0), (LEAF, 0)) == (3, 2)
    with pytest.raises(Refused, match="too early"):
        nodes_of(asked, (SPLIT, 0), (LEAF, 0))
    with pytest.raises(Refused, match="node 1 is bounded"):
        nodes_of(question(0.5), (SPLIT, 0), (LEAF, 0), (LEAF, 0))


@pytest.mark.parametrize("axis", [1, 2])
def test_a_sign_split_counts_in_fine_leaves_only(axis: int) -> None:
    """Both halves of a neuron's sign are needed, and a coarse leaf does not know of them."""
    asked = question(1.0 + SLACK)
    listed = Listed([(SPLIT, axis), (FINE, 0), (FINE, 0)], asked.bounder.neurons)
    assert replay(asked, listed, Sample(4)) == 3
    with pytest.raises(Refused, match="too early"):
        nodes_of(asked, (SPLIT, axis), (FINE, 0))


def test_what_is_cut_off_is_not_asked_for_again() -> None:
    """-|x| is at most -x, which leaves [-1, 0] of [-1, 4] to prove for the claim 0."""
    asked = question(SLACK, sign=-1.0, upper=4.0)
    assert nodes_of(asked, (CUT, 0), (LEAF, 0), (LEAF, 0)) == (3, 3)
    with pytest.raises(Refused, match="node 1 is bounded by"):
        nodes_of(asked, (SPLIT, 0), (LEAF, 0), (LEAF, 0))
    with pytest.raises(Refused, match="is bounded by"):
        nodes_of(question(-0.1, sign=-1.0, upper=4.0), (CUT, 0), (LEAF, 0), (LEAF, 0))


def test_no_input_or_neuron_beyond_the_last_can_be_split() -> None:
    with pytest.raises(Refused, match="there is no input or neuron"):
        nodes_of(question(1.0), (SPLIT, 4))


def test_a_single_point_can_be_halved_and_stays_covered() -> None:
    asked = question(0.5 + SLACK, lower=0.5, upper=0.5)
    assert nodes_of(asked, (SPLIT, 0), (LEAF, 0), (LEAF, 0))[0] == 3


class Wrong(Bounder):
    """Bounds that are a little too low, as a bug in the rounding would make them."""

    def bound(self, goal: Goal, boxes: Boxes, hints: Hints) -> Linear:
        told = super().bound(goal, boxes, hints)
        return Linear(told.coefficients, told.constant - 1.5, told.most - 1.5)


def test_exact_arithmetic_refutes_a_wrong_bound() -> None:
    asked = Question(Wrong(VEE), question(1.0).goal, np.array([-1.0]), np.array([1.0]), 0.6)
    with pytest.raises(Refused, match="exact arithmetic refutes"):
        nodes_of(asked, (LEAF, 0), exactly=1)


def test_exact_arithmetic_refutes_a_wrong_cut() -> None:
    """All but the input -1 is cut off, so that the leaves are right about what is left."""
    asked = Question(Wrong(VEE), question(1.0, sign=-1.0).goal, np.array([-1.0]), np.array([4.0]), -0.5)
    with pytest.raises(Refused, match="exact arithmetic refutes"):
        nodes_of(asked, (CUT, 0), (LEAF, 0), (LEAF, 0))


def test_a_sample_is_drawn_from_all_nodes() -> None:
    """Each of 40 nodes is in a sample of 8 in about a fifth of the draws."""
    asked, counts = question(3.0), np.zeros(40)
    nothing = np.full((40, 3), np.nan)
    boxes = Boxes(np.arange(40.0)[:, None], np.arange(40.0)[:, None], np.zeros((40, 3), np.int8))
    for _ in range(300):
        sample = Sample(8)
        sample.offer(asked, boxes, Hints(nothing, np.zeros((40, 0)), nothing), boxes, np.zeros(40, bool))
        assert sample.seen == 40
        chosen = [int(entry[1].lower[0, 0]) for entry in sample._chosen]
        assert len(set(chosen)) == 8
        counts[chosen] += 1
    assert counts.min() > 20
    assert counts.max() < 120


@pytest.mark.parametrize("limit", ["MOST_OPEN", "MOST_BYTES"])
def test_nodes_that_only_multiply_are_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of splits would fill the memory: it ends in one sentence."""
    monkeypatch.setattr(tree, limit, 1 << 10)
    with pytest.raises(Refused, match="open at once"):
        nodes_of(question(1.0), *[(SPLIT, 0)] * 100_000)


def stream(*parts: bytes, constraints: int = 0) -> Stream:
    return Stream(io.BytesIO(b"".join(parts)), Bounder(VEE), constraints)


def test_a_stream_reads_what_the_format_says() -> None:
    kinds = np.array([SPLIT, LEAF, CUT, FINE], "<u1").tobytes()
    axes, steps = np.array([0, 2], "<u2").tobytes(), np.array([[0, 255], [51, 102]], "<u1").tobytes()
    coarse, fine = np.array([[0.5], [2.0]], "<f4").tobytes(), np.array([[0.25, np.nan, 7.0]], "<f8").tobytes()
    taken = stream(kinds, axes, steps, coarse, fine, fine, np.array([[3.0]], "<f8").tobytes(), constraints=1).take(4)
    assert taken.kinds.tolist() == [SPLIT, LEAF, CUT, FINE]
    assert taken.axes.tolist() == [0, 0, 2, 0]
    assert taken.hints.multipliers.tolist() == [[0.5], [2.0], [3.0]]
    np.testing.assert_array_equal(taken.hints.slopes, [[0, 1, np.nan], [0.2, 0.4, np.nan], [0.25, np.nan, 7]])
    np.testing.assert_array_equal(taken.hints.coefficients[:2], np.full((2, 3), np.nan))
    np.testing.assert_array_equal(taken.hints.coefficients[2], [0.25, np.nan, 7])


def fine_node(slope: float, wanted: float, multiplier: float) -> bytes:
    numbers = [*[slope] * 3, *[wanted] * 3, multiplier]
    return bytes([FINE]) + np.array(numbers, "<f8").tobytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "too early"),
        (bytes([4]), "no known kind"),
        (bytes([255]), "no known kind"),
        (bytes([SPLIT]), "too early"),
        (bytes([SPLIT, 0]), "too early"),
        (bytes([LEAF, 0]), "too early"),
        (bytes([LEAF, 0, 0]) + np.array([-1.0], "<f4").tobytes(), "multiplier"),
        (bytes([LEAF, 0, 0]) + np.array([np.nan], "<f4").tobytes(), "multiplier"),
        (bytes([LEAF, 0, 0]) + np.array([np.inf], "<f4").tobytes(), "multiplier"),
        (fine_node(0.5, 0.5, -1e-300), "multiplier"),
        (fine_node(0.5, 0.5, np.inf), "multiplier"),
        (fine_node(np.inf, 0.5, 0.0), "infinite"),
        (fine_node(0.5, -np.inf, 0.0), "infinite"),
        (fine_node(0.5, 0.5, 0.0)[:-1], "too early"),
    ],
)
def test_a_stream_refuses_what_is_no_node(data: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        stream(data, constraints=1).take(1)


def test_bounds_beyond_float64_are_refused_not_raised() -> None:
    """Where everything overflows a cut cuts nothing, a leaf proves nothing, and no other exception comes out."""
    huge = Chain(tuple(Layer(np.array([[1e200]]), np.zeros(1), ((RELU, 0, 1),)) for _ in range(3)))
    goal = Goal(np.array([1.0]), np.zeros((0, 1)), np.zeros(0))
    asked = Question(Bounder(huge), goal, np.array([-1.0]), np.array([1.0]), 1.0)
    with np.errstate(all="ignore"):
        for nodes in ([(LEAF, 0)], [(FINE, 0)], [(CUT, 0), (LEAF, 0), (LEAF, 0)], [(SPLIT, 2), (FINE, 0), (FINE, 0)]):
            with pytest.raises(Refused, match="is bounded by"):
                nodes_of(asked, *nodes, exactly=0)


def test_a_claim_is_compared_exactly() -> None:
    """A claim just below the exact maximum of a linear function is not proven."""
    line = Chain((Layer(np.array([[3.0]]), np.array([0.1]), ((IDENTITY, 0, 1),)),))
    goal, most = Goal(TWICE, np.zeros((0, 1)), np.zeros(0)), Fraction(3) + Fraction(0.1)
    below = np.nextafter(float(most), -np.inf)
    if Fraction(below) < most:
        with pytest.raises(Refused):
            nodes_of(Question(Bounder(line), goal, np.zeros(1), np.ones(1), float(below)), (LEAF, 0))
