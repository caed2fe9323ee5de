"""Runs experiments by name. Enters: names of experiments and of populations, a folder. Leaves: data and figures there.

An experiment is a function from a population (and its table) to data; figures are drawn from the data alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karenina.errors import InputError
from karenina.experiments.choices import choice_data, sample_repeats
from karenina.experiments.combinations import combination_data
from karenina.experiments.gradients import gradient_data
from karenina.experiments.populations import Subject, subject, subjects
from karenina.experiments.results import Results
from karenina.experiments.selections import selection_data
from karenina.experiments.tables import TOLERANCE, Table, measure_table
from karenina.experiments.uncertainty import uncertainty_data

__all__ = ["EXPERIMENTS", "Told", "Work", "reproduce"]

Told = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """How tables are measured: anew or only what is missing, how exactly, on how many processes, how large."""

    anew: bool = False
    tolerance: float = TOLERANCE
    jobs: int = 1
    models: int | None = None  # the first so many of each population only, where more are not stored


# Each from a population and its table; None where the population does not fit the experiment.
EXPERIMENTS: dict[str, Callable[[Subject, Table, Told], Any]] = {
    "selections": lambda own, table, _: selection_data(own, table),
    "combinations": lambda own, table, _: combination_data(own, table),
    "gradients": lambda own, table, _: gradient_data(own, table),
    "uncertainty": lambda own, _, __: uncertainty_data(own),
    "choices": lambda own, table, told: choice_data(own, table, sample_repeats(own, told)),
}
TABLES, ALL = "tables", "all"


def reproduce(
    names: Sequence[str], populations: Sequence[str], folder: Path, work: Work, told: Told = lambda _: None
) -> Results:
    """Run the experiments named on the populations named; all of them where none of the kind is named."""
    results = Results(folder)
    wanted, chosen = _asked([*names, *populations])
    for population in chosen:
        own = _limited(subject(population), results, work)
        table = _table(own, results, work, told)
        for name in wanted:
            if name != TABLES:
                told(f"{population}: {name}")
                results.record(name, population, EXPERIMENTS[name](own, table, told), subjects())
    return results


def _asked(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Experiments and populations, from a list of either."""
    experiments, populations = [TABLES, *EXPERIMENTS], subjects()
    for name in names:
        if name not in [*experiments, *populations, ALL]:
            known = ", ".join([*experiments, *populations, ALL])
            raise InputError(f"there is no experiment and no population {name!r}; known: {known}")
    wanted = [name for name in experiments if name in names]
    chosen = [name for name in populations if name in names]
    return wanted if wanted and ALL not in names else experiments, chosen or populations


def _limited(own: Subject, results: Results, work: Work) -> Subject:
    """The first models of a population, as many as wanted, or as many as the stored table has."""
    if work.models is None:
        return own
    path = results.table_path(own.name)
    stored = len(results.table(own.name).names) if path.exists() else 0
    return own.first(max(work.models, stored))


def _table(own: Subject, results: Results, work: Work, told: Told) -> Table:
    """The population's table: what is stored of it, and the pairs that are missing, measured and stored."""
    path = results.table_path(own.name)
    before = None if work.anew or not path.exists() else results.table(own.name)

    def progress(done: int, total: int) -> None:
        told(f"{own.name}: {done} of {total} pairs measured")

    return measure_table(own, work.tolerance, before=before, jobs=work.jobs, progress=progress, keep=path)
