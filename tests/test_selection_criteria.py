"""The certificates: whatever values the intervals hold, a certified decision is the one Alg. 2 takes on them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_tables import Table, naive_iteration, random_table

from karenina.disagreement import Disagreement, PairTask
from karenina.query import Goal, Status
from karenina.selection import CRITERIA, SelectionSettings
from karenina.selection.criteria import decide, recommend, removal_count
from karenina.selection.known import Known, Standing
from karenina.selection.plan import COARSEST, rung, widths


def standing_of(lower: Table, upper: Table, goal: Goal | None = None, *, final: bool = True) -> Standing:
    """All pairs answered with the intervals given."""
    goal = goal or Goal(COARSEST)
    known, asked = Known(len(lower), 1, 1, goal), goal if final else Goal(COARSEST)
    for i in range(len(lower)):
        for j in range(i + 1, len(lower)):
            asked = goal if final else Goal(COARSEST)
            known.record(
                PairTask(i, j, asked), Disagreement(lower[i][j], upper[i][j], Status.EXACT, None, None, 1, 0.0)
            )
    return known.standing(range(len(lower)))


def widened(rng: random.Random, table: Table, width: float) -> tuple[Table, Table]:
    """Symmetric intervals that hold the table's values."""
    count = len(table)
    lower, upper = [row[:] for row in table], [row[:] for row in table]
    for i in range(count):
        for j in range(i):
            down, up = rng.random() * width, rng.random() * width
            lower[i][j] = lower[j][i] = max(0.0, table[i][j] - down)
            upper[i][j] = upper[j][i] = table[i][j] + up
    return lower, upper


def inside(rng: random.Random, lower: Table, upper: Table) -> Table:
    """Values inside the intervals, many of them at an end."""
    count = len(lower)
    table = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            share = rng.choice([0.0, 1.0, rng.random()])
            value = lower[i][j] + share * (upper[i][j] - lower[i][j])
            table[i][j] = table[j][i] = min(max(value, lower[i][j]), upper[i][j])
    return table


def random_settings(rng: random.Random) -> SelectionSettings:
    return SelectionSettings(
        criterion=rng.choice(CRITERIA),
        percent=rng.choice([10, 25, 50, 75]),
        similar=rng.choice([0.0, 0.0, 1.0, 3.0]),
        stop_below=rng.choice([None, None, 3.0, 8.0, 30.0]),
    )


def check_certificate(seed: int) -> None:
    """A decision on random intervals is Alg. 2's on their lower ends; a certified one is that of all values inside."""
    rng = random.Random(seed)
    count = rng.randint(3, 8)
    table = random_table(rng, count, rng.random() < 0.2)
    lower, upper = widened(rng, table, rng.choice([0.01, 0.1, 1.0, 5.0]))
    chosen = random_settings(rng)
    standing = standing_of(lower, upper)
    decision = decide(standing, chosen)
    gone = standing.order[: decision.count].tolist()
    assert gone == naive_iteration(lower, range(count), chosen)
    if decision.claims.certain(standing).all():
        for _ in range(12):
            assert set(naive_iteration(inside(rng, lower, upper), range(count), chosen)) == set(gone)


@given(st.integers(0, 2**40))
@settings(max_examples=150, deadline=None)
def test_a_certified_decision_is_that_of_all_values_inside(seed: int) -> None:
    check_certificate(seed)


def test_certificates_are_found_where_models_are_clearly_apart() -> None:
    """Without this the property above could hold because nothing is ever certified."""
    certified = dict.fromkeys(CRITERIA, 0)
    for seed in range(60):
        rng = random.Random(seed)
        table = random_table(rng, 7, whole=False)
        standing = standing_of(*widened(rng, table, 0.05))
        for criterion in CRITERIA:
            decision = decide(standing, SelectionSettings(criterion=criterion))
            certified[criterion] += bool(decision.claims.certain(standing).all())
    assert min(certified.values()) > 40


def test_a_gap_among_those_that_go_may_turn_out_larger() -> None:
    """m4 and m5 are surely far above the rest, but m4 may be as far above m5: then it goes alone."""
    near, far, chosen = 1.0, 10.0, SelectionSettings(criterion="max")
    lower = [[0.0 if i == j else near if max(i, j) < 4 else far for j in range(6)] for i in range(6)]
    lower[4][5] = lower[5][4] = 20.0
    upper = [row[:] for row in lower]
    for i in range(4):
        upper[i][4] = upper[4][i] = 20.0
    standing = standing_of(lower, upper)
    decision = decide(standing, chosen)
    assert decision.count == 2
    across = np.repeat([4, 5], 4), np.tile(np.arange(4), 2)
    assert standing.least(*across).min() > decision.numbers["gap"] * 5 / 2  # the gap itself is certain enough
    assert naive_iteration(upper, range(6), chosen) == [4]
    assert not decision.claims.certain(standing).all()


