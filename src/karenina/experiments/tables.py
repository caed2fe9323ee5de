"""Disagreement tables of whole populations, kept on disk: every pair is measured once, all else is computed from it.

Enters: a `Subject`, a tolerance, perhaps a table measured before. Leaves: a `Table`, and its JSON file. Bounds are
rounded outwards to a millionth, so that a table read back still holds the true values between them. A pair whose two
networks (by content), domain, distance and tolerance are those of the table before is not measured again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.disagreement import Disagreement, Measure, PairTask
from karenina.distance import distance as named_distance
from karenina.errors import InputError
from karenina.execution import Work, processes
from karenina.experiments.populations import Array, Subject
from karenina.query import Goal, Status

__all__ = ["TOLERANCE", "UNIT", "Integers", "Table", "from_table", "load_table", "measure_table", "save_table"]

Integers = npt.NDArray[np.int64]
UNIT = 1e-6  # bounds are kept as whole multiples of it, so that sums of them are exact
TOLERANCE = 1e-3
TIME_LIMIT = 60.0  # seconds a pair
_SAVE_EVERY = 50  # pairs


@dataclass(frozen=True, eq=False)
class Table:
    """Bounds of all pairs, in units of a millionth: (models, models), symmetric, 0 on the diagonal."""

    population: str
    distance: str
    domain: str  # hash
    tolerance: float
    networks: dict[str, str]  # name -> digest
    lower: Integers
    upper: Integers

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.networks)

    def of(self, places: Sequence[int]) -> Table:
        """The table of some of the models."""
        block = np.ix_(places, places)
        names = [self.names[k] for k in places]
        networks = {name: self.networks[name] for name in names}
        bounds = self.lower[block], self.upper[block]
        return Table(self.population, self.distance, self.domain, self.tolerance, networks, *bounds)

    @property
    def open_pairs(self) -> int:
        """How many pairs are not known to the tolerance (two roundings allowed)."""
        wide = (self.upper - self.lower) * UNIT > self.tolerance + 2.5 * UNIT
        return int(np.triu(wide, 1).sum())

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds as numbers."""
        lower, upper = (bounds.astype(np.float64) * UNIT for bounds in (self.lower, self.upper))
        return lower, upper


def load_table(path: Path) -> Table:
    """A table from its file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        head = [content[key] for key in ("population", "distance", "domain", "tolerance", "networks")]
        size = len(content["networks"])
        bounds = [_square(content[key], size) for key in ("lower", "upper")]
    except FileNotFoundError:
        raise InputError(f"{path} is missing: `karenina reproduce tables` measures it") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a disagreement table: {error!r}") from None
    return Table(*head, *bounds)


def _square(rows: list[list[float]], size: int) -> Integers:
    whole = np.zeros((size, size), np.int64)
    flat = np.round(np.array(list(itertools.chain(*rows))) / UNIT).astype(np.int64)
    whole[np.triu_indices(size, 1)] = flat
    return whole + whole.T


def save_table(table: Table, path: Path) -> None:
    """One line of text a model: its pairs with all models after it."""
    head: dict[str, Any] = {
        "population": table.population,
        "distance": table.distance,
        "domain": table.domain,
        "tolerance": table.tolerance,
        "networks": table.networks,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, bounds in (("lower", table.lower), ("upper", table.upper)):
        rows = [
            ", ".join(f"{value * UNIT:.6f}".rstrip("0").rstrip(".") for value in bounds[i, i + 1 :].tolist())
            for i in range(len(bounds) - 1)
        ]
        lines.append(f'"{key}": [\n' + ",\n".join(f"[{row}]" for row in rows) + "\n]")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def measure_table(
    subject: Subject,
    tolerance: float = TOLERANCE,
    *,
    before: Table | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    keep: Path | None = None,
) -> Table:
    """All pairs of a population to the tolerance; with `keep`, what is known is saved there now and then."""
    table = _begun(subject, tolerance, before)
    # By the later of the two: the table of the first models is whole before the next one's pairs begin.
    every = sorted(itertools.combinations(range(len(subject.names)), 2), key=lambda pair: pair[::-1])
    waiting = [pair for pair in every if table.upper[pair] < 0]
    tasks = [PairTask(i, j, Goal(tolerance, time_limit=TIME_LIMIT)) for i, j in waiting]
    with _measure(subject, jobs) as measure:
        for done, (task, found) in enumerate(measure(tasks), start=1):
            _record(table, task.first, task.second, found)
            if progress is not None:
                progress(done, len(tasks))
            if keep is not None and (done % _SAVE_EVERY == 0 or done == len(tasks)):
                save_table(table, keep)
    return table


def _begun(subject: Subject, tolerance: float, before: Table | None) -> Table:
    """The table with what is known; -1 where nothing is."""
    size = len(subject.names)
    networks = {n: net.digest()[:16] for n, net in zip(subject.names, subject.networks, strict=True)}
    domain = hashlib.sha256(subject.domain.to_toml().encode()).hexdigest()[:16]
    bounds = [np.full((size, size), -1, np.int64) for _ in range(2)]
    table = Table(subject.name, subject.distance, domain, tolerance, networks, *bounds)
    for matrix in bounds:
        np.fill_diagonal(matrix, 0)
    same = before is not None and (before.distance, before.domain, before.tolerance) == (
        table.distance,
        table.domain,
        table.tolerance,
    )
    if before is not None and same:
        _copy(before, table)
    return table


def _copy(before: Table, table: Table) -> None:
    """Take over the pairs of networks that both tables hold."""
    place = {digest: k for k, digest in enumerate(before.networks.values())}
    own = [(k, place[digest]) for k, digest in enumerate(table.networks.values()) if digest in place]
    new, old = [k for k, _ in own], [k for _, k in own]
    table.lower[np.ix_(new, new)] = before.lower[np.ix_(old, old)]
    table.upper[np.ix_(new, new)] = before.upper[np.ix_(old, old)]


def _measure(subject: Subject, jobs: int) -> AbstractContextManager[Measure]:
    metric = named_distance(subject.distance)
    work = Work.of(list(subject.networks), subject.domain, metric, "karenina", "cpu")
    return nullcontext(work.here()) if jobs == 1 else processes(work, jobs)


def _record(table: Table, i: int, j: int, found: Disagreement) -> None:
    table.lower[i, j] = table.lower[j, i] = math.floor(found.lower / UNIT)
    table.upper[i, j] = table.upper[j, i] = math.ceil(found.upper / UNIT)


def from_table(table: Table) -> Measure:
    """A measure that looks every pair up."""
    lower, upper = table.bounds()

    def measure(tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        for task in tasks:
            pair = task.first, task.second
            yield task, Disagreement(float(lower[pair]), float(upper[pair]), Status.EXACT, None, None, 0, 0.0)

    return measure
