"""Camps: planted groups are found whole, one crowd has none, and the warning comes when a rival might be right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import strict_json
from hypothesis import given
from hypothesis import strategies as st
from planted_tables import DOMAIN, Planted, dummies

from karenina.disagreement import Disagreement, DisagreementTable
from karenina.query import Status
from karenina.selection import Selection, find_camps, select
from karenina.selection.clustering import average_linkage, silhouettes
from karenina.selection.heat_map import heat_map_svg
from karenina.selection.wording import at_most


def planted(groups: Sequence[int], near: float, far: float, seed: int = 0) -> np.ndarray:
    """Groups of these sizes: up to `near` apart inside, from `far` on across."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(groups)), groups)
    same = owner[:, None] == owner[None, :]
    values = np.where(same, rng.uniform(near / 2, near, same.shape), rng.uniform(far, far * 1.3, same.shape))
    upper = np.triu(values, 1)
    return np.asarray(upper + upper.T)


def a_table(values: np.ndarray) -> DisagreementTable:
    names = tuple(f"m{k}" for k in range(len(values)))
    pairs = {
        (i, j): Disagreement(
            float(values[i, j]),
            float(values[i, j]) + 0.5,
            Status.EXACT,
            np.array([float(i), float(j)]),
            (np.array([float(i)]), np.array([float(j)])),
            1,
            0.0,
        )
        for i, j in itertools.combinations(range(len(values)), 2)
    }
    return DisagreementTable(names, pairs)


def members(*places: int) -> tuple[str, ...]:
    return tuple(f"m{k}" for k in places)


def test_two_groups_are_found_whole() -> None:
    found = find_camps(a_table(planted([5, 4], 1, 5)), members(0, 1))
    assert [camp.members for camp in found.camps] == [members(0, 1, 2, 3, 4), members(5, 6, 7, 8)]
    assert found.alone == ()
    assert found.silhouette > 0.7
    assert found.survivors == 0
    assert found.rivals == (1,)
    assert "another of 4 agrees" in found.warning


