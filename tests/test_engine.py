"""The engine: what it answers on queries whose answer is known by hand, and how it ends."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from random_networks import ALL, Array, check_answer, dense_network, hat, random_query

from karenina.domain import Box, Domain
from karenina.engine import Engine, Settings
from karenina.errors import InputError
from karenina.loading import load
from karenina.network import IDENTITY, RELU, Activation, Layer, Network
from karenina.query import Answer, Case, Goal, Query, Status, Verdict
from karenina.vnnlib import load_specification, verify

EXAMPLES = Path(__file__).parent.parent / "examples"
TOY = Network((Layer.of([[1, 4], [-3, 2]], [1, -2], RELU), Layer.of([[2, -1]], [0])), "toy")  # the paper's Fig. 1
NO_GPU = not torch.cuda.is_available()


def answer(query: Query, goal: Goal, settings: Settings | None = None) -> Answer:
    return Engine("cpu", settings).answer(query, goal)


def over(network: Network, lower: list[float], upper: list[float]) -> Query:
    """Maximise the sum of the outputs over a box."""
    return Query((network,), (Case(Box(lower, upper), np.ones(network.output_size)),))


def test_the_toy_network_maps_1_2_to_20() -> None:
    assert TOY([1.0, 2.0]).tolist() == [20.0]
    assert load(EXAMPLES / "toy.onnx")([1.0, 2.0]).tolist() == [20.0]


def test_the_toy_query_is_satisfiable() -> None:
    found = answer(over(TOY, [0, 0], [100, 100]), Goal(threshold=25.0))
    assert found.status is Status.DECIDED
    assert found.verdict(25.0) is Verdict.SAT
    assert found.witness is not None
    assert TOY(found.witness)[0] >= 25


def test_the_toy_specification_is_satisfiable() -> None:
    found = verify(load(EXAMPLES / "toy.onnx"), load_specification(EXAMPLES / "toy.vnnlib"), Engine("cpu"))
    assert found.verdict is Verdict.SAT


def toy_maximum() -> float:
    """By hand: 2 relu(x + 4y + 1) - relu(-3x + 2y - 2) is largest at (100, 100), where the second neuron is off."""
    assert -3 * 100 + 2 * 100 - 2 < 0
    return 2.0 * (100 + 4 * 100 + 1)


@pytest.mark.parametrize("threshold", [1002.0, np.nextafter(1002.0, 0), 1001.9999])
def test_a_threshold_at_the_maximum_is_reached(threshold: float) -> None:
    assert toy_maximum() == 1002
    found = answer(over(TOY, [0, 0], [100, 100]), Goal(threshold=threshold))
    assert found.verdict(threshold) is Verdict.SAT


@pytest.mark.parametrize("threshold", [1002.0 + 1e-9, 1002.1, 1e6])
def test_a_threshold_above_the_maximum_is_not_reached(threshold: float) -> None:
    found = answer(over(TOY, [0, 0], [100, 100]), Goal(threshold=threshold))
    assert found.verdict(threshold) is Verdict.UNSAT
    assert found.status is Status.DECIDED
    assert found.upper < threshold


def test_one_unit_in_the_last_place_above_the_maximum_is_never_sat() -> None:
    threshold = float(np.nextafter(1002.0, 2000))
    found = answer(over(TOY, [0, 0], [100, 100]), Goal(threshold=threshold, time_limit=5))
    assert found.verdict(threshold) in (Verdict.UNSAT, Verdict.UNKNOWN)


def test_one_unit_above_the_maximum_inside_the_box_is_never_sat() -> None:
    """The tip of a hat is no corner: exact arithmetic decides that its height, and not a bit more, is reached."""
    query = over(hat([0.25, -0.5], 3.0, 0.5), [-1, -1], [1, 1])
    assert answer(query, Goal(threshold=3.0, time_limit=5)).verdict(3.0) is Verdict.SAT
    above = float(np.nextafter(3.0, 4))
    assert answer(query, Goal(threshold=above, time_limit=1)).verdict(above) is not Verdict.SAT
    assert answer(query, Goal(threshold=3 + 1e-9, time_limit=5)).verdict(3 + 1e-9) is Verdict.UNSAT


# Shapes at the edges.


@pytest.mark.parametrize("activation", ALL, ids=str)
def test_one_neuron_of_every_activation(activation: Activation) -> None:
    query = over(Network((Layer.of([[2.0]], [0.25], activation),)), [-1.0], [1.5])
    found = answer(query, Goal(1e-6))
    grid = query.outputs(np.linspace(-1.0, 1.5, 100_001)[:, None]).max()
    assert found.status is Status.EXACT
    assert grid <= found.upper <= grid + 1e-4
    assert found.upper - found.lower <= 1e-6


def test_an_affine_network_is_answered_in_one_box() -> None:
    found = answer(over(Network((Layer.of([[1.0, -2.0]], [0.5]),)), [-1, -1], [1, 1]), Goal(0.0, 1e-9))
    assert (found.status, found.boxes) == (Status.EXACT, 1)
    assert found.lower == pytest.approx(3.5, rel=1e-12)


def test_a_box_that_is_a_point_is_answered() -> None:
    rng = np.random.default_rng(0)
    network = dense_network(rng, (3, 8, 8, 1), Activation("tanh"))
    x = rng.normal(size=3)
    found = answer(over(network, x.tolist(), x.tolist()), Goal(1e-9))
    assert found.status is Status.EXACT
    assert found.lower <= network(x)[0] <= found.upper
    assert found.witness is not None
    assert np.array_equal(found.witness, x)


def test_degenerate_sides_are_never_split_for_ever() -> None:
    network = dense_network(np.random.default_rng(1), (4, 10, 10, 1))
    found = answer(over(network, [0, -1, 0.3, -1], [0, 1, 0.3, 1]), Goal(1e-6, time_limit=20))
    assert found.status is Status.EXACT
    assert found.witness is not None
    assert found.witness[[0, 2]].tolist() == [0, 0.3]


def test_a_union_has_the_largest_of_its_boxes_and_names_the_case() -> None:
    network = Network((Layer.of([[1.0]], [0.0]),))
    found = answer(Query.maximise(network, Domain([Box([0], [1]), Box([5], [6]), Box([2], [3])]), [[1.0]]), Goal(1e-9))
    assert found.lower == pytest.approx(6)
    assert found.case == 1


# Constraints.


def test_infeasible_constraints_are_said_to_be() -> None:
    case = Case(Box([0, 0], [1, 1]), np.ones(1), 0.0, np.array([[1.0]]), np.array([-1e4]))
    found = answer(Query((TOY,), (case,)), Goal())
    assert found.status is Status.INFEASIBLE
    assert found.lower == found.upper == -math.inf
    assert found.witness is None
    assert found.verdict(-1e9) is Verdict.UNSAT


def test_an_infeasible_query_with_a_floor_has_that_value_and_a_note() -> None:
    case = Case(Box([0, 0], [1, 1]), np.ones(1), 0.0, np.array([[1.0]]), np.array([-1e4]))
    found = answer(Query((TOY,), (case,), floor=0.0), Goal())
    assert found.lower == 0
    assert found.upper <= 1e-3
    assert found.witness is None
    assert found.note


def test_one_infeasible_case_of_two_leaves_the_other() -> None:
    box = Box([0, 0], [1, 1])
    never = Case(box, np.ones(1), 100.0, np.array([[1.0]]), np.array([-1e4]))
    found = answer(Query((TOY,), (never, Case(box, np.ones(1)))), Goal(1e-6))
    assert found.status is Status.EXACT
    assert found.case == 1
    assert found.upper <= 12 + 1e-5


@pytest.mark.parametrize("bound", [0.1, 0.5, 0.9])
def test_a_constraint_that_binds_gives_the_value_on_it(bound: float) -> None:
    """Maximise x where the second output, |x - 0.2| * 2, is at most `bound`."""
    layers = (Layer.of([[1.0], [1.0]], [0.0, -0.2], ((IDENTITY, 1), (Activation("abs"), 1))),)
    network = Network((*layers, Layer.of([[1.0, 0.0], [0.0, 2.0]], [0.0, 0.0])))
    case = Case(Box([-1.0], [1.0]), np.array([1.0, 0.0]), 0.0, np.array([[0.0, -1.0]]), np.array([bound]))
    found = answer(Query((network,), (case,)), Goal(1e-6))
    assert found.status is Status.EXACT
    assert found.lower == pytest.approx(0.2 + bound / 2, abs=1e-6)


def test_a_constant_objective_under_constraints_asks_whether_there_is_any_input() -> None:
    network = dense_network(np.random.default_rng(4), (2, 6, 2))
    y = network(np.array([0.3, 0.4]))
    box = Box([-1, -1], [1, 1])
    near = Case(box, np.zeros(2), 1.0, np.vstack([np.eye(2), -np.eye(2)]), np.concatenate([0.01 - y, 0.01 + y]))
    found = answer(Query((network,), (near,)), Goal(1e-6, time_limit=5))
    assert found.witness is not None
    assert found.lower == pytest.approx(1.0)
    assert np.abs(network(found.witness) - y).max() <= 0.01


def test_an_equality_is_never_called_infeasible() -> None:
    """y = 0.5 as two inequalities: no float64 witness is certain, but there are inputs."""
    case = Case(Box([0.0], [1.0]), np.ones(1), 0.0, np.array([[1.0], [-1.0]]), np.array([-0.5, 0.5]))
    found = answer(Query((Network((Layer.of([[1.0]], [0.0]),)),), (case,)), Goal(1e-6, time_limit=2))
    assert found.status is not Status.INFEASIBLE
    assert found.lower <= 0.5 <= found.upper


# How a search ends.


def hard_query() -> Query:
    rng = np.random.default_rng(7)
    return over(dense_network(rng, (6, 24, 24, 24, 1)), [-1] * 6, [1] * 6)


def test_no_time_still_gives_an_interval() -> None:
    found = answer(hard_query(), Goal(1e-9, time_limit=0.0))
    assert found.status is Status.TIME_LIMIT
    assert found.witness is not None
    assert -math.inf < found.lower <= found.upper < math.inf
    check_answer(hard_query(), found, Goal(1e-9, time_limit=0.0), np.random.default_rng(0))


def test_an_unreached_threshold_at_the_time_limit_is_a_timeout() -> None:
    first = answer(hard_query(), Goal(1e-9, time_limit=0.0))
    threshold = (first.lower + first.upper) / 2
    found = answer(hard_query(), Goal(threshold=threshold, time_limit=0.0))
    assert found.verdict(threshold) in (Verdict.TIMEOUT, Verdict.SAT)


def test_more_time_never_loosens_the_interval() -> None:
    goals = [Goal(1e-9, time_limit=t) for t in (0.0, 0.3)]
    first, second = (answer(hard_query(), goal) for goal in goals)
    assert first.lower <= second.lower <= second.upper <= first.upper


def test_reaching_the_ceiling_ends_the_search() -> None:
    exact = answer(over(TOY, [0, 0], [100, 100]), Goal(1e-3))
    found = answer(hard_query(), Goal(1e-9, ceiling=-1e3))
    assert exact.status is Status.EXACT
    assert found.status is Status.DECIDED
    assert found.boxes == 0
    assert found.lower >= -1e3


def test_a_ceiling_above_the_maximum_changes_nothing() -> None:
    query = over(TOY, [0, 0], [100, 100])
    plain, capped = answer(query, Goal(1e-3)), answer(query, Goal(1e-3, ceiling=1e5))
    assert (plain.lower, plain.upper, plain.status) == (capped.lower, capped.upper, capped.status)


@pytest.mark.parametrize("weight", [1e150, 1e200, 1e308])
def test_overflow_is_not_verified(weight: float) -> None:
    """Never exact, never unsat: the bounds say nothing."""
    layers = [Layer.of(np.full((3, 3), weight), np.zeros(3), RELU) for _ in range(3)]
    query = over(Network((*layers, Layer.of(np.ones((1, 3)), [0.0]))), [-1] * 3, [1] * 3)
    for goal in (Goal(), Goal(threshold=1e300), Goal(0.0, 1e-3)):
        found = answer(query, goal)
        assert found.status is Status.OVERFLOW
        assert found.upper == math.inf
        assert found.verdict(1e300) is Verdict.UNKNOWN


def test_bounds_that_overflow_around_a_value_that_does_not() -> None:
    """1e-308 * relu(1.7e308 * x) is at most 1.7, but the width of the ReLU's interval overflows."""
    network = Network((Layer.of([[1.7e308]], [0.0], RELU), Layer.of([[1e-308]], [0.0])))
    found = answer(over(network, [-1.0], [1.0]), Goal(1e-3))
    assert found.status is Status.OVERFLOW
    assert found.upper >= 1.7


