"""The waist: everything the verifier is ever asked is a `Query`, everything it ever says an `Answer`.

A query: maximise a linear objective of the outputs of one or more networks that read the same input
x, for x in a box, subject to linear constraints on those outputs. A query may have several *cases*
(the boxes of a union, the two signs of an absolute value, the disjuncts of a specification); its
value is the maximum over them. A `Goal` says when to stop.

An answer: an interval [lower, upper] that holds the maximum, a witness that attains `lower`, a
status that reads as a sentence, and the cost. A back end is anything with the one method `answer`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from karenina.domain import Box, Domain
from karenina.errors import DomainError, InputError
from karenina.network import Network

__all__ = ["Answer", "Backend", "Case", "Goal", "Query", "Status", "Verdict"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """Maximise objective @ y + offset over x in the box, where constraints @ y + constraint_offsets >= 0.

    y holds the outputs of all the query's networks, one after the other.
    """

    box: Box
    objective: Array  # (outputs,)
    offset: float = 0.0
    constraints: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (constraints, outputs)
    constraint_offsets: Array = field(default_factory=lambda: np.zeros(0))  # (constraints,)

    def value(self, y: npt.ArrayLike) -> float:
        return float(np.asarray(y, dtype=np.float64) @ self.objective + self.offset)

    def slack(self, y: npt.ArrayLike) -> Array:
        """How far inside each constraint the outputs y lie: negative is outside."""
        if not len(self.constraint_offsets):
            return np.zeros(0)
        slack: Array = self.constraints @ np.asarray(y, dtype=np.float64) + self.constraint_offsets
        return slack


@dataclass(frozen=True, eq=False)
class Query:
    """The maximum over the cases. `floor` is a value the maximum is known, or defined, not to fall below."""

    networks: tuple[Network, ...]
    cases: tuple[Case, ...]
    floor: float = -math.inf

    def __post_init__(self) -> None:
        if not self.networks or not self.cases:
            raise InputError("a query needs at least one network and one case")
        inputs, outputs = self.networks[0].input_size, self.output_size
        for network in self.networks:
            if network.input_size != inputs:
                raise InputError(
                    f"{network.name} takes {network.input_size} inputs but {self.networks[0].name} takes {inputs}"
                )
        for case in self.cases:
            if case.box.size != inputs:
                raise DomainError(f"the domain has {case.box.size} inputs but {self.networks[0].name} takes {inputs}")
            if case.objective.shape != (outputs,):
                raise InputError(f"the objective has {len(case.objective)} coefficients for {outputs} outputs")
            rows = len(case.constraint_offsets)
            if rows and case.constraints.shape != (rows, outputs):
                raise InputError(
                    f"constraints of shape {case.constraints.shape} do not fit {rows} offsets and {outputs} outputs"
                )

    @classmethod
    def maximise(
        cls,
        networks: Network | Sequence[Network],
        domain: Domain,
        objectives: Iterable[npt.ArrayLike],
        *,
        constraints: npt.ArrayLike | None = None,
        constraint_offsets: npt.ArrayLike | None = None,
        floor: float = -math.inf,
    ) -> Query:
        """Every objective over every box of the domain, all under the same constraints (rows @ y + offset >= 0)."""
        networks = (networks,) if isinstance(networks, Network) else tuple(networks)
        outputs = sum(network.output_size for network in networks)
        rows = (
            np.zeros((0, outputs)) if constraints is None else np.atleast_2d(np.asarray(constraints, dtype=np.float64))
        )
        offsets = (
            np.zeros(len(rows)) if constraint_offsets is None else np.asarray(constraint_offsets, dtype=np.float64)
        )
        vectors = [np.asarray(objective, dtype=np.float64) for objective in objectives]
        cases = tuple(Case(box, vector, 0.0, rows, offsets) for box in domain.boxes for vector in vectors)
        return cls(networks, cases, floor)

    @property
    def output_size(self) -> int:
        return sum(network.output_size for network in self.networks)

    def outputs(self, x: npt.ArrayLike) -> Array:
        """All networks' outputs at x, one after the other."""
        return np.concatenate([network(x) for network in self.networks], axis=-1)


@dataclass(frozen=True)
class Goal:
    """When an answer is good enough.

    Done when upper - lower <= max(tolerance, relative_tolerance * |lower|), or, with a threshold, when it is
    known on which side of the threshold the maximum lies, or that it reaches the ceiling above which values need
    not be told apart; or when the time is over.

    `closing` is the tolerance of the finest goal that may be asked for later. Who searches as if for that one, and only
    stops earlier, can go on where it stopped, and says the same as if it had been asked for the finer goal at once.
    """

    tolerance: float = 1e-3
    relative_tolerance: float = 0.0
    threshold: float | None = None
    ceiling: float = math.inf
    time_limit: float = math.inf
    closing: float | None = None

    def __post_init__(self) -> None:
        for name in ("tolerance", "relative_tolerance", "time_limit"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be a number >= 0, not {getattr(self, name)}")
        if self.closing is not None and not self.closing >= 0:
            raise InputError(f"closing must be a number >= 0, not {self.closing}")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InputError(f"the threshold must be a finite number, not {self.threshold}")

    def gap(self, lower: float) -> float:
        """The largest upper - lower that is good enough when the lower bound is `lower`."""
        return max(self.tolerance, self.relative_tolerance * abs(lower)) if math.isfinite(lower) else self.tolerance

    def reached(self, lower: float, upper: float) -> bool:
        return upper - lower <= self.gap(lower)


class Status(enum.Enum):
    """How an answer ended. `str(status)` reads as a sentence."""

    EXACT = "exact to tolerance"
    DECIDED = "decided against the threshold"
    INFEASIBLE = "infeasible: no input satisfies the constraints"
    TIME_LIMIT = "stopped at time limit"
    PRECISION = "stopped at the precision of float64"
    OVERFLOW = "not verified: float64 overflow or NaN in the bounds"
    FAILED = "stopped: the back end failed"

    def __str__(self) -> str:
        return self.value

    @property
    def finished(self) -> bool:
        """Whether what was asked has been answered."""
        return self in (Status.EXACT, Status.DECIDED, Status.INFEASIBLE)


class Verdict(enum.Enum):
    """The answer to a yes/no question: is there an input whose objective reaches the threshold?"""

    SAT = "sat"
    UNSAT = "unsat"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class Answer:
    """lower <= maximum <= upper; the witness, when there is one, attains `lower`."""

    lower: float
    upper: float
    status: Status
    witness: Array | None = None  # (inputs,)
    case: int | None = None  # the case the witness belongs to
    boxes: int = 0  # subdomains bounded
    seconds: float = 0.0
    note: str = ""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:  # NaN included
            raise AssertionError(f"not an interval: [{self.lower}, {self.upper}]")

    def verdict(self, threshold: float) -> Verdict:
        """Whether the maximum reaches the threshold, as far as the interval tells."""
        if self.witness is not None and self.lower >= threshold:
            return Verdict.SAT
        if self.status is Status.INFEASIBLE or self.upper < threshold:
            return Verdict.UNSAT
        return Verdict.TIMEOUT if self.status is Status.TIME_LIMIT else Verdict.UNKNOWN


class Backend(Protocol):
    """Whoever answers queries: our engine, Marabou, a MILP solver, a fake in a test."""

    def answer(self, query: Query, goal: Goal = ...) -> Answer: ...
