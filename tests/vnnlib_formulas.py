"""Formulas over inputs and outputs, their meaning, and the many ways to write them as VNN-LIB."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

INPUTS, OUTPUTS = 2, 2
COMPARE: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
MIRRORED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "=": "="}
Point = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]


@dataclass(frozen=True)
class Comparison:
    """Sum of coefficient * variable, against a constant."""

    kind: str  # X or Y
    coefficients: tuple[Fraction, ...]
    sign: str
    constant: Fraction

    def holds(self, point: Point) -> bool:
        values = point[0] if self.kind == "X" else point[1]
        total = sum((c * v for c, v in zip(self.coefficients, values, strict=True)), Fraction(0))
        return COMPARE[self.sign](total, self.constant)


@dataclass(frozen=True)
class Compound:
    """All or any of the parts."""

    word: str  # and, or
    parts: tuple[Comparison | Compound, ...]

    def holds(self, point: Point) -> bool:
        return (all if self.word == "and" else any)(part.holds(point) for part in self.parts)


Formula = Comparison | Compound

# Eighths: exact in float64, in decimals, and in every sum here; coarse enough that points hit boundaries.
eighths = st.integers(-24, 24).map(lambda n: Fraction(n, 8))
nonzero = st.sampled_from([Fraction(n, 4) for n in (-8, -4, -2, -1, 1, 2, 4, 8)])
signs = st.sampled_from(list(COMPARE))


@st.composite
def input_bounds(draw: st.DrawFn) -> Comparison:
    coefficients = [Fraction(0)] * INPUTS
    coefficients[draw(st.integers(0, INPUTS - 1))] = draw(nonzero)
    return Comparison("X", tuple(coefficients), draw(signs), draw(eighths))


output_rows = st.builds(
    Comparison,
    st.just("Y"),
    st.tuples(*[eighths] * OUTPUTS),
    signs,
    eighths,
)
formulas: st.SearchStrategy[Formula] = st.recursive(
    input_bounds() | output_rows,
    lambda parts: st.builds(
        Compound, st.sampled_from(["and", "or"]), st.lists(parts, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=8,
)
points = st.tuples(st.tuples(*[eighths] * INPUTS), st.tuples(*[eighths] * OUTPUTS))


@dataclass(frozen=True)
class Writer:
    """Writes a formula as one of many texts that mean the same; `data` makes the choices."""

    data: st.DataObject

    def choose(self, *texts: str) -> str:
        return self.data.draw(st.sampled_from(texts))

    def space(self) -> str:
        return self.choose(" ", "  ", "\n", "\t ", " ; (a comment\n", "\r\n")

    def number(self, value: Fraction) -> str:
        text = f"{float(value)}"
        scaled = f"{float(value * 1000)}e-3"
        ways = [
            text,
            scaled,
            scaled.replace("e", "E"),
            f"{float(value / 100)}e+02",
            f"(+ {text} 0)",
            f"(* 0.1 {float(value * 10)})",
        ]
        ways += [text.lstrip("-").join(["(- ", ")"])] if value < 0 else [f"+{text}", f"(- (- {text}))"]
        ways += [str(int(value))] if value.denominator == 1 else []
        return self.choose(*ways)

    def term(self, coefficient: Fraction, name: str) -> str:
        written = self.choose(
            f"(* {self.number(coefficient)} {name})", f"(* {name}{self.space()}{self.number(coefficient)})"
        )
        if coefficient == 1:
            return self.choose(name, f"|{name}|", written)
        return self.choose(written, f"(- {name})") if coefficient == -1 else written

    def comparison(self, formula: Comparison) -> str:
        named = [(c, f"{formula.kind}_{i}") for i, c in enumerate(formula.coefficients)]
        terms = [self.term(c, name) for c, name in named if c or formula.kind == "Y"]
        left, right = terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})", self.number(formula.constant)
        if self.data.draw(st.booleans()):  # all on one side
            left = self.choose(f"(- {left} {right})", f"(- {left} 1.5 {right} -1.5)")
            right = self.choose("0", "0.0", "(- 0)", "(+ 1 -1)")
        if self.data.draw(st.booleans()):
            return f"({MIRRORED[formula.sign]}{self.space()}{right}{self.space()}{left})"
        return f"({formula.sign} {left} {right})"

    def formula(self, formula: Formula) -> str:
        if isinstance(formula, Comparison):
            return self.comparison(formula)
        return f"({formula.word}{self.space()}{self.space().join(map(self.formula, formula.parts))})"

    def asserts(self, formula: Formula) -> str:
        if isinstance(formula, Compound) and formula.word == "and" and self.data.draw(st.booleans()):
            return "".join(map(self.asserts, formula.parts))
        return f"(assert {self.formula(formula)}){self.space()}"


def declarations(inputs: int, outputs: int) -> str:
    names = [*(f"X_{i}" for i in range(inputs)), *(f"Y_{j}" for j in range(outputs))]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


BASE = Compound(
    "and",
    tuple(
        Comparison("X", tuple(Fraction(int(i == k)) for k in range(INPUTS)), sign, Fraction(bound))
        for i in range(INPUTS)
        for sign, bound in ((">=", -2), ("<=", 2))
    ),
)


def loosened(formula: Formula) -> Formula:
    """The formula with every comparison eased by far more than float64 rounds, and far less than it matters."""
    if isinstance(formula, Compound):
        return Compound(formula.word, tuple(map(loosened, formula.parts)))
    slack = Fraction(1, 10**9)
    at_most = Comparison(formula.kind, formula.coefficients, "<=", formula.constant + slack)
    at_least = Comparison(formula.kind, formula.coefficients, ">=", formula.constant - slack)
    parts = {"<": (at_most,), "<=": (at_most,), ">": (at_least,), ">=": (at_least,), "=": (at_most, at_least)}
    return Compound("and", parts[formula.sign])
