"""What the benchmarks compare with must be right, and what they draw and fit too."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cactus import draw, solved
from checkpoints import SIZES, checkpoint_networks, kept, spread
from peers.alpha_crown import AlphaCrown
from random_networks import dense_network
from scaling import exponent

from karenina import Box, Domain, Engine, Goal, InputError, pairwise_disagreement_threshold
from karenina.network import Activation, Layer, Network
from karenina.query import Query


@pytest.mark.parametrize("seed", range(4))
def test_the_baseline_answers_as_the_engine_does(seed: int) -> None:
    rng, goal = np.random.default_rng(seed), Goal(1e-3, time_limit=60)
    first, second = (dense_network(rng, (2, 6, 4, 1)) for _ in range(2))
    if seed == 3:  # a last layer that is cut off, as Mountain Car's
        first, second = (clipped(network) for network in (first, second))
    domain = Domain([Box([-1.0, -1.0], [1.0, 1.0]), Box([2.0, 1.0], [3.0, 4.0])])
    theirs, ours = (
        pairwise_disagreement_threshold(first, second, domain, goal=goal, backend=who)
        for who in (AlphaCrown(), Engine("cpu"))
    )
    assert theirs.status.finished
    assert theirs.upper - theirs.lower <= 1e-3
    assert max(theirs.lower, ours.lower) <= min(theirs.upper, ours.upper) + 1e-9
    assert theirs.boxes > 4  # it had to search


def clipped(network: Network) -> Network:
    last = network.layers[-1]
    cut = Layer(last.weight, last.bias, ((Activation("clip", (-0.5, 0.5)), len(last.bias)),))
    return Network((*network.layers[:-1], cut), network.name)


def test_the_baseline_stops_in_time_with_a_true_interval() -> None:
    rng = np.random.default_rng(5)
    first, second = (dense_network(rng, (6, 16, 16, 1)) for _ in range(2))
    domain, goal = Domain(Box([-2.0] * 6, [2.0] * 6)), Goal(1e-9, time_limit=0.2)
    found = pairwise_disagreement_threshold(first, second, domain, goal=goal, backend=AlphaCrown())
    x = rng.uniform(-2, 2, (5000, 6))
    assert not found.status.finished
    assert np.abs(first(x) - second(x)).max() <= found.upper


def test_the_baseline_refuses_constraints() -> None:
    network = dense_network(np.random.default_rng(0), (2, 3, 1))
    domain = Domain(Box([0.0, 0.0], [1.0, 1.0]))
    query = Query.maximise(network, domain, [[1.0]], constraints=[[1.0]], constraint_offsets=[0.0])
    with pytest.raises(InputError, match="no constraints"):
        AlphaCrown().answer(query)


def rows() -> list[dict[str, Any]]:
    times = [("marabou", 1.0, 2.0, True), ("gurobi", 1e-3, 5.0, True), ("highs", 1e-3, 40.0, False)]
    made = []
    for pair, (peer, tolerance, seconds, finished) in itertools.product(("a/b", "a/c"), times):
        about: dict[str, Any] = {
            "setting": "cartpole",
            "pair": pair,
            "peer": peer,
            "tolerance": tolerance,
            "limit": 40.0,
        }
        ours = {"ours": 0.1 if peer == "gurobi" else 0.3, "ours_finished": True}
        made.append({**about, **ours, "theirs": seconds, "theirs_finished": finished})
    return made


def test_a_cactus_counts_what_was_finished() -> None:
    assert solved(rows(), exact=False) == {"karenina": [0.3, 0.3], "marabou": [2.0, 2.0]}
    exact = solved(rows(), exact=True)
    assert exact == {"karenina": pytest.approx([0.2, 0.2]), "gurobi": [5.0, 5.0], "highs": []}


def test_a_cactus_is_drawn(tmp_path: Path) -> None:
    draw(rows(), tmp_path / "one.svg")
    draw(rows(), tmp_path / "two.svg")
    assert "svg" in (tmp_path / "one.svg").read_text()
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_checkpoints_are_kept_over_the_last_half() -> None:
    after = kept(486, 16)
    assert len(set(after.tolist())) == 16
    assert after[0] > 243
    assert after[-1] == 486
    assert set(np.diff(after)) <= {15, 16}
    assert spread(16)[:4] == [15, 7, 11, 3]
    assert sorted(spread(16)) == list(range(16))


def test_checkpoints_are_read_in_order(tmp_path: Path) -> None:
    numbers = sum(a * b + b for a, b in itertools.pairwise(SIZES))
    actors = np.random.default_rng(0).normal(size=(3, 4, numbers)).astype(np.float32)
    np.savez(tmp_path / "some.npz", seeds=np.array([1, 5, 9]), actors=actors)
    networks = checkpoint_networks(7, tmp_path / "some.npz")
    names = ["seed_001-04", "seed_005-04", "seed_009-04", "seed_001-02", "seed_005-02", "seed_009-02", "seed_001-03"]
    assert [network.name for network in networks] == names
    assert torch.equal(networks[0].layers[0].weight[0], torch.tensor(actors[0, 3, :30]).double())
    assert networks[0].layers[-1].bias.item() == actors[0, 3, -1]


def test_exponents_are_slopes() -> None:
    grown = [{"models": k, "table_seconds": 3.0 * k**2} for k in (4, 8, 32)]
    assert exponent(grown, "table_seconds") == pytest.approx(2.0)
