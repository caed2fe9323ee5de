"""Distances: what they are on two outputs, how conditions are read, and that their queries mean what they say.

The oracle is brute force on grids and samples; the witness shows that `lower` is attained.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import Array, dense_network, points, random_box

from karenina.backends.milp import Milp
from karenina.disagreement import Disagreement, pairwise_disagreement_threshold
from karenina.distance import DISTANCES, L1, CDistance, ClassDistance, Condition, Distance, Linf, distance
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.errors import InputError
from karenina.network import RELU, Activation, Layer, Network
from karenina.query import Goal, Status

TANH = Activation("tanh")
GOAL = Goal(1e-3, time_limit=3)
seeds = st.integers(0, 2**32 - 1)


def pdt(first: Network, second: Network, domain: Box | Domain, chosen: str | Distance) -> Disagreement:
    domain = Domain(domain) if isinstance(domain, Box) else domain
    return pairwise_disagreement_threshold(first, second, domain, chosen, goal=GOAL, backend=Engine("cpu"))


def line(slope: float, bias: float = 0.0) -> Network:
    return Network((Layer.of([[slope]], [bias]),), f"{slope} x + {bias}")


# The distance of two outputs.


def test_distances_of_two_outputs() -> None:
    a, b = np.array([1.0, -2.0, 3.0]), np.array([0.0, 0.0, 5.0])
    assert L1()(a, b) == CDistance()(a, b) == 5
    assert Linf()(a, b) == 2
    assert ClassDistance()(a, b) == 0  # both choose the third
    assert ClassDistance()(np.array([3.0, 1.0, 0.0]), np.array([0.0, 4.0, 5.0])) == (3 - 0) + (5 - 0)


def test_distances_by_name() -> None:
    assert [distance(name).name for name in DISTANCES] == list(DISTANCES)
    assert distance("c-distance", ["y0 >= 1"]) == CDistance(("y0 >= 1",))
    with pytest.raises(InputError, match="unknown distance 'l2'; known: l1, linf, c-distance, class"):
        distance("l2")
    with pytest.raises(InputError, match="conditions belong to the c-distance, not to l1"):
        distance("l1", ["y >= 0"])


# Conditions.


@pytest.mark.parametrize(
    ("text", "rows", "offsets"),
    [
        ("y0 >= 0", [[1, 0]], [0]),
        ("y1 <= 0", [[0, -1]], [0]),
        ("y>=0", [[1, 0], [0, 1]], [0, 0]),
        ("y <= 2.5", [[-1, 0], [0, -1]], [2.5, 2.5]),
        ("-y <= 1", [[1, 0], [0, 1]], [1, 1]),
        ("0 <= y0", [[1, 0]], [0]),
        ("y0 >= y1", [[1, -1]], [0]),
        ("2*y0 - y1 <= 3", [[-2, 1]], [3]),
        ("2 y0 - 3y1 >= -1.5e1", [[2, -3]], [15]),
        (" 2 * y0 + 1 >= y0 - .5 ", [[1, 0]], [1.5]),
        ("y0 + y0 + y0 >= 1", [[3, 0]], [-1]),
        ("y0 >= 0 and y1 <= 0", [[1, 0], [0, -1]], [0, 0]),
        ("y0 >= 0, y1 >= 1, y0 <= 9", [[1, 0], [0, 1], [-1, 0]], [0, -1, 9]),
        ("y >= y0", [[0, 0], [-1, 1]], [0, 0]),
        ("+y1 >= +2", [[0, 1]], [-2]),
        ("1 - y0 >= 0", [[-1, 0]], [1]),
        ("y0 >= 1e-3", [[1, 0]], [-0.001]),
        ("y0 >= 1E+2", [[1, 0]], [-100]),
    ],
)
def test_a_condition_is_read(text: str, rows: list[list[float]], offsets: list[float]) -> None:
    condition = Condition.parse(text, 2)
    assert condition.rows.tolist() == rows
    assert condition.offsets.tolist() == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "y0",
        "y0 > 0",
        "y0 < 0",
        "y0 = 0",
        "y0 == 0",
        "0 <= y0 <= 1",
        "y0 >= ",
        ">= 0",
        "y2 >= 0",
        "y10 >= 0",
        "x0 >= 0",
        "y0 * y1 >= 0",
        "y0 ** 2 >= 0",
        "y0 / 2 >= 0",
        "2 * 3 >= y0",
        "y0 y1 >= 0",
        "y0 >= 0 or y1 >= 0",
        "y0 >= 0 and",
        "and y0 >= 0",
        "y0 >= 0,,y1 >= 0",
        "y0 - - y1 >= 0",
        "y0 + >= 0",
        "(y0) >= 0",
        "y_0 >= 0",
        "y-1 >= 0 >= 2",
        "y0 >= nan",
        "y0 >= inf",
        "y0 >= 1e999",
        "1e999*y0 >= 0",
        "1e999*y >= 0",
        "y0 >= 1_0",
        "__import__('os') >= 0",
        "ỹ >= 0",
        "y² >= 0",
    ],
)
def test_a_wrong_condition_is_an_input_error_that_quotes_it(text: str) -> None:
    with pytest.raises(InputError) as error:
        Condition.parse(text, 2)
    assert repr(text) in str(error.value)


@given(st.text(alphabet="y01<>=+-*. eand,", max_size=20))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_condition_or_an_input_error(text: str) -> None:
    try:
        condition = Condition.parse(text, 2)
    except InputError:
        return
    assert condition.rows.shape == (len(condition.offsets), 2)
    assert len(condition.offsets)
    assert np.isfinite(condition.rows).all()
    assert np.isfinite(condition.offsets).all()


@given(st.lists(st.integers(-9, 9), min_size=3, max_size=3), st.integers(-9, 9), st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_written_condition_holds_where_it_says(row: list[int], constant: int, at_least: bool) -> None:
    text = " ".join(f"{a:+d}*y{i}" for i, a in enumerate(row)) + (" >= " if at_least else " <= ") + str(constant)
    condition = Condition.parse(text, 3)
    for y in itertools.product((-1.0, 0.0, 2.0), repeat=3):
        value = sum(a * b for a, b in zip(row, y, strict=True))
        assert condition.holds(np.array(y)) == (value >= constant if at_least else value <= constant)


# The c-distance.


def grid_c_distance(first: Network, second: Network, box: Box, conditions: list[Condition], x: Array) -> float:
    """Per box: the least, over the conditions, of the largest l1 where both outputs satisfy the condition."""
    a, b = first(x), second(x)
    largest = []
    for c in conditions:
        both = np.array([c.holds(p) and c.holds(q) for p, q in zip(a, b, strict=True)])
        largest.append(float(np.abs(a - b).sum(1)[both].max(initial=0.0)))
    assert all(box.contains(p) for p in x[:5])
    return min(largest)


@given(seeds, st.sampled_from([RELU, TANH]), st.integers(1, 2))
@settings(max_examples=12, deadline=None)
def test_the_c_distance_is_what_a_grid_finds(seed: int, activation: Activation, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 6, outputs), activation) for _ in range(2))
    box = random_box(rng, 2)
    texts = ("y >= 0", "y <= 0", "y0 <= 1 and y0 >= -1")[: 2 + int(rng.integers(2))]
    found = pdt(first, second, box, CDistance(texts))
    expected = grid_c_distance(first, second, box, [Condition.parse(t, outputs) for t in texts], points(box, rng, 3000))
    assert expected <= found.upper
    if found.witness is not None and found.lower > 0:
        a, b = first(found.witness), second(found.witness)
        assert any(c.holds(a) and c.holds(b) for c in (Condition.parse(t, outputs) for t in texts))
        assert L1()(a, b) >= found.lower


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_a_milp_gives_the_same_c_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 6, 1)) for _ in range(2))
    domain = Domain([random_box(rng, 2) for _ in range(2)])
    ours = pdt(first, second, domain, "c-distance")
    theirs = pairwise_disagreement_threshold(first, second, domain, "c-distance", goal=GOAL, backend=Milp("highs"))
    if ours.status.finished and theirs.status.finished:
        assert ours.lower <= theirs.upper + 1e-5
        assert theirs.lower <= ours.upper + 1e-5


def test_the_minimum_over_conditions_is_taken_box_by_box() -> None:
    """x against x / 2: on [-1, 2] min(1, 0.5), on [-3, 1] min(0.5, 1.5); on the union as one it would be 1."""
    boxes = [Box([-1.0], [2.0]), Box([-3.0], [1.0])]
    for box in boxes:
        assert pdt(line(1.0), line(0.5), box, "c-distance").lower == pytest.approx(0.5, abs=1e-3)
    union = pdt(line(1.0), line(0.5), Domain(boxes), "c-distance")
    assert union.lower == pytest.approx(0.5, abs=1e-3)
    assert union.upper == pytest.approx(0.5, abs=2e-3)
    assert union.status is Status.EXACT


def test_it_is_a_minimum_of_maxima_not_a_maximum_of_pointwise_minima() -> None:
    """x against 2 x on [-1, 3]: 3 where both >= 0, 1 where both <= 0."""
    found = pdt(line(1.0), line(2.0), Box([-1.0], [3.0]), "c-distance")
    assert [found.lower, found.upper] == pytest.approx([1, 1], abs=1e-3)


def test_where_no_input_qualifies_it_is_0_and_says_so() -> None:
    found = pdt(line(1.0, 5.0), line(1.0, -5.0), Box([-1.0], [1.0]), "c-distance")
    assert found.lower == 0
    assert found.upper <= 1e-3
    assert found.status in (Status.EXACT, Status.INFEASIBLE)
    assert "no input" in found.note


def test_where_one_condition_never_holds_the_minimum_is_0_and_says_so() -> None:
    """Both outputs are always >= 4: never <= 0."""
    found = pdt(line(1.0, 5.0), line(0.5, 5.0), Box([-1.0], [1.0]), "c-distance")
    assert found.lower == 0
    assert found.upper <= 1e-3
    assert "no input" in found.note


def test_a_note_never_calls_another_boxes_value_a_definition() -> None:
    """In the second box no input qualifies, so its value is 0: not the first box's."""
    first, second = line(1.0), line(0.5)
    conditions = CDistance(("y >= 0",))
    found = pdt(first, second, Domain([Box([0.5], [2.0]), Box([-2.0], [-1.0])]), conditions)
    assert found.lower == pytest.approx(1.0, abs=1e-3)
    assert "1 by definition" not in found.note
    assert "0.99" not in found.note


