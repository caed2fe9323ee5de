"""Appendix G: what becomes of the selection when gradient attacks take the verifier's place.

Enters: a `Subject` and its verified table. Leaves: for every attack how many pairs it gets right, and what Alg. 2
makes of its table. A pair is aligned when the attack comes within the paper's tolerance of the verified threshold,
failed when it finds no input for some query that has one, and untightened otherwise.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from karenina.disagreement import pairwise_disagreement_threshold
from karenina.engine import Engine
from karenina.experiments.algorithm import rules
from karenina.experiments.attacks import ConstrainedPgd, Fgsm, Pgd, StrongAttack
from karenina.experiments.populations import OOD, Subject
from karenina.experiments.selections import floor, selected
from karenina.experiments.tables import UNIT, Integers, Table
from karenina.query import Answer, Backend, Goal, Query

__all__ = ["FINE", "attack_table", "attacks", "gradient_data"]

FINE = 0.01  # a tolerance finer than the paper's
_FEASIBLE = Goal(tolerance=1e3, time_limit=10.0)
_UNCONSTRAINED = ("l1", "linf")


def attacks(distance: str) -> dict[str, Backend]:
    """The paper's attacks for a distance, and ours."""
    own: dict[str, Backend] = {"FGSM": Fgsm(), "PGD": Pgd()}
    if distance not in _UNCONSTRAINED:
        own = {"constrained PGD": ConstrainedPgd(), "constrained PGD, best kept": ConstrainedPgd(keep=True)}
    return {**own, "restarts and momentum": StrongAttack()}


def gradient_data(subject: Subject, table: Table) -> dict[str, Any]:
    """Every attack on the named set."""
    named = table.of(subject.chosen)
    return {name: _attacked(subject, named, attack) for name, attack in attacks(subject.distance).items()}


@dataclass(eq=False)
class _Watched:
    """An attack that remembers whether it failed where an input was to be found."""

    attack: Backend
    engine: Engine = field(default_factory=lambda: Engine("cpu"))
    failures: int = 0

    def answer(self, query: Query, goal: Goal = _FEASIBLE) -> Answer:
        found = self.attack.answer(query, goal)
        if found.witness is None and self._feasible(query):
            self.failures += 1
        return found

    def _feasible(self, query: Query) -> bool:
        """Whether any input satisfies the constraints; without a floor, below which a witness would not count."""
        return self.engine.answer(replace(query, floor=-math.inf), _FEASIBLE).witness is not None


def attack_table(subject: Subject, attack: Backend) -> tuple[Integers, set[tuple[int, int]]]:
    """The named set's table of lower bounds, in whole units, and the pairs on which the attack failed."""
    networks = [subject.networks[k] for k in subject.chosen]
    lower = np.zeros((len(networks), len(networks)), np.int64)
    failed = set()
    for i, j in itertools.combinations(range(len(networks)), 2):
        watched = _Watched(attack)
        found = pairwise_disagreement_threshold(
            networks[i], networks[j], subject.domain, subject.distance, goal=Goal(), backend=watched
        )
        lower[i, j] = lower[j, i] = int(found.lower / UNIT)
        if watched.failures:
            failed.add((i, j))
    return lower, failed


def _attacked(subject: Subject, named: Table, attack: Backend) -> dict[str, Any]:
    lower, failed = attack_table(subject, attack)
    pairs = list(itertools.combinations(range(len(lower)), 2))
    short = {pair: float(named.lower[pair] - lower[pair]) * UNIT for pair in pairs}
    aligned = {pair for pair in pairs if short[pair] <= subject.paper_tolerance and pair not in failed}
    whole = _spread(subject, lower, named)
    criteria = _criteria(subject, whole)
    verified = _criteria(subject, _spread(subject, named.lower, named))
    return {
        "pairs": len(pairs),
        "aligned": len(aligned),
        "untightened": len(pairs) - len(aligned) - len(failed),
        "failed": len(failed),
        "aligned_finely": sum(short[pair] <= FINE + named.tolerance for pair in aligned),
        "largest_shortfall": round(max(short.values()), 4),
        "successful": {name: _successful(found) for name, found in criteria.items()},
        "same_survivors": {name: criteria[name]["survivors"] == verified[name]["survivors"] for name in criteria},
        "criteria": {name: {key: found[key] for key in _KEPT} for name, found in criteria.items()},
    }


def _criteria(subject: Subject, table: Table) -> dict[str, dict[str, Any]]:
    """Alg. 2 by every criterion."""
    return {name: selected(subject, table, subject.chosen, rule) for name, rule in rules(floor(subject.name)).items()}


_KEPT = ("survivors", "recommended", "statistics")


def _spread(subject: Subject, lower: Integers, named: Table) -> Table:
    """The attack's table with the places of the whole population, since models are named by these."""
    size = len(subject.names)
    bounds = np.zeros((size, size), np.int64)
    bounds[np.ix_(subject.chosen, subject.chosen)] = lower
    networks = dict.fromkeys(subject.names, "")
    head = named.population, named.distance, named.domain, named.tolerance
    return Table(*head, networks, bounds, bounds)


def _successful(found: dict[str, Any]) -> bool:
    """Whether only good models survive."""
    last = found["statistics"][OOD][-1]
    return bool(last["good"] == last["models"])