def test_the_pair_of_two_models_cancels() -> None:
    """Their own pair is hardly known, yet which of the two disagrees more with the third is certain."""
    lower: Table = [[0, 0, 2], [0, 0, 1], [2, 1, 0]]
    upper: Table = [[0, 99, 2], [99, 0, 1], [2, 1, 0]]
    standing = standing_of(lower, upper)
    least = standing.least(np.array([0, 1]), np.array([1, 0]))
    assert least.tolist() == [1.0, -1.0]


def test_least_is_the_least_of_the_corners() -> None:
    rng = random.Random(5)
    lower, upper = widened(rng, random_table(rng, 4, whole=False), 3.0)
    standing = standing_of(lower, upper)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    smallest = math.inf
    for corner in range(2 ** len(pairs)):
        table = [[0.0] * 4 for _ in range(4)]
        for bit, (i, j) in enumerate(pairs):
            table[i][j] = table[j][i] = (upper if corner >> bit & 1 else lower)[i][j]
        smallest = min(smallest, sum(table[2]) - sum(table[0]))
    assert standing.least(np.array([2]), np.array([0]))[0] == pytest.approx(smallest)


def test_an_endless_pair_leaves_others_open_but_cancels_for_its_own() -> None:
    inf = math.inf
    lower: Table = [[0, 1, 2], [1, 0, 5], [2, 5, 0]]
    upper: Table = [[0, inf, 2], [inf, 0, 5], [2, 5, 0]]
    standing = standing_of(lower, upper)
    assert standing.least(np.array([1, 2]), np.array([0, 0])).tolist() == [3.0, -inf]


def test_a_pair_asked_for_less_is_held_wider_by_the_tolerance() -> None:
    lower: Table = [[0, 4], [4, 0]]
    upper: Table = [[0, 5], [5, 0]]
    coarse = standing_of(lower, upper, Goal(0.5), final=False)
    assert (coarse.lower[0, 1], coarse.value[0, 1], coarse.upper[0, 1]) == (3.5, 4.0, 5.0)
    assert not coarse.settled[0, 1]
    exact = standing_of(lower, [[0, 4.25], [4.25, 0]], Goal(0.5))
    assert (exact.lower[0, 1], exact.upper[0, 1]) == (4.0, 4.25)
    assert exact.settled[0, 1]


@pytest.mark.parametrize(
    ("models", "percent", "count"),
    [(16, 25, 4), (12, 25, 3), (9, 25, 2), (7, 25, 1), (3, 25, 1), (3, 90, 1), (100, 29, 29), (1000, 33.3, 333)],
)
def test_removal_count(models: int, percent: float, count: int) -> None:
    assert removal_count(models, percent) == count


def test_recommend_takes_the_lowest_and_of_equals_the_first() -> None:
    table: Table = [[0, 5, 1, 1], [5, 0, 5, 5], [1, 5, 0, 1], [1, 5, 1, 0]]
    standing = standing_of(table, table)
    best, claims = recommend(standing, np.arange(4))
    assert best == 0
    assert claims.certain(standing).tolist() == [True, False, False]
    assert recommend(standing, np.array([1, 3]))[0] == 3


def test_gaps_that_rounding_alone_tells_apart_are_equal() -> None:
    """Tables of a few numbers: gaps between different sums are often equal, in float64 only nearly."""
    rng = random.Random(3)
    for _ in range(300):
        table = [[0.0] * 6 for _ in range(6)]
        for i in range(6):
            for j in range(i):
                table[i][j] = table[j][i] = rng.choice([0.1, 0.37, 0.7317])
        standing = standing_of(table, table)
        decision = decide(standing, SelectionSettings(criterion="max"))
        assert standing.order[: decision.count].tolist() == naive_iteration(table, range(6), SelectionSettings("max"))


def test_rungs() -> None:
    inf = math.inf
    assert rung(12.0, 10.0, 1e-3, inf) == 1.0
    assert rung(45.0, 10.0, 1e-3, inf) == 4.0
    assert rung(9.9, 10.0, 1e-3, inf) == 0.5
    assert rung(9.9, 10.0, 1e-3, 0.5) == 0.25  # never the same again
    assert rung(0.01, 10.0, 1e-3, inf) == 0.0
    assert rung(1e-4, 0.0, 1e-3, inf) == 0.0
    assert rung(1.0, 1e-6, 1e-3, inf) == 0.0  # no rung below the tolerance


def test_what_is_wanted_would_decide() -> None:
    """When every wanted pair comes back as narrow as asked, at its lower end, the claims become certain."""
    for seed in range(200):
        rng = random.Random(seed)
        count = rng.randint(3, 9)
        table = random_table(rng, count, whole=False)
        upper = [[0.0 if i == j else value * 3 + 1 for j, value in enumerate(row)] for i, row in enumerate(table)]
        goal = Goal(1e-9)
        standing = standing_of(table, upper, goal, final=False)
        decision = decide(standing, SelectionSettings())
        open_ = decision.claims[~decision.claims.certain(standing)]
        if not len(open_):
            continue
        wanted = widths(standing, open_, goal.tolerance)[:count, :count]
        narrow = np.minimum(np.array(upper), np.array(table) + wanted).tolist()
        after = standing_of(table, narrow, goal, final=False)
        assert decision.claims.certain(after).all()