def test_outputs_on_the_edge_of_a_condition_count() -> None:
    """ReLU outputs are 0 on half the box: >= 0 there, and <= 0 too."""
    first = Network((Layer.of([[1.0]], [0.0], RELU),), "relu(x)")
    second = Network((Layer.of([[-1.0]], [0.0], RELU),), "relu(-x)")
    found = pdt(first, second, Box([-1.0], [2.0]), CDistance(("y >= 0",)))
    assert found.lower <= 2 <= found.upper
    assert found.status is Status.EXACT


def test_many_outputs_keep_their_conditions() -> None:
    """With four outputs the l1 norm is a layer of its own; the conditions still speak of the networks' outputs."""
    weight = np.array([[1.0], [2.0], [-1.0], [0.5]])
    first, second = Network((Layer.of(weight, np.zeros(4)),)), Network((Layer.of(0.5 * weight, np.zeros(4)),))
    found = pdt(first, second, Box([-1.0], [2.0]), CDistance(("y0 >= 0.1 and y2 <= 9", "y0 <= 1")))
    assert found.lower == pytest.approx(0.5 * 4.5 * 1.0, abs=2e-3)  # y0 <= 1: x in [-1, 1]
    found = pdt(first, second, Box([-1.0], [2.0]), CDistance(("y0 >= 0.1",)))
    assert found.lower == pytest.approx(0.5 * 4.5 * 2.0, abs=2e-3)


