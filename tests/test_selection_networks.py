"""Selections of real networks by the engine, against Alg. 2 on a table that a MILP solver measured."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planted_tables import Table, naive_removals, removals
from random_networks import dense_network

from karenina import Box, Domain, Engine, Network, backend, pairwise_disagreement_threshold, select
from karenina.network import Layer
from karenina.query import Goal
from karenina.selection import CRITERIA, Certainty, SelectionSettings

DOMAIN = Domain(Box([-1.0, -1.0], [1.0, 1.0]))


@pytest.fixture(scope="module")
def networks() -> list[Network]:
    rng = np.random.default_rng(11)
    return [dense_network(rng, (2, 4, 1)).named(f"m{i}") for i in range(6)]


@pytest.fixture(scope="module")
def table(networks: list[Network]) -> Table:
    pytest.importorskip("highspy")
    solver, count = backend("highs"), len(networks)
    found = [[0.0] * count for _ in range(count)]
    for i, j in itertools.combinations(range(count), 2):
        pair = pairwise_disagreement_threshold(networks[i], networks[j], DOMAIN, goal=Goal(1e-6), backend=solver)
        assert pair.upper - pair.lower <= 1e-5
        found[i][j] = found[j][i] = (pair.lower + pair.upper) / 2
    return found


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("exact", [False, True])
def test_the_same_models_go(networks: list[Network], table: Table, criterion: str, exact: bool) -> None:
    found = select(networks, DOMAIN, criterion=criterion, exact=exact, backend=Engine("cpu"))
    assert found.certified
    expected = naive_removals(table, SelectionSettings(criterion=criterion))
    assert removals(found) == [sorted(gone) for gone in expected]
    for (i, j), pair in found.table.pairs.items():
        assert pair.lower - 1e-5 <= table[i][j] <= pair.upper + 1e-5


def test_the_guarantee_holds_at_sampled_inputs_and_is_attained(networks: list[Network]) -> None:
    found = select(networks, DOMAIN, iterations=2, backend=Engine("cpu"))
    chosen = [network for network in networks if network.name in found.survivors]
    inputs = DOMAIN.boxes[0].sample(5000, np.random.default_rng(0))
    outputs = np.stack([network(inputs)[:, 0] for network in chosen])
    assert np.ptp(outputs, axis=0).max() <= found.guarantee.upper
    pair = found.table.disagreement(*found.guarantee.pair)
    assert pair.outputs is not None
    assert abs(pair.outputs[0] - pair.outputs[1]).sum() == pytest.approx(found.guarantee.lower)
    assert found.guarantee.upper - found.guarantee.lower <= 2e-3


def test_a_time_limit_gives_a_result_that_says_so(networks: list[Network]) -> None:
    found = select(networks, DOMAIN, tolerance=1e-12, time_limit=1e-9, backend=Engine("cpu"))
    assert len(found.survivors) == 2
    assert found.measurements <= 30  # once for the first bounds, once more: what took too long is not tried again
    assert not found.certified
    undecided = [iteration for iteration in found.iterations if not iteration.certified]
    assert all(iteration.certainty is Certainty.UNDECIDED for iteration in undecided)
    assert all(iteration.undecided_pairs for iteration in undecided)
    assert "undecided within the time limit" in str(found)


def test_survivors_that_no_condition_compares_are_told() -> None:
    """Of opposite signs everywhere: their c-distance is 0, which is no agreement, and the result says why."""
    networks = [Network((Layer.of([[1.0]], [offset]),), f"n{offset}") for offset in (-5.0, 5.0)]
    found = select(networks, Domain(Box([0.0], [1.0])), "c-distance")
    assert found.guarantee.upper == 0.0
    (note,) = [note for note in found.notes if note.startswith("1 of 1 pairs of survivors: ")]
    assert "constraints" in note
