"""Beyond the paper: how should one model be chosen from 16? Verification beside cheaper ways.

Enters: a `Subject`, its verified table. Leaves: for every way of choosing, over many populations of 16 drawn from all
policies that passed, the probability that the chosen model is good and its expected reward out-of-distribution, with
intervals, and the difference to verification. Where several models survive, one of them is drawn at random, as the
paper assumes; `recommended` takes the one of lowest score instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from karenina.experiments.algorithm import CRITERIA, Outcome, Rule, Sets, rules, run
from karenina.experiments.intervals import Interval, interval
from karenina.experiments.populations import IN_DISTRIBUTION, OOD, Array, Flags, Subject
from karenina.experiments.sampling import SIZES, sampled_tables
from karenina.experiments.selections import floor
from karenina.experiments.tables import Integers, Table
from karenina.experiments.uncertainty import least_variance, squared_differences, uniform_inputs

__all__ = ["DRAWS", "REFERENCE", "choice_data", "drawn_sets", "sample_repeats", "set_size"]

DRAWS = 4000
REFERENCE = "verification, percentile"
_REPEATS = {100: 20, 10_000: 20, 1_000_000: 1}  # independent sets of samples, so that their luck averages out


def set_size(models: int) -> int:
    """16, or three quarters of a population that has not many more: there must be something to resample."""
    return 16 if models >= 20 else 3 * models // 4


def drawn_sets(models: int, size: int, draws: int = DRAWS, seed: int = 0) -> Sets:
    """(draws, size) places, ascending, without replacement."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.permuted(np.tile(np.arange(models), (draws, 1)), axis=1)[:, :size], axis=1)


def choice_data(subject: Subject, table: Table, repeats: dict[int, list[Integers]]) -> dict[str, Any]:
    """Every way of choosing. `repeats`: number of samples -> tables from independent samples."""
    models = len(subject.names)
    sets = drawn_sets(models, set_size(models))
    drawn: Flags = np.zeros((len(sets), models), dtype=bool)
    np.put_along_axis(drawn, sets, True, axis=1)
    weights = _weights(subject, table, repeats, sets)
    good, reward = subject.good[sets].astype(np.float64), subject.rewards[OOD][sets]
    found = {way: ((own * good).sum(1), (own * reward).sum(1)) for way, own in weights.items()}
    reference = found[REFERENCE]
    return {
        "models": models,
        "good": int(subject.good.sum()),
        "size": sets.shape[1],
        "draws": len(sets),
        "some_good": round(float(subject.good[sets].any(1).mean()), 4),
        "best_reward": round(float(reward.max(1).mean()), 3),
        "ways": {way: _row(drawn, own, reference) for way, own in found.items()},
        "samples": _sample_quality(table, repeats, weights),
    }


def sample_repeats(subject: Subject, progress: Callable[[str], None] | None = None) -> dict[int, list[Integers]]:
    """Tables from samples; the one of a million is one run, whose beginnings serve as the first of the smaller."""
    found: dict[int, list[Integers]] = {}
    most = max(_REPEATS.values())
    for seed in range(most):
        sizes = [size for size in SIZES if seed < _REPEATS[size]]
        if progress is not None:
            progress(f"{subject.name}: sampling, {seed + 1} of {most}")
        for size, table in zip(sizes, sampled_tables(subject, sizes, seed), strict=True):
            found.setdefault(size, []).append(table)
    return found


def _weights(subject: Subject, table: Table, repeats: dict[int, list[Integers]], sets: Sets) -> dict[str, Array]:
    """Way -> (draws, size) the probability that each model of a draw is chosen."""
    inside = subject.rewards[IN_DISTRIBUTION][sets]
    ways = {
        "random": np.full(sets.shape, 1 / sets.shape[1]),
        "in-distribution reward": _even(inside == inside.max(1, keepdims=True)),
        "ensemble variance": _even(_members(sets, _ensembles(subject, sets))),
    }
    for name in CRITERIA:
        rule = rules(floor(subject.name))[name]
        for size, tables in repeats.items():
            outcome = _in_turn(tables, sets, rule)
            ways[f"{size} samples, {name}"] = _even(outcome.survives)
        outcome = run(table.lower, sets, rule)
        ways[f"verification, {name}"] = _even(outcome.survives)
        ways[f"verification, {name}, recommended"] = _one(outcome.recommended, sets.shape[1])
    return ways


def _in_turn(tables: list[Integers], sets: Sets, rule: Rule) -> Outcome:
    """Draw k is decided with table k modulo their number."""
    survives = np.zeros(sets.shape, dtype=bool)
    recommended = np.zeros(len(sets), dtype=np.intp)
    for k, table in enumerate(tables):
        own = slice(k, None, len(tables))
        found = run(table, sets[own], rule)
        survives[own], recommended[own] = found.survives, found.recommended
    return Outcome(survives, recommended)


def _ensembles(subject: Subject, sets: Sets) -> Sets:
    return least_variance(squared_differences(subject, uniform_inputs(subject)), sets)


def _members(sets: Sets, members: Sets) -> Flags:
    found: Flags = (sets[:, :, None] == members[:, None, :]).any(2)
    return found


def _even(chosen: Flags) -> Array:
    found: Array = chosen / chosen.sum(1, keepdims=True)
    return found


def _one(place: Sets, size: int) -> Array:
    found: Array = (place[:, None] == np.arange(size)).astype(np.float64)
    return found


def _row(drawn: Flags, own: tuple[Array, Array], reference: tuple[Array, Array]) -> dict[str, Any]:
    return {
        "good": _rounded(interval(drawn, own[0], 0.0, 1.0), 4),
        "reward": _rounded(interval(drawn, own[1]), 3),
        "verification_minus_good": _rounded(interval(drawn, reference[0] - own[0], -1.0, 1.0), 4),
        "verification_minus_reward": _rounded(interval(drawn, reference[1] - own[1]), 3),
    }


def _rounded(found: Interval, digits: int) -> dict[str, float]:
    return {key: round(value, digits) for key, value in asdict(found).items()}


def _sample_quality(table: Table, repeats: dict[int, list[Integers]], weights: dict[str, Array]) -> dict[str, Any]:
    """How much of the true disagreement samples see, and how often the same models survive."""
    first, second = np.triu_indices(len(table.names), 1)
    true = np.maximum(table.lower[first, second], 1)
    quality = {}
    for size, tables in repeats.items():
        share = np.mean([np.median(own[first, second] / true) for own in tables])
        same = {
            name: float((weights[f"{size} samples, {name}"] == weights[f"verification, {name}"]).all(1).mean())
            for name in CRITERIA
        }
        quality[str(size)] = {
            "median_share": round(float(share), 4),
            "same_survivors": {name: round(value, 4) for name, value in same.items()},
        }
    return quality
