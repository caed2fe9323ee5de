"""Domains: boxes and unions of boxes, the inputs over which networks are compared.

Enters: arrays (`karenina.domain_file` reads files). Leaves: a `Domain`, checked: finite, not inverted,
of one size. A side may be degenerate (lower = upper).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from karenina.errors import DomainError

if TYPE_CHECKING:  # domains are read and written without torch
    from karenina.network import Network

__all__ = ["Box", "Domain", "first_bad_side"]

Array = npt.NDArray[np.float64]


def first_bad_side(lower: Array, upper: Array) -> tuple[int, str] | None:
    """The first input whose bounds are not an interval, and what is wrong with them; None if all are well."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)))
    if not bad.size:
        return None
    i = int(bad[0])
    low, high = float(lower[i]), float(upper[i])
    if np.isfinite(low) and np.isfinite(high):
        return i, f"has lower bound {low} above its upper bound {high}"
    return i, f"has bounds [{low}, {high}]: bounds must be finite numbers"


@dataclass(frozen=True, eq=False)
class Box:
    """All x with lower <= x <= upper, coordinate by coordinate."""

    lower: Array  # (inputs,)
    upper: Array  # (inputs,)

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> None:
        object.__setattr__(self, "lower", np.array(lower, dtype=np.float64))
        object.__setattr__(self, "upper", np.array(upper, dtype=np.float64))
        if self.lower.ndim != 1 or self.lower.shape != self.upper.shape or not self.lower.size:
            raise DomainError(
                f"a box needs as many lower as upper bounds, not {self.lower.shape} and {self.upper.shape}"
            )
        bad = first_bad_side(self.lower, self.upper)
        if bad:
            raise DomainError(f"input {bad[0]} {bad[1]}")

    @property
    def size(self) -> int:
        return len(self.lower)

    def contains(self, x: npt.ArrayLike) -> bool:
        point = np.asarray(x, dtype=np.float64)
        return bool(np.all(self.lower <= point) and np.all(point <= self.upper))

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Uniform points, (count, inputs)."""
        return rng.uniform(self.lower, self.upper, (count, self.size))


@dataclass(frozen=True, eq=False)
class Domain:
    """A union of one or more boxes of one size, with optional names of the coordinates.

    `name` is what messages call the domain (its file, for one that was read), `notes` what its reader did that
    a user should know.
    """

    boxes: tuple[Box, ...]
    names: tuple[str, ...] = ()
    name: str = "the domain"
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        boxes: Box | Sequence[Box],
        names: Sequence[str] = (),
        name: str = "the domain",
        notes: Sequence[str] = (),
    ) -> None:
        object.__setattr__(self, "boxes", (boxes,) if isinstance(boxes, Box) else tuple(boxes))
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "notes", tuple(notes))
        if not self.boxes:
            raise DomainError(f"{name}: a domain needs at least one box")
        if len({box.size for box in self.boxes}) > 1:
            sizes = [box.size for box in self.boxes]
            raise DomainError(f"{name}: the boxes of a domain must have one size, not {sizes}")
        if self.names:
            self._check_names()

    def _check_names(self) -> None:
        if len(self.names) != self.size:
            raise DomainError(f"{self.name}: a domain of {self.size} inputs has {len(self.names)} names")
        seen: set[str] = set()
        for name in self.names:
            if not name.strip() or not name.isprintable():
                raise DomainError(f"{self.name}: an input's name must be printable text, not {name!r}")
            if name in seen:
                raise DomainError(f"{self.name}: two inputs are named {name!r}")
            seen.add(name)

    @property
    def size(self) -> int:
        return self.boxes[0].size

    @property
    def labels(self) -> tuple[str, ...]:
        """What to call each input in a report: its name, or x0, x1, ..."""
        return self.names or tuple(f"x{i}" for i in range(self.size))

    def contains(self, x: npt.ArrayLike) -> bool:
        return any(box.contains(x) for box in self.boxes)

    def require_size(self, network: Network) -> None:
        """Refuse a network that reads another number of inputs."""
        if network.input_size != self.size:
            raise DomainError(f"{self.name} has {self.size} inputs but {network.name} takes {network.input_size}")

    def to_toml(self) -> str:
        """The text of a domain file that reads back as this domain, bit for bit."""
        blocks = [f"names = {json.dumps(self.names, ensure_ascii=False)}\n"] if self.names else []
        for box in self.boxes:
            blocks.append(f"[[box]]\nlower = {box.lower.tolist()}\nupper = {box.upper.tolist()}\n")
        return "\n".join(blocks)
