"""A few minutes of random queries, and comparisons with Marabou: `make test-slow`."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from near_copies import KINDS, ONE_PLACE, near_copy
from random_networks import (
    ALL,
    PIECEWISE_LINEAR,
    check_answer,
    dense_network,
    overlap,
    random_box,
    random_network,
    random_query,
)

from karenina.backends.marabou import Marabou
from karenina.backends.milp import Milp
from karenina.disagreement import pairwise_disagreement_threshold
from karenina.domain import Domain
from karenina.engine import Engine, Settings
from karenina.network import Activation
from karenina.query import Goal, Query, Status

pytestmark = pytest.mark.slow

NO_HIGHS = importlib.util.find_spec("highspy") is None
NO_MARABOU = importlib.util.find_spec("maraboupy") is None


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("block", range(6))
def test_no_sampled_value_exceeds_the_interval(block: int, constrained: bool) -> None:
    for seed in range(100 * block, 100 * block + 100):
        rng = np.random.default_rng([seed, constrained])
        query = random_query(rng, ALL if block % 2 else PIECEWISE_LINEAR, constrained=constrained)
        goal = Goal(1e-3, time_limit=2)
        check_answer(query, Engine("cpu").answer(query, goal), goal, rng)


@pytest.mark.parametrize("endgame", [0, 2, 1000])
def test_neuron_splits_are_sound(endgame: int) -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        query, goal = random_query(rng, constrained=bool(seed % 2)), Goal(1e-2, time_limit=1)
        engine = Engine("cpu", Settings(endgame=endgame, threads=0))  # only torch splits neurons
        check_answer(query, engine.answer(query, goal), goal, rng)


def near_query(rng: np.random.Generator, kind: str, *, constrained: bool) -> Query:
    """How far a network and a near copy of it differ."""
    inputs, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    first = random_network(
        rng, inputs, outputs, int(rng.integers(1, 5)), ALL if rng.random() < 0.5 else PIECEWISE_LINEAR
    )
    objective, rows = rng.normal(size=outputs), int(constrained)
    return Query.maximise(
        (first, near_copy(rng, first, kind)),
        Domain(random_box(rng, inputs)),
        [np.concatenate([sign * objective, -sign * objective]) for sign in (1, -1)],
        constraints=rng.normal(size=(rows, 2 * outputs)),
        constraint_offsets=2 * rng.normal(size=rows),
    )


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("kind", [*KINDS, *ONE_PLACE])
def test_compiled_code_and_torch_agree_on_near_copies(kind: str, constrained: bool) -> None:
    for seed in range(40):
        rng, goal = np.random.default_rng([seed, constrained]), Goal(1e-3, time_limit=1)
        query = near_query(rng, kind, constrained=constrained)
        ours, theirs = (Engine("cpu", settings).answer(query, goal) for settings in (None, Settings(threads=0)))
        check_answer(query, ours, goal, rng)
        if Status.INFEASIBLE in (ours.status, theirs.status):
            assert ours.status is theirs.status or Status.TIME_LIMIT in (ours.status, theirs.status)
        else:
            assert overlap(ours, theirs, 0.0), (seed, ours, theirs)


def agree(query: Query, other: Milp | Marabou, tolerance: float, seconds: float) -> bool:
    """Whether both finished; where they did, they agree."""
    here = Engine("cpu").answer(query, Goal(1e-4, time_limit=seconds))
    there = other.answer(query, Goal(1e-4, time_limit=seconds))
    finished = (Status.EXACT, Status.PRECISION, Status.INFEASIBLE)
    if here.status not in finished or there.status not in finished:
        return False
    assert (here.status is Status.INFEASIBLE) == (there.status is Status.INFEASIBLE), (here, there)
    assert here.status is Status.INFEASIBLE or overlap(here, there, tolerance), (here, there)
    return True


@pytest.mark.skipif(NO_HIGHS, reason="needs highspy")
def test_highs_agrees() -> None:
    seeds = range(150)
    queries = [
        random_query(np.random.default_rng(s), PIECEWISE_LINEAR, constrained=bool(s % 2), deepest=3) for s in seeds
    ]
    assert sum(agree(query, Milp("highs"), 2e-6, 5.0) for query in queries) >= 130


@pytest.mark.skipif(NO_MARABOU, reason="needs maraboupy")
def test_marabou_agrees() -> None:
    seeds = range(20)
    queries = [
        random_query(np.random.default_rng(s), PIECEWISE_LINEAR, constrained=bool(s % 2), deepest=2) for s in seeds
    ]
    assert sum(agree(Query(q.networks, q.cases[:1]), Marabou(), 1e-5, 10.0) for q in queries) >= 12


@pytest.mark.parametrize("distance", ["l1", "linf", "c-distance", "class"])
@pytest.mark.parametrize("activation", [Activation("relu"), Activation("tanh")], ids=str)
def test_every_distance_closes_on_small_pairs(distance: str, activation: Activation) -> None:
    """2-8-3 pairs are easy: a search that does not close one has lost its way."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        first, second = (dense_network(rng, (2, 8, 3), activation) for _ in range(2))
        domain, goal = Domain(random_box(rng, 2)), Goal(1e-3, time_limit=20)
        found = pairwise_disagreement_threshold(first, second, domain, distance, goal=goal, backend=Engine("cpu"))
        assert found.status in (Status.EXACT, Status.INFEASIBLE), (seed, found)
