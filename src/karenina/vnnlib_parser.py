"""The grammar of VNN-LIB 1. Enters: text. Leaves: a `Problem`, its asserts in disjunctive normal form.

The atoms are bounds on one input and linear inequalities on outputs. Atoms that every disjunct shares (most
of a file: the bounds) are kept once, so that a file is read in time linear in its length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from karenina.errors import InputError
from karenina.s_expression import Form, read_forms

__all__ = ["Bound", "Conjunction", "Inequality", "Problem", "parse_problem"]


@dataclass(frozen=True, slots=True)
class Bound:
    """x[index] <= value, or >=."""

    index: int
    is_upper: bool
    value: float
    strict: bool


@dataclass(frozen=True, slots=True)
class Inequality:
    """Sum of coefficient * y[index], plus offset, >= 0."""

    coefficients: dict[int, float]
    offset: float
    strict: bool


Conjunction = tuple[Bound | Inequality, ...]


@dataclass
class Problem:
    """All the atoms in `shared`, and all of at least one of the `alternatives`."""

    source: str
    inputs: list[int] = field(default_factory=list)  # the line that declares X_0, X_1, ...
    outputs: list[int] = field(default_factory=list)
    shared: Conjunction = ()
    alternatives: list[Conjunction] = field(default_factory=lambda: [()])


# A linear expression: variable -> coefficient, with "" for the constant term.
Linear = dict[str, Fraction]

_VARIABLE = re.compile(r"([XY])_(0|[1-9][0-9]{0,8})")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_COMPARISONS = ("<=", ">=", "<", ">", "=")
_SILENT = ("set-logic", "set-info", "set-option")
_LAST = ("check-sat", "get-model", "exit")
_MAX_DIGITS = 400  # of a number, and of its exponent's value: float64 ends at 1e308, and exact powers cost memory
_MAX_BITS = 20_000  # of a product, for the same reason
_MAX_EXPANSION = 2_000_000  # atoms that multiplying out conjunctions of disjunctions may make


def parse_problem(text: str, source: str) -> Problem:
    """Read a VNN-LIB 1 text; `source` is what messages call it."""
    reader = _Reader(source)
    for form in read_forms(text, source):
        reader.command(form)
    return reader.problem()


class _Reader:
    """Reads command after command; knows the variables declared so far."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.declared: dict[str, tuple[str, int, int]] = {}  # name -> kind, index, line
        self.shared: list[Bound | Inequality] = []
        self.choices: list[tuple[Form, list[Conjunction]]] = []
        self.expanded = 0  # inequalities that multiplying out has made, in all
        self.complete = False

    def error(self, form: Form, problem: str) -> InputError:
        return InputError(f"{self.source}, line {form.line}: {problem}")

    def command(self, form: Form) -> None:
        match form.items:
            case [str(command), *_] if self.complete and command not in _LAST:
                raise self.error(form, f"{command!r} stands after the end of the specification, check-sat")
            case ["assert", Form() as formula]:
                self._assert(formula, form)
            case ["declare-const", str(name), str(kind)] | ["declare-fun", str(name), Form(items=[]), str(kind)]:
                self._declare(form, name, kind)
            case ["assert" | "declare-const" | "declare-fun" as command, *_]:
                raise self.error(form, f"{command} must read (assert (...)) or (declare-const X_0 Real)")
            case ["vnnlib-version" | "declare-network", *_]:
                raise self.error(form, "this is VNN-LIB 2; VNN-LIB 1 is read")
            case [str(command), *_] if command in _SILENT:
                pass
            case [str(command)] if command in _LAST:
                self.complete = True
            case _:
                head = repr(form.items[0]) if form.items and isinstance(form.items[0], str) else "a form without a name"
                raise self.error(form, f"{head} is no command of VNN-LIB 1: it has declare-const and assert")

    def _declare(self, form: Form, name: str, kind: str) -> None:
        match = _VARIABLE.fullmatch(name)
        if not match or kind != "Real":
            raise self.error(
                form, f"a variable is X_0, X_1, ... or Y_0, Y_1, ... of type Real, not {name!r} of type {kind!r}"
            )
        if name in self.declared:
            raise self.error(form, f"{name} is declared a second time")
        self.declared[name] = match[1], int(match[2]), form.line

    def _assert(self, formula: Form | str, parent: Form) -> None:
        """One assert, or one part of an asserted conjunction: the two mean the same."""
        match formula:
            case Form(items=["and", *parts]) if parts:
                for part in parts:
                    self._assert(part, formula)
                return
        alternatives = self._disjunction(formula, parent)
        if len(alternatives) == 1:
            self.shared.extend(alternatives[0])
        else:
            self.choices.append((parent, alternatives))

    def problem(self) -> Problem:
        """What was read, once all is read."""
        inputs, outputs = self._lines("X"), self._lines("Y")
        if not inputs:
            raise InputError(f"{self.source} declares no input X_0: it is not a VNN-LIB 1 specification")
        return Problem(self.source, inputs, outputs, tuple(self.shared), self._product(self.choices))

    def _lines(self, kind: str) -> list[int]:
        """The line that declares each variable of the kind, in the order of their indices."""
        lines = {index: line for of, index, line in self.declared.values() if of == kind}
        for index in range(len(lines)):
            if index not in lines:
                raise InputError(f"{self.source} declares {kind}_{max(lines)} but not {kind}_{index}")
        return [lines[index] for index in range(len(lines))]

    def _disjunction(self, formula: Form | str, parent: Form) -> list[Conjunction]:
        """The formula in disjunctive normal form; [] is false, [()] is true."""
        if isinstance(formula, str):
            raise self.error(parent, f"{formula!r} stands where a formula should")
        head, *parts = formula.items or [""]
        if head in ("and", "or") and parts:
            found = [(formula, self._disjunction(part, formula)) for part in parts]
            return self._product(found) if head == "and" else [atoms for _, part in found for atoms in part]
        if head in _COMPARISONS and len(parts) >= 2:
            return self._chain(formula, str(head), parts)
        name = repr(head) if isinstance(head, str) else "a form"
        raise self.error(
            formula, f"{name} with {len(parts)} arguments is no formula; these are: and or {' '.join(_COMPARISONS)}"
        )

    def _product(self, factors: Sequence[tuple[Form, list[Conjunction]]]) -> list[Conjunction]:
        """The conjunction of formulas in disjunctive normal form."""
        single = [atom for _, factor in factors if len(factor) == 1 for atom in factor[0]]
        product: list[Conjunction] = [tuple(single)]
        for form, factor in factors:
            if len(factor) == 1:
                continue
            atoms = _atoms(product) * len(factor) + _atoms(factor) * len(product)
            if product != [()]:
                self.expanded += atoms
            if self.expanded > _MAX_EXPANSION:
                raise self.error(form, f"disjunctions multiply out to more than {_MAX_EXPANSION} inequalities")
            product = [left + right for left in product for right in factor]
        return product

    def _chain(self, form: Form, comparison: str, parts: list[Form | str]) -> list[Conjunction]:
        """A comparison of two or more expressions, each with the next, as atoms."""
        bound = self._plain_bound(comparison, parts)
        if bound:
            return [(bound,)]
        sides = [self._linear(part, form) for part in parts]
        atoms: list[Bound | Inequality] = []
        for left, right in pairwise(sides):
            for difference in _non_negative(comparison, left, right):
                atom = self._atom(form, difference, strict=comparison in ("<", ">"))
                if atom is False:
                    return []
                if atom is not True:
                    atoms.append(atom)
        return [tuple(atoms)]

    def _plain_bound(self, comparison: str, parts: list[Form | str]) -> Bound | None:
        """`X_3 <= 0.5`, which is most of any file: the same as the exact arithmetic gives, ten times sooner."""
        match parts:
            case [str(name), str(number)] if comparison in ("<=", ">=") and len(number) < 30:
                kind, index, _ = self.declared.get(name, ("", 0, 0))
                if kind == "X" and _NUMBER.fullmatch(number) and math.isfinite(float(number)):
                    return Bound(index, comparison == "<=", float(number), strict=False)
        return None

    def _atom(self, form: Form, linear: Linear, *, strict: bool) -> Bound | Inequality | bool:
        """linear >= 0, or > 0 if strict, as an atom; without variables, whether it is true."""
        constant = linear.pop("", Fraction(0))
        terms = [(*self.declared[name][:2], factor) for name, factor in linear.items() if factor]
        kinds = {kind for kind, _, _ in terms}
        if not terms:
            return constant > 0 or (constant == 0 and not strict)
        if kinds == {"Y"}:
            coefficients = {index: self._rounded(form, factor) for _, index, factor in terms}
            if not all(coefficients.values()):  # to round it to 0 would be to drop the constraint
                raise self.error(form, "a coefficient is too small for float64")
            return Inequality(coefficients, self._rounded(form, constant), strict)
        if len(terms) > 1:
            raise self.error(
                form, "an inequality must be a bound on a single X (inputs lie in boxes), or be about outputs Y only"
            )
        _, index, factor = terms[0]
        return Bound(index, factor < 0, self._rounded(form, -constant / factor), strict)

    def _rounded(self, form: Form, value: Fraction) -> float:
        try:
            return float(value)
        except OverflowError:
            raise self.error(form, "a number is too large for float64") from None

    def _linear(self, expression: Form | str, parent: Form) -> Linear:
        if isinstance(expression, str):
            return self._word(expression, parent)
        match expression.items:
            case [str(operator), *parts] if operator in ("+", "-", "*") and parts:
                terms = [self._linear(part, expression) for part in parts]
                return self._arithmetic(expression, operator, terms)
        raise self.error(expression, "an expression is a number, X_i, Y_j, or (+ ...), (- ...) or (* ...)")

    def _word(self, word: str, parent: Form) -> Linear:
        if word in self.declared:
            return {word: Fraction(1)}
        number = _NUMBER.fullmatch(word)
        if not number:
            raise self.error(parent, f"{word!r} is neither a number nor a declared variable")
        if len(word) > _MAX_DIGITS or abs(int(number[1] or 0)) > _MAX_DIGITS:
            raise self.error(parent, "a number has more digits, or a larger exponent, than float64 can use")
        return {"": Fraction(word)}

    def _arithmetic(self, form: Form, operator: str, terms: list[Linear]) -> Linear:
        first, *rest = terms
        if operator == "+":
            return _sum(terms)
        if operator == "-":
            return _difference(first, _sum(rest)) if rest else _difference({}, first)
        for term in rest:
            first = self._times(form, first, term)
        return first

    def _times(self, form: Form, left: Linear, right: Linear) -> Linear:
        if not _is_constant(right):
            left, right = right, left
        if not _is_constant(right):
            raise self.error(form, "a product of two variables is not linear")
        return self._bounded(form, _scaled(left, right.get("", Fraction(0))))

    def _bounded(self, form: Form, linear: Linear) -> Linear:
        if any(max(c.numerator.bit_length(), c.denominator.bit_length()) > _MAX_BITS for c in linear.values()):
            raise self.error(form, "a product has more digits than float64 can use")
        return linear


def _atoms(conjunctions: Sequence[Conjunction]) -> int:
    return sum(max(1, len(atoms)) for atoms in conjunctions)


def _is_constant(linear: Linear) -> bool:
    return not any(factor for name, factor in linear.items() if name)


def _scaled(linear: Linear, factor: Fraction) -> Linear:
    return {name: coefficient * factor for name, coefficient in linear.items()}


def _sum(terms: Iterable[Linear]) -> Linear:
    total: Linear = {}
    for term in terms:
        for name, factor in term.items():
            total[name] = total[name] + factor if name in total else factor
    return total


def _difference(left: Linear, right: Linear) -> Linear:
    return _sum([left, _scaled(right, Fraction(-1))])


def _non_negative(comparison: str, left: Linear, right: Linear) -> list[Linear]:
    """The expressions that must be >= 0 (or > 0) for `left comparison right` to hold."""
    rising, falling = _difference(right, left), _difference(left, right)
    return {"<": [rising], "<=": [rising], ">": [falling], ">=": [falling], "=": [rising, falling]}[comparison]
