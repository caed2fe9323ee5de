"""The results on disk. Enters: a folder. Leaves: `results[experiment][population]`, and the tables of disagreement.

FOLDER/tables/POPULATION.json   disagreement tables
FOLDER/EXPERIMENT.json          one key a population
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karenina.errors import InputError
from karenina.experiments.tables import Table, load_table

__all__ = ["Results"]


@dataclass(frozen=True)
class Results:
    """Where results are kept."""

    folder: Path

    def table_path(self, population: str) -> Path:
        return self.folder / "tables" / f"{population}.json"

    def table(self, population: str) -> Table:
        return load_table(self.table_path(population))

    def path(self, experiment: str) -> Path:
        return self.folder / f"{experiment}.json"

    def read(self, experiment: str) -> dict[str, Any]:
        """What is known of each population; empty where nothing is."""
        try:
            found: dict[str, Any] = json.loads(self.path(experiment).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InputError(f"{self.path(experiment)} is not a file of results: {error}") from None
        return found

    def record(self, experiment: str, population: str, data: Any, order: list[str]) -> None:
        """Let this be what is known of one population; None takes it away."""
        found = {**self.read(experiment), population: data}
        kept = {name: found[name] for name in [*order, *found] if found.get(name) is not None}
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f" {json.dumps(name)}: {_dumped(own)}" for name, own in kept.items()]
        self.path(experiment).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _dumped(data: dict[str, Any]) -> str:
    """A line for each key, so that a change shows as one."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items()) + "}"
