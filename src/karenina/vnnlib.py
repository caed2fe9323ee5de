"""VNN-LIB 1 specifications, as VNN-COMP uses them.

Enters: a `.vnnlib` file, plain or gzip. Leaves: a `Specification`, the question "is there an input x with
outputs y = N(x) that satisfy every assert?" as a list of disjuncts: for each a box of inputs, and linear
inequalities on the outputs that must all hold. `to_query` makes it a query with one case a disjunct,
`domain` takes only its inputs, `verify` asks it of a network.

Read are `declare-const` (and `declare-fun` without arguments) of the reals X_0, X_1, ... and Y_0, Y_1, ...,
and `assert` of `and` and `or`, nested at will, over `<=`, `>=`, `<`, `>` and `=` between linear expressions
(`+`, `-`, and `*` with constants). An inequality must be a bound on one input, or speak of outputs only.

Numbers are exact decimals through all the arithmetic, and rounded once, at the end, to the *nearest*
float64: a bound of 0.1 is float64's 0.1, as it is for everyone who evaluates the network there.

A strict inequality is read as its closure (`<` as `<=`). What is then unsatisfiable is so with `<`, too; a
witness on the very boundary does not satisfy `<`, so `verify` says `unknown` rather than `sat` for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from karenina.domain import Array, Box, Domain
from karenina.errors import DomainError, InputError
from karenina.network import Network
from karenina.query import Answer, Backend, Case, Goal, Query, Status, Verdict
from karenina.text_file import read_text
from karenina.vnnlib_parser import Bound, Conjunction, Inequality, Problem, parse_problem

__all__ = ["Disjunct", "Specification", "Verification", "load_specification", "parse_specification", "verify"]

_MOST_NUMBERS = 2**26  # in the boxes and inequalities of all disjuncts together
_DISJUNCT = 128  # numbers in whose place a disjunct stands, apart from its arrays' content
CLEAR = 1e-9  # how far inside an inequality a witness is asked for when the first one lay on the edge


@dataclass(frozen=True, eq=False)
class Disjunct:
    """The x in the box whose outputs y have rows @ y + offsets >= 0.

    Strict inequalities leave out a boundary besides: `strict_rows` says which rows must be > 0, `excluded`
    which values (input, bound) an input must not take.
    """

    box: Box
    rows: Array  # (rows, outputs)
    offsets: Array  # (rows,)
    strict_rows: npt.NDArray[np.bool_]  # (rows,)
    excluded: tuple[tuple[int, float], ...] = ()

    @cached_property
    def case(self) -> Case:
        """Maximise the first row, under the others: the disjunct is satisfiable iff the maximum is >= 0."""
        if not len(self.rows):
            return Case(self.box, np.zeros(self.rows.shape[1]))
        return Case(self.box, self.rows[0], float(self.offsets[0]), self.rows[1:], self.offsets[1:])

    def holds(self, x: Array, y: Array) -> bool:
        """Whether the input x with outputs y satisfies the disjunct, strict inequalities strictly."""
        values = np.array([self.case.value(y), *self.case.slack(y)])[: len(self.rows)]
        satisfied = np.where(self.strict_rows, values > 0, values >= 0)
        return self.box.contains(x) and bool(satisfied.all()) and all(x[i] != bound for i, bound in self.excluded)


@dataclass(frozen=True, eq=False)
class Specification:
    """The disjuncts that hold any input at all: with none left, nothing satisfies the specification."""

    input_size: int
    output_size: int
    disjuncts: tuple[Disjunct, ...]
    name: str = "the specification"

    def to_query(self, network: Network) -> Query:
        """One case a disjunct: the specification is satisfiable iff the query's maximum is >= 0."""
        self.require_size(network)
        if not self.disjuncts:
            raise InputError(f"{self.name} holds no input: its bounds contradict each other")
        return Query((network,), tuple(disjunct.case for disjunct in self.disjuncts))

    def require_size(self, network: Network) -> None:
        """Refuse a network with other numbers of inputs and outputs than the file declares."""
        ours, theirs = (self.input_size, self.output_size), (network.input_size, network.output_size)
        if ours != theirs:
            declared = f"{self.name} declares {ours[0]} inputs X and {ours[1]} outputs Y"
            raise InputError(f"{declared} but {network.name} has {theirs[0]} and {theirs[1]}")

    def domain(self) -> Domain:
        """The boxes of the inputs, without the output constraints."""
        if not self.disjuncts:
            raise DomainError(f"{self.name} holds no input: its bounds contradict each other")
        boxes = {(d.box.lower.tobytes(), d.box.upper.tobytes()): d.box for d in self.disjuncts}
        names = [f"X_{i}" for i in range(self.input_size)]
        constrained = any(len(disjunct.rows) for disjunct in self.disjuncts)
        notes = [f"{self.name}: only the input boxes are used, not the constraints on outputs"] if constrained else []
        return Domain(list(boxes.values()), names, self.name, notes)


def load_specification(path: str | Path) -> Specification:
    """Read a VNN-LIB 1 file, plain or gzip."""
    return parse_specification(read_text(path), str(path))


def parse_specification(text: str, name: str = "the specification") -> Specification:
    """Read VNN-LIB 1 text; `name` is what messages call it."""
    problem = parse_problem(text, name)
    disjuncts = _Builder(problem).disjuncts()
    return Specification(len(problem.inputs), len(problem.outputs), disjuncts, name)


