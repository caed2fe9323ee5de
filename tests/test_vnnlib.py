"""VNN-LIB: what a file means, checked against the formula it was written from, and what is refused."""

from __future__ import annotations

import gzip
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vnnlib_formulas import (
    BASE,
    INPUTS,
    OUTPUTS,
    Compound,
    Formula,
    Writer,
    declarations,
    formulas,
    loosened,
    points,
)

from karenina import vnnlib_parser
from karenina.domain import Array, Box
from karenina.engine import Engine
from karenina.errors import DomainError, InputError
from karenina.network import RELU, Layer, Network
from karenina.query import Answer, Goal, Query, Status, Verdict
from karenina.vnnlib import Specification, load_specification, parse_specification, verify

# --- What a file means ------------------------------------------------------------------------------------------------


@given(st.data(), formulas)
@settings(max_examples=300, deadline=None)
def test_a_file_means_what_its_formula_means(data: st.DataObject, formula: Formula) -> None:
    whole = Compound("and", (BASE, formula) if data.draw(st.booleans()) else (formula, BASE))
    text = declarations(INPUTS, OUTPUTS) + Writer(data).asserts(whole)
    specification = parse_specification(text)
    for point in data.draw(st.lists(points, min_size=20, max_size=20)):
        x, y = (np.array([float(value) for value in part]) for part in point)
        assert any(disjunct.holds(x, y) for disjunct in specification.disjuncts) == whole.holds(point)


@given(st.data(), formulas)
@settings(deadline=None)
def test_the_query_is_satisfied_where_the_closed_formula_is(data: st.DataObject, formula: Formula) -> None:
    """Read through the query's own eyes: cases, objectives and constraints; strict inequalities closed."""
    text = declarations(INPUTS, OUTPUTS) + Writer(data).asserts(Compound("and", (BASE, formula)))
    specification = parse_specification(text)
    network = Network((Layer.of(np.eye(OUTPUTS, INPUTS), np.zeros(OUTPUTS)),))
    cases = specification.to_query(network).cases if specification.disjuncts else ()
    closed = parse_specification(text.replace("<", "<=").replace(">", ">=").replace("==", "="))
    for point in data.draw(st.lists(points, min_size=10, max_size=10)):
        x, y = (np.array([float(value) for value in part]) for part in point)
        satisfied = any(c.box.contains(x) and c.value(y) >= 0 and (c.slack(y) >= 0).all() for c in cases)
        strictly = any(disjunct.holds(x, y) for disjunct in specification.disjuncts)
        weakly = any(disjunct.holds(x, y) for disjunct in closed.disjuncts)
        assert strictly <= satisfied <= weakly


# --- Files as VNN-COMP has them ------------------------------------------------------------------------------


def boxes(specification: Specification) -> list[tuple[list[float], list[float]]]:
    return [(list(d.box.lower), list(d.box.upper)) for d in specification.disjuncts]


def test_one_box_and_a_conjunction_of_outputs() -> None:
    specification = parse_specification(
        """; ACAS Xu, property 3: COC is minimal
        (declare-const X_0 Real)
        (declare-const X_1 Real)

        (declare-const Y_0 Real)
        (declare-const Y_1 Real)
        (declare-const Y_2 Real)
        (assert (<= X_0 -0.298552812))
        (assert (>= X_0 -0.303531156))
        (assert (<= X_1 0.009549297))
        (assert (>= X_1 -9.549297e-3))
        (assert (<= Y_0 Y_1))
        (assert (<= Y_0 Y_2))
        """
    )
    assert boxes(specification) == [([-0.303531156, -0.009549297], [-0.298552812, 0.009549297])]
    (disjunct,) = specification.disjuncts
    assert disjunct.rows.tolist() == [[-1, 1, 0], [-1, 0, 1]]
    assert disjunct.offsets.tolist() == [0, 0]
    assert (specification.input_size, specification.output_size) == (2, 3)


