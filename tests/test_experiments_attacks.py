"""Gradient attacks as back ends: lower bounds that are attained, never more than is true."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from random_networks import check_witness, dense_network
from small_subjects import line, small_subject

from karenina import Answer, Backend, Box, Domain, Engine, Goal, Query, Status, pairwise_disagreement_threshold
from karenina.distance import distance
from karenina.experiments.attacks import FAILED, LOWER_BOUND, ConstrainedPgd, Fgsm, Pgd, StrongAttack
from karenina.experiments.gradients import attack_table, attacks, gradient_data
from karenina.experiments.populations import subject
from karenina.experiments.tables import UNIT, measure_table
from karenina.network import RELU, Layer, Network

BOX = Domain(Box([-1.0, 0.0], [1.0, 4.0]))
ALL: list[Backend] = [Fgsm(), Pgd(), ConstrainedPgd(), ConstrainedPgd(keep=True), StrongAttack()]
PAIRS = [[dense_network(np.random.default_rng(10 * k + m), (2, 8, 6, 1)) for m in range(2)] for k in range(2)]


@pytest.mark.parametrize("attack", ALL, ids=lambda own: f"{type(own).__name__}{getattr(own, 'keep', '')}")
@pytest.mark.parametrize("name", ["l1", "c-distance"])
def test_a_lower_bound_is_attained_and_not_above_the_truth(attack: Backend, name: str) -> None:
    for pair in PAIRS:
        for group in distance(name).queries(pair[0], pair[1], BOX):
            for query in group:
                found = attack.answer(query)
                assert found.upper == math.inf
                assert found.note == (FAILED if found.witness is None else LOWER_BOUND)
                check(query, found)
                assert found.lower <= Engine("cpu").answer(query, Goal(1e-3)).upper


def check(query: Query, found: Answer) -> None:
    """The witness lies in its box and satisfies the constraints; `lower` is its value, or the floor."""
    if found.witness is None:
        assert found.lower == query.floor
        return
    assert found.case is not None
    case, outputs = query.cases[found.case], query.outputs(found.witness)
    assert case.box.contains(found.witness)
    assert (case.slack(outputs) >= -1e-9).all()
    assert found.lower == max(query.floor, case.value(outputs))


def difference(first: Network, second: Network, domain: Domain) -> Query:
    (group,) = distance("l1").queries(first, second, domain)
    return group[0]


def test_fgsm_goes_from_the_middle_to_the_corner() -> None:
    weights = np.array([[2.0, -3.0]])
    first = Network((Layer.of(weights, np.array([1.0])),), "first")
    second = Network((Layer.of(0 * weights, np.array([0.0])),), "second")
    found = Fgsm().answer(difference(first, second, BOX))
    # In the middle (0, 2) the difference is -5: |.| grows along (-2, 3), whose corner is (-1, 4).
    assert found.witness is not None
    assert found.witness.tolist() == [-1.0, 4.0]
    assert found.lower == pytest.approx(13.0)
    check_witness(difference(first, second, BOX), found)


def test_fgsm_is_misled_where_pgd_is_not() -> None:
    """|x| - like: relu(x - 0.2) + relu(-x - 0.5) * 3 grows to the left more, but is flat in the middle."""
    hidden = Layer.of(np.array([[1.0], [-1.0]]), np.array([0.1, -0.5]), RELU)
    bent = Network((hidden, Layer.of(np.array([[1.0, 9.0]]), np.array([0.0]))), "bent")
    query = difference(bent, line(0.0), Domain(Box([-1.0], [1.0])))
    assert Fgsm().answer(query).lower == pytest.approx(1.1)
    assert Pgd().answer(query).lower == pytest.approx(1.1)  # the gradient of the middle leads it, too
    assert StrongAttack().answer(query).lower == pytest.approx(4.5, abs=1e-3)


def test_a_threshold_that_is_reached_is_decided() -> None:
    query = difference(line(1.0), line(-1.0), Domain(Box([-1.0], [2.0])))
    assert Pgd().answer(query, Goal(threshold=3.9)).status is Status.DECIDED
    assert Pgd().answer(query, Goal(threshold=4.1)).status is Status.FAILED


def test_constraints_that_no_input_satisfies_leave_no_witness() -> None:
    first, second = line(0.0, 1.0), line(0.0, 2.0)
    _, negative = distance("c-distance").queries(first, second, Domain(Box([0.0], [1.0])))[0]
    for attack in ALL:
        found = attack.answer(negative)
        assert found.witness is None
        assert (found.lower, found.note) == (0.0, FAILED)


def test_the_strong_attack_stays_inside_the_constraints_and_finds_the_maximum() -> None:
    """x and -x + 1 are both >= 0 on [0, 1] only, where they differ by at most 1."""
    first, second = line(1.0), line(-1.0, 1.0)
    domain = Domain(Box([-5.0], [5.0]))
    positive, _ = distance("c-distance").queries(first, second, domain)[0]
    found = StrongAttack().answer(positive)
    check_witness(positive, found)
    assert found.lower == pytest.approx(1.0, abs=1e-2)


def test_the_strong_attack_is_nearly_exact_on_shipped_policies() -> None:
    for name in ("cartpole", "aurora_short"):
        own = subject(name)
        pair = own.networks[0], own.networks[5]
        true = pairwise_disagreement_threshold(*pair, own.domain, own.distance, goal=Goal(0.1))
        found = pairwise_disagreement_threshold(*pair, own.domain, own.distance, backend=StrongAttack())
        assert true.lower - own.paper_tolerance <= found.lower <= true.upper


def test_an_attack_fills_a_table() -> None:
    own = small_subject()
    lower, failed = attack_table(own, Fgsm())
    true = measure_table(own, 1e-3)
    assert not failed
    assert (lower <= true.upper).all()
    assert (lower >= true.lower - 1.01e-3 / UNIT).all()  # on lines one step is enough


def test_the_experiment_counts_every_pair_once() -> None:
    own = small_subject()
    data = gradient_data(own, measure_table(own, 1e-3))
    assert list(data) == ["FGSM", "PGD", "restarts and momentum"]
    for row in data.values():
        assert row["aligned"] == row["pairs"] == len(list(itertools.combinations(own.names, 2)))
        json.dumps(row)
        assert row["untightened"] == row["failed"] == 0
        assert row["successful"] == {"percentile": True, "max": True, "combined": True}


def test_a_failed_pair_is_told_from_one_without_inputs() -> None:
    """Lines of opposite slopes: where both are >= 0 there is only 0, which steps of the attack do not hit."""
    own = small_subject((1.0, -1.5, 0.7), "c-distance")
    assert list(attacks(own.distance)) == ["constrained PGD", "constrained PGD, best kept", "restarts and momentum"]
    _, failed = attack_table(own, ConstrainedPgd())
    assert failed <= {(0, 1), (1, 2), (0, 2)}
    without = small_subject((1.0, 1.0001, 1.0002), "c-distance")
    _, none = attack_table(without, StrongAttack())
    assert none == set()
