"""Domains from recorded inputs. Enters: observations, as an array or as a file. Leaves: the smallest box that holds
them, widened by a margin.

Files: NumPy's `.npy`, `.npz` with one array (or one that is named), and CSV, whose first line may name the inputs.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from karenina.array_file import array_member, array_names, open_archive, read_array_file
from karenina.domain import Array, Box, Domain
from karenina.errors import DomainError, InputError
from karenina.text_file import read_text

__all__ = ["domain_from_data", "read_observations"]


def domain_from_data(
    observations: npt.ArrayLike,
    *,
    margin: float = 0.0,
    absolute_margin: float = 0.0,
    leave_out: float = 0.0,
    names: Sequence[str] = (),
    name: str = "the observations",
) -> Domain:
    """The box around observations (..., inputs).

    Each interval grows on both sides by `margin` times its width plus `absolute_margin`. `leave_out` is the share of an
    input's smallest, and of its largest, values that count as outliers.
    """
    points = _points(observations, name)
    if not (0 <= margin < np.inf and 0 <= absolute_margin < np.inf):
        raise DomainError(
            f"a margin must be a number >= 0, not {margin if not 0 <= margin < np.inf else absolute_margin}"
        )
    if not 0 <= leave_out < 0.5:
        raise DomainError(f"the share to leave out must be at least 0 and less than 0.5, not {leave_out}")
    lower, upper = _ends(points, leave_out)
    more = margin * (upper - lower) + absolute_margin
    flat = np.flatnonzero(lower - more == upper + more)
    notes = [f"{name}: {_label(names, int(i))} is always {lower[i]:g}, so the domain is flat there" for i in flat[:5]]
    return Domain(Box(lower - more, upper + more), names, name, notes)


def _points(observations: npt.ArrayLike, name: str) -> Array:
    """(observations, inputs), finite."""
    try:
        points = np.asarray(observations, dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainError(f"{name} does not hold numbers") from None
    if points.ndim < 2 or not points.size:
        shape = "x".join(map(str, points.shape)) or "one number"
        raise DomainError(f"{name} must have a row for every observation and a column for every input, not {shape}")
    points = points.reshape(-1, points.shape[-1])
    bad = np.argwhere(~np.isfinite(points))
    if bad.size:
        row, column = (int(place) for place in bad[0])
        raise DomainError(f"{name}: observation {row}, input {column} is {points[row, column]}")
    return points


def _ends(points: Array, leave_out: float) -> tuple[Array, Array]:
    """Observed values, the outliers left out."""
    ordered = np.sort(points, axis=0)
    skipped = int(leave_out * len(points))
    return ordered[skipped], ordered[len(points) - 1 - skipped]


def _label(names: Sequence[str], i: int) -> str:
    return repr(names[i]) if i < len(names) else f"input {i}"


def read_observations(path: Path, key: str | None = None) -> tuple[Array, tuple[str, ...]]:
    """The array in a file, and the names of the inputs where the file has them."""
    try:
        start = _start(path)
        if start.startswith(b"\x93NUMPY"):
            return read_array_file(path).astype(np.float64), ()
        if start.startswith(b"PK"):
            return _from_archive(path, key), ()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read as an array of numbers: {error}") from None
    return _from_csv(path)


def _start(path: Path) -> bytes:
    """What tells the formats apart; nothing of what is no regular file, which may be text but no array."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(6)


def _from_archive(path: Path, key: str | None) -> Array:
    with open_archive(path) as archive:
        there = array_names(archive)
        chosen = key if key is not None else there[0] if len(there) == 1 else None
        if chosen not in there:
            missing = f"there is no {key!r} in {path}" if key is not None else f"{path} holds several arrays"
            raise InputError(f"{missing}: name one of {', '.join(there) or 'none'} with --key")
        return array_member(archive, chosen, path.stat().st_size).astype(np.float64)


def _from_csv(path: Path) -> tuple[Array, tuple[str, ...]]:
    names: tuple[str, ...] = ()
    values, width = array("d"), 0  # numbers, not lists of them: a text may have a hundred million
    reader = csv.reader(io.StringIO(read_text(path)), skipinitialspace=True)
    try:
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            numbers = _numbers(row)
            if numbers is None and not width:
                names = tuple(cell.strip() for cell in row)
            elif numbers is None or len(row) != (width or len(row)):
                raise InputError(f"{path}: line {reader.line_num} is not {width} numbers")
            width = width or len(row)
            values.extend(numbers or ())
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num} is no line of a table: {error}") from None
    if not width:
        raise InputError(f"{path} is empty: it needs a line for every observation")
    return np.array(values, dtype=np.float64).reshape(-1, width), names


def _numbers(row: Sequence[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in row]
    except ValueError:
        return None