def test_input_boxes_times_output_disjuncts() -> None:
    specification = parse_specification(
        declarations(1, 2)
        + "(assert (or (and (<= X_0 1) (>= X_0 0)) (and (<= X_0 3) (>= X_0 2))))"
        + "(assert (or (and (<= Y_1 Y_0)) (and (>= Y_0 3.5))))"
    )
    assert boxes(specification) == [([0], [1]), ([0], [1]), ([2], [3]), ([2], [3])]
    assert [d.rows.tolist() for d in specification.disjuncts] == [[[1, -1]], [[1, 0]]] * 2
    assert [d.offsets.tolist() for d in specification.disjuncts] == [[0], [-3.5]] * 2
    assert len(specification.domain().boxes) == 2


def test_disjuncts_that_each_have_a_box_and_outputs_of_their_own() -> None:
    specification = parse_specification(
        declarations(2, 1)
        + "(assert (>= X_1 -1))"
        + "(assert (or (and (<= X_0 1) (>= X_0 0) (<= X_1 5) (<= Y_0 1)) (and (= X_0 7) (<= X_1 6) (>= Y_0 2))))"
    )
    assert boxes(specification) == [([0, -1], [1, 5]), ([7, -1], [7, 6])]
    assert [d.rows.tolist() for d in specification.disjuncts] == [[[-1]], [[1]]]
    assert [d.offsets.tolist() for d in specification.disjuncts] == [[1], [-2]]


def test_arithmetic_is_exact_and_rounded_once() -> None:
    text = declarations(1, 1) + "(assert (<= X_0 (+ 0.1 0.2)))(assert (>= (* 3 X_0) 0.3))(assert (<= (+ Y_0 0.1) 0.3))"
    (disjunct,) = parse_specification(text).disjuncts
    assert disjunct.box.upper[0] == 0.3 != 0.1 + 0.2
    assert disjunct.box.lower[0] == 0.1
    assert disjunct.offsets[0] == 0.2 != 0.3 - 0.1


@given(st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-(10**6), max_value=10**6))
def test_a_bound_is_the_nearest_float(value: object) -> None:
    for written in (str(value), f"(* 1 {value})"):  # with and without the arithmetic
        (disjunct,) = parse_specification(declarations(1, 0) + f"(assert (= X_0 {written}))").disjuncts
        assert disjunct.box.lower[0] == disjunct.box.upper[0] == float(str(value))


def test_the_tightest_bound_counts() -> None:
    text = declarations(1, 0) + "(assert (<= 0 X_0 9))(assert (>= X_0 -5))(assert (<= X_0 7))(assert (<= X_0 8))"
    assert boxes(parse_specification(text)) == [([0], [7])]


def test_empty_disjuncts_are_dropped() -> None:
    text = declarations(1, 1) + "(assert (or (and (>= X_0 2) (<= X_0 1)) (and (>= X_0 0) (<= X_0 1)) (<= 1 0)))"
    assert boxes(parse_specification(text)) == [([0], [1])]
    for nothing in ("(assert (and (>= X_0 2) (<= X_0 1)))", "(assert (and (> X_0 1) (<= X_0 1)))", "(assert (< 1 1))"):
        specification = parse_specification(declarations(1, 1) + nothing + "(assert (<= 0 X_0 5))")
        assert specification.disjuncts == ()
        with pytest.raises(DomainError, match="holds no input: its bounds contradict each other"):
            specification.domain()


def test_constant_truths_change_nothing() -> None:
    text = declarations(1, 1) + "(assert (<= 0 1))(assert (<= 0 X_0 5))(assert (<= (- X_0 X_0) (* 0 Y_0)))"
    (disjunct,) = parse_specification(text).disjuncts
    assert disjunct.rows.shape == (0, 1)
    assert disjunct.case.value([3.0]) == 0


def test_what_smtlib_writes_around_it_is_passed_over(tmp_path: Path) -> None:
    text = (
        '(set-logic QF_LRA)(set-info :source "a ( in\n a text; no comment")(declare-fun X_0 () Real)'
        "(declare-const Y_0 Real)(assert (<= 0 X_0 |Y_0|))(check-sat)(get-model)(exit)"
    )
    with pytest.raises(InputError, match="line 2: an inequality must be a bound on a single X"):
        parse_specification(text)
    file = tmp_path / "spec.vnnlib.gz"
    file.write_bytes(gzip.compress(text.replace("|Y_0|", "1").encode()))
    assert boxes(load_specification(file)) == [([0], [1])]


