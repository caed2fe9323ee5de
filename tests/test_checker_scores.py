"""What the checker says of scores and of Alg. 2 on numbers, against brute force."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations, product

from claimed_selections import Case, exact, random_bounds, random_rules, stated, tables_inside
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_tables import naive_iteration, naive_scores, random_table

from karenina.checker.rules import Rules
from karenina.checker.scores import Standing

SEEDS = st.integers(0, 2**32)


def test_the_percentage_is_the_one_written() -> None:
    assert Fraction(4.8) < Fraction("4.8")
    rules = Rules({"criterion": "max", "percent": 4.8, "iterations": None, "similar": 0, "stop_below": None})
    assert [rules.count(models) for models in (3, 20, 41, 42, 124, 125)] == [1, 1, 1, 2, 5, 6]
    rules = Rules({"criterion": "max", "percent": 90, "iterations": None, "similar": 0, "stop_below": None})
    assert [rules.count(models) for models in (3, 4, 20, 21)] == [1, 2, 18, 18]


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_alg_2_on_numbers(seed: int) -> None:
    rng = random.Random(seed)
    table, chosen = random_table(rng, rng.randint(3, 8), rng.random() < 0.7), random_rules(rng)
    score = {model: value * (len(table) - 1) for model, value in naive_scores(table, range(len(table))).items()}
    assert Rules(stated(chosen)).removed(score) == set(naive_iteration(table, range(len(table)), chosen))


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_the_least_difference_is_that_of_all_corners(seed: int) -> None:
    rng = random.Random(seed)
    lower, upper = random_bounds(rng, 4)
    standing = Standing(range(4), exact(lower), exact(upper))
    pairs, score = list(combinations(range(4), 2)), []
    for corner in product([lower, upper], repeat=len(pairs)):
        table = [[0.0] * 4 for _ in range(4)]
        for (i, j), ends in zip(pairs, corner, strict=True):
            table[i][j] = table[j][i] = ends[i][j]
        score.append({model: 3 * value for model, value in naive_scores(table, range(4)).items()})
    for (a, b), least in standing.least.items():
        assert least == min(found[a] - found[b] for found in score)
    for model in range(4):
        assert (standing.low[model], standing.high[model]) == (
            min(found[model] for found in score),
            max(found[model] for found in score),
        )


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_a_gap_that_is_impossible_is_in_no_table(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(3, 7)
    lower, upper = random_bounds(rng, count)
    standing = Standing(range(count), exact(lower), exact(upper))
    largest = [Fraction(0)] * count  # the largest gap that was seen below the k highest
    for table in tables_inside(rng, Case({}, [f"m{k}" for k in range(count)], lower, upper), 20):
        order = sorted((value * (count - 1) for value in naive_scores(table, range(count)).values()), reverse=True)
        for place in range(1, count):
            largest[place] = max(largest[place], order[place - 1] - order[place])
    for place in range(1, count):
        assert standing.may_gap(largest[place], {place})
    assert not standing.may_gap(Fraction(10**6), range(1, count))
    assert not standing.may_gap(Fraction(0), ())


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_tables_that_are_tried_lie_inside_the_bounds(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    lower, upper = random_bounds(rng, count)
    raised = {model for model in range(count) if rng.random() < 0.5}
    tried = list(Standing(range(count), exact(lower), exact(upper)).some_scores(raised))
    shares = [Fraction(share) for share in (0, 2**-20, 0.5, 1) for _ in range(2)]
    for score, share, across in zip(tried, shares, [False, True] * 4, strict=True):
        table = [[Fraction(0)] * count for _ in range(count)]
        for i, j in combinations(range(count), 2):
            low, high = Fraction(lower[i][j]), Fraction(upper[i][j])
            lifted = {i, j} <= raised or (across and {i, j} & raised)
            table[i][j] = table[j][i] = low + share * (high - low) if lifted else low
        assert score == {model: sum(table[model]) for model in range(count)}
