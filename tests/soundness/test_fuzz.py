"""Random queries of every kind: no sampled value exceeds `upper`, witnesses attain `lower`, other solvers agree."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import ALL, PIECEWISE_LINEAR, check_answer, overlap, random_query, sampled_maximum

from karenina.backends.marabou import Marabou
from karenina.backends.milp import Milp
from karenina.engine import Engine
from karenina.network import Activation
from karenina.query import Goal, Query, Status, Verdict

SMOOTH = tuple(activation for activation in ALL if not activation.piecewise_linear)
NO_HIGHS = importlib.util.find_spec("highspy") is None
NO_MARABOU = importlib.util.find_spec("maraboupy") is None
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("activations", [ALL, PIECEWISE_LINEAR, SMOOTH], ids=["all", "piecewise linear", "smooth"])
@given(seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_sampled_value_exceeds_the_interval(
    activations: tuple[Activation, ...], seed: int, constrained: bool
) -> None:
    rng = np.random.default_rng(seed)
    query, goal = random_query(rng, activations, constrained=constrained), Goal(1e-2, time_limit=1)
    check_answer(query, Engine("cpu").answer(query, goal), goal, rng)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_piecewise_linear_queries_to_a_millionth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query, goal = random_query(rng, PIECEWISE_LINEAR, deepest=3), Goal(0.0, 1e-6, time_limit=2)
    check_answer(query, Engine("cpu").answer(query, goal), goal, rng)


@given(seeds, st.booleans(), st.sampled_from([-1.0, -0.1, -1e-3, 1e-3, 0.1, 1.0]))
@settings(max_examples=50, deadline=None)
def test_thresholds_are_decided_on_the_right_side(seed: int, constrained: bool, distance: float) -> None:
    """A threshold a little below, or above, the largest sampled value."""
    rng = np.random.default_rng(seed)
    query = random_query(rng, constrained=constrained)
    sampled = sampled_maximum(query, rng)
    if sampled == -np.inf:
        return
    threshold = sampled + distance
    goal = Goal(threshold=threshold, time_limit=1)
    answer = Engine("cpu").answer(query, goal)
    check_answer(query, answer, goal, rng)
    verdict = answer.verdict(threshold)
    if distance < 0:
        assert verdict is not Verdict.UNSAT
    if verdict is Verdict.UNSAT:
        assert answer.upper < threshold
    if answer.status is Status.DECIDED:
        assert verdict in (Verdict.SAT, Verdict.UNSAT)


def agree(query: Query, other: Milp | Marabou, tolerance: float, seconds: float) -> None:
    """Where both finish, the intervals overlap; where one is infeasible, so is the other."""
    there = other.answer(query, Goal(1e-4, time_limit=seconds))
    here = Engine("cpu").answer(query, Goal(1e-4, time_limit=seconds))
    finished = (Status.EXACT, Status.PRECISION)
    if there.status in finished and here.status in finished:
        assert overlap(here, there, tolerance), (here, there)
    if there.status is Status.INFEASIBLE:
        assert here.status in (Status.INFEASIBLE, Status.TIME_LIMIT), (here, there)
    if here.status is Status.INFEASIBLE:
        assert there.status in (Status.INFEASIBLE, Status.TIME_LIMIT), (here, there)


@pytest.mark.skipif(NO_HIGHS, reason="needs highspy")
@given(seeds, st.booleans())
@settings(max_examples=25, deadline=None)
def test_highs_agrees(seed: int, constrained: bool) -> None:
    query = random_query(np.random.default_rng(seed), PIECEWISE_LINEAR, constrained=constrained, deepest=3)
    agree(query, Milp("highs"), 2e-6, 3.0)


@pytest.mark.skipif(NO_MARABOU, reason="needs maraboupy")
@pytest.mark.parametrize("seed", range(4))
def test_marabou_agrees(seed: int) -> None:
    query = random_query(np.random.default_rng(seed), PIECEWISE_LINEAR, constrained=seed % 2 == 1, deepest=1)
    agree(Query(query.networks, query.cases[:1]), Marabou(), 1e-5, 3.0)
