"""The back ends as one: the factory, the fake, and that Marabou, HiGHS and Gurobi agree with brute force."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from small_queries import TOY, check, random_query, sampled_maximum

from karenina.backends import BACKENDS, backend
from karenina.backends.fake import FakeBackend
from karenina.domain import Box, Domain
from karenina.errors import InputError, MissingExtra
from karenina.network import RELU, Activation, Layer, Network
from karenina.query import Answer, Backend, Goal, Query, Status, Verdict

needs_marabou = pytest.mark.skipif(sys.version_info >= (3, 12), reason="maraboupy has no later wheel")
solvers = pytest.mark.parametrize("name", ["highs", "gurobi", pytest.param("marabou", marks=needs_marabou)])


def toy_query(floor: float = -math.inf) -> Query:
    return Query.maximise(TOY, Domain(Box([0, 0], [100, 100])), [[1]], floor=floor)


@solvers
def test_the_papers_toy_network(name: str) -> None:
    query, solver = toy_query(), backend(name)
    assert np.allclose(TOY([1, 2]), [20])
    answer = solver.answer(query, Goal(tolerance=0.1))
    check(query, answer)
    assert answer.status is Status.EXACT
    assert answer.lower <= 1002 <= answer.upper  # at (100, 100): 2 * 501 - 0
    reached = solver.answer(query, Goal(threshold=25))
    assert reached.status is Status.DECIDED
    assert reached.verdict(25) is Verdict.SAT
    assert solver.answer(query, Goal(threshold=1003)).verdict(1003) is Verdict.UNSAT


@solvers
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_answers_agree_with_brute_force(name: str, seed: int, constrained: bool) -> None:
    query = random_query(seed, constrained)
    answer = backend(name).answer(query, Goal(tolerance=1e-3))
    check(query, answer)
    if answer.status is Status.INFEASIBLE:
        assert sampled_maximum(query) == -math.inf
        assert answer.lower == answer.upper == -math.inf
    else:
        assert answer.status is Status.EXACT
        assert answer.upper - answer.lower <= 1e-3
        assert answer.lower == pytest.approx(backend("highs").answer(query, Goal(tolerance=1e-4)).lower, abs=2e-3)


def test_some_of_those_queries_are_infeasible_and_some_are_not() -> None:
    statuses = {backend("highs").answer(random_query(seed, True)).status for seed in range(4)}
    assert statuses == {Status.EXACT, Status.INFEASIBLE}


@solvers
def test_several_boxes_and_signs(name: str) -> None:
    bump = Network((Layer.of([[1], [1], [1]], [-2, -3, -4], RELU), Layer.of([[1, -2, 1]], [0])))  # height 1 at 3
    flat = Network((Layer.of([[0]], [0]),))
    query = Query.maximise((bump, flat), Domain([Box([-9], [2.5]), Box([2.75], [9])]), [[1, -1], [-1, 1]], floor=0)
    answer = backend(name).answer(query, Goal(tolerance=1e-4))
    check(query, answer)
    assert answer.lower == pytest.approx(1, abs=1e-4)
    assert answer.witness is not None
    assert answer.case == 2
    assert answer.witness[0] == pytest.approx(3, abs=1e-4)


@solvers
@pytest.mark.parametrize("floor", [-math.inf, 0.0])
def test_no_feasible_case(name: str, floor: float) -> None:
    domain, rows, offsets = Domain(Box([0, 0], [1, 1])), [[-1]], [-100]  # the output is at most -100
    query = Query.maximise(TOY, domain, [[1], [-1]], constraints=rows, constraint_offsets=offsets, floor=floor)
    answer = backend(name).answer(query)
    assert (answer.status, answer.lower, answer.upper) == (Status.INFEASIBLE, floor, floor)
    assert answer.witness is None
    assert answer.verdict(-1e9) is Verdict.UNSAT


@solvers
def test_a_maximum_below_the_floor_is_the_floor(name: str) -> None:
    query = Query.maximise(TOY, Domain(Box([0, 0], [1, 1])), [[-1]], floor=5.0)  # TOY is positive there
    answer = backend(name).answer(query)
    assert (answer.lower, answer.upper, answer.witness, answer.case) == (5, 5, None, None)


@solvers
def test_a_point_for_a_domain(name: str) -> None:
    answer = backend(name).answer(Query.maximise(TOY, Domain(Box([1, 2], [1, 2])), [[1]]))
    assert answer.status is Status.EXACT
    assert answer.lower == 20


@solvers
def test_an_equation_as_two_constraints(name: str) -> None:
    both = Network((Layer.of([[1, 4], [-3, 2]], [1, -2], RELU), Layer.of([[2, -1], [0, 1]], [0, 0])))
    rows, offsets = [[0, 1], [0, -1]], [-1, 1]  # the second output is 1
    query = Query.maximise(both, Domain(Box([0, 0], [3, 3])), [[1, 0]], constraints=rows, constraint_offsets=offsets)
    answer = backend(name).answer(query)
    check(query, answer)
    assert answer.upper - answer.lower <= 1e-3
    assert answer.lower == pytest.approx(2 * (1 + 1 + 4 * 3) - 1, abs=1e-3)  # -3 a + 2 b = 3 with b = 3: a = 1


@solvers
def test_no_time_leaves_a_sound_interval(name: str) -> None:
    query = random_query(0, constrained=False)
    answer = backend(name).answer(query, Goal(time_limit=0))
    check(query, answer)
    assert answer.status is Status.TIME_LIMIT
    assert answer.verdict(answer.upper) is Verdict.TIMEOUT
    assert answer.lower < answer.upper < math.inf


@solvers
def test_smooth_activations_are_refused_by_name(name: str) -> None:
    smooth = Network((Layer.of([[1.0]], [0.0], Activation("tanh")),), "pendulum.zip")
    with pytest.raises(InputError, match=r"pendulum\.zip has tanh.*piecewise-linear"):
        backend(name).answer(Query.maximise(smooth, Domain(Box([0], [1])), [[1]]))


@solvers
def test_overflow_is_not_verified(name: str) -> None:
    huge = Network((Layer.of([[1e300]], [0.0], RELU), Layer.of([[1e300]], [0.0])))
    answer = backend(name).answer(Query.maximise(huge, Domain(Box([-1], [1])), [[1]]))
    assert answer.status is Status.OVERFLOW
    assert answer.upper == math.inf


@pytest.mark.parametrize(("name", "library"), [("highs", "highspy"), ("gurobi", "gurobipy"), ("marabou", "maraboupy")])
def test_a_missing_library_names_its_extra(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=library):
        backend(name)


def test_an_unknown_back_end_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown back end 'cplex'; known: karenina, marabou, highs, gurobi"):
        backend("cplex")


def test_our_own_engine_is_one_of_them() -> None:
    assert BACKENDS[0] == "karenina"
    assert type(backend("karenina", device="cpu")).__module__.startswith("karenina.engine")


class TestFake:
    def test_answers_in_order_and_remembers_the_questions(self) -> None:
        first, second = Answer(1, 2, Status.EXACT), Answer(0, math.inf, Status.TIME_LIMIT)
        fake: Backend = (recording := FakeBackend([first, second]))
        query, goal = toy_query(), Goal(tolerance=0.5)
        assert fake.answer(query, goal) is first
        assert fake.answer(query) is second
        assert recording.queries == [query, query]
        assert recording.goals == [goal, Goal()]

    def test_a_question_too_many_fails_the_test(self) -> None:
        fake = FakeBackend([])
        with pytest.raises(AssertionError, match="only 0 answers"):
            fake.answer(toy_query())

    def test_answers_by_a_function(self) -> None:
        def count_cases(query: Query) -> Answer:
            return Answer(0, len(query.cases), Status.EXACT)

        assert FakeBackend(count_cases).answer(toy_query()).upper == 1
