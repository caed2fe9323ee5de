"""Selections on planted tables, against Alg. 2 written down naively; and what they say."""

from __future__ import annotations

import itertools
import json
import math
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_tables import (
    DOMAIN,
    Planted,
    Table,
    cases,
    check_against_alg_2,
    dummies,
    naive_iteration,
    naive_removals,
    naive_scores,
    random_table,
    removals,
    selected,
)

from karenina.domain import Box, Domain
from karenina.errors import DomainError, InputError
from karenina.network import Layer, Network
from karenina.query import Goal
from karenina.selection import Certainty, Guarantee, Progress, SelectionSettings, select


@given(cases())
@settings(max_examples=150, deadline=None)
def test_lazy_and_exact_remove_what_alg_2_removes(case: tuple[Planted, SelectionSettings]) -> None:
    check_against_alg_2(*case)


@given(cases())
@settings(max_examples=50, deadline=None)
def test_intervals_hold_the_truth(case: tuple[Planted, SelectionSettings]) -> None:
    planted, chosen = case
    found = selected(planted, chosen)
    for (i, j), pair in found.table.pairs.items():
        assert pair.lower <= planted.table[i][j] <= pair.upper
    members = [int(name[1:]) for name in found.names]
    for iteration in found.iterations:
        truth = naive_scores(planted.table, members)
        assert list(iteration.scores) == [f"m{i}" for i in members]
        assert all(lower <= truth[int(name[1:])] <= upper for name, (lower, upper) in iteration.scores.items())
        members = [int(name[1:]) for name in iteration.survived]
    assert found.survivors == tuple(f"m{i}" for i in members)
    assert max(planted.table[i][j] for i, j in itertools.combinations(members, 2)) <= found.guarantee.upper
    assert found.guarantee.upper - found.guarantee.lower <= 2 * chosen.tolerance


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_the_order_of_arrival_makes_no_difference(case: tuple[Planted, SelectionSettings], seed: int) -> None:
    planted, chosen = case
    first = selected(planted, chosen).to_dict()
    planted.spoil = random.Random(seed)
    second = selected(planted, chosen).to_dict()
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def line(count: int) -> Table:
    """Models on a line, ever further apart: no ties."""
    return [[abs(i**1.5 - j**1.5) for j in range(count)] for i in range(count)]


def test_percentile_counts_are_the_papers() -> None:
    found = selected(Planted(line(16), exact=True), SelectionSettings(iterations=7))
    assert [len(iteration.scores) for iteration in found.iterations] == [16, 12, 9, 7, 6, 5, 4]
    assert len(found.survivors) == 3
    assert found.stop.reason == "7 iterations are done"


def test_clear_tables_need_few_exact_pairs() -> None:
    planted = Planted(line(40))
    found = selected(planted, SelectionSettings())
    assert found.certified
    assert found.exact_pairs < 40 * 39 // 2 // 3
    assert found.measurements == len(planted.asked)
    assert found.boxes == 3 * len(planted.asked)
    assert sum(task.goal == Goal(1e-3) for task in planted.asked) == found.exact_pairs


def test_no_pair_is_measured_twice_to_one_tolerance() -> None:
    planted = Planted(random_table(random.Random(1), 12, whole=False))
    selected(planted, SelectionSettings(criterion="combined"))
    assert len(planted.asked) == len(set(planted.asked))


def test_rounds_are_few_and_large() -> None:
    planted = Planted(random_table(random.Random(2), 24, whole=False))
    selected(planted, SelectionSettings())
    assert planted.rounds[0] == 24 * 23 // 2
    assert len(planted.rounds) < 40


def equal_table(count: int) -> Table:
    return [[float(i != j) for j in range(count)] for i in range(count)]


def test_equal_scores_stop_at_once_and_are_called_a_tie() -> None:
    found = selected(Planted(equal_table(5), exact=True), SelectionSettings())
    assert found.survivors == ("m0", "m1", "m2", "m3", "m4")
    assert found.stop.certainty is Certainty.TIE
    assert "no two scores differ by more than 0" in found.stop.reason
    assert found.recommended == "m0"


def test_a_tie_is_decided_by_the_order_of_the_list_and_said() -> None:
    """m1 and m2 disagree alike with everyone: the later one goes."""
    table = [[0, 2, 2, 1], [2, 0, 3, 2], [2, 3, 0, 2], [1, 2, 2, 0]]
    found = selected(Planted([[float(x) for x in row] for row in table], exact=True), SelectionSettings(iterations=1))
    assert removals(found) == [[2]]
    iteration = found.iterations[0]
    assert iteration.certainty is Certainty.TIE
    assert not iteration.certified
    assert "later in the list goes first" in iteration.note
    assert "later in the list" in " ".join(str(found).split())


