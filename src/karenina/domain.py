"""Domains: boxes and unions of boxes, the inputs over which networks are compared.

Enters: arrays, or a TOML or VNN-LIB file. Leaves: a `Domain`, checked: finite, not inverted, of one
size. A side may be degenerate (lower = upper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.errors import DomainError

__all__ = ["Box", "Domain"]

Array = npt.NDArray[np.float64]


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
        for i, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            if not (np.isfinite(low) and np.isfinite(high)):
                raise DomainError(f"input {i} has bounds [{low}, {high}]: bounds must be finite numbers")
            if low > high:
                raise DomainError(f"input {i} has lower bound {low} above its upper bound {high}")

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
    """A union of one or more boxes of one size, with optional names of the coordinates."""

    boxes: tuple[Box, ...]
    names: tuple[str, ...] = ()

    def __init__(self, boxes: Box | Sequence[Box], names: Sequence[str] = ()) -> None:
        object.__setattr__(self, "boxes", (boxes,) if isinstance(boxes, Box) else tuple(boxes))
        object.__setattr__(self, "names", tuple(names))
        if not self.boxes:
            raise DomainError("a domain needs at least one box")
        if len({box.size for box in self.boxes}) > 1:
            raise DomainError(f"the boxes of a domain must have one size, not {[box.size for box in self.boxes]}")
        if self.names and len(self.names) != self.size:
            raise DomainError(f"a domain of {self.size} inputs has {len(self.names)} names")

    @property
    def size(self) -> int:
        return self.boxes[0].size

    def contains(self, x: npt.ArrayLike) -> bool:
        return any(box.contains(x) for box in self.boxes)
