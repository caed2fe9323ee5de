"""The MILP back end and what it is built from: the ReLU form, the bounds, the big-M encoding, the solvers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_queries import PIECEWISE_LINEAR, TOY, check, random_network, random_query

from karenina.backends.big_m import Programme, encode
from karenina.backends.linear_bounds import neuron_bounds, objective_bounds
from karenina.backends.milp import Milp
from karenina.backends.progress import Progress
from karenina.backends.relu_form import ReluForm, relu_form
from karenina.backends.solvers import Request, Solved, gurobi, highs
from karenina.domain import Box, Domain
from karenina.errors import InputError
from karenina.network import IDENTITY, RELU, Layer, Network
from karenina.query import Goal, Query, Status, Verdict

Array = npt.NDArray[np.float64]

seeds = st.integers(0, 10**6)


def traced(form: ReluForm, x: Array) -> list[Array]:
    """Every layer's pre-activations at the inputs x, one array of shape (inputs, neurons) a layer."""
    pre_activations: list[Array] = []
    h = x
    for layer in form.layers:
        pre_activations.append(h @ layer.weight.T + layer.bias)
        h = np.where(layer.relu, np.maximum(pre_activations[-1], 0), pre_activations[-1])
    return pre_activations


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_the_relu_form_computes_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depths = [tuple(rng.integers(1, 6, size=rng.integers(0, 4)).tolist()) for _ in range(3)]
    networks = [random_network(rng, (3, *hidden, 2), PIECEWISE_LINEAR) for hidden in depths]
    x = rng.normal(size=(20, 3))
    expected = np.concatenate([network(x) for network in networks], axis=-1)
    assert np.allclose(relu_form(networks)(x), expected, rtol=1e-12, atol=1e-12)


def test_an_activation_on_the_output_is_part_of_the_relu_form() -> None:
    network = Network((Layer.of([[1, 0], [0, 1]], [0, 0], ((RELU, 1), (PIECEWISE_LINEAR[4], 1))),))
    x = np.array([[-1.0, -1.0], [2.0, 2.0], [0.3, 0.3]])
    assert np.allclose(relu_form([network])(x), [[0, -0.5], [2, 0.7], [0.3, 0.3]])


def test_affine_layers_vanish_from_the_relu_form() -> None:
    layers = (Layer.of(np.eye(2), [1, 1]), Layer.of(np.eye(2), [0, 0], RELU), Layer.of(np.eye(2), [2, 2]))
    form = relu_form([Network((*layers, Layer.of([[1, 1]], [0])))])
    assert [layer.bias.tolist() for layer in form.layers] == [[1, 1]]
    assert form(np.array([1.0, -3.0])) == 2 + 2 + 2


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_bounds_hold_everywhere(seed: int) -> None:
    query = random_query(seed, constrained=False)
    form, box = relu_form(query.networks), query.cases[0].box
    bounds, x = neuron_bounds(form, box), box.sample(500, np.random.default_rng(seed))
    for z, low, high in zip(traced(form, x), bounds.lower, bounds.upper, strict=True):
        assert np.all(low <= z)
        assert np.all(z <= high)
    outputs = query.outputs(x)
    for case, upper in zip(query.cases, objective_bounds(form, query.cases), strict=True):
        assert np.max(outputs @ case.objective) <= upper


def test_bounds_of_one_unstable_neuron_are_exact() -> None:
    """|x| on [-1, 3] by two ReLUs: its chord bounds it by 3, where intervals would say 4."""
    network = Network((Layer.of([[1], [-1]], [0, 0], RELU), Layer.of([[1, 1]], [0])))
    case = Query.maximise(network, Domain(Box([-1], [3])), [[1]]).cases[0]
    assert objective_bounds(relu_form([network]), [case])[0] == pytest.approx(3, abs=1e-9)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_every_input_is_a_point_of_the_encoding(seed: int) -> None:
    query = random_query(seed, constrained=True)
    form, box, case = relu_form(query.networks), query.cases[0].box, query.cases[0]
    bounds = neuron_bounds(form, box)
    x = box.sample(1, np.random.default_rng(seed))
    variables = [x[0]]
    for z, layer, low, high in zip(traced(form, x), form.layers, bounds.lower, bounds.upper, strict=True):
        unstable = layer.relu & (low < 0) & (high > 0)
        variables += [np.maximum(z[0][unstable], 0), (z[0][unstable] > 0).astype(float)]
    v = np.concatenate(variables)
    programme, outputs = encode(form, bounds, box).programme(case), query.outputs(x[0])
    networks = len(programme.limits) - len(case.constraint_offsets)
    slack = programme.limits - programme.rows @ v
    assert programme.objective @ v + programme.offset == pytest.approx(case.value(outputs))
    assert np.all(slack[:networks] >= -1e-9)
    assert slack[networks:] == pytest.approx(case.slack(outputs))
    assert np.all((programme.lower - 1e-9 <= v) & (v <= programme.upper + 1e-9))