def test_a_large_file_is_read_in_one_pass() -> None:
    n, m = 3000, 50
    text = declarations(n, m)
    text += "".join(f"(assert (<= X_{i} {i}.5))\n(assert (>= X_{i} {i}.25))\n" for i in range(n))
    text += "(assert (or " + " ".join(f"(and (>= Y_{j} Y_0))" for j in range(1, m)) + "))"
    specification = parse_specification(text)
    assert len(specification.disjuncts) == m - 1
    assert len({id(disjunct.box) for disjunct in specification.disjuncts}) == 1  # shared, not copied
    assert specification.disjuncts[7].rows[0].nonzero()[0].tolist() == [0, 8]


def test_deep_nesting_within_the_limit_is_read() -> None:
    deep = "(and " * 95 + "(or " * 95 + "(<= Y_0 0)" + ")" * 190
    sums = "(+ 0 " * 190 + "1" + ")" * 190
    text = declarations(1, 1) + f"(assert (<= 0 X_0 {sums}))(assert {deep})"
    assert len(parse_specification(text).disjuncts) == 1


# --- Mistakes --------------------------------------------------------------------------------------------------

GOOD = declarations(2, 1).replace("\n", "") + "\n(assert (<= 0 X_0 1))(assert (<= 0 X_1 1))\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.vnnlib declares no input X_0: it is not a VNN-LIB 1 specification"),
        ("(declare-const Y_0 Real)", "s.vnnlib declares no input X_0: it is not a VNN-LIB 1 specification"),
        ("hello world", "s.vnnlib holds 'hello' outside parentheses: it is not a VNN-LIB file"),
        (GOOD + "(assert (<= Y_0 1)", "s.vnnlib, line 3: a parenthesis that is never closed"),
        (GOOD + "(assert\n(<= Y_0 1)))", "s.vnnlib, line 4: a closing parenthesis that none opened"),
        (GOOD + '(set-info "a)', "s.vnnlib, line 3: a quotation that is never closed"),
        (GOOD + "(" * 300, "s.vnnlib, line 3: parentheses nest more than 200 deep"),
        (GOOD + "()", "s.vnnlib, line 3: a form without a name is no command of VNN-LIB 1"),
        (GOOD + "((assert))", "s.vnnlib, line 3: a form without a name is no command of VNN-LIB 1"),
        (GOOD + "(push 1)", "s.vnnlib, line 3: 'push' is no command of VNN-LIB 1"),
        (GOOD + "(assert)", "s.vnnlib, line 3: assert must read (assert (...))"),
        (GOOD + "(assert true)", "s.vnnlib, line 3: assert must read (assert (...))"),
        (GOOD + "(assert (<= Y_0 1) (<= Y_0 2))", "s.vnnlib, line 3: assert must read (assert (...))"),
        (GOOD + "(declare-const Y_1)", "s.vnnlib, line 3: declare-const must read"),
        (GOOD + "(declare-fun Y_1 (Real) Real)", "s.vnnlib, line 3: declare-fun must read"),
        (GOOD + "(check-sat)(assert (<= Y_0 1))", "s.vnnlib, line 3: 'assert' stands after the end"),
        ("(vnnlib-version <2.0>)", "s.vnnlib, line 1: this is VNN-LIB 2; VNN-LIB 1 is read"),
        (
            GOOD + "(declare-const Z_0 Real)",
            "line 3: a variable is X_0, X_1, ... or Y_0, Y_1, ... of type Real, not 'Z_0'",
        ),
        (GOOD + "(declare-const X_02 Real)", "not 'X_02' of type 'Real'"),
        (GOOD + "(declare-const X_2 Int)", "not 'X_2' of type 'Int'"),
        (GOOD + "(declare-const X_1 Real)", "s.vnnlib, line 3: X_1 is declared a second time"),
        (GOOD + "(declare-const Y_2 Real)", "s.vnnlib declares Y_2 but not Y_1"),
        (GOOD + "(declare-const X_999999999 Real)", "s.vnnlib declares X_999999999 but not X_2"),
        (GOOD + "(declare-const X_2 Real)", "line 3: X_2 has no lower bound: it needs (assert (>= X_2 ...)), in every"),
        (
            GOOD + "(declare-const X_2 Real)\n(assert (>= X_2 0))",
            "line 3: X_2 has no upper bound: it needs (assert (<= X_2",
        ),
        (GOOD + "(declare-const X_2 Real)\n(assert (or (<= 0 X_2 1) (<= Y_0 0)))", "line 3: X_2 has no lower bound"),
        (GOOD + "(assert (<= Y_1 1))", "s.vnnlib, line 3: 'Y_1' is neither a number nor a declared variable"),
        (GOOD + "(assert (<= Y_0 1x))", "s.vnnlib, line 3: '1x' is neither a number nor a declared variable"),
        (GOOD + "(assert (<= Y_0 inf))", "s.vnnlib, line 3: 'inf' is neither a number nor a declared variable"),
        (GOOD + "(assert (<= Y_0 nan))", "s.vnnlib, line 3: 'nan' is neither a number nor a declared variable"),
        (GOOD + "(assert (<= Y_0 1_0))", "s.vnnlib, line 3: '1_0' is neither a number nor a declared variable"),
        (GOOD + "(assert (<= Y_0 ٣))", "s.vnnlib, line 3: '٣' is neither a number nor a declared variable"),
        (GOOD + "(assert (<= Y_0 1e500))", "s.vnnlib, line 3: a number has more digits, or a larger exponent"),
        (GOOD + "(assert (<= Y_0 1e-99999999999))", "s.vnnlib, line 3: a number has more digits, or a larger exponent"),
        (GOOD + f"(assert (<= Y_0 1{'0' * 5000}))", "s.vnnlib, line 3: a number has more digits, or a larger exponent"),
        (GOOD + "(assert (<= Y_0 1e309))", "s.vnnlib, line 3: a number is too large for float64"),
        (GOOD + "(assert (<= X_0 1e309))", "s.vnnlib, line 3: a number is too large for float64"),
        (GOOD + "(assert (<= (* 1e-350 Y_0) 1))", "s.vnnlib, line 3: a coefficient is too small for float64"),
        (GOOD + f"(assert (<= Y_0 (*{' 1e300' * 1000})))", "s.vnnlib, line 3: a product has more digits"),
        (GOOD + "(assert (<= (* Y_0 Y_0) 1))", "s.vnnlib, line 3: a product of two variables is not linear"),
        (GOOD + "(assert\n(<= (* X_0\nY_0) 1))", "s.vnnlib, line 4: a product of two variables is not linear"),
        (GOOD + "(assert (<= (/ Y_0 2) 1))", "s.vnnlib, line 3: an expression is a number, X_i, Y_j, or (+ ...)"),
        (GOOD + "(assert (<= (+) 1))", "s.vnnlib, line 3: an expression is a number, X_i, Y_j, or (+ ...)"),
        (GOOD + "(assert (<= () 1))", "s.vnnlib, line 3: an expression is a number, X_i, Y_j, or (+ ...)"),
        (GOOD + "(assert (<= X_0 X_1))", "s.vnnlib, line 3: an inequality must be a bound on a single X"),
        (GOOD + "(assert (<= X_0 Y_0))", "s.vnnlib, line 3: an inequality must be a bound on a single X"),
        (
            GOOD + "(assert (not (<= Y_0 1)))",
            "line 3: 'not' with 1 arguments is no formula; these are: and or <= >= < > =",
        ),
        (GOOD + "(assert (<= Y_0))", "s.vnnlib, line 3: '<=' with 1 arguments is no formula"),
        (GOOD + "(assert (and))", "s.vnnlib, line 3: 'and' with 0 arguments is no formula"),
        (GOOD + "(assert ())", "s.vnnlib, line 3: '' with 0 arguments is no formula"),
        (GOOD + "(assert ((<= Y_0 1)))", "s.vnnlib, line 3: a form with 0 arguments is no formula"),
        (GOOD + "(assert (or (<= Y_0 1) Y_0))", "s.vnnlib, line 3: 'Y_0' stands where a formula should"),
        (GOOD + "(assert (and (<= Y_0 1)\nY_0))", "s.vnnlib, line 3: 'Y_0' stands where a formula should"),
    ],
)
def test_every_mistake_is_answered_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_specification(text, "s.vnnlib")
    assert str(refused.value).startswith("s.vnnlib")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_formula_that_multiplies_out_without_end_is_refused() -> None:
    choice = "(assert (or (<= Y_0 1) (>= Y_0 2)))"
    assert len(parse_specification(GOOD + choice * 8).disjuncts) == 2**8
    with pytest.raises(InputError, match="line 3: disjunctions multiply out to more than 2000000 inequalities"):
        parse_specification(GOOD + choice * 40)


