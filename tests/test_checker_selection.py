"""The checker of selections: what it accepts as certified is so in every table that was tried."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from claimed_selections import (
    Case,
    Claims,
    assert_true,
    exact,
    honest,
    random_bounds,
    random_rules,
    refusal,
    stated,
    tables_inside,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_tables import Planted, Table, naive_iteration, naive_scores, selected

from karenina import load, load_domain, select
from karenina.certificate.selection import selection_claims
from karenina.checker.refusal import Refused
from karenina.checker.selection import check_selection
from karenina.checker.selection_form import BELOW, DONE, SIMILAR, TWO
from karenina.selection import CRITERIA, SelectionSettings

SEEDS = st.integers(0, 2**32)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_honest_selections_are_accepted_and_true(seed: int) -> None:
    rng = random.Random(seed)
    found, case = honest(rng)
    said = case.check()
    assert_true(case, rng)
    certain = found.certified and case.claims["recommended"]["certified"]
    assert ("only for some" in said) == (not certain)
    for number, iteration in enumerate(found.iterations, 1):
        assert (f"iteration {number}" in said) == (not iteration.certified)
    assert repr(found.recommended) in said
    bound = Fraction(said.rsplit(" ", 1)[1])
    assert max(case.upper[i][j] for i, j in combinations(case.places(list(found.survivors)), 2)) <= bound


@pytest.mark.parametrize("criterion", CRITERIA)
def test_certified_selections_of_every_criterion_are_accepted(criterion: str) -> None:
    certified = 0
    for seed in range(40):
        rng = random.Random(seed)
        found, case = honest(rng, 8, 5, SelectionSettings(criterion, tolerance=1e-6))
        assert refusal(case) == ""
        certified += found.certified and len(found.iterations) > 1
    assert certified > 10


def widened(case: Case, share: float) -> Case:
    """Bounds a little wider, as those of a certificate may be."""
    lower = [[value * (1 - share) for value in row] for row in case.lower]
    return Case(case.claims, case.names, lower, [[value * (1 + share) for value in row] for row in case.upper])


def test_bounds_wider_by_rounding_seldom_matter() -> None:
    reasons = [refusal(widened(honest(random.Random(seed))[1], 1e-9)) for seed in range(60)]
    assert all(reason == "" or "not certain" in reason for reason in reasons)
    assert sum(reason != "" for reason in reasons) <= 2


def claimed_on(case: Case, table: Table, rng: random.Random) -> Claims:
    """The claims of one who knows one table only, and is sure of them all, or of some."""
    chosen, members = case.settings, list(range(len(case.names)))
    before = members
    steps: list[Claims] = []
    sure = rng.random() < 0.7

    def scores(models: list[int]) -> dict[str, list[float | None]]:
        return {case.names[model]: [0.0, None] for model in models}

    def certified() -> bool:
        return sure or rng.random() < 0.5

    because = ""
    while not because:
        gone = naive_iteration(table, members, chosen) if len(members) > 2 else []
        if len(members) == 2:
            because = TWO
        elif len(steps) == chosen.iterations:
            because = DONE
        elif not gone:
            largest = max(naive_scores(table, members).values())
            because = BELOW if chosen.stop_below is not None and largest <= chosen.stop_below else SIMILAR
        else:
            removed = [case.names[model] for model in gone]
            steps.append({"removed": removed, "scores": scores(members), "certified": certified()})
            before, members = members, [model for model in members if model not in gone]
    score = naive_scores(table, before if len(members) == 2 else members)
    best = min(members, key=lambda model: (score[model], model))
    return {
        "settings": case.claims["settings"],
        "iterations": steps,
        "ending": {"because": because, "scores": scores(members), "certified": certified()},
        "survivors": [case.names[model] for model in members],
        "recommended": {"model": case.names[best], "certified": certified()},
    }


def claims_of_one_table(seed: int) -> bool:
    """Claims that hold in one table inside random bounds; whether they are accepted, and then true."""
    rng = random.Random(seed)
    names = [f"m{k}" for k in range(rng.randint(2, 7))]
    lower, upper = random_bounds(rng, len(names))
    case = Case({"settings": stated(random_rules(rng))}, names, lower, upper)
    case.claims = claimed_on(case, rng.choice(list(tables_inside(rng, case, 3))), rng)
    if refusal(case):
        return False
    assert_true(case, rng, 60)
    return True


@settings(max_examples=120, deadline=None)
@given(SEEDS)
def test_what_is_accepted_as_certified_is_so_in_every_table(seed: int) -> None:
    claims_of_one_table(seed)


def test_claims_of_one_table_are_accepted_and_refused() -> None:
    accepted = sum(claims_of_one_table(seed) for seed in range(100))
    assert 20 < accepted < 80


def by_hand(upper_triangle: dict[tuple[int, int], tuple[float, float]], models: int, **stated: Any) -> Case:
    """Bounds, and claims of one iteration without any content yet."""
    lower, upper = ([[0.0] * models for _ in range(models)] for _ in range(2))
    for (i, j), (low, high) in upper_triangle.items():
        lower[i][j] = lower[j][i] = low
        upper[i][j] = upper[j][i] = high
    rules = {"criterion": "percentile", "percent": 25, "iterations": 1, "similar": 0.0, "stop_below": None}
    return Case({"settings": rules | stated}, [f"m{k}" for k in range(models)], lower, upper)


def one_iteration(case: Case, removed: list[str], certified: bool = True) -> Case:
    """The claim that these go in the one iteration there is; the recommended model is that of the lower ends."""
    left = [name for name in case.names if name not in removed]
    scores = {name: [0, None] for name in case.names}
    places = case.places(left)
    score = naive_scores(case.lower, range(len(case.names)) if len(left) == 2 else places)
    best = min(places, key=lambda model: (score[model], model))
    case.claims |= {
        "iterations": [{"removed": removed, "scores": scores, "certified": certified}],
        "ending": {"because": DONE, "scores": {name: [0, None] for name in left}, "certified": True},
        "survivors": left,
        "recommended": {"model": case.names[best], "certified": False},
    }
    return case


def test_the_pair_of_two_models_cancels() -> None:
    wide = {(0, 1): (1.0, 9.0), (0, 2): (5.0, 5.0), (1, 2): (4.0, 4.0)}
    assert (
        refusal(one_iteration(by_hand(wide, 3), ["m0"]))
        == "iteration 1 is not certain: a model that stays could score as high as one that goes"
    )
    wide[0, 1] = (4.5, 9.0)  # now m0 exceeds m2 too: 4.5 + 5 > 4 + 5; m0 - m1 is 1 whatever the pair of both
    assert refusal(one_iteration(by_hand(wide, 3), ["m0"])) == ""


def test_a_tie_is_possible_but_not_certain() -> None:
    tie = {
        (0, 1): (1.0, 1.0),
        (0, 2): (2.0, 2.0),
        (1, 2): (2.0, 2.0),
        (0, 3): (2.0, 2.0),
        (1, 3): (2.0, 2.0),
        (2, 3): (1.0, 1.0),
    }
    assert "was found in no table" in refusal(
        one_iteration(by_hand(tie, 4), ["m3"], certified=False)
    )  # all score alike
    tie[0, 1] = (0.5, 0.5)
    assert "not certain" in refusal(one_iteration(by_hand(tie, 4), ["m3"]))
    assert "iteration 1" in one_iteration(by_hand(tie, 4), ["m3"], certified=False).check()
    assert "was found in no table" in refusal(one_iteration(by_hand(tie, 4), ["m2"], certified=False))  # the later goes
    tie[0, 2] = (2.0, 2.0 + 1e-12)
    assert refusal(one_iteration(by_hand(tie, 4), ["m2"], certified=False)) == ""


def test_of_two_models_that_score_alike_none_is_recommended_for_certain() -> None:
    case = by_hand({(0, 1): (1.0, 2.0)}, 2)
    scores = {"m0": [1.0, 2.0], "m1": [1.0, 2.0]}
    ending = {"because": TWO, "scores": scores, "certified": True}
    case.claims |= {"iterations": [], "ending": ending, "survivors": ["m0", "m1"]}
    for model, certified, reason in (
        ("m0", True, "the recommendation is not certain: another survivor could score as low"),
        ("m1", True, "the recommendation is not certain: another survivor could score as low"),
        ("m0", False, ""),  # the earlier one
        ("m1", False, "the recommendation was found in no table inside the bounds"),
    ):
        case.claims["recommended"] = {"model": model, "certified": certified}
        assert refusal(case) == reason


def star(*distances: float, width: float = 0.0) -> dict[tuple[int, int], tuple[float, float]]:
    """Each model at its distance from the last, and from the others by the sum: scores in the order of distances."""
    at = [*distances, 0.0]
    return {(i, j): (at[i] + at[j], at[i] + at[j] + width) for i, j in combinations(range(len(at)), 2)}


def test_the_largest_gap_must_be_the_largest_for_sure() -> None:
    # sums of six models: 4 at + total; the gaps are four times those of the distances
    assert refusal(one_iteration(by_hand(star(9, 8, 3, 2, 1), 6, criterion="max"), ["m0", "m1"])) == ""
    for removed in (["m0"], ["m0", "m1", "m2"], ["m1", "m0", "m3"], ["m2", "m3"]):
        assert "not certain" in refusal(one_iteration(by_hand(star(9, 8, 3, 2, 1), 6, criterion="max"), removed))
    above = one_iteration(by_hand(star(9, 8, 3, 1, 0.5), 6, criterion="max"), ["m0", "m1", "m2"])
    assert "another gap" in refusal(above)  # the larger one is above; those below are smaller
    for width, certain in ((1.0, True), (3.0, False)):
        case = one_iteration(by_hand(star(9, 8, 3, 2, 1, width=width), 6, criterion="max"), ["m0", "m1"])
        assert (refusal(case) == "") == certain
    equal = by_hand(star(9, 8, 6, 4, 3), 6, criterion="max")  # the gaps below two and below three are equal
    assert "another gap" in refusal(one_iteration(equal, ["m0", "m1"]))
    assert refusal(one_iteration(equal, ["m0", "m1"], certified=False)) == ""
    assert "was found in no table" in refusal(one_iteration(equal, ["m0", "m1", "m2"], certified=False))


def test_whichever_criterion_removes_more_counts() -> None:
    near = star(9, 8, 3, 2, 1)
    assert refusal(one_iteration(by_hand(near, 6, criterion="combined"), ["m0", "m1"])) == ""  # by the gap
    more = by_hand(near, 6, criterion="combined", percent=50)
    assert refusal(one_iteration(more, ["m0", "m1", "m2"])) == ""  # by percentile
    assert "3 of 6 go by percentile, not 2" in refusal(one_iteration(more, ["m0", "m1"]))
    last = by_hand(star(9, 8.9, 8.8, 2, 1), 6, criterion="combined", percent=34)
    assert "another gap" in refusal(one_iteration(last, ["m0", "m1"]))
    assert refusal(one_iteration(last, ["m0", "m1", "m2"])) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lower, _: lower.pop(), "not one for every two"),
        (lambda _, upper: upper[1].append(Fraction(0)), "not one for every two"),
        (lambda lower, _: lower.__setitem__(0, None), "not one for every two"),
        (lambda lower, _: lower[0].__setitem__(1, Fraction(0)), "not symmetric"),
        (lambda _, upper: upper[2].__setitem__(1, Fraction(10**3)), "not symmetric"),
        (
            lambda lower, upper: lower[:] and upper.__setitem__(slice(None), [[v - 1 for v in r] for r in upper]),
            "not zero",
        ),
        (lambda lower, _: lower[0].__setitem__(1, float("nan")), "not a fraction"),
        (lambda _, upper: upper[0].__setitem__(1, float("inf")), "not a fraction"),
        (lambda _, upper: upper[1].__setitem__(1, Fraction(1)), "not zero"),
    ],
)
def test_bounds_that_are_none_are_refused(change: Any, reason: str) -> None:
    case = one_iteration(by_hand(star(5, 3, 2), 4), ["m0"])
    lower, upper = exact(case.lower), exact(case.upper)
    check_selection(case.claims, case.names, lower, upper)
    change(lower, upper)
    with pytest.raises(Refused, match=reason):
        check_selection(case.claims, case.names, lower, upper)


@pytest.mark.parametrize("names", [["m0"], ["m0", "m0", "m1", "m2"], [0, 1, 2, 3], [["m0"], "m1", "m2", "m3"]])
def test_names_must_tell_models_apart(names: Any) -> None:
    case = one_iteration(by_hand(star(5, 3, 2), 4), ["m0"])
    with pytest.raises(Refused, match="name"):
        check_selection(case.claims, names, exact(case.lower), exact(case.upper))


def test_a_pair_that_nobody_could_bound() -> None:
    """Its models' scores have no upper end, and what they leave open is named."""
    table = [[float(abs(i - j)) for j in range(5)] for i in range(5)]
    planted = Planted(table, exact=True, slow={(1, 3): (0.5, math.inf)})
    found = selected(planted, SelectionSettings(iterations=1))
    claims = json.loads(json.dumps(selection_claims(found), allow_nan=False))
    assert [ends[1] is None for ends in claims["iterations"][0]["scores"].values()] == [False, True, False, True, False]
    upper = [[min(value, 1e6) for value in row] for row in found.table.upper.tolist()]
    case = Case(claims, list(found.names), found.table.lower.tolist(), upper)
    assert "but iteration 1" in case.check()


def test_a_selection_among_networks() -> None:
    found = select(
        [load(f"examples/product_{name}.onnx") for name in "abc"], load_domain("examples/domain.toml"), tolerance=1e-6
    )
    case = Case(selection_claims(found), list(found.names), found.table.lower.tolist(), found.table.upper.tolist())
    assert refusal(case) == ""
    assert found.certified
    assert "Alg. 2 with criterion percentile leaves 2 of 3 models in 1 iteration" in case.check()
