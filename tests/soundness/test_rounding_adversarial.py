"""Networks built to break verifiers that compute in floating point: never a wrong claim, however wide the interval.

The oracle is exact: whole numbers for what is piecewise linear, 100 digits for the rest (fuzz/fuzz_exact.py). `upper`
is at least every value found; the witness attains `lower`, without any tolerance; a status says no more than the
interval.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from fuzz_exact import exact_outputs, exact_value
from fuzz_holds import check_answer, check_disagreement, require_overlap
from fuzz_hostile import FAMILIES, hostile

from karenina.disagreement import pairwise_disagreement_threshold
from karenina.distance import distance
from karenina.domain import Box, Domain
from karenina.engine import Engine, Settings
from karenina.network import RELU, Activation, Layer, Network
from karenina.query import Answer, Case, Goal, Query, Status

ACTIVATIONS = {
    "relu": RELU,
    "leaky_relu": Activation("leaky_relu", (0.1,)),
    "abs": Activation("abs"),
    "clip": Activation("clip", (-1.0, 0.5)),
    "elu": Activation("elu", (1.5,)),
    "tanh": Activation("tanh"),
    "sigmoid": Activation("sigmoid"),
    "softplus": Activation("softplus"),
}
TANH = ACTIVATIONS["tanh"]
LEAST = 2.0**-1074
PATHS = {
    "compiled": Settings(threads=1),
    "compiled, one by one": Settings(threads=1, abreast=False),
    "torch": Settings(threads=0),
}
SEEDS = range(3)


def ask(networks: tuple[Network, ...], box: Box, objective: np.ndarray, rows: int, rng: np.random.Generator) -> Query:
    constraints, offsets = rng.normal(size=(rows, len(objective))), rng.normal(size=rows)
    return Query(networks, (Case(box, objective, 0.0, constraints, offsets),))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_claim_is_wrong(family: str, activation: str) -> None:
    """Free and under a constraint, to relative tolerances and to almost none, by both paths."""
    for seed in SEEDS:
        rng = np.random.default_rng([seed, *family.encode(), *activation.encode()])
        networks, box, objective = hostile(family, rng, (ACTIVATIONS[activation],))
        query = ask(networks, box, objective, int(seed == 2), rng)
        goal = Goal(1e-3, time_limit=0.05) if seed == 1 else Goal(0.0, float(rng.choice([1e-2, 1e-9])), time_limit=0.05)
        answers = [Engine("cpu", settings).answer(query, goal) for settings in PATHS.values()]
        for answer in answers:
            check_answer(query, answer, goal, rng)
        for answer in answers[:-1]:
            require_overlap(answer, answers[-1], "compiled code and torch")


@pytest.mark.parametrize("name", ["l1", "linf", "c-distance", "class"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_distance_is_wrong(family: str, name: str) -> None:
    """Between two networks of each family, and between a network and its last-digit copy."""
    kinds, metric = (RELU, TANH, ACTIVATIONS["abs"]), distance(name)
    for seed in SEEDS:
        rng = np.random.default_rng([seed, *family.encode(), *name.encode()])
        networks, box, _ = hostile(family, rng, (kinds[seed],))
        first, second = (networks * 2)[:2]
        if first is second:
            second = Network((*first.layers[:-1], _moved(first.layers[-1])), "moved")
        if name == "class" and first.output_size < 2:
            first, second = (_two_outputs(network) for network in (first, second))
        for settings in PATHS.values():
            goal, engine = Goal(0.0, 1e-2, time_limit=0.05), Engine("cpu", settings)
            found = pairwise_disagreement_threshold(first, second, Domain(box), metric, goal=goal, backend=engine)
            check_disagreement(first, second, Domain(box), metric, found, rng)


def _moved(layer: Layer) -> Layer:
    return Layer.of(np.nextafter(layer.weight.numpy(), np.inf), np.nextafter(layer.bias.numpy(), 0), layer.activations)


def _two_outputs(network: Network) -> Network:
    return Network((*network.layers, Layer.of([[1.0], [-1.0]], [0.0, 0.0])), f"two outputs of {network.name}")


def answer_of(network: Network, box: Box, objective: float, goal: Goal, settings: Settings) -> tuple[Query, Answer]:
    query = Query((network,), (Case(box, np.full(1, objective)),))
    return query, Engine("cpu", settings).answer(query, goal)


def check_at(query: Query, answer: Answer, goal: Goal, x: list[float]) -> None:
    """The interval holds what the network attains at x, and everything else that is found."""
    assert exact_value(query, query.cases[0], x) <= (Fraction(answer.upper) if answer.upper < math.inf else math.inf)
    check_answer(query, answer, goal, np.random.default_rng(0))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("tiny", [1e-290, 1e-300, 1e-305, 1e-310])
def test_a_chord_across_a_tiny_range_still_lies_above(path: str, tiny: float) -> None:
    """relu(z) - z / 4 for |z| <= tiny, asked once for its largest value only: no split may hide a wrong line."""
    network = Network((Layer.of([[tiny], [tiny]], [0.0, 0.0], RELU), Layer.of([[1.0, 0.5]], [0.0])))
    goal = Goal(0.0, 0.5, time_limit=0.0)
    query, answer = answer_of(network, Box([-1.0], [1.0]), 1.0, goal, PATHS[path])
    check_at(query, answer, goal, [1.0])


@pytest.mark.parametrize("path", [*PATHS, "by splits alone", "by splits alone, one by one"])
def test_clipping_a_box_keeps_what_a_tiny_slope_can_still_reach(path: str) -> None:
    """A hat of height 2e-296 above a plain of 1e-296: what is cut off must attain no more than what is kept."""
    hat = Layer.of([[4.0], [4.0], [4.0], [1.0]], [-2.9, -3.0, -3.1, 1.0], RELU)
    network = Network((hat, Layer.of([[2e-295, -4e-295, 2e-295, -1e-296]], [2e-296])))
    goal = Goal(0.0, 1e-3, time_limit=1.0)
    alone = Settings(threads=1, steps=0, programmes=0, starts=1, ascent=0, abreast=path == "by splits alone")
    settings = PATHS.get(path, alone)
    query, answer = answer_of(network, Box([-1.0], [1.0]), 1.0, goal, settings)
    for x in (-1.0, 0.0, 0.725, 0.75, 0.775, 1.0):
        check_at(query, answer, goal, [x])


@pytest.mark.parametrize("path", PATHS)
def test_the_middle_of_a_box_of_one_least_number_may_be_off(path: str) -> None:
    """[0, 2**-1074] has its middle and radius at 0: the upper end must not be lost."""
    network = Network((Layer.of([[1e300]], [0.0], RELU), Layer.of([[1e20]], [0.0])))
    goal = Goal(0.0, 1e-3, time_limit=0.5)
    query, answer = answer_of(network, Box([0.0], [LEAST]), 1.0, goal, PATHS[path])
    check_at(query, answer, goal, [LEAST])


def test_pre_activations_on_a_box_of_one_least_number_lie_in_their_bounds() -> None:
    pytest.importorskip("numba")
    from packed_boxes import pack, root_of

    network = Network((Layer.of([[1e300], [-1e10]], [0.0, 0.0], RELU), Layer.of([[1.0, 1.0]], [0.0])))
    room = root_of(pack(Query((network,), (Case(Box([LEAST], [2 * LEAST]), np.ones(1)),))))
    for x in (Fraction(LEAST), 2 * Fraction(LEAST)):
        for neuron, weight in enumerate((1e300, -1e10)):
            assert Fraction(room.low[neuron]) <= Fraction(weight) * x <= Fraction(room.high[neuron])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_lines_over_infinite_ranges_enclose_the_activation_or_are_not_numbers(activation: str) -> None:
    """Back-substitution may overflow on one side of a neuron only."""
    pytest.importorskip("numba")
    from karenina.engine.lines import write_lines
    from karenina.engine.packing import kind_of

    kind = ACTIVATIONS[activation]
    for low, high in ((0.0, np.inf), (-np.inf, 0.0), (-3.0, np.inf), (-np.inf, 5.0), (-np.inf, np.inf)):
        lines = np.empty((8, 1))
        write_lines(np.array([kind_of(kind)]), 0, low, high, lines, np.empty((4, 1)), 0)
        z = np.array([v for v in (-1e6, -3.0, -1.0, 0.0, 0.5, 5.0, 1e6) if low <= v <= high])
        values = np.asarray(Network((Layer.of([[1.0]], [0.0], kind),))(z[:, None]))[:, 0]
        for side, sign in ((0, 1.0), (4, -1.0)):
            for slope in lines[side : side + 2, 0]:
                with np.errstate(invalid="ignore"):  # 0 times infinity is no number, as it should be
                    gap = sign * (lines[side + 3, 0] + slope * (z - lines[side + 2, 0]) - values)
                assert (np.isnan(gap) | (gap >= -1e-9)).all()


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "abs", "tanh", "sigmoid"])
def test_lines_of_eight_infinite_ranges_enclose_the_activation_or_are_not_numbers(activation: str) -> None:
    pytest.importorskip("numba")
    from eight_boxes import one_neuron, relaxed

    kind = ACTIVATIONS[activation]
    low = np.array([0.0, -np.inf, -3.0, -np.inf, -np.inf, -1e6, -1.0, 2.0])
    high = np.array([np.inf, 0.0, np.inf, 5.0, np.inf, 1e6, 1.0, np.inf])
    packed, group = one_neuron(kind, low, high)
    relaxed(packed.net.kinds, group)
    for lane in range(8):
        z = np.array([v for v in (-1e6, -3.0, -1.0, 0.0, 0.5, 5.0, 1e6) if low[lane] <= v <= high[lane]])
        values = np.asarray(Network((Layer.of([[1.0]], [0.0], kind),))(z[:, None]))[:, 0]
        with np.errstate(invalid="ignore"):
            above = group.up[0, lane] * z + group.up_by[0, lane] - values
            below = values - (group.down[0, lane] * z + group.down_by[0, lane])
        for gap in (above, below):
            assert (np.isnan(gap) | (gap >= -1e-9)).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_objective_too_small_to_multiply_is_no_proof(path: str, sign: float) -> None:
    """1e-300 * 1e-300 * 1e300 is 1e-300, though the first product is 0 in float64."""
    network = Network((Layer.of([[1e-300]], [0.0], RELU), Layer.of([[1.0]], [0.0])))
    goal = Goal(0.0, 1e-3, time_limit=0.2)
    query, answer = answer_of(network, Box([0.0], [1e300]), sign * 1e-300, goal, PATHS[path])
    for x in (0.0, 1e300):
        check_at(query, answer, goal, [x])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_ranges_wider_than_float64_prove_nothing(path: str, activation: str) -> None:
    """A pre-activation in [-1.7e308, 1.7e308] is representable, the width of its range is not."""
    kind = ACTIVATIONS[activation]
    network = Network((Layer.of([[1.7e308], [-1.7e308]], [0.0, 0.0], kind), Layer.of([[-1e-308, 1e-308]], [0.0])))
    goal = Goal(1e-3, time_limit=0.2)
    query, answer = answer_of(network, Box([-1.0], [1.0]), 1.0, goal, PATHS[path])
    for x in (-1.0, 0.0, 1.0):
        check_at(query, answer, goal, [x])
    assert answer.status is Status.OVERFLOW


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("activation", ["elu", "tanh", "sigmoid", "softplus"])
def test_coefficients_that_overflow_prove_nothing(path: str, activation: str) -> None:
    """1e155 * 1e155 overflows on the way back though no value does: the bound above is infinite, the one below is 0."""
    hidden = [Layer.of([[1e155]], [0.0], RELU), Layer.of([[1e155]], [0.0], RELU)]
    network = Network((*hidden, Layer.of([[1.0]], [0.0], ACTIVATIONS[activation]), Layer.of([[1.0]], [0.0])))
    goal = Goal(1e-3, time_limit=0.2)
    for sign in (1.0, -1.0):
        query, answer = answer_of(network, Box([-1e-310], [1e-310]), sign, goal, PATHS[path])
        for x in (-1e-310, 0.0, 1e-310):
            check_at(query, answer, goal, [x])


def test_witnesses_of_huge_and_of_tiny_boxes_lie_in_them() -> None:
    """Where every input attains the distance 0, one inside the domain is named."""
    network = Network((Layer.of([[1.0]], [0.0]),), "one")
    for lower, upper in ((1.2e308, 1.7e308), (-1.7e308, 1.7e308), (LEAST, LEAST), (LEAST, 2 * LEAST)):
        domain = Domain(Box([lower], [upper]))
        found = pairwise_disagreement_threshold(network, network.named("two"), domain, backend=Engine("cpu"))
        assert found.witness is None or domain.contains(found.witness)


def test_a_search_on_a_box_of_least_numbers_ends() -> None:
    """Half of 2**-1074 is 0: such a side cannot be halved for ever."""
    weights = [[1e300], [-1e300], [1e300]]
    network = Network((Layer.of(weights, [-2e-24, 3e-24, -8e-24], TANH), Layer.of([[1e24, 1e24, -1e24]], [0.0])))
    for settings in PATHS.values():
        query, answer = answer_of(network, Box([0.0], [3 * LEAST]), 1.0, Goal(0.0), settings)
        assert answer.status in (Status.PRECISION, Status.EXACT)
        for steps in range(4):
            check_at(query, answer, Goal(0.0), [steps * LEAST])


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus", "elu"])
def test_the_oracle_of_smooth_activations_is_right(activation: str) -> None:
    """Against float64 where that is good, and against what is known for small and for large numbers."""
    network = Network((Layer.of([[1.0]], [0.0], ACTIVATIONS[activation]),))
    for z in (-700.0, -30.0, -1.0, -1e-3, -1e-12, 0.0, 1e-12, 1e-3, 1.0, 30.0, 700.0, 1e300):
        assert float(exact_outputs(network, [z])[0]) == pytest.approx(float(network([z])[0]), rel=1e-14, abs=0)
    tiny = exact_outputs(network, [1e-200])[0]
    if activation in ("tanh", "elu"):
        assert abs(tiny / Fraction(1e-200) - 1) < Fraction(1, 10**60)
