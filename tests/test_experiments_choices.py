"""Combinations, intervals, variance and ways of choosing, on made-up populations whose outcome is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from small_subjects import small_subject

from karenina.experiments import choices, combinations
from karenina.experiments.algorithm import Rule
from karenina.experiments.intervals import interval
from karenina.experiments.selections import rank_correlation
from karenina.experiments.tables import Table, measure_table
from karenina.experiments.uncertainty import (
    ensemble_variance,
    least_variance,
    squared_differences,
    uniform_inputs,
)


def test_all_sets_of_a_composition_are_tried() -> None:
    good = np.array([True] * 5 + [False] * 3)
    sets = combinations.compositions(good, 2, 3)
    assert len({tuple(row) for row in sets.tolist()}) == len(sets) == math.comb(5, 2)
    assert (good[sets].sum(1) == 2).all()
    assert (np.diff(sets, axis=1) > 0).all()


def test_too_many_sets_are_drawn() -> None:
    good = np.array([True] * 20 + [False] * 20)
    sets = combinations.compositions(good, 8, 4)
    assert sets.shape == (combinations.MOST, 12)
    assert (good[sets].sum(1) == 8).all()


def camps(good: np.ndarray, together: np.ndarray) -> np.ndarray:
    """A table in which some models agree (1) and all others are far (10 and more, each its own)."""
    size = len(good)
    table = 10_000_000 + 1000 * np.arange(size)[:, None] * np.ones(size, np.int64)
    table = np.maximum(table, table.T).astype(np.int64)
    table[np.ix_(together, together)] = 1_000_000
    np.fill_diagonal(table, 0)
    return table


def test_good_models_that_agree_survive_and_bad_ones_that_agree_too() -> None:
    good = np.array([True] * 6 + [False] * 4)
    sets = combinations.compositions(good, 4, 4)
    table = camps(good, good)
    found = combinations.outcome(table, good, sets, Rule("max", None, stop_below=2.0))
    assert (found["all_good"], found["some_bad"], found["naive"], found["ours"]) == (15, 0, 0.5, 1.0)
    against = combinations.outcome(camps(good, ~good), good, sets, Rule("max", None, stop_below=2.0))
    assert (against["all_good"], against["ours"], against["recommended"]) == (0, 0.0, 0.0)


def test_a_population_of_one_kind_has_no_compositions() -> None:
    own = small_subject((1.0, 1.1, 0.9))
    assert combinations.combination_data(own, measure_table(own, 1e-2)) is None


def test_the_interval_of_a_mean_is_the_usual_one() -> None:
    """The mean over draws of the mean of 16 drawn numbers estimates the pool's mean: its variance is var / n."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=80)
    sets = choices.drawn_sets(80, 16, 20_000)
    drawn = np.zeros((len(sets), 80), dtype=bool)
    np.put_along_axis(drawn, sets, True, axis=1)
    found = interval(drawn, pool[sets].mean(1))
    error = pool.std(ddof=1) / math.sqrt(80)
    assert found.mean == pytest.approx(pool.mean(), abs=0.01)
    assert (found.upper - found.lower) / 2 == pytest.approx(1.96 * error, rel=0.1)


def test_an_outcome_that_no_model_decides_has_a_narrow_interval() -> None:
    sets = choices.drawn_sets(40, 16, 5000)
    drawn = np.zeros((len(sets), 40), dtype=bool)
    np.put_along_axis(drawn, sets, True, axis=1)
    found = interval(drawn, np.random.default_rng(1).integers(0, 2, len(sets)).astype(float))
    assert found.upper - found.lower < 0.1


def test_draws_hold_distinct_models_in_order() -> None:
    sets = choices.drawn_sets(20, 16, 100)
    assert (np.diff(sets, axis=1) > 0).all()
    assert sets.max() == 19
    assert [choices.set_size(n) for n in (16, 20, 120)] == [12, 16, 16]


def test_the_variance_of_an_ensemble_is_numpys() -> None:
    own = small_subject()
    inputs = uniform_inputs(own, 500)
    squared = squared_differences(own, inputs)
    sets = np.arange(len(own.names))[None, :]
    ensembles = np.array(list(itertools.combinations(range(len(own.names)), 3)))
    found = ensemble_variance(squared, sets, ensembles)[0]
    outputs = np.stack([network(inputs)[:, 0] for network in own.networks])
    expected = [outputs[list(members)].var(axis=0).mean() for members in ensembles]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert least_variance(squared, sets).tolist() == [[0, 1, 3]]


def chosen(monkeypatch: pytest.MonkeyPatch, slopes: tuple[float, ...]) -> dict[str, dict[str, float]]:
    monkeypatch.setattr(choices, "_REPEATS", {100: 2, 10_000: 1, 1_000_000: 0})
    monkeypatch.setattr(choices, "SIZES", (100, 10_000))
    own = small_subject(slopes)
    own = replace(own, rewards={**own.rewards, "in-distribution": -own.rewards["ood"]})
    data = choices.choice_data(own, measure_table(own, 1e-3), choices.sample_repeats(own))
    assert (data["models"], data["size"]) == (len(slopes), 3 * len(slopes) // 4)
    return {way: row["good"] for way, row in data["ways"].items()}


def test_where_good_models_agree_verification_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes = (1.0, 1.1, 0.9, 1.05, 0.95, 1.02, -3.0, 5.0, -8.0, 12.0, 30.0, -30.0)
    ways = chosen(monkeypatch, slopes)
    assert ways["random"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert ways["in-distribution reward"]["mean"] == 0.0
    assert ways["verification, percentile"]["mean"] > 0.95
    assert ways["verification, max, recommended"]["mean"] > 0.95
    assert ways["10000 samples, percentile"]["mean"] > 0.95  # lines are easy to sample
    assert ways["ensemble variance"]["mean"] > 0.95


def test_where_bad_models_agree_verification_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes = (1.0, 0.6, 1.4, -3.0, -3.01, -3.02, -3.03, -3.04)
    assert chosen(monkeypatch, slopes)["verification, percentile"]["mean"] < 0.05


def test_the_tables_place_is_the_models_place() -> None:
    """A permuted population gives the same rows."""
    own = small_subject()
    table = measure_table(own, 1e-3)
    order = [7, 3, 0, 5, 1, 6, 2, 4]
    turned = replace(
        own,
        names=tuple(own.names[k] for k in order),
        networks=tuple(own.networks[k] for k in order),
        rewards={preset: rewards[order] for preset, rewards in own.rewards.items()},
    )
    assert isinstance(table, Table)
    a = combinations.combination_data(own, table)
    b = combinations.combination_data(turned, table.of(order))
    assert a == b


def test_rank_correlation_is_scipys_idea() -> None:
    """By hand: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4."""
    first, second = np.array([1.0, 5.0, 5.0, 7.0]), np.array([0.0, 1.0, 2.0, 30.0])
    assert rank_correlation(first, second) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert rank_correlation(second, second) == 1.0
    assert rank_correlation(-second, second) == -1.0
    assert math.isnan(rank_correlation(np.ones(4), second))