@pytest.mark.parametrize("side", [1e100, 1e300, 1.7e308])
def test_enormous_boxes_are_bounded_or_refused(side: float) -> None:
    network = dense_network(np.random.default_rng(2), (2, 4, 1))
    query = over(network, [-side] * 2, [side] * 2)
    found = answer(query, Goal(0.0, 1e-3, time_limit=2))
    corners = np.array([[a, b] for a in (-side, side) for b in (-side, side)]) * (1 - 1e-15)
    with np.errstate(over="ignore", invalid="ignore"):
        values: Array = network(corners)
    assert not (values > found.upper).any()


def test_tiny_weights_are_not_lost() -> None:
    network = Network((Layer.of([[1e-200]], [0.0], RELU), Layer.of([[1e200]], [0.0])))
    found = answer(over(network, [-1.0], [1.0]), Goal(1e-3))
    assert found.lower <= 1 <= found.upper + 1e-15
    assert found.upper >= 1


# Devices and settings.


def test_an_unknown_device_is_an_input_error() -> None:
    with pytest.raises(InputError, match="choose auto, cpu or cuda"):
        Engine("tpu")


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_missing_gpu_is_an_input_error(name: str) -> None:
    with pytest.raises(InputError, match="no GPU"):
        Engine(name)


def test_auto_is_a_device() -> None:
    assert Engine("auto").device.type == ("cpu" if NO_GPU else "cuda")