def test_what_all_disjuncts_share_does_not_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vnnlib_parser, "_MAX_EXPANSION", 20)
    bounds = "".join(f"(<= Y_0 {k})" for k in range(100))
    choice = f"(or {'(<= Y_0 -1)' * 100})"
    assert len(parse_specification(GOOD + f"(assert (and {bounds}{choice}))").disjuncts) == 100


# --- Asking it of a network ----------------------------------------------------------------------------------------

# The paper's toy network (Fig. 1): [1, 2] gives 20.
TOY = Network(
    (Layer.of([[1, 4], [-3, 2]], [1, -2], RELU), Layer.of([[2, -1]], [0])),
    name="toy",
)
TOY_SPECIFICATION = declarations(2, 1) + "(assert (<= 0 X_0 100))(assert (<= 0 X_1 100))(assert (>= Y_0 25))"
NO_GOAL = Goal()


@dataclass
class Fixed:
    """A back end that gives one answer, and remembers what it was asked."""

    lower: float
    upper: float
    status: Status = Status.DECIDED
    witness: Array | None = None
    asked: tuple[Query, Goal] | None = None

    def answer(self, query: Query, goal: Goal = NO_GOAL) -> Answer:
        self.asked = query, goal
        return Answer(self.lower, self.upper, self.status, self.witness, case=0 if self.witness is not None else None)