@given(st.lists(st.integers(2, 6), min_size=2, max_size=4), st.integers(0, 3), st.integers(0, 100))
def test_planted_groups_and_loners_are_told_apart(sizes: list[int], loners: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = planted([*sizes, *[1] * loners], 1, 10, seed)
    shuffle = rng.permutation(len(values))
    found = find_camps(a_table(values[np.ix_(shuffle, shuffle)]), members(0))
    owner = np.repeat(np.arange(len(sizes) + loners), [*sizes, *[1] * loners])[shuffle]
    expected = {frozenset(np.flatnonzero(owner == k).tolist()) for k in range(len(sizes))}
    assert {frozenset(int(name[1:]) for name in camp.members) for camp in found.camps} == expected
    assert len(found.alone) == loners
    assert [len(camp.members) for camp in found.camps] == sorted(sizes, reverse=True)
    places = [owner[int(name[1:])] for name in found.order]
    assert len([k for k, _ in itertools.groupby(places)]) == len(sizes) + loners  # groups stand together


@pytest.mark.parametrize("models", [2, 3, 8])
def test_one_crowd_has_no_camps(models: int) -> None:
    found = find_camps(a_table(planted([models], 1, 1)), members(0))
    assert found.camps == ()
    assert found.alone == members(*range(models))
    assert found.warning == ""
    assert sorted(found.order) == list(members(*range(models)))


def test_equal_networks_have_no_camps() -> None:
    assert find_camps(a_table(np.zeros((6, 6))), members(0)).camps == ()


def test_small_rivals_and_mixed_survivors_are_no_reason_to_warn() -> None:
    table = a_table(planted([7, 3], 1, 5))
    assert find_camps(table, members(0, 1)).warning == ""  # 3 is less than half of 7
    assert find_camps(table, members(7, 8)).rivals == (0,)  # but 7 rivals 3
    assert find_camps(table, members(6, 7)).survivors is None


def test_a_camp_that_is_no_majority_is_a_reason_to_warn() -> None:
    table = a_table(planted([5, 2, 1, 1, 1], 1, 5))
    found = find_camps(table, members(0, 1))
    assert found.rivals == ()
    assert found.warning.startswith("the survivors come from one camp of 5 models, no majority of the 10, and")
    assert find_camps(a_table(planted([6, 2, 1, 1], 1, 5)), members(0, 1)).warning == ""


def test_a_camp_says_how_far_apart_its_members_can_be() -> None:
    values = planted([3, 3], 1, 5)
    first = find_camps(a_table(values), members(0)).camps[0]
    assert first.lower == values[:3, :3].max()
    assert first.upper == values[:3, :3].max() + 0.5


def test_divides_are_the_largest_seen_differences_between_camps() -> None:
    values = planted([3, 4, 2, 2], 1, 5, seed=3)
    found = find_camps(a_table(values), members(0))
    assert len(found.divides) == 3
    across = []
    for a, b in itertools.combinations(found.camps, 2):
        across.append(max(values[int(x[1:]), int(y[1:])] for x in a.members for y in b.members))
    assert [divide.lower for divide in found.divides] == sorted(across, reverse=True)[:3]
    for divide in found.divides:
        first, second = (int(name[1:]) for name in divide.pair)
        assert divide.witness == (float(min(first, second)), float(max(first, second)))
        assert divide.outputs == ((float(first),), (float(second),))


def brute_force_silhouette(values: np.ndarray, groups: Sequence[Sequence[int]], model: int) -> float:
    own = next(group for group in groups if model in group)
    if len(own) == 1:
        return 0.0
    a = np.mean([values[model, k] for k in own if k != model])
    b = min(np.mean([values[model, k] for k in group]) for group in groups if group is not own)
    return float((b - a) / max(a, b))


@given(st.integers(4, 9), st.integers(0, 1000))
def test_silhouettes_and_joins_are_those_of_the_definition(models: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = np.triu(rng.uniform(0.1, 1, (models, models)), 1)
    values = half + half.T
    cuts = average_linkage(values)
    assert [len(cut) for cut in cuts] == list(range(models, 0, -1))
    for before, after in itertools.pairwise(cuts):
        (joined,) = {frozenset(g) for g in after} - {frozenset(g) for g in before}
        parts = {frozenset(g) for g in before} - {frozenset(g) for g in after}
        mean = {
            frozenset((a, b)): np.mean([values[i, j] for i in a for j in b])
            for a, b in itertools.combinations([frozenset(g) for g in before], 2)
        }
        assert frozenset.union(*parts) == joined
        assert mean[frozenset(parts)] == pytest.approx(min(mean.values()))
    for cut in cuts[1:-1]:
        expected = [brute_force_silhouette(values, cut, k) for k in range(models)]
        assert silhouettes(values, cut) == pytest.approx(expected)


def selected(values: np.ndarray, names: Sequence[str] | None = None) -> Selection:
    planted_measure = Planted(values.tolist(), exact=True)
    return select(dummies(len(values)), DOMAIN, measure=planted_measure, names=names, iterations=2)


def test_a_selection_tells_of_its_camps() -> None:
    found = selected(planted([6, 5], 1, 5))
    assert [len(camp.members) for camp in found.camps.camps] == [6, 5]
    told = strict_json(found.to_json())["camps"]
    assert [camp["members"] for camp in told["camps"]] == [list(camp.members) for camp in found.camps.camps]
    assert told["warning"] == found.camps.warning
    text = str(found)
    assert "\ncamps:       1. m0, m1, m2, m3, m4, m5 (disagree by" in text
    far = found.camps.divides[0]
    assert f"\nfarthest:    camps 1 and 2, {far.pair[0]} and {far.pair[1]}: at least {far.lower:.4g} (karenina" in text
    assert ("\nwarning: " in text) == bool(found.camps.warning)
    assert max(map(len, text.splitlines())) <= 80


def test_the_survivors_of_a_bare_majority_come_with_a_warning() -> None:
    found = selected(planted([6, 4], 1, 5))
    assert set(found.survivors) <= set(found.camps.camps[0].members)
    assert "warning:     the survivors come from one camp of 6 models; another of 4" in str(found)
    assert "agreement cannot say" in found._repr_html_()


def test_names_in_camps_are_escaped() -> None:
    names = [f"<b>{k}</b>\x1b[31m" for k in range(10)]
    found = selected(planted([6, 4], 1, 5), names)
    assert "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_()


# --- The heat map of a notebook --------------------------------------------------------------------------------------


def test_a_notebook_shows_every_pair_twice_with_its_interval() -> None:
    found = selected(planted([6, 4], 1, 5), ["<i>", *(f"name {k}" for k in range(9))])
    picture = ElementTree.fromstring(heat_map_svg(found))
    cells = picture.findall("{*}rect")
    titles = [cell.findtext("{*}title") for cell in cells]
    assert len(cells) == 10 * 9
    known = found.table.disagreement("<i>", "name 3")
    assert f"<i> and name 3: {known.lower:.4g} to {at_most(known.upper, 4)}" in titles
    assert len({cell.get("fill") for cell in cells}) > 5
    assert heat_map_svg(found) in found._repr_html_()
    assert len(picture.findall("{*}text")) == 20


def test_a_large_population_has_no_heat_map_in_a_notebook() -> None:
    found = selected(planted([40, 30], 1, 5))
    assert heat_map_svg(found) == ""
    assert "<svg" not in found._repr_html_()


@pytest.mark.parametrize(
    ("bound", "text"), [(1.23451, "1.235"), (-1.9999, "-1.999"), (np.inf, "inf"), (0.0, "0"), (0.5, "0.5")]
)
def test_bounds_are_rounded_up(bound: float, text: str) -> None:
    assert at_most(bound, 4) == text
