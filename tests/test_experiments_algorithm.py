"""Alg. 2 on many populations at once, against `karenina.select` on each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_subjects import line

from karenina import Box, Domain, select
from karenina.experiments.algorithm import CRITERIA, Rule, rules, run
from karenina.experiments.tables import UNIT, Table, from_table

MODELS, SIZE = 12, 9
DOMAIN = Domain(Box([0.0], [1.0]))


def whole_table(seed: int, largest: int) -> np.ndarray:
    """A small largest value makes many ties."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.integers(0, largest, (MODELS, MODELS)), 1) * 1_000_000
    return upper + upper.T


def selected(values: np.ndarray, places: list[int], rule: Rule) -> tuple[list[int], int]:
    """Survivors and the recommended, by `karenina.select`."""
    networks = {f"n{k}": "" for k in range(MODELS)}
    table = Table("made-up", "l1", "", 1e-6, networks, values, values).of(places)
    found = select(
        [line(float(k + 1)) for k in range(len(places))],
        DOMAIN,
        names=[str(k) for k in range(len(places))],
        measure=from_table(table),
        criterion=rule.criterion,
        iterations=rule.iterations,
        stop_below=rule.stop_below,
        tolerance=1e-6,
        exact=True,
    )
    return [int(name) for name in found.survivors], int(found.recommended)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("largest", [4, 1000])
@pytest.mark.parametrize(("iterations", "stop_below"), [(None, None), (2, None), (7, 2.0)])
def test_it_removes_what_select_removes(
    criterion: str, largest: int, iterations: int | None, stop_below: float | None
) -> None:
    values = whole_table(1, largest)
    sets = np.array(list(itertools.combinations(range(MODELS), SIZE)))[::17]
    rule = Rule(criterion, iterations, stop_below)
    found = run(values, sets, rule)
    for k, places in enumerate(sets.tolist()):
        survivors, recommended = selected(values, places, rule)
        assert np.flatnonzero(found.survives[k]).tolist() == survivors
        assert found.recommended[k] == recommended


def test_percentile_takes_seven_iterations_from_16_to_3() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 10**6, (16, 16))
    values = np.triu(values, 1) + np.triu(values, 1).T
    for iterations, left in enumerate((16, 12, 9, 7, 6, 5, 4, 3)):
        found = run(values, np.arange(16)[None, :], Rule("percentile", iterations))
        assert found.survives.sum() == left


def test_the_largest_gap_parts_two_camps() -> None:
    """Four models that agree, and four that are far from everybody."""
    place = np.array([0, 1, 2, 3, 100, -200, 400, -800]) * 1_000_000
    values = np.abs(place[:, None] - place[None, :])
    found = run(values, np.arange(8)[None, :], Rule("max", None, stop_below=4.0))
    assert np.flatnonzero(found.survives[0]).tolist() == [0, 1, 2, 3]
    assert found.mean(np.array([[1.0] * 4 + [0.0] * 4])).tolist() == [1.0]


def test_the_floor_is_for_the_gap_alone() -> None:
    found = rules(2.0)
    assert {name: rule.stop_below for name, rule in found.items()} == {
        "percentile": None,
        "max": 2.0,
        "combined": 2.0,
    }
    assert UNIT == 1e-6