# l1 and linf of several outputs.


@given(seeds, st.integers(1, 6), st.sampled_from([RELU, TANH]))
@settings(max_examples=20, deadline=None)
def test_norms_of_several_outputs_against_samples(seed: int, outputs: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 6, outputs), activation) for _ in range(2))
    box = random_box(rng, 2)
    x = points(box, rng)
    difference = np.abs(first(x) - second(x))
    for chosen, sampled in ((L1(), difference.sum(1).max()), (Linf(), difference.max())):
        found = pdt(first, second, box, chosen)
        assert sampled <= found.upper
        if found.witness is not None:
            assert chosen(first(found.witness), second(found.witness)) >= found.lower
        assert found.status is Status.EXACT


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_an_output_that_never_differs_adds_nothing(seed: int) -> None:
    """Three outputs are bounded by sign patterns, four by a layer of |.|: both give the same."""
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 6, 3)) for _ in range(2))
    box = random_box(rng, 2)
    three, four = pdt(first, second, box, "l1"), pdt(padded(first), padded(second), box, "l1")
    assert three.lower <= four.upper + 1e-9
    assert four.lower <= three.upper + 1e-9


def padded(network: Network) -> Network:
    """With a fourth output, always 7."""
    *hidden, last = network.layers
    weight = np.vstack([last.weight.numpy(), np.zeros((1, last.weight.shape[1]))])
    return Network((*hidden, Layer.of(weight, np.append(last.bias.numpy(), 7.0))))