@pytest.mark.parametrize("solve", [highs, gurobi])
def test_a_cutoff_above_the_maximum_is_the_upper_bound(solve: Callable[[Programme, Request], Solved]) -> None:
    """HiGHS calls its first point optimal then; that must not become a bound."""
    query = random_query(0, constrained=False)
    form, case = relu_form(query.networks), query.cases[0]
    programme = encode(form, neuron_bounds(form, case.box), case.box).programme(case)
    best = Milp("highs").answer(Query(query.networks, (case,)), Goal(tolerance=1e-4)).upper
    request = Request(gap=1e-6, seconds=math.inf, threads=1)
    assert solve(programme, request).upper == pytest.approx(best, abs=1e-3)
    cut = Request(gap=1e-6, seconds=math.inf, threads=1, cutoff=best + 1)
    assert solve(programme, cut).upper == pytest.approx(best + 1, abs=1e-9)


@pytest.mark.parametrize("solver", ["highs", "gurobi"])
def test_affine_networks_need_no_integers(solver: str) -> None:
    network = Network((Layer.of([[1, -2]], [3], IDENTITY), Layer.of([[2]], [1])))
    query = Query.maximise(network, Domain(Box([-1, -1], [1, 1])), [[1]], constraints=[[-1]], constraint_offsets=[5])
    answer = Milp(solver).answer(query)
    check(query, answer)
    assert answer.status is Status.EXACT
    assert answer.lower == pytest.approx(5, abs=1e-3)


@pytest.mark.parametrize("solver", ["highs", "gurobi"])
def test_thresholds_near_the_maximum(solver: str) -> None:
    query = random_query(2, constrained=False)
    best = Milp(solver).answer(query, Goal(tolerance=1e-5)).lower
    above, below = best + 1e-3, best - 1e-3
    assert Milp(solver).answer(query, Goal(threshold=above)).verdict(above) is Verdict.UNSAT
    assert Milp(solver).answer(query, Goal(threshold=below)).verdict(below) is Verdict.SAT


def test_what_is_closer_than_the_solvers_tolerance_is_not_claimed() -> None:
    answer = Milp("highs").answer(random_query(2, constrained=False), Goal(tolerance=0))
    assert answer.status is Status.PRECISION
    assert 0 < answer.upper - answer.lower < 1e-4
    assert "highs" in answer.note


@pytest.mark.parametrize("offset", [-1000.0, 0.0, 1000.0])
def test_a_relative_tolerance_is_relative_to_the_maximum(offset: float) -> None:
    query = random_query(2, constrained=False)
    shifted = Query(query.networks, tuple(replace(case, offset=offset) for case in query.cases))
    answer = Milp("highs").answer(shifted, Goal(tolerance=0, relative_tolerance=1e-4))
    assert answer.status is Status.EXACT
    assert answer.upper - answer.lower <= 1e-4 * abs(answer.lower)


def test_gurobis_free_licence_is_named_when_it_is_too_small() -> None:
    rng = np.random.default_rng(0)
    wide = random_network(rng, (2, 1100, 1), (RELU,))
    query = Query.maximise(wide, Domain(Box([-1, -1], [1, 1])), [[1]])
    with pytest.raises(InputError, match=r"Gurobi cannot take this query of \d+ variables and \d+ rows.*highs can"):
        Milp("gurobi").answer(query)


def test_gurobi_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Milp("gurobi").answer(random_query(2, constrained=False))
    Milp("highs").answer(random_query(2, constrained=False))
    assert capfd.readouterr() == ("", "")


def test_an_unknown_solver_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown MILP solver 'cplex'; known: highs, gurobi"):
        Milp("cplex")


class TestProgress:
    query = Query.maximise(TOY, Domain(Box([0, 0], [1, 1])), [[1], [-1]])

    def test_a_bound_below_an_attained_value_is_worth_nothing(self) -> None:
        progress = Progress(self.query, Goal())
        progress.tighten(0, 5.0)
        progress.tighten(1, 5.0)
        assert progress.offer(0, np.array([1.0, 1.0])) == 12
        answer = progress.answer(Status.PRECISION)
        assert (answer.lower, answer.upper, answer.status) == (12, math.inf, Status.FAILED)
        assert "12" in answer.note

    def test_points_outside_the_box_or_undefined_are_no_witnesses(self) -> None:
        progress = Progress(self.query, Goal())
        assert progress.offer(0, np.array([9.0, 9.0])) == 12  # clipped to the box
        assert progress.offer(0, np.array([math.nan, 0.0])) is None

    def test_a_box_too_wide_for_float64_is_not_sampled(self) -> None:
        progress = Progress(Query.maximise(TOY, Domain(Box([-1e308, 0], [1e308, 1])), [[1]]), Goal())
        with np.errstate(over="ignore"):
            progress.sample(np.random.default_rng(0))
        assert progress.witness is None

    def test_a_solvers_small_violation_is_repaired(self) -> None:
        constrained = Query.maximise(
            TOY, Domain(Box([0, 0], [1, 1])), [[1]], constraints=[[-1]], constraint_offsets=[7]
        )
        progress = Progress(constrained, Goal())
        value = progress.offer(0, np.array([0.5, 0.5 + 1e-6]))  # 2 (1 + 0.5 + 2) = 7, and a little more
        assert value == pytest.approx(7, abs=1e-6)
        assert value is not None
        assert value <= 7

    def test_a_point_far_outside_the_constraints_is_no_witness(self) -> None:
        impossible = Query.maximise(
            TOY, Domain(Box([0, 0], [1, 1])), [[1]], constraints=[[-1]], constraint_offsets=[-9]
        )
        assert Progress(impossible, Goal()).offer(0, np.array([0.5, 0.5])) is None
