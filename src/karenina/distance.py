"""Distance functions, each lowered to queries on the pair of networks that share an input.

Enters: a distance's name (and conditions for the c-distance), two networks, a domain. Leaves: the
pairwise disagreement threshold as the maximum over groups of the minimum over a group's queries:

    l1          max over x of sum |N1(x) - N2(x)|
    linf        max over x of max |N1(x) - N2(x)|
    c-distance  for each box, the least over the conditions c of the largest l1 where both outputs satisfy c
    class       over x where the top classes i != j differ, the largest N1_i - N1_j + N2_j - N2_i

The c-distance and the class distance are 0 where no input qualifies.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from karenina.domain import Box, Domain
from karenina.errors import InputError
from karenina.network import IDENTITY, Activation, Layer, Network, append, concatenate
from karenina.query import Case, Query

__all__ = ["DISTANCES", "L1", "CDistance", "ClassDistance", "Condition", "Distance", "Linf", "distance"]

Array = npt.NDArray[np.float64]
Groups = tuple[tuple[Query, ...], ...]  # max over groups of min over queries

# Up to this many outputs an l1 norm is a maximum over sign patterns; beyond, a layer of |.| neurons.
SIGN_PATTERNS = 3


class Distance(Protocol):
    """How far two outputs are apart, and how to ask for the largest such distance over a domain."""

    @property
    def name(self) -> str: ...

    def __call__(self, first: Array, second: Array) -> float:
        """The distance of two outputs (outputs,)."""

    def queries(self, first: Network, second: Network, domain: Domain) -> Groups:
        """The pairwise disagreement threshold, as a maximum over groups of the minimum over a group's queries."""


@dataclass(frozen=True)
class L1:
    """The sum of absolute differences."""

    name: str = "l1"

    def __call__(self, first: Array, second: Array) -> float:
        return float(np.abs(first - second).sum())

    def queries(self, first: Network, second: Network, domain: Domain) -> Groups:
        networks, objectives, _ = _l1_objectives(first, second)
        return ((Query.maximise(networks, domain, objectives, floor=0.0),),)


@dataclass(frozen=True)
class Linf:
    """The largest absolute difference of any output."""

    name: str = "linf"

    def __call__(self, first: Array, second: Array) -> float:
        return float(np.abs(first - second).max())

    def queries(self, first: Network, second: Network, domain: Domain) -> Groups:
        one = np.eye(first.output_size)
        objectives = [sign * np.concatenate([row, -row]) for row in one for sign in (1.0, -1.0)]
        return ((Query.maximise((first, second), domain, objectives, floor=0.0),),)


@dataclass(frozen=True, eq=False)
class Condition:
    """rows @ y + offsets >= 0 on the outputs y of one network."""

    rows: Array  # (inequalities, outputs)
    offsets: Array  # (inequalities,)
    text: str = ""

    @classmethod
    def parse(cls, text: str, outputs: int) -> Condition:
        """From text such as "y0 >= 0", "2*y0 - y1 <= 3 and y1 >= 0", or "y >= 0" for every output."""
        parsed = [row for part in re.split(r"\band\b|,", text) for row in _parse_inequality(part, text, outputs)]
        return cls(np.array([row for row, _ in parsed]), np.array([offset for _, offset in parsed]), text.strip())

    def holds(self, y: Array) -> bool:
        return bool((self.rows @ y + self.offsets >= 0).all())


@dataclass(frozen=True)
class CDistance:
    """The paper's condition distance; by default its conditions: all outputs >= 0, and all <= 0."""

    conditions: tuple[str, ...] = ("y >= 0", "y <= 0")
    name: str = field(default="c-distance")

    def __call__(self, first: Array, second: Array) -> float:
        return float(np.abs(first - second).sum())

    def queries(self, first: Network, second: Network, domain: Domain) -> Groups:
        conditions = [Condition.parse(text, first.output_size) for text in self.conditions]
        return tuple(tuple(self._query(first, second, box, c) for c in conditions) for box in domain.boxes)

    def _query(self, first: Network, second: Network, box: Box, condition: Condition) -> Query:
        networks, objectives, outputs = _l1_objectives(first, second, carry=True)
        rows = np.zeros((2 * len(condition.offsets), outputs))
        size = first.output_size
        rows[: len(condition.offsets), :size] = condition.rows
        rows[len(condition.offsets) :, size : 2 * size] = condition.rows
        offsets = np.tile(condition.offsets, 2)
        return Query.maximise(
            networks, Domain(box), objectives, constraints=rows, constraint_offsets=offsets, floor=0.0
        )