def test_sat_comes_with_a_checked_counterexample() -> None:
    backend = Fixed(375.0, math.inf, witness=np.array([0.0, 50.0]))
    found = verify(TOY, parse_specification(TOY_SPECIFICATION), backend, time_limit=7)
    assert (found.verdict, found.decided) == (Verdict.SAT, True)
    assert found.outputs is not None
    assert found.outputs.tolist() == [2 * 201 - 98]
    assert backend.asked is not None
    query, goal = backend.asked
    assert query.networks == (TOY,)
    assert goal == Goal(tolerance=0.0, threshold=0.0, time_limit=7)


@pytest.mark.parametrize(
    "witness",
    [
        np.array([0.0, 0.0]),  # the output is 2, not 25
        np.array([-1.0, 50.0]),  # outside the box
    ],
)
def test_a_witness_that_is_none_is_not_believed(witness: Array) -> None:
    found = verify(TOY, parse_specification(TOY_SPECIFICATION), Fixed(1.0, 2.0, witness=witness))
    assert (found.verdict, found.witness, found.decided) == (Verdict.UNKNOWN, None, False)
    assert "not confirmed" in found.answer.note


@pytest.mark.parametrize("strict", ["(assert (> Y_0 20))", "(assert (>= Y_0 20))(assert (< X_0 1))"])
def test_a_witness_on_an_excluded_boundary_proves_nothing(strict: str) -> None:
    text = declarations(2, 1) + "(assert (<= 0 X_0 1))(assert (<= 0 X_1 2))" + strict
    at = np.array([1.0, 2.0])
    assert TOY(at).tolist() == [20.0]
    assert verify(TOY, parse_specification(text), Fixed(0.0, 0.0, witness=at)).verdict is Verdict.UNKNOWN
    closed = text.replace("(>", "(>=").replace("(<", "(<=").replace("==", "=")
    assert verify(TOY, parse_specification(closed), Fixed(0.0, 0.0, witness=at)).verdict is Verdict.SAT


