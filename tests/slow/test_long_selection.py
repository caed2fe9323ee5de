"""Selections on thousands of planted tables; networks by the hundred."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_tables import Planted, cases, check_against_alg_2, random_table, selected
from test_selection_criteria import check_certificate

from karenina.selection import CRITERIA, Certainty, SelectionSettings

pytestmark = pytest.mark.slow


@given(cases(largest=14))
@settings(max_examples=3000, deadline=None)
def test_lazy_and_exact_remove_what_alg_2_removes(case: tuple[Planted, SelectionSettings]) -> None:
    check_against_alg_2(*case)


@given(st.integers(0, 2**40))
@settings(max_examples=3000, deadline=None)
def test_a_certified_decision_is_that_of_all_values_inside(seed: int) -> None:
    check_certificate(seed)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("whole", [False, True])
def test_larger_populations(criterion: str, whole: bool) -> None:
    table = random_table(random.Random(7), 60, whole)
    check_against_alg_2(Planted(table), SelectionSettings(criterion=criterion))


def test_many_models_are_decided_in_arrays() -> None:
    """500 models, 124,750 pairs: a Python loop over pairs in every round would not end."""
    rng = np.random.default_rng(0)
    place = rng.normal(size=(500, 3)) * np.linspace(0.1, 3, 500)[:, None]
    table = np.abs(place[:, None] - place[None]).sum(2).tolist()
    found = selected(Planted(table), SelectionSettings())
    assert all(iteration.certainty is not Certainty.UNDECIDED for iteration in found.iterations)
    assert len(found.survivors) == 2
    assert found.exact_pairs < 124_750 / 2