@dataclass(frozen=True)
class ClassDistance:
    """How clearly two argmax policies can choose different classes."""

    name: str = "class"

    def __call__(self, first: Array, second: Array) -> float:
        i, j = int(np.argmax(first)), int(np.argmax(second))
        return float(first[i] - first[j] + second[j] - second[i])

    def queries(self, first: Network, second: Network, domain: Domain) -> Groups:
        if first.output_size < 2:
            raise InputError(f"the class distance needs at least two outputs, and {first.name} has {first.output_size}")
        cases = tuple(case for box in domain.boxes for case in self._cases(first.output_size, box))
        return ((Query((first, second), cases, floor=0.0),),)

    @staticmethod
    def _cases(classes: int, box: Box) -> Iterator[Case]:
        one, nothing = np.eye(classes), np.zeros(classes)
        for i, j in itertools.permutations(range(classes), 2):
            objective = np.concatenate([one[i] - one[j], one[j] - one[i]])
            tops = [np.concatenate([one[i] - one[k], nothing]) for k in range(classes) if k != i]
            tops += [np.concatenate([nothing, one[j] - one[k]]) for k in range(classes) if k != j]
            yield Case(box, objective, 0.0, np.array(tops), np.zeros(len(tops)))


def _l1_objectives(
    first: Network, second: Network, *, carry: bool = False
) -> tuple[tuple[Network, ...], list[Array], int]:
    """Networks and objectives whose maximum is the l1 distance, and how many outputs there are.

    The first outputs are those of N1 and N2 wherever `carry` asks for them.
    """
    size = first.output_size
    if size <= SIGN_PATTERNS:
        signs = [np.array(pattern) for pattern in itertools.product((1.0, -1.0), repeat=size)]
        return (first, second), [np.concatenate([s, -s]) for s in signs], 2 * size
    one, kept = np.eye(size), 2 * size if carry else 0
    weight = np.vstack([np.eye(2 * size)[:kept], np.hstack([one, -one])])
    layer = Layer.of(weight, np.zeros(len(weight)), ((IDENTITY, kept), (Activation("abs"), size)))
    network = append(concatenate(first, second), [layer])
    return (network,), [np.concatenate([np.zeros(kept), np.ones(size)])], kept + size


_NUMBER = r"(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
_TERM = re.compile(rf"\s*(?P<sign>[-+])?\s*(?:(?P<factor>{_NUMBER})\s*(?:\*\s*(?=y))?)?(?P<output>y\d*)?")


def _parse_inequality(part: str, text: str, outputs: int) -> Iterator[tuple[Array, float]]:
    """One inequality as rows @ y + offset >= 0; several rows when `y` stands for every output."""
    sides = re.split(r"(<=|>=)", part)
    if len(sides) != 3:
        raise InputError(f"condition {text!r}: {part.strip()!r} must be one inequality, such as y0 >= 0")
    sign = 1.0 if sides[1] == ">=" else -1.0
    left, right = (_parse_side(side, text, outputs) for side in (sides[0], sides[2]))
    (row, every, offset) = (sign * (a - b) for a, b in zip(left, right, strict=True))
    if every[0]:
        for k in range(outputs):
            yield row + every[0] * np.eye(outputs)[k], float(offset[0])
    else:
        yield row, float(offset[0])


def _parse_side(side: str, text: str, outputs: int) -> tuple[Array, Array, Array]:
    """Coefficients of the outputs, the coefficient of `y` (every output), and the constant."""
    row, every, constant, at = np.zeros(outputs), np.zeros(1), np.zeros(1), 0
    side = side.strip()
    while at < len(side):
        term = _TERM.match(side, at)
        if term is None or term.end() == at or not (term["factor"] or term["output"]) or (at and not term["sign"]):
            raise InputError(f"condition {text!r}: cannot read {side[at:]!r}; write terms such as 2*y0 - y1 + 0.5")
        value = (-1.0 if term["sign"] == "-" else 1.0) * float(term["factor"] or 1)
        if not term["output"]:
            constant += value
        elif term["output"] == "y":
            every += value
        elif (index := int(term["output"][1:])) < outputs:
            row[index] += value
        else:
            raise InputError(f"condition {text!r}: there is no output y{index}; the networks have {outputs}, from y0")
        at = term.end()
    if not side or not np.isfinite([*row, *every, *constant]).all():
        raise InputError(f"condition {text!r}: an inequality needs finite numbers or outputs on both sides")
    return row, every, constant


DISTANCES = ("l1", "linf", "c-distance", "class")


def distance(name: str, conditions: Sequence[str] = ()) -> Distance:
    """A distance by its name; conditions are the c-distance's."""
    if conditions and name != "c-distance":
        raise InputError(f"conditions belong to the c-distance, not to {name}")
    match name:
        case "l1":
            return L1()
        case "linf":
            return Linf()
        case "c-distance":
            return CDistance(tuple(conditions)) if conditions else CDistance()
        case "class":
            return ClassDistance()
    raise InputError(f"unknown distance {name!r}; known: {', '.join(DISTANCES)}")
