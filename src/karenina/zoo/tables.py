"""Prints the tables of the zoo's pages from what is committed: the shipped manifests, and readings of the paper.

Enters: the populations that ship, and JSON files that `karenina.zoo.readings` wrote. Leaves: tables as Markdown.

    python -m karenina.zoo.tables [docs/zoo/mountaincar_readings.json ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from karenina.errors import InputError, KareninaError
from karenina.zoo.population import Population, load, shipped

__all__ = ["main", "population_table", "readings_table"]


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _lines(head: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *(_row(cells) for cells in rows)]


def _range(values: Iterable[float]) -> str:
    found = sorted(values)
    if not found:
        return "-"
    digits = 1 if max(map(abs, found)) < 1000 else 0
    return f"{found[0]:.{digits}f} to {found[-1]:.{digits}f}"


def population_table(population: Population) -> list[str]:
    """How many are good in every preset, and what they earn: the named set, and all that pass."""
    chosen = population.provenance["chosen"]
    presets = list(next(iter(population.rewards.values())))
    outside = [preset for preset in presets if preset != "in-distribution"]
    head = [population.benchmark, *(f"good, `{preset}`" for preset in outside), *(f"`{preset}`" for preset in presets)]
    rows = []
    for label, names in (("named set", chosen), ("all that pass", list(population.rewards))):
        own = [population.rewards[name] for name in names]
        good = [f"{sum(rewards[preset]['good'] for rewards in own)} of {len(own)}" for preset in outside]
        rows.append([label, *good, *(_range(rewards[preset]["mean"] for rewards in own) for preset in presets)])
    facts = population.provenance
    counts = (
        f"{facts['passed']} of {facts['trained']} pass the filter of {facts['filter']['least']:g} in-distribution; "
        f"good is above {facts['evaluation']['threshold']:g}; {facts['evaluation']['episodes']:,} episodes each."
    )
    return [*_lines(head, rows), "", counts]


def readings_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for every training and checkpoint: what is otherwise than shipped, and what the policies earn."""
    head = ["other than shipped", "checkpoint", "seeds", "in-distribution", "out-of-distribution"]
    found = []
    for row in rows:
        other = {**row["environment"], **row["hyperparameters"]}
        label = ", ".join(f"{name} {_short(value)}" for name, value in other.items()) or "nothing"
        for number, policies in row["checkpoints"].items():
            earned = [sorted(own[preset] for own in policies.values()) for preset in ("in-distribution", "ood")]
            found.append([label, number, len(policies), *map(_values, earned)])
    return _lines(head, found)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _values(values: Sequence[float]) -> str:
    """All of a few, the ends of many."""
    return ", ".join(f"{value:.1f}" for value in values) if len(values) <= 4 else _range(values)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; the exit code."""
    given = [Path(text) for text in (sys.argv[1:] if arguments is None else arguments)]
    try:
        tables = [population_table(load(name, everything=True)) for name in shipped()]
        tables += [readings_table(_read(path)) for path in given]
    except KareninaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n\n".join("\n".join(lines) for lines in tables))
    return 0


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text())
        readings_table(rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a file of readings ({error!r})") from None
    return rows


if __name__ == "__main__":
    sys.exit(main())
