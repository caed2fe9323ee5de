"""Stored disagreement tables: what is measured, kept, read back and used again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_subjects import SLOPES, small_subject

from karenina.disagreement import PairTask
from karenina.errors import InputError
from karenina.experiments.tables import UNIT, Table, from_table, load_table, measure_table, save_table
from karenina.query import Goal, Status


def test_lines_disagree_by_the_difference_of_their_slopes() -> None:
    lower, upper = measure_table(small_subject(), 1e-3).bounds()
    true = np.abs(np.subtract.outer(SLOPES, SLOPES))
    assert (lower <= true + 1e-12).all()
    assert (upper >= true - 1e-12).all()
    assert (upper - lower <= 1e-3 + 2.5 * UNIT).all()


def test_a_table_reads_back_as_it_was(tmp_path: Path) -> None:
    table = measure_table(small_subject(), 1e-3, keep=tmp_path / "new" / "table.json")
    found = load_table(tmp_path / "new" / "table.json")
    assert found.networks == table.networks
    assert (found.distance, found.domain, found.tolerance) == ("l1", table.domain, 1e-3)
    np.testing.assert_array_equal(found.lower, table.lower)
    np.testing.assert_array_equal(found.upper, table.upper)
    assert found.open_pairs == 0


def counted(subject_slopes: tuple[float, ...], before: Table | None, tolerance: float = 1e-3) -> tuple[int, Table]:
    """How many pairs were measured, and the table."""
    asked: list[int] = []
    table = measure_table(
        small_subject(subject_slopes), tolerance, before=before, progress=lambda done, _: asked.append(done)
    )
    return len(asked), table


def test_new_models_cost_their_own_pairs_only() -> None:
    _, before = counted(SLOPES[:5], None)
    number, table = counted((7.0, *SLOPES[:5], 8.0), before)
    assert number == 5 + 5 + 1
    _, fresh = counted((7.0, *SLOPES[:5], 8.0), None)
    np.testing.assert_array_equal(table.lower, fresh.lower)


def test_another_tolerance_or_domain_measures_all_anew() -> None:
    _, before = counted(SLOPES[:5], None)
    assert counted(SLOPES[:5], before)[0] == 0
    assert counted(SLOPES[:5], before, 1e-2)[0] == 10
    assert counted(SLOPES[:5], replace(before, domain="another"))[0] == 10


def test_a_table_of_some_is_the_same_pairs() -> None:
    table = measure_table(small_subject(), 1e-3)
    part = table.of([6, 0, 3])
    assert part.names == ("seed_007", "seed_001", "seed_004")
    for (i, a), (j, b) in itertools.combinations(enumerate([6, 0, 3]), 2):
        assert part.lower[i, j] == table.lower[a, b]


def test_a_measure_looks_pairs_up() -> None:
    table = measure_table(small_subject(), 1e-3)
    (task, found), *rest = from_table(table)([PairTask(1, 4, Goal(1e-3))])
    assert (task.first, task.second, rest) == (1, 4, [])
    assert found.status is Status.EXACT
    assert found.lower <= 3.1 <= found.upper


@pytest.mark.parametrize("text", [None, "{", "[]", '{"population": "x"}'])
def test_what_is_no_table_is_refused_by_name(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "table.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=r"table\.json"):
        load_table(path)


def test_an_unmeasured_pair_stays_unmeasured_on_disk(tmp_path: Path) -> None:
    table = measure_table(small_subject(), 1e-3)
    table.lower[0, 1] = table.lower[1, 0] = table.upper[0, 1] = table.upper[1, 0] = -1
    save_table(table, tmp_path / "table.json")
    assert load_table(tmp_path / "table.json").upper[0, 1] == -1