@given(seeds)
@settings(max_examples=6, deadline=None)
def test_a_milp_gives_the_same_l1_of_five_outputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 5, 5)) for _ in range(2))
    domain = Domain(random_box(rng, 2))
    ours = pdt(first, second, domain, "l1")
    theirs = pairwise_disagreement_threshold(first, second, domain, "l1", goal=GOAL, backend=Milp("highs"))
    if theirs.status.finished:
        assert ours.lower <= theirs.upper + 1e-5 * (1 + theirs.upper)
        assert theirs.lower <= ours.upper + 1e-5 * (1 + theirs.upper)


# The class distance.


@given(seeds, st.integers(2, 4), st.sampled_from([RELU, TANH]))
@settings(max_examples=15, deadline=None)
def test_the_class_distance_against_a_dense_grid(seed: int, classes: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    first, second = (dense_network(rng, (2, 8, classes), activation) for _ in range(2))
    box = random_box(rng, 2)
    x = points(box, rng)
    a, b = first(x), second(x)
    grid = max(ClassDistance()(p, q) for p, q in zip(a, b, strict=True))
    found = pdt(first, second, box, "class")
    assert grid <= found.upper
    if found.witness is not None:
        assert found.outputs is not None
        assert ClassDistance()(*found.outputs) >= found.lower
    else:
        assert found.lower == 0


def test_classes_that_never_differ_are_0_apart() -> None:
    first = Network((Layer.of([[1.0], [1.0]], [5.0, 0.0]),))
    second = Network((Layer.of([[2.0], [-1.0]], [9.0, 0.0]),))
    found = pdt(first, second, Box([-1.0], [1.0]), "class")
    assert found.lower == 0
    assert found.upper <= 1e-3
    assert found.witness is None
    assert "no input" in found.note


def test_the_class_distance_by_hand() -> None:
    """N1 chooses class 0 by 2 - x, N2 class 1 by x: at every x in (0, 1) the sum of the margins is 2."""
    first = Network((Layer.of([[-1.0], [0.0]], [2.0, 0.0]),))
    second = Network((Layer.of([[0.0], [1.0]], [0.0, 0.0]),))
    found = pdt(first, second, Box([0.5], [1.0]), "class")
    assert [found.lower, found.upper] == pytest.approx([2, 2], abs=1e-3)


def test_one_output_has_no_classes() -> None:
    with pytest.raises(InputError, match="at least two outputs"):
        pdt(line(1.0), line(2.0), Box([0.0], [1.0]), "class")