def test_max_leaves_two_and_names_its_gap() -> None:
    """The largest gap of all would leave one model."""
    table: Table = [[0.0, 10, 1], [10, 0, 1.5], [1, 1.5, 0]]
    found = selected(Planted(table, exact=True), SelectionSettings(criterion="max"))
    assert removals(found) == [[1]]
    assert found.iterations[0].numbers["gap"] == pytest.approx(0.25)
    assert "above the largest gap" in found.iterations[0].removed[0].reason


@pytest.mark.parametrize(("percent", "reason"), [(25, "largest gap"), (60, "highest of 6")])
def test_combined_says_which_criterion_removed_more(percent: float, reason: str) -> None:
    table = [[float(i != j) * (10.0 if max(i, j) >= 4 else 1 + 0.1 * (i + j)) for j in range(6)] for i in range(6)]
    found = selected(Planted(table, exact=True), SelectionSettings("combined", percent, iterations=1))
    assert len(removals(found)[0]) == (2 if percent == 25 else 3)
    assert reason in found.iterations[0].removed[0].reason


def test_stop_rules() -> None:
    planted = Planted(line(8), exact=True)
    assert selected(planted, SelectionSettings(stop_below=100.0)).stop.reason == "no score is larger than 100"
    assert len(selected(planted, SelectionSettings(similar=100.0)).survivors) == 8
    assert selected(planted, SelectionSettings(iterations=0)).survivors == tuple(f"m{i}" for i in range(8))
    assert selected(planted, SelectionSettings()).stop.reason.startswith("two models are left")


def test_a_spread_of_just_the_limit_is_similar_though_sums_are_rounded() -> None:
    """The shared pair cancels: the scores differ by (3 - 1) / 2, in float64 by a little more."""
    odd = 2.0452460070323872
    table = [[0.0, 1.0, 3.0], [1.0, 0.0, odd], [3.0, odd, 0.0]]
    assert (3.0 + odd) - (1.0 + odd) > 2.0
    found = selected(Planted(table, exact=True), SelectionSettings(similar=1.0))
    assert len(found.survivors) == 3


def test_the_guarantee_names_two_models_even_where_none_disagree() -> None:
    found = selected(Planted([[0.0] * 4 for _ in range(4)], exact=True), SelectionSettings(iterations=0))
    assert found.guarantee.pair == ("m0", "m1")


def test_two_models() -> None:
    planted = Planted([[0.0, 3.0], [3.0, 0.0]])
    found = selected(planted, SelectionSettings())
    assert found.survivors == ("m0", "m1")
    assert found.iterations == ()
    assert found.guarantee.lower <= 3.0 <= found.guarantee.upper <= found.guarantee.lower + 1e-3
    assert found.recommended == "m0"


def test_two_survivors_are_told_apart_by_the_race_before() -> None:
    table: Table = [[0.0, 1, 9], [1, 0, 5], [9, 5, 0]]
    found = selected(Planted(table), SelectionSettings())
    assert found.survivors == ("m0", "m1")
    assert found.recommended == "m1"
    assert found.recommendation is Certainty.CERTIFIED


def test_a_pair_that_takes_too_long_is_named_and_not_asked_again() -> None:
    table = line(6)
    planted = Planted(table, slow={(0, 5): (table[0][5], 1000.0)})
    found = selected(planted, SelectionSettings(iterations=1, time_limit=1.0))
    assert sum((task.first, task.second) == (0, 5) for task in planted.asked) == 1
    assert found.iterations[0].certainty in (Certainty.UNDECIDED, Certainty.CERTIFIED)
    planted = Planted(table, slow={(1, 2): (table[1][2], math.inf)})
    found = selected(planted, SelectionSettings(iterations=1, time_limit=1.0))
    assert found.iterations[0].certainty is Certainty.UNDECIDED
    assert found.iterations[0].undecided_pairs == (("m1", "m2"),)
    assert removals(found) == [[5]]
    assert not found.certified
    assert found.guarantee.upper == math.inf
    assert found.guarantee.undecided_pairs == (("m1", "m2"),)
    assert json.loads(found.to_json())["guarantee"]["upper"] == "Infinity"


def test_a_slow_pair_that_does_not_matter_leaves_the_removal_certified() -> None:
    """The pair of two models that both go, far above the rest."""
    table = [[0.0 if i == j else 100.0 + i + j if max(i, j) > 5 else 1.0 for j in range(8)] for i in range(8)]
    planted = Planted(table, slow={(6, 7): (100.0, 1e6)})
    found = selected(planted, SelectionSettings(iterations=1, time_limit=1.0))
    assert set(removals(found)[0]) == {6, 7}
    assert found.iterations[0].certified


