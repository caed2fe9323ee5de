"""The combinatorial experiment of appendix E: does the selection still find good models when they are few?

Enters: a `Subject` and its table. Leaves: for each composition of good and bad models, over all populations of that
composition (or many drawn ones, where there are too many), how often only good models survive, and the probability
that a survivor drawn at random is good, beside that of a model drawn before the selection.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from karenina.experiments.algorithm import Rule, Sets, rules, run
from karenina.experiments.populations import Flags, Subject
from karenina.experiments.selections import floor
from karenina.experiments.tables import Integers, Table

__all__ = ["COMPOSITIONS", "combination_data", "compositions", "outcome"]

COMPOSITIONS = (12, 10, 8, 6, 4, 2)  # good models, the paper's
PAPER_BAD = 4
MOST = 2000  # sets a composition; more are drawn at random, this many


def combination_data(subject: Subject, table: Table) -> dict[str, Any] | None:
    """The named set as the paper did it, and the paper's compositions drawn from all policies; None without both."""
    named = subject.good[list(subject.chosen)]
    parts = {
        "named": _part(table.of(subject.chosen), named, int((~named).sum()), subject.name),
        "all": _part(table, subject.good, PAPER_BAD, subject.name),
    }
    found = {key: rows for key, rows in parts.items() if rows}
    return found or None


def _part(table: Table, good: Flags, bad: int, population: str) -> dict[str, list[dict[str, Any]]]:
    """Criterion -> one row a composition."""
    sets = {number: compositions(good, number, bad) for number in COMPOSITIONS if number <= good.sum()}
    if not sets or not 0 < bad <= (~good).sum():
        return {}
    return {
        name: [{"good": number, "bad": bad, **outcome(table.lower, good, own, rule)} for number, own in sets.items()]
        for name, rule in rules(floor(population)).items()
    }


def compositions(good: Flags, number: int, bad: int) -> Sets:
    """(sets, number + bad) all sets of so many good and bad models, or MOST of them drawn at random."""
    pools = np.flatnonzero(good), np.flatnonzero(~good)
    if bad > len(pools[1]):
        return np.zeros((0, number + bad), dtype=np.intp)
    total = math.comb(len(pools[0]), number) * math.comb(len(pools[1]), bad)
    rows = _all(pools, number, bad) if total <= MOST else _drawn(pools, number, bad)
    return np.sort(np.array(list(rows), dtype=np.intp), axis=1)


def _all(pools: tuple[Sets, Sets], number: int, bad: int) -> Iterator[tuple[int, ...]]:
    every = (itertools.combinations(pool.tolist(), size) for pool, size in zip(pools, (number, bad), strict=True))
    return (a + b for a, b in itertools.product(*every))


def _drawn(pools: tuple[Sets, Sets], number: int, bad: int) -> Iterator[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    for _ in range(MOST):
        parts = [rng.choice(pool, size, replace=False) for pool, size in zip(pools, (number, bad), strict=True)]
        yield tuple(np.concatenate(parts).tolist())


def outcome(table: Integers, good: Flags, sets: Sets, rule: Rule) -> dict[str, float | int]:
    """What the selection makes of the sets."""
    found = run(table, sets, rule)
    values = good[sets].astype(np.float64)
    share = found.mean(values)
    best = np.take_along_axis(values, found.recommended[:, None], 1)[:, 0]
    return {
        "sets": len(sets),
        "all_good": int((share == 1.0).sum()),
        "some_bad": int((share < 1.0).sum()),
        "naive": round(float(values.mean()), 4),
        "ours": round(float(share.mean()), 4),
        "recommended": round(float(best.mean()), 4),
    }
