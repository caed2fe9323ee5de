"""The Marabou back end: what it asks, and that a worker that hangs, dies or lies does no harm."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from small_queries import check, random_query

from karenina.backends.marabou import Marabou
from karenina.backends.marabou_request import MAGNIFICATION, reduce_case
from karenina.backends.relu_form import relu_form
from karenina.domain import Box, Domain
from karenina.errors import InputError
from karenina.network import IDENTITY, RELU, Layer, Network
from karenina.query import Goal, Query, Status, Verdict

Array = npt.NDArray[np.float64]

needs_marabou = pytest.mark.skipif(sys.version_info >= (3, 12), reason="maraboupy has no later wheel")

QUERY = random_query(0, constrained=False)  # sampling alone does not answer it
READ = "import json, os, signal, sys, time; request = json.load(sys.stdin)\n"


def scripted(script: str, query_timeout: float | None = None) -> Marabou:
    """A back end whose worker is the given Python script."""
    return Marabou(query_timeout, worker=[sys.executable, "-c", READ + script])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("query_timeout", "time_limit"), [(2.0, math.inf), (None, 2.0)])
def test_a_worker_that_hangs_is_killed(tmp_path: Path, query_timeout: float | None, time_limit: float) -> None:
    note = tmp_path / "pid"
    hangs = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(note)!r}, 'w').write(str(os.getpid()))"
    one = Query(QUERY.networks, QUERY.cases[:1])
    answer = scripted(hangs + "; time.sleep(600)", query_timeout).answer(one, Goal(time_limit=time_limit))
    check(one, answer)
    assert answer.status is Status.TIME_LIMIT
    assert not is_alive(int(note.read_text()))


@pytest.mark.parametrize(
    "script",
    ["os.kill(os.getpid(), signal.SIGSEGV)", "print('not JSON')", "print('[1, 2]')", "print('{}')", "print()"],
)
def test_a_worker_that_dies_or_babbles_is_a_failure(script: str) -> None:
    answer = scripted(script).answer(QUERY)
    check(QUERY, answer)
    assert answer.status is Status.FAILED
    assert answer.note.startswith("Marabou failed")


def test_a_worker_that_cannot_start_is_a_failure() -> None:
    assert Marabou(worker=["/nowhere/marabou"]).answer(QUERY).status is Status.FAILED


def test_a_false_sat_is_found_out() -> None:
    answer = scripted("print(json.dumps({'word': 'sat', 'x': request['lower']}))").answer(QUERY)
    check(QUERY, answer)
    assert answer.status is Status.FAILED
    assert "where the networks give" in answer.note


def test_marabous_own_timeout_is_a_time_limit() -> None:
    answer = scripted("print(json.dumps({'word': 'TIMEOUT', 'x': None}))").answer(QUERY)
    check(QUERY, answer)
    assert answer.status is Status.TIME_LIMIT


@needs_marabou
def test_a_threshold_takes_few_steps() -> None:
    best = Marabou().answer(QUERY, Goal(tolerance=1e-4)).lower
    above, below = best + 1e-2, best - 1e-2
    unsat = Marabou().answer(QUERY, Goal(threshold=above))
    sat = Marabou().answer(QUERY, Goal(threshold=below))
    assert (unsat.verdict(above), sat.verdict(below)) == (Verdict.UNSAT, Verdict.SAT)
    assert unsat.boxes + sat.boxes <= 4


@needs_marabou
def test_what_is_closer_than_marabous_tolerance_is_not_claimed() -> None:
    answer = Marabou().answer(QUERY, Goal(tolerance=0))
    check(QUERY, answer)
    assert answer.status is Status.PRECISION
    assert 0 < answer.upper - answer.lower < 1e-3


def test_a_time_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="query_timeout must be a number of seconds > 0, not 0"):
        Marabou(query_timeout=0)


class TestReduced:
    """What Marabou is handed computes the case, without constants and without layers that have no ReLU."""

    @staticmethod
    def rows_at(request: dict[str, Any], t: Array) -> Array:
        """The rows' values at Marabou's variables t, by the request alone."""
        h = t
        for layer in request["layers"]:
            z = np.array(layer["weight"]) @ h + np.array(layer["bias"])
            h = np.where(layer["relu"], np.maximum(z, 0), z)
        values: Array = np.array(request["rows"]) @ h + np.array(request["offsets"])
        return values / MAGNIFICATION

    @pytest.mark.parametrize("seed", range(20))
    def test_it_is_the_case(self, seed: int) -> None:
        query = random_query(seed, constrained=True)
        case = query.cases[0]
        reduced = reduce_case(relu_form(query.networks), case)
        request = reduced.request(reduced.rows, reduced.offsets, 0)
        for t in np.random.default_rng(seed).uniform(request["lower"], request["upper"], (10, len(request["lower"]))):
            outputs = query.outputs(reduced.input(t))
            assert case.box.contains(reduced.input(t))
            expected = [case.value(outputs), *case.slack(outputs)]
            assert self.rows_at(request, t) == pytest.approx(expected, abs=1e-9)

    def test_constants_are_folded(self) -> None:
        """The first input is a point and the second neuron has no weights: one input and one neuron are left."""
        network = Network(
            (
                Layer.of([[1, 1], [0, 0]], [0, 5], RELU),
                Layer.of([[1, 0], [0, 1]], [0, 0], ((IDENTITY, 1), (RELU, 1))),
                Layer.of([[1, 1]], [0]),
            )
        )
        case = Query.maximise(network, Domain(Box([2, -1], [2, 1])), [[1]]).cases[0]
        reduced = reduce_case(relu_form([network]), case)
        assert [layer.weight.tolist() for layer in reduced.layers] == [[[1.0]]]
        assert reduced.layers[0].bias.tolist() == [2.0]
        assert (reduced.rows.tolist(), reduced.offsets.tolist()) == ([[1.0]], [5.0])

    def test_narrow_sides_are_stretched(self) -> None:
        network = Network((Layer.of([[1, 1]], [0]),))
        case = Query.maximise(network, Domain(Box([3, 0], [3 + 1e-7, 1])), [[1]]).cases[0]
        reduced = reduce_case(relu_form([network]), case)
        assert (reduced.lower.tolist(), reduced.upper.tolist()) == ([0, 0], [1, 1])
        assert reduced.input(MAGNIFICATION * np.ones(2)).tolist() == [3 + 1e-7, 1]

    def test_rows_that_are_constant_are_decided_without_marabou(self) -> None:
        network = Network((Layer.of([[1], [0]], [0, 7]),))
        rows, offsets = [[0, 1]], [-8]  # 7 - 8 >= 0, which nothing satisfies
        domain = Domain(Box([0], [1]))
        query = Query.maximise(network, domain, [[1, 0]], constraints=rows, constraint_offsets=offsets)
        assert reduce_case(relu_form([network]), query.cases[0]).needed(-math.inf) is None
        feasible = Query.maximise(network, domain, [[1, 0]], constraints=rows, constraint_offsets=[-6])
        needed = reduce_case(relu_form([network]), feasible.cases[0]).needed(0.5)
        assert needed is not None
        assert (needed[0].tolist(), needed[1].tolist()) == ([[1.0]], [-0.5])
