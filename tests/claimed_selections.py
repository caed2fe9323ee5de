"""What certificates claim of selections, and Alg. 2 by brute force to hold the claims against."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

from planted_tables import Planted, Table, naive_iteration, naive_scores, random_table, selected

from karenina.certificate.selection import selection_claims
from karenina.checker.refusal import Refused
from karenina.checker.selection import check_selection
from karenina.checker.selection_form import BELOW, DONE, SIMILAR, TWO
from karenina.selection import CRITERIA, Selection, SelectionSettings

Claims = dict[str, Any]


def exact(table: Table) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in table]


@dataclass
class Case:
    """Claims, and the bounds from which they are to follow."""

    claims: Claims
    names: list[str]
    lower: Table
    upper: Table

    def check(self) -> str:
        return check_selection(self.claims, self.names, exact(self.lower), exact(self.upper))

    @property
    def settings(self) -> SelectionSettings:
        return SelectionSettings(**self.claims["settings"])

    def places(self, names: list[str]) -> list[int]:
        return sorted(self.names.index(name) for name in names)


def refusal(case: Case) -> str:
    """Why the case is refused; nothing if it is not."""
    try:
        said = case.check()
    except Refused as reason:
        return str(reason)
    assert said.startswith("for every table")
    return ""


def decisions(case: Case) -> Iterator[tuple[bool, Callable[[Table], bool]]]:
    """Every decision that is claimed: whether as certified, and whether a table of values takes it."""
    chosen, claims, because = case.settings, case.claims, str(case.claims["ending"]["because"])
    members = before = list(range(len(case.names)))

    def removes(left: list[int], gone: list[int], table: Table) -> bool:
        return len(left) > 2 and sorted(naive_iteration(table, left, chosen)) == gone

    for step in claims["iterations"]:
        gone = case.places(step["removed"])
        yield step["certified"], partial(removes, members, gone)
        before, members = members, [model for model in members if model not in gone]

    def ends(table: Table) -> bool:
        score = naive_scores(table, members).values()
        reasons: dict[str, bool] = {
            TWO: len(members) == 2,
            DONE: len(claims["iterations"]) == chosen.iterations,
            BELOW: chosen.stop_below is not None and max(score) <= Fraction(chosen.stop_below),
            SIMILAR: max(score) - min(score) <= Fraction(chosen.similar),
        }
        return reasons[because]

    def recommends(table: Table) -> bool:
        score = naive_scores(table, before if len(members) == 2 else members)
        best = min(members, key=lambda model: (score[model], model))
        return bool(case.names[best] == claims["recommended"]["model"])

    yield claims["ending"]["certified"], ends
    yield claims["recommended"]["certified"], recommends
    assert case.places(claims["survivors"]) == members
    assert chosen.iterations is None or len(claims["iterations"]) <= chosen.iterations


def tables_inside(rng: random.Random, case: Case, number: int) -> Iterator[Table]:
    """Values inside the bounds: the ends, random ones, and those where some models are high and the others low."""
    yield from (case.lower, case.upper)
    models = range(len(case.names))
    for k in range(number):
        table = [row[:] for row in case.lower]
        raised = {model for model in models if rng.random() < 0.5}
        for i, j in combinations(models, 2):
            both = len(raised & {i, j})
            share = rng.random() if k % 3 == 0 else (rng.choice([0.0, 1.0]) if both == 1 or k % 3 == 1 else both / 2)
            low, high = case.lower[i][j], case.upper[i][j]
            table[i][j] = table[j][i] = min(max(low + share * (high - low), low), high)
        yield table


def assert_true(case: Case, rng: random.Random, number: int = 30) -> None:
    """What is claimed as certified holds in all tables, and each score is where it is claimed to be."""
    claimed = [holds for certified, holds in decisions(case) if certified]
    members = list(range(len(case.names)))
    steps = [*case.claims["iterations"], case.claims["ending"] | {"removed": []}]
    left = [[model for model in members if case.names[model] in step["scores"]] for step in steps]
    for table in tables_inside(rng, case, number):
        assert all(holds(table) for holds in claimed)
        for step, models in zip(steps, left, strict=True):
            for model, score in naive_scores(table, models).items():
                low, high = step["scores"][case.names[model]]
                assert low <= score
                assert high is None or score <= high


def random_settings(rng: random.Random) -> SelectionSettings:
    return SelectionSettings(
        criterion=rng.choice(CRITERIA),
        percent=rng.choice([10, 25, 25, 40, 60, 90]),
        iterations=rng.choice([None, None, 1, 2]),
        similar=rng.choice([0.0, 0.0, 0.5, 1.0]),
        stop_below=rng.choice([None, None, 0.0, 1.0, 2.0, 5.0]),
        tolerance=rng.choice([1e-6, 1e-3, 0.1, 1.0]),
    )


def honest(
    rng: random.Random, largest: int = 9, least: int = 2, settings: SelectionSettings | None = None
) -> tuple[Selection, Case]:
    """A selection by the product among models of a planted table, and the claims it makes."""
    table = random_table(rng, rng.randint(least, largest), whole=rng.random() < 0.5)
    loose = rng.choice([0.5, 5.0, 50.0])
    planted = Planted(table, rng.randrange(2**32), exact=rng.random() < 0.2, loose=loose)
    found = selected(planted, settings or random_settings(rng))
    upper = found.table.upper
    for task in planted.asked:  # the planted measure may forget what it proved before; a proof does not
        i, j = task.first, task.second
        upper[i, j] = upper[j, i] = min(upper[i, j], planted.answer(task).upper)
    claims = json.loads(json.dumps(selection_claims(found), allow_nan=False))
    return found, Case(claims, list(found.names), found.table.lower.tolist(), upper.tolist())


def random_bounds(rng: random.Random, count: int) -> tuple[Table, Table]:
    table, width = random_table(rng, count, rng.random() < 0.2), rng.choice([0.01, 0.1, 1.0, 5.0])
    lower, upper = [row[:] for row in table], [row[:] for row in table]
    for i, j in combinations(range(count), 2):
        lower[i][j] = lower[j][i] = max(0.0, table[i][j] - rng.random() * width)
        upper[i][j] = upper[j][i] = table[i][j] + rng.random() * width
    return lower, upper


def random_rules(rng: random.Random) -> SelectionSettings:
    return SelectionSettings(
        criterion=rng.choice(CRITERIA),
        percent=rng.choice([10, 25, 50, 75]),
        iterations=rng.choice([None, 1, 1, 2]),
        similar=rng.choice([0.0, 0.0, 1.0, 3.0]),
        stop_below=rng.choice([None, None, 3.0, 8.0, 30.0]),
    )


def stated(chosen: SelectionSettings) -> dict[str, Any]:
    keys = ("criterion", "percent", "iterations", "similar", "stop_below")
    return {key: getattr(chosen, key) for key in keys}
