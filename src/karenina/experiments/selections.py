"""Sections 4.1 to 4.3 and appendices D to F: Alg. 2 on every population, iteration by iteration.

Enters: a `Subject` and its table. Leaves: for every criterion who survives each iteration, and what the survivors
earn out-of-distribution, under every distribution that was simulated. The selection knows no reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from karenina.experiments.algorithm import Rule, rules
from karenina.experiments.populations import IN_DISTRIBUTION, OOD, PAPER, Array, Flags, Subject
from karenina.experiments.tables import Table, from_table
from karenina.selection import Selection, select

__all__ = [
    "FLOOR",
    "agreement",
    "correlations",
    "floor",
    "rank_correlation",
    "selected",
    "selection_data",
    "statistics",
]

FLOOR = 2.0  # the paper's: "terminating in advance if the disagreement scores are no larger than 2"


def floor(population: str) -> float | None:
    """The paper's floor, for the populations it was meant for."""
    return FLOOR if population in PAPER else None


def selection_data(subject: Subject, table: Table) -> dict[str, Any]:
    """All criteria on the named set, and percentile on all policies there are."""
    chosen = list(subject.chosen)
    everything = list(range(len(subject.names)))
    criteria = {name: selected(subject, table, chosen, rule) for name, rule in rules(floor(subject.name)).items()}
    return {
        "threshold": subject.threshold,
        "distance": subject.distance,
        "tolerance": table.tolerance,
        "models": len(everything),
        "passed": subject.passed,
        "good": int(subject.good.sum()),
        "rewards": {
            preset: {subject.names[k]: round(float(subject.rewards[preset][k]), 3) for k in chosen}
            for preset in (IN_DISTRIBUTION, *subject.out_presets)
        },
        "criteria": criteria,
        "everything": selected(subject, table, everything, Rule("percentile", None)),
        "agreement": agreement(table, subject.good),
        "named_agreement": agreement(table.of(chosen), subject.good[chosen]),
        "correlation": correlations(subject, table, everything),
        "named_correlation": correlations(subject, table, chosen),
    }


def selected(subject: Subject, table: Table, places: Sequence[int], rule: Rule) -> dict[str, Any]:
    """Alg. 2 on some of the models, by `karenina.select`, with the evidence of the table; then what they earn."""
    networks = [subject.networks[k] for k in places]
    found = select(
        networks,
        subject.domain,
        subject.distance,
        measure=from_table(table.of(places)),
        criterion=rule.criterion,
        iterations=rule.iterations,
        stop_below=rule.stop_below,
        tolerance=table.tolerance,
        exact=True,
        names=[subject.names[k] for k in places],
    )
    stages = _stages(found)
    return {
        "removed": [[removal.name for removal in step.removed] for step in found.iterations],
        "certified": [step.certified for step in found.iterations],
        "survivors": list(found.survivors),
        "recommended": found.recommended,
        "stop": found.stop.reason,
        "guarantee": round(found.guarantee.upper, 6),
        "statistics": {preset: [statistics(subject, preset, s) for s in stages] for preset in subject.out_presets},
    }


def _stages(found: Selection) -> list[tuple[str, ...]]:
    """The models before the first iteration, and after each."""
    return [found.names, *(step.survived for step in found.iterations)]


def statistics(subject: Subject, preset: str, names: Sequence[str]) -> dict[str, float]:
    """How many of the models are good, and the least, median and largest reward."""
    places = [subject.names.index(name) for name in names]
    rewards, good = subject.rewards[preset][places], subject.good_in(preset)[places]
    return {
        "models": len(places),
        "good": int(good.sum()),
        "min": round(float(rewards.min()), 3),
        "median": round(float(np.median(rewards)), 3),
        "max": round(float(rewards.max()), 3),
    }


def agreement(table: Table, good: Flags) -> dict[str, float | None]:
    """The median disagreement of two good models, of a good and a bad one, of two bad ones: the hypothesis itself."""
    lower, _ = table.bounds()
    first, second = np.triu_indices(len(good), 1)
    both = good[first].astype(int) + good[second]
    values = lower[first, second]
    kinds = {"good-good": 2, "good-bad": 1, "bad-bad": 0}
    return {
        kind: round(float(np.median(values[both == count])), 4) if (both == count).any() else None
        for kind, count in kinds.items()
    }


def correlations(subject: Subject, table: Table, places: Sequence[int]) -> dict[str, float | None]:
    """How the ranks of models by reward in-distribution, and by agreement, go with those by reward outside."""
    outside = subject.rewards[OOD][list(places)]
    agreeing = -table.of(places).lower.sum(1)  # the disagreement score in the first iteration, turned round
    found = {
        "in-distribution reward": rank_correlation(subject.rewards[IN_DISTRIBUTION][list(places)], outside),
        "agreement": rank_correlation(agreeing.astype(np.float64), outside),
    }
    return {key: None if np.isnan(value) else round(value, 3) for key, value in found.items()}


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's; equal values share a rank; NaN where all are equal."""
    ranks = [np.searchsorted(np.sort(x), x) + np.searchsorted(np.sort(x), x, side="right") for x in (first, second)]
    a, b = (rank - rank.mean() for rank in ranks)
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale else float("nan")
