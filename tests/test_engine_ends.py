"""Searches end: whatever the goal, with little memory, and again after they were stopped."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import dense_network

from karenina.domain import Box, Domain
from karenina.engine import Engine, Settings
from karenina.network import Activation, Layer, Network
from karenina.query import Case, Goal, Query, Status


def infeasible() -> Query:
    """Where the constraint holds for no input."""
    network = dense_network(np.random.default_rng(3), (2, 4, 1))
    return Query.maximise(
        network,
        Domain(Box([-1.0, -1.0], [1.0, 1.0])),
        [np.ones(1)],
        constraints=np.ones((1, 1)),
        constraint_offsets=np.array([-1e3]),
    )


@pytest.mark.parametrize("threads", [0, 1])
def test_a_relative_tolerance_without_a_witness_ends(threads: int) -> None:
    goal = Goal(1e-3, relative_tolerance=0.01, time_limit=20)
    found = Engine("cpu", Settings(threads=threads)).answer(infeasible(), goal)
    assert found.status is Status.INFEASIBLE


@pytest.mark.parametrize("threads", [0, 1])
def test_a_floor_above_the_threshold_decides(threads: int) -> None:
    query = Query(infeasible().networks, infeasible().cases, floor=51.0)
    found = Engine("cpu", Settings(threads=threads)).answer(query, Goal(threshold=0.5, time_limit=20))
    assert found.status is Status.DECIDED


def test_a_box_beyond_precision_does_not_hide_that_the_rest_is_too() -> None:
    """Case 0 can never be told: only x = 0 meets its constraint, by a hair; case 1 lies on the threshold itself."""
    tanh = Network((Layer.of([[1.0]], [0.0], Activation("tanh")), Layer.of([[1.0]], [0.0])))
    box, minus = Box([0.0], [1.0]), np.array([[-1.0]])
    cases = (Case(box, np.zeros(1), 5.0, minus, np.zeros(1)), Case(box, np.array([-1.0])))
    found = Engine("cpu").answer(Query((tanh,), cases), Goal(threshold=1e-300, time_limit=20))
    assert found.status is not Status.TIME_LIMIT


def test_going_on_after_coarse_goals_gives_what_a_new_search_gives() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        query = Query.maximise(
            [dense_network(rng, (4, 10, 8, 1)) for _ in range(2)],
            Domain(Box([-1.0] * 4, [1.0] * 4)),
            [np.array([1.0, -1.0])],
        )
        step = Goal(1e300, closing=1e-4)
        engine, goal = Engine("cpu"), Goal(1e-4)
        widths = [engine.answer(query, step)]
        for relative in (4.0, 1.0, 0.5, 0.1, 0.01):
            widths.append(engine.answer(query, Goal(1e-4, relative, closing=1e-4)))
            assert widths[-1].boxes >= widths[-2].boxes
        resumed, fresh = engine.answer(query, goal), Engine("cpu").answer(query, goal)
        assert (resumed.lower, resumed.upper, resumed.boxes) == (fresh.lower, fresh.upper, fresh.boxes)
        again = Engine("cpu").answer(query, Goal(1e-4, 0.5, closing=1e-4))
        assert (again.lower, again.upper) == (widths[3].lower, widths[3].upper)


def test_little_memory_makes_the_search_go_deep_and_not_wrong() -> None:
    rng = np.random.default_rng(1)
    query = Query.maximise(
        [dense_network(rng, (5, 16, 16, 1)) for _ in range(2)],
        Domain(Box([-1.0] * 5, [1.0] * 5)),
        [np.array([1.0, -1.0])],
    )
    free, short = (Engine("cpu", Settings(memory=memory)).answer(query, Goal(1e-2)) for memory in (1 << 30, 0))
    assert free.status is short.status is Status.EXACT
    assert max(free.lower, short.lower) <= min(free.upper, short.upper)
