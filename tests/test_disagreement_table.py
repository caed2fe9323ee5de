"""The table of all pairs: who measures it, how it is kept, what it says."""

from __future__ import annotations

import itertools
import math
import random
import sys

import numpy as np
import pytest
from planted_tables import DOMAIN, Planted, dummies, random_table
from random_networks import dense_network

from karenina.backends.fake import FakeBackend
from karenina.disagreement import (
    Disagreement,
    DisagreementTable,
    PairResults,
    PairTask,
    disagreement_table,
    measure_here,
    pairwise_disagreement_threshold,
)
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.errors import InputError, MissingExtra
from karenina.query import Answer, Goal, Status


def found(lower: float, upper: float, status: Status = Status.EXACT, note: str = "") -> Disagreement:
    outputs = (np.array([0.0]), np.array([lower]))
    return Disagreement(lower, upper, status, np.array([0.25]), outputs, 2, 0.5, note)


def test_the_table_holds_every_pair_once() -> None:
    planted = Planted(random_table(random.Random(0), 5, whole=False))
    table = disagreement_table(dummies(5), DOMAIN, goal=Goal(0.5), measure=planted)
    assert sorted(table.pairs) == list(itertools.combinations(range(5), 2))
    assert {task.goal for task in planted.asked} == {Goal(0.5)}
    truth = np.array(planted.table)
    assert (table.lower <= truth).all()
    assert (truth <= table.upper).all()
    assert (table.upper - table.lower <= 0.5).all()
    assert np.array_equal(table.lower, table.lower.T)
    assert not table.lower.diagonal().any()
    assert not table.upper.diagonal().any()


def test_the_engine_measures_here() -> None:
    rng = np.random.default_rng(3)
    networks = [dense_network(rng, (2, 5, 1)).named(f"n{i}") for i in range(3)]
    domain = Domain(Box([-1, -1], [1, 1]))
    table = disagreement_table(networks, domain, "linf", backend=Engine("cpu"))
    for i, j in itertools.combinations(range(3), 2):
        alone = pairwise_disagreement_threshold(networks[i], networks[j], domain, "linf", backend=Engine("cpu"))
        kept = table.pairs[i, j]
        assert (kept.lower, kept.upper, kept.status, kept.boxes) == (
            alone.lower,
            alone.upper,
            alone.status,
            alone.boxes,
        )
        assert kept.outputs is not None
        assert abs(kept.outputs[0] - kept.outputs[1]).max() == pytest.approx(kept.lower)


def test_measure_here_answers_tasks_as_they_are_asked_for() -> None:
    backend = FakeBackend(lambda _: Answer(1.0, 2.0, Status.EXACT, np.array([0.5]), 0, 1, 0.0))
    measure = measure_here(dummies(3), DOMAIN, backend=backend)
    tasks = [PairTask(0, 2, Goal(0.5)), PairTask(1, 2, Goal(1.0))]
    answers = measure(tasks)
    assert next(answers)[0] == tasks[0]
    assert len(backend.queries) == 1
    assert [task for task, _ in answers] == tasks[1:]
    assert [goal.tolerance for goal in backend.goals] == [0.5, 1.0]


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (-1, 0)])
def test_a_task_is_two_places_in_order(first: int, second: int) -> None:
    with pytest.raises(InputError, match="the smaller first"):
        PairTask(first, second, Goal())


def test_by_name_or_place_in_any_order() -> None:
    table = DisagreementTable(("a", "b", "c"), {(0, 1): found(1.0, 1.5), (0, 2): found(2.0, 2.0)})
    assert table.disagreement("a", "b") is table.pairs[0, 1]
    assert table.disagreement(0, 2) is table.pairs[0, 2]
    turned = table.disagreement("b", "a")
    assert turned.outputs is not None
    assert [float(y[0]) for y in turned.outputs] == [1.0, 0.0]
    assert table.upper.tolist() == [[0.0, 1.5, 2.0], [1.5, 0.0, math.inf], [2.0, math.inf, 0.0]]
    with pytest.raises(InputError, match="b and c were not measured"):
        table.disagreement("b", "c")
    with pytest.raises(InputError, match="no network 'd' in the table; there are a, b, c"):
        table.disagreement("a", "d")
    with pytest.raises(InputError, match="places go from 0 to 2"):
        table.disagreement(0, 3)


def test_results_give_back_what_they_were_given() -> None:
    results = PairResults(4, 1, 1)
    results.record(1, 3, found(1.0, 2.0, note="a note"))
    results.record(0, 2, Disagreement(0.0, math.inf, Status.OVERFLOW, None, None, 0, 0.0))
    assert list(results) == [(0, 2), (1, 3)]
    assert len(results) == 2
    again = results[1, 3]
    assert (again.lower, again.upper, again.status, again.note, again.boxes) == (1.0, 2.0, Status.EXACT, "a note", 2)
    assert again.witness is not None
    assert again.witness.tolist() == [0.25]
    assert results[0, 2].witness is None
    assert results[0, 2].outputs is None
    for missing in ((0, 1), (3, 1), (2, 2), (0, 4)):
        assert missing not in results
        with pytest.raises(KeyError):
            results[missing]


def test_every_place_is_its_own() -> None:
    results = PairResults(7, 1, 1)
    for count, (i, j) in enumerate(itertools.combinations(range(7), 2)):
        results.record(i, j, found(float(count), count + 0.5))
    assert [pair.lower for pair in results.values()] == [float(count) for count in range(21)]


def test_the_cost_of_a_pair_adds_up() -> None:
    results = PairResults(2, 1, 1)
    results.record(0, 1, found(1.0, 9.0, note="first"))
    results.record(0, 1, found(1.0, 2.0))
    assert (results[0, 1].boxes, results[0, 1].seconds, results[0, 1].note) == (4, 1.0, "")
    assert (results.boxes, results.seconds) == (4, 1.0)


def test_a_measure_that_leaves_pairs_out_is_a_bug() -> None:
    planted = Planted(random_table(random.Random(0), 3, whole=False))
    with pytest.raises(AssertionError, match="3 pairs were to be measured, 2 were"):
        disagreement_table(dummies(3), DOMAIN, measure=lambda tasks: planted(tasks[1:]))


def test_it_prints_and_stays_short() -> None:
    planted = Planted(random_table(random.Random(0), 12, whole=False))
    text = str(disagreement_table(dummies(12), DOMAIN, measure=planted))
    assert text.startswith("a ")
    assert "m0 " in text
    assert text.endswith("... and 26 more pairs")


def test_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    table = DisagreementTable(("a", "b"), {(0, 1): found(1.0, 1.5)})
    frame = table.to_frame()
    assert frame[["a", "b", "lower", "upper"]].values.tolist() == [["a", "b", 1.0, 1.5]]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"karenina\[frames\]"):
        table.to_frame()