@pytest.mark.skipif(NO_GPU, reason="needs a GPU")
@pytest.mark.parametrize("seed", range(8))
def test_the_gpu_says_what_the_cpu_does(seed: int) -> None:
    goal = Goal(1e-4, time_limit=20)
    query = random_query(np.random.default_rng(seed), constrained=seed % 2 == 1)
    here, there = Engine("cpu").answer(query, goal), Engine("cuda").answer(query, goal)
    check_answer(query, there, goal, np.random.default_rng(seed))
    assert here.status is there.status
    if here.status is Status.EXACT:
        assert abs(here.lower - there.lower) <= 2e-4


SETTINGS = (
    Settings(threads=0),
    Settings(threads=2),
    Settings(threads=0, batch=8),
    Settings(steps=0, starts=1, ascent=1, climbers=1),
    Settings(memory=0),
    Settings(batch=2, memory=0, threads=0),
    Settings(endgame=0, threads=0),
    Settings(endgame=1000, threads=0),
    Settings(settled=0),
    Settings(settled=1000, programmes=2),
    Settings(settled=1000, programmes=10_000),
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("constrained", [False, True])
def test_settings_change_the_way_not_the_answer(settings: Settings, constrained: bool) -> None:
    goal = Goal(1e-2, time_limit=1)
    for seed in range(8):
        query = random_query(np.random.default_rng(seed), constrained=constrained, deepest=2)
        expected, found = answer(query, goal), answer(query, goal, settings)
        check_answer(query, found, goal, np.random.default_rng(seed))
        if expected.status is Status.EXACT:
            assert found.upper >= expected.lower
            assert expected.upper >= found.lower
        if expected.status is Status.INFEASIBLE:
            assert found.status in (Status.INFEASIBLE, Status.TIME_LIMIT)


def test_the_same_query_gives_the_same_answer_twice() -> None:
    query = random_query(np.random.default_rng(11))
    first, second = answer(query, Goal(1e-3)), answer(query, Goal(1e-3))
    assert (first.lower, first.upper, first.boxes) == (second.lower, second.upper, second.boxes)


def test_the_number_of_torch_threads_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    answer(over(TOY, [0, 0], [1, 1]), Goal())
    assert torch.get_num_threads() == before