class _Builder:
    """Conjunctions of atoms to boxes and rows, with what all disjuncts share computed once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.outputs = len(problem.outputs)
        self.shared_bounds, self.shared_rows = _sorted_atoms(problem.shared)
        self.lower = np.full(len(problem.inputs), -math.inf)
        self.upper = np.full(len(problem.inputs), math.inf)
        _tighten(self.lower, self.upper, self.shared_bounds)
        self.shared_strict = [bound for bound in self.shared_bounds if bound.strict]
        self.shared_box: Box | None = None

    def disjuncts(self) -> tuple[Disjunct, ...]:
        self._check_size()
        built = (self._disjunct(atoms) for atoms in self.problem.alternatives)
        return tuple(disjunct for disjunct in built if disjunct is not None)

    def _check_size(self) -> None:
        """Refuse what would not fit into the memory: a disjunct with bounds or inequalities has arrays of its own."""
        size = 0
        for atoms in self.problem.alternatives:
            bounds, rows = _sorted_atoms(atoms)
            size += _DISJUNCT + (2 * len(self.lower) if bounds else 0)
            size += (len(rows) + len(self.shared_rows)) * self.outputs
            if size > _MOST_NUMBERS:
                kind = f"its {len(self.problem.alternatives)} disjuncts have bounds and inequalities"
                raise InputError(f"{self.problem.source}: {kind} of more than {_MOST_NUMBERS} numbers")

    def _disjunct(self, atoms: Conjunction) -> Disjunct | None:
        """The disjunct; None if its bounds leave no input."""
        bounds, rows = _sorted_atoms(atoms)
        strict = self.shared_strict + [bound for bound in bounds if bound.strict]
        box = self._box(bounds)
        if box is None or any(box.lower[b.index] == box.upper[b.index] == b.value for b in strict):
            return None
        rows = [*self.shared_rows, *rows]
        matrix = np.zeros((len(rows), self.outputs))
        for k, row in enumerate(rows):
            for j, coefficient in row.coefficients.items():
                matrix[k, j] = coefficient
        offsets = np.array([row.offset for row in rows], dtype=np.float64)
        strict_rows = np.array([row.strict for row in rows], dtype=np.bool_)
        return Disjunct(box, matrix, offsets, strict_rows, tuple((bound.index, bound.value) for bound in strict))

    def _box(self, bounds: list[Bound]) -> Box | None:
        if not bounds and self.shared_box is not None:
            return self.shared_box
        lower, upper = self.lower.copy(), self.upper.copy()
        _tighten(lower, upper, bounds)
        if np.any(lower > upper):
            return None
        self._require_bounds(lower, upper)
        box = Box(lower, upper)
        if not bounds:
            self.shared_box = box
        return box

    def _require_bounds(self, lower: Array, upper: Array) -> None:
        for side, values, comparison in (("lower", lower, ">="), ("upper", upper, "<=")):
            missing = np.flatnonzero(np.isinf(values))
            if missing.size:
                name = f"X_{missing[0]}"
                place = f"{self.problem.source}, line {self.problem.inputs[missing[0]]}"
                asserted = f"(assert ({comparison} {name} ...)), in every disjunct"
                raise InputError(f"{place}: {name} has no {side} bound: it needs {asserted}")


def _sorted_atoms(atoms: Sequence[Bound | Inequality]) -> tuple[list[Bound], list[Inequality]]:
    bounds = [atom for atom in atoms if isinstance(atom, Bound)]
    return bounds, [atom for atom in atoms if isinstance(atom, Inequality)]


def _tighten(lower: Array, upper: Array, bounds: Sequence[Bound]) -> None:
    """Intersect the box with the bounds, in place."""
    for bound in bounds:
        if bound.is_upper:
            upper[bound.index] = min(upper[bound.index], bound.value)
        else:
            lower[bound.index] = max(lower[bound.index], bound.value)


@dataclass(frozen=True, eq=False)
class Verification:
    """What became of a specification: the verdict, for `sat` a counterexample, and the answer behind it."""

    verdict: Verdict
    answer: Answer
    witness: Array | None = None  # (inputs,)
    outputs: Array | None = None  # (outputs,), the network's at the witness

    @property
    def decided(self) -> bool:
        return self.verdict in (Verdict.SAT, Verdict.UNSAT)


def verify(
    network: Network, specification: Specification, backend: Backend, *, time_limit: float = math.inf
) -> Verification:
    """Ask whether any input satisfies the specification. `sat` is only said of a witness that was checked."""
    specification.require_size(network)
    if not specification.disjuncts:
        empty = "the specification holds no input: its bounds contradict each other"
        return Verification(Verdict.UNSAT, Answer(-math.inf, -math.inf, Status.INFEASIBLE, note=empty))
    # No tolerance: an interval around 0, however small, decides nothing.
    goal = Goal(tolerance=0.0, threshold=0.0, time_limit=time_limit)
    query, start = specification.to_query(network), time.perf_counter()
    answer = backend.answer(query, goal)
    if answer.verdict(0.0) is not Verdict.SAT:
        return Verification(answer.verdict(0.0), answer)
    if (confirmed := _confirmed(network, specification, answer)) is not None:
        return confirmed
    # Strict inequalities leave out the boundary on which this witness lies: is there one clear of it?
    left = max(0.0, time_limit - (time.perf_counter() - start))
    clear = backend.answer(query, replace(goal, threshold=CLEAR, time_limit=left))
    if (confirmed := _confirmed(network, specification, clear)) is not None:
        return confirmed
    note = "the witness found lies on a boundary that strict inequalities exclude, or is not confirmed"
    return Verification(Verdict.UNKNOWN, replace(answer, note="; ".join(filter(None, (answer.note, note)))))


def _confirmed(network: Network, specification: Specification, answer: Answer) -> Verification | None:
    """`sat` if the answer's witness, evaluated, satisfies a disjunct."""
    if answer.witness is None:
        return None
    outputs = network(answer.witness)
    if any(disjunct.holds(answer.witness, outputs) for disjunct in specification.disjuncts):
        return Verification(Verdict.SAT, answer, answer.witness, outputs)
    return None