@pytest.mark.parametrize(
    ("backend", "verdict"),
    [
        (Fixed(-3.0, -1.0), Verdict.UNSAT),
        (Fixed(-math.inf, -math.inf, Status.INFEASIBLE), Verdict.UNSAT),
        (Fixed(-3.0, 1.0, Status.TIME_LIMIT), Verdict.TIMEOUT),
        (Fixed(-3.0, 1.0, Status.PRECISION), Verdict.UNKNOWN),
    ],
)
def test_other_verdicts(backend: Fixed, verdict: Verdict) -> None:
    found = verify(TOY, parse_specification(TOY_SPECIFICATION), backend)
    assert (found.verdict, found.witness, found.outputs) == (verdict, None, None)


def test_a_specification_of_nothing_is_unsat_without_asking() -> None:
    specification = parse_specification(TOY_SPECIFICATION + "(assert (>= X_0 101))")
    backend = Fixed(0.0, 0.0)
    found = verify(TOY, specification, backend)
    assert (found.verdict, found.answer.status, backend.asked) == (Verdict.UNSAT, Status.INFEASIBLE, None)
    with pytest.raises(InputError, match="holds no input"):
        specification.to_query(TOY)


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 1), (2, 2), (2, 0)])
def test_a_specification_of_another_size_is_refused_by_name(inputs: int, outputs: int) -> None:
    bounds = "".join(f"(assert (<= 0 X_{i} 1))" for i in range(inputs))
    specification = parse_specification(declarations(inputs, outputs) + bounds, "s.vnnlib")
    message = f"s.vnnlib declares {inputs} inputs X and {outputs} outputs Y but toy has 2 and 1"
    with pytest.raises(InputError, match=message):
        verify(TOY, specification, Fixed(0.0, 0.0))
    with pytest.raises(InputError, match=message):
        specification.to_query(TOY)


def test_the_query_maximises_the_first_row_under_the_others() -> None:
    text = TOY_SPECIFICATION + "(assert (<= (* 2 Y_0) 60))"
    (case,) = parse_specification(text).to_query(TOY).cases
    assert isinstance(case.box, Box)
    assert (case.objective.tolist(), case.offset) == ([1.0], -25.0)
    assert (case.constraints.tolist(), case.constraint_offsets.tolist()) == ([[-2.0]], [60.0])


GRID = [tuple(Fraction(n, 4) for n in pair) for pair in itertools.product(range(-8, 9), repeat=INPUTS)]
BEND = Network((Layer.of([[1, 4], [-3, 2]], [1, -2], RELU), Layer.of([[0.5, -1], [-0.25, 0.5]], [0, 1])), name="bend")


@given(st.data(), st.lists(formulas, min_size=2, max_size=4))
@settings(max_examples=40, deadline=None)
def test_our_engine_never_contradicts_the_formula_on_a_grid(data: st.DataObject, several: list[Formula]) -> None:
    formula = Compound("and", tuple(several))  # several, so that sat and unsat are both common
    whole = Compound("and", (BASE, formula))
    specification = parse_specification(declarations(INPUTS, OUTPUTS) + Writer(data).asserts(whole))
    found = verify(BEND, specification, Engine(device="cpu"), time_limit=0.5)
    outputs = BEND(np.array(GRID, dtype=np.float64))  # eighths again: exact
    values = [(x, tuple(map(Fraction, y))) for x, y in zip(GRID, outputs.tolist(), strict=True)]
    if found.verdict is Verdict.UNSAT:
        assert not any(whole.holds(point) for point in values)
    if found.witness is not None and found.outputs is not None:
        exact = tuple(map(Fraction, found.witness.tolist())), tuple(map(Fraction, found.outputs.tolist()))
        loose = Compound("and", (BASE, loosened(formula)))
        assert loose.holds(exact)
