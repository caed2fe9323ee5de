"""The pairwise disagreement threshold: how answers of several queries become one, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from random_networks import dense_network

from karenina.backends.fake import FakeBackend
from karenina.disagreement import Disagreement, pairwise_disagreement_threshold
from karenina.distance import CDistance
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.errors import DomainError, InputError
from karenina.network import Layer, Network
from karenina.query import Answer, Goal, Query, Status

ONE = Network((Layer.of([[1.0]], [0.0]),), "one")
TWO = Network((Layer.of([[2.0]], [0.0]),), "two")
INTERVAL = Domain(Box([-1.0], [1.0]))
UNION = Domain([Box([-1.0], [1.0]), Box([2.0], [3.0])])
X = np.array([0.5])


def exact(lower: float, upper: float | None = None, note: str = "") -> Answer:
    return Answer(lower, lower if upper is None else upper, Status.EXACT, X, 0, 1, 0.0, note)


def infeasible(value: float = 0.0) -> Answer:
    return Answer(value, value, Status.INFEASIBLE, note="no input satisfies the constraints")


def combined(
    answers: list[Answer], domain: Domain = INTERVAL, goal: Goal | None = None
) -> tuple[Disagreement, FakeBackend]:
    """The c-distance's answers: two a box, one for each condition."""
    backend = FakeBackend(answers)
    return pairwise_disagreement_threshold(ONE, TWO, domain, "c-distance", goal=goal, backend=backend), backend


def test_one_query_is_passed_through() -> None:
    backend = FakeBackend([Answer(1.0, 1.5, Status.TIME_LIMIT, X, 0, 7, 0.1, "a note")])
    found = pairwise_disagreement_threshold(ONE, TWO, INTERVAL, backend=backend)
    assert (found.lower, found.upper, found.status, found.boxes, found.note) == (
        1.0,
        1.5,
        Status.TIME_LIMIT,
        7,
        "a note",
    )
    assert found.witness is X
    assert found.outputs is not None
    assert [y.tolist() for y in found.outputs] == [[0.5], [1.0]]
    assert found.seconds >= 0


def test_conditions_give_the_minimum() -> None:
    found, _ = combined([exact(3.0, 3.0005), exact(2.0, 2.0005)])
    assert (found.lower, found.upper, found.status) == (2.0, 2.0005, Status.EXACT)


def test_boxes_give_the_maximum_of_their_minima() -> None:
    found, _ = combined([exact(3.0), exact(2.0), exact(7.0), exact(5.0)], UNION)
    assert (found.lower, found.upper, found.status) == (5.0, 5.0, Status.EXACT)


def test_intervals_that_overlap_are_combined_end_by_end() -> None:
    found, _ = combined([exact(1.0, 4.0), exact(2.0, 3.0)], goal=Goal(5.0))
    assert (found.lower, found.upper) == (1.0, 3.0)
    found, _ = combined([exact(1.0, 4.0), exact(9.0, 9.0), exact(2.0, 3.0), exact(9.0, 9.0)], UNION, Goal(5.0))
    assert (found.lower, found.upper) == (2.0, 4.0)


def test_a_part_stopped_by_time_leaves_the_whole_stopped_unless_the_interval_is_small_enough() -> None:
    stopped = Answer(0.0, 10.0, Status.TIME_LIMIT, X, 0)
    assert combined([stopped, exact(4.0)])[0].status is Status.TIME_LIMIT
    found, _ = combined([stopped, exact(0.0, 0.0)])
    assert (found.status, found.upper) == (Status.EXACT, 0.0)


@pytest.mark.parametrize("status", [Status.OVERFLOW, Status.FAILED, Status.PRECISION, Status.TIME_LIMIT])
def test_an_unfinished_status_is_kept(status: Status) -> None:
    found, _ = combined([Answer(0.0, math.inf, status), exact(4.0)])
    assert found.status is status
    assert (found.lower, found.upper) == (0.0, 4.0)


def test_two_infeasible_conditions_are_infeasible_and_0() -> None:
    found, _ = combined([infeasible(), infeasible()])
    assert (found.lower, found.upper, found.status) == (0, 0, Status.INFEASIBLE)
    assert found.note == "no input satisfies the constraints"
    assert found.witness is None
    assert found.outputs is None


def test_one_infeasible_condition_makes_the_minimum_0() -> None:
    found, _ = combined([exact(4.0), infeasible()])
    assert (found.lower, found.upper, found.status) == (0, 0, Status.EXACT)
    assert "no input" in found.note


def test_the_note_is_that_of_the_answer_chosen_and_is_said_once() -> None:
    assert combined([exact(1.0, note="a"), exact(2.0, note="b")])[0].note == "a"
    assert combined([exact(2.0, note="a"), exact(1.0, note="b")])[0].note == "b"
    assert combined([exact(1.0, note="a"), exact(2.0, note="a")])[0].note == "a"