def test_a_measure_must_answer_every_task_once() -> None:
    planted = Planted(line(4))
    with pytest.raises(AssertionError, match="a measure left 1 of 6 tasks unanswered"):
        select(dummies(4), DOMAIN, measure=lambda tasks: planted(tasks[1:]))
    with pytest.raises(AssertionError, match="not asked, or twice"):
        select(dummies(4), DOMAIN, measure=lambda tasks: itertools.chain(planted(tasks), planted(tasks)))


def test_progress_is_reported() -> None:
    seen: list[Progress] = []
    planted = Planted(line(6))
    found = select(dummies(6), DOMAIN, measure=planted, on_progress=seen.append)
    assert seen[0].done == 0
    assert (seen[0].planned, seen[0].pairs, seen[0].models) == (15, 15, 6)
    assert seen[-1].measurements == found.measurements
    assert [p.measurements for p in seen] == sorted(p.measurements for p in seen)
    assert all(p.done <= p.planned for p in seen)
    assert max(p.iteration for p in seen) == len(found.iterations)


def test_populations_that_cannot_be_compared_are_refused() -> None:
    networks = dummies(3)
    with pytest.raises(InputError, match="at least two networks, not 1"):
        select(networks[:1], DOMAIN)
    with pytest.raises(InputError, match="m0 and copy hold the same network"):
        select([*networks, networks[0].named("copy")], DOMAIN)
    with pytest.raises(InputError, match="two networks are named 'm0'"):
        select([networks[0], networks[1].named("m0")], DOMAIN)
    wide = Network((Layer.of([[1.0, 1.0]], [0.0]),), "wide")
    with pytest.raises(InputError, match="m0 has 1 inputs and wide has 2"):
        select([networks[0], wide], DOMAIN)
    with pytest.raises(DomainError, match="has 2 inputs but m0 takes 1"):
        select(networks, Domain(Box([0, 0], [1, 1])))
    with pytest.raises(InputError, match="3 networks but 1 names"):
        select(networks, DOMAIN, names=["a"])
    with pytest.raises(InputError, match=r"not 'a\.onnx': karenina\.load reads"):
        select(["a.onnx", "b.onnx"], DOMAIN)  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"not 'd\.toml': karenina\.load_domain reads"):
        select(networks, "d.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"criterion": "mean"}, "unknown criterion 'mean'"),
        ({"percent": 0}, "percent must be"),
        ({"percent": 100}, "percent must be"),
        ({"iterations": -1}, "iterations must be"),
        ({"iterations": 2.5}, "iterations must be a whole number"),
        ({"tolerance": 0}, "tolerance must be"),
        ({"tolerance": math.nan}, "tolerance must be"),
        ({"similar": -1}, "similar must be"),
        ({"stop_below": math.inf}, "stop_below must be"),
        ({"time_limit": 0}, "time_limit must be"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SelectionSettings(**wrong)  # type: ignore[arg-type]


def test_keywords_override_settings() -> None:
    found = select(dummies(5), DOMAIN, settings=SelectionSettings(percent=40), iterations=1, measure=Planted(line(5)))
    assert (found.settings.percent, found.settings.iterations) == (40, 1)
    assert len(removals(found)[0]) == 2


def test_json_has_what_was_promised() -> None:
    found = selected(Planted(line(6)), SelectionSettings())
    read = json.loads(found.to_json())
    assert read["survivors"] == list(found.survivors)
    assert read["recommended"] == found.recommended
    assert read["guarantee"]["sentence"].startswith("on every input of the domain any two survivors differ by at most")
    first = read["iterations"][0]
    assert set(first["scores"]) == set(found.names)
    assert first["certified"] is True
    assert first["removed"] == [removal.name for removal in found.iterations[0].removed]
    assert len(read["pairs"]) == 15
    assert {"a", "b", "lower", "upper", "witness"} <= set(read["pairs"][0])
    assert read["seconds"] >= 0
    assert read["settings"]["time_limit"] == "Infinity"


def test_frames() -> None:
    found = selected(Planted(line(6)), SelectionSettings())
    scores, pairs = found.scores_frame(), found.pairs_frame()
    assert list(scores["iteration"]) == [n for n, it in enumerate(found.iterations, 1) for _ in it.scores]
    assert scores["removed"].sum() == 4
    assert len(pairs) == 15
    assert (pairs["lower"] <= pairs["upper"]).all()


def test_frames_name_the_extra_where_pandas_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from karenina.errors import MissingExtra

    found = selected(Planted(line(4)), SelectionSettings())
    monkeypatch.setitem(sys.modules, "pandas", None)
    for frame in (found.scores_frame, found.pairs_frame):
        with pytest.raises(MissingExtra, match=r"karenina\[frames\]"):
            frame()


def test_text_and_html() -> None:
    networks = [network.named(f"<b>{network.name}&") for network in dummies(5)]
    found = select(networks, DOMAIN, measure=Planted(line(5)))
    text, html = str(found), found._repr_html_()
    assert "on every input of the domain any two survivors differ by at most" in " ".join(text.split())
    assert "removed:     1. <b>m4&; 2. " in text
    assert f"recommended: {found.recommended} (certified)" in text
    assert "<b>" not in html
    assert "&lt;b&gt;m0&amp;" in html
    assert html.count("<tr>") == 1 + len(found.iterations)


def test_text_for_a_terminal_keeps_to_it() -> None:
    """Lines that fit, and names that bring no newline, no escape sequence and no half character with them."""
    names = [f"{'long' * 8}_{k}" for k in range(12)] + ["a\nb", "\x1b[31mred", "\udcff"]
    text = str(select(dummies(15), DOMAIN, names=names, measure=Planted(line(15)), similar=100))
    assert max(map(len, text.splitlines())) <= 80
    assert "a\\nb" in text
    assert "\\x1b[31mred" in text
    assert "\\udcff" in text


@pytest.mark.parametrize("upper", [0.5573333720545082, 1234567.5, 1e-9 / 3, 2.0, math.inf, 99999.96])
def test_the_guarantee_in_words_is_never_less_than_the_bound(upper: float) -> None:
    told = re.search(r"at most (\S+) \(l1\)$", str(Guarantee(0.0, upper, ("a", "b"))))
    assert told is not None
    assert upper <= float(told[1]) <= upper * (1 + 1e-5)


def test_the_guarantee_in_words_says_no_more_than_the_distance_does() -> None:
    """A small c-distance allows large differences where the networks satisfy no condition together."""
    assert "condition" in str(Guarantee(1.0, 2.0, ("a", "b"), "c-distance"))
    assert "different classes" in str(Guarantee(1.0, 2.0, ("a", "b"), "class"))
    assert str(Guarantee(1.0, 2.0, ("a", "b"), "linf")).endswith("any two survivors differ by at most 2 (linf)")


def test_a_guarantee_that_time_left_wide_is_not_complete() -> None:
    """All removals are certified and so is the recommendation; yet a pair of survivors is not known."""
    table = [[0.0 if i == j else 100.0 if 5 in (i, j) else 1.0 + 3 * (4 in (i, j)) for j in range(6)] for i in range(6)]
    for k in (1, 2, 3):
        table[0][k] = table[k][0] = 0.1
    found = selected(Planted(table, slow={(3, 4): (4.0, 4.4)}), SelectionSettings(iterations=1, time_limit=1.0))
    assert found.certified
    assert found.recommendation is Certainty.CERTIFIED
    assert found.guarantee.undecided_pairs == (("m3", "m4"),)
    assert not found.complete
    assert "(1 pairs not known to the tolerance)" in " ".join(str(found).split())
    assert selected(Planted(table), SelectionSettings(iterations=1, time_limit=1.0)).complete


def test_the_rules_that_were_needed_are_said() -> None:
    alike = [[float(i != j) for j in range(4)] for i in range(4)]
    tied = selected(Planted(alike, exact=True), SelectionSettings())
    assert tied.stop.reason == "no two scores differ by more than 0"
    assert [note for note in tied.notes if "later in the list" in note]
    two = selected(Planted(line(5)), SelectionSettings())
    assert two.certified
    assert [note for note in two.notes if "the one recommended scored lower in the last iteration" in note]
    assert json.loads(two.to_json())["notes"] == list(two.notes)
    assert selected(Planted(line(6)), SelectionSettings(iterations=1)).notes == ()


def test_many_models_are_decided_in_arrays() -> None:
    """Pairs by the thousand, with the places of models in rounds of their own."""
    rng = np.random.default_rng(0)
    place = rng.normal(size=(80, 3)) * np.linspace(0.1, 3, 80)[:, None]
    table = np.abs(place[:, None] - place[None]).sum(2).tolist()
    found = selected(Planted(table), SelectionSettings(iterations=2))
    expected = naive_removals(table, SelectionSettings(iterations=2))
    assert [set(gone) for gone in removals(found)] == [set(gone) for gone in expected]
    assert found.certified


def test_naive_alg_2_on_a_table_by_hand() -> None:
    """The oracle itself: three near models and one far away, then the middle one of a line stays."""
    table: Table = [[0.0, 1, 3, 9], [1, 0, 1, 9], [3, 1, 0, 9], [9, 9, 9, 0]]
    assert naive_removals(table, SelectionSettings()) == [[3], [2]]
    assert naive_iteration(table, range(4), SelectionSettings(criterion="max")) == [3]
