"""The stored results of whole populations, computed again."""

from __future__ import annotations

import json

import pytest
from test_experiments_reproduce import POPULATIONS, STORED, stored_subject

from karenina.experiments.choices import choice_data, sample_repeats
from karenina.experiments.combinations import combination_data
from karenina.experiments.gradients import gradient_data
from karenina.experiments.tables import measure_table
from karenina.experiments.uncertainty import uncertainty_data

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", POPULATIONS)
def test_combinations(name: str) -> None:
    found = combination_data(stored_subject(name), STORED.table(name))
    assert json.loads(json.dumps(found)) == STORED.read("combinations").get(name)


@pytest.mark.parametrize("name", POPULATIONS)
def test_uncertainty(name: str) -> None:
    found, stored = uncertainty_data(stored_subject(name)), STORED.read("uncertainty")[name]
    for kind in stored:
        assert found[kind]["variance"] == pytest.approx(stored[kind]["variance"], rel=0.01)


def test_gradients() -> None:
    """Attacks depend on rounding a little."""
    found = gradient_data(stored_subject("mountaincar"), STORED.table("mountaincar"))
    for attack, row in STORED.read("gradients")["mountaincar"].items():
        for key in ("aligned", "untightened", "failed"):
            assert found[attack][key] == pytest.approx(row[key], abs=5), (attack, key)


def test_choices() -> None:
    own = stored_subject("mountaincar")
    found = choice_data(own, STORED.table("mountaincar"), sample_repeats(own))
    for way, row in STORED.read("choices")["mountaincar"]["ways"].items():
        assert found["ways"][way]["good"]["mean"] == pytest.approx(row["good"]["mean"], abs=0.02), way


def test_a_whole_table() -> None:
    stored = STORED.table("mountaincar")
    found = measure_table(stored_subject("mountaincar"), stored.tolerance)
    assert (found.lower <= stored.upper).all()
    assert (stored.lower <= found.upper).all()