def test_decided_answers_are_not_called_exact() -> None:
    """With a threshold both queries stop early: the interval stays wide, and says why."""
    decided = [Answer(6.0, 100.0, Status.DECIDED, X, 0), Answer(7.0, 90.0, Status.DECIDED, X, 0)]
    found, _ = combined(decided, goal=Goal(threshold=5.0))
    assert (found.lower, found.upper, found.status) == (6.0, 90.0, Status.DECIDED)


def test_the_second_condition_may_stop_at_the_firsts_upper_end() -> None:
    _, backend = combined([exact(2.0, 2.5), exact(3.0)])
    assert [goal.ceiling for goal in backend.goals] == [math.inf, 2.5]


def test_a_ceiling_of_the_users_own_is_kept() -> None:
    _, backend = combined([exact(2.0, 2.5), exact(3.0)], goal=Goal(ceiling=2.25))
    assert [goal.ceiling for goal in backend.goals] == [2.25, 2.25]
    _, backend = combined([exact(2.0, 2.5), exact(3.0)], goal=Goal(ceiling=9.0))
    assert [goal.ceiling for goal in backend.goals] == [9.0, 2.5]


def test_later_boxes_need_only_exceed_the_best_so_far() -> None:
    _, backend = combined([exact(3.0), exact(2.0), exact(7.0), exact(5.0)], UNION)
    assert [query.floor for query in backend.queries] == [0.0, 0.0, 2.0, 2.0]


def test_time_is_shared_and_the_goal_otherwise_kept() -> None:
    goal = Goal(0.25, 0.125, threshold=3.0, time_limit=100.0)
    _, backend = combined([exact(3.0), exact(2.0)], goal=goal)
    assert all(g.time_limit <= 100 for g in backend.goals)
    assert {(g.tolerance, g.relative_tolerance, g.threshold) for g in backend.goals} == {(0.25, 0.125, 3.0)}


def test_no_time_still_asks_and_gives_an_interval() -> None:
    rng = np.random.default_rng(0)
    first, second = (dense_network(rng, (4, 20, 20, 1)) for _ in range(2))
    domain = Domain(Box(-np.ones(4), np.ones(4)))
    found = pairwise_disagreement_threshold(
        first, second, domain, goal=Goal(1e-9, time_limit=0.0), backend=Engine("cpu")
    )
    assert found.status is Status.TIME_LIMIT
    assert 0 <= found.lower <= found.upper < math.inf


def test_the_witness_belongs_to_the_lower_end() -> None:
    other = np.array([-0.25])
    found, _ = combined([exact(3.0), Answer(2.0, 2.0, Status.EXACT, other, 0)])
    assert found.witness is other
    found, _ = combined([exact(3.0), exact(9.0), Answer(2.0, 2.0, Status.EXACT, other, 0), exact(9.0)], UNION)
    assert found.witness is X


def test_queries_hold_both_networks_and_the_whole_domain() -> None:
    asked: list[Query] = []

    def answer(query: Query) -> Answer:
        asked.append(query)
        return exact(1.0)

    pairwise_disagreement_threshold(ONE, TWO, UNION, "l1", backend=FakeBackend(answer))
    assert len(asked) == 1
    assert asked[0].networks == (ONE, TWO)
    assert {id(case.box) for case in asked[0].cases} == {id(box) for box in UNION.boxes}
    assert sorted(case.objective.tolist() for case in asked[0].cases) == [[-1, 1], [-1, 1], [1, -1], [1, -1]]


def test_networks_that_do_not_fit_are_refused() -> None:
    wide = Network((Layer.of([[1.0, 1.0]], [0.0]),), "wide")
    tall = Network((Layer.of([[1.0], [1.0]], [0.0, 0.0]),), "tall")
    backend = FakeBackend([])
    with pytest.raises(InputError, match="one has 1 inputs and wide has 2"):
        pairwise_disagreement_threshold(ONE, wide, INTERVAL, backend=backend)
    with pytest.raises(InputError, match="one has 1 outputs and tall has 2"):
        pairwise_disagreement_threshold(ONE, tall, INTERVAL, backend=backend)
    with pytest.raises(DomainError, match="has 2 inputs but one takes 1"):
        pairwise_disagreement_threshold(ONE, TWO, Domain(Box([0, 0], [1, 1])), backend=backend)
    with pytest.raises(InputError, match="unknown distance 'L1'"):
        pairwise_disagreement_threshold(ONE, TWO, INTERVAL, "L1", backend=backend)
    with pytest.raises(InputError, match="there is no output y1"):
        pairwise_disagreement_threshold(ONE, TWO, INTERVAL, CDistance(("y1 >= 0",)), backend=backend)


def test_the_default_back_end_is_the_engine() -> None:
    found = pairwise_disagreement_threshold(ONE, TWO, INTERVAL)
    assert found.lower == pytest.approx(1.0)
    assert found.status is Status.EXACT
