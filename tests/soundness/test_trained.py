"""Trained networks, which are far harder than random ones: sound, and as other solvers have it."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from random_networks import Array, check_answer, overlap, points
from torch import nn

from karenina.backends.milp import Milp
from karenina.disagreement import pairwise_disagreement_threshold
from karenina.distance import L1
from karenina.domain import Box, Domain
from karenina.domain_file import load_domain
from karenina.engine import Engine
from karenina.loading import from_torch, load
from karenina.network import Network
from karenina.query import Goal, Status

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NO_HIGHS = importlib.util.find_spec("highspy") is None


def trained(seed: int, sizes: tuple[int, ...], activation: Callable[[], nn.Module], steps: int = 300) -> Network:
    """A network that has learnt a smooth target on [-1, 1]^n, in a second or two."""
    torch.manual_seed(seed)
    modules: list[nn.Module] = []
    for before, size in itertools.pairwise(sizes):
        modules += [nn.Linear(before, size), activation()]
    model = nn.Sequential(*modules[:-1])
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        x = 2 * torch.rand(128, sizes[0]) - 1
        target = torch.sin(3 * x.sum(1, keepdim=True)) + x.prod(1, keepdim=True)
        loss = (model(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return from_torch(model)


@pytest.fixture(scope="module")
def relu_pair() -> tuple[Network, Network]:
    return trained(1, (4, 32, 16, 1), nn.ReLU), trained(2, (4, 32, 16, 1), nn.ReLU)


@pytest.fixture(scope="module")
def tanh_pair() -> tuple[Network, Network]:
    return trained(1, (3, 64, 64, 1), nn.Tanh), trained(2, (3, 64, 64, 1), nn.Tanh)


@pytest.fixture(scope="module")
def deep_pair() -> tuple[Network, Network]:
    sizes = (5, *[20] * 6, 2)
    return trained(1, sizes, nn.ReLU), trained(2, sizes, nn.ReLU)


def cube(size: int, side: float) -> Domain:
    return Domain(Box(np.full(size, -side), np.full(size, side)))


def sampled(pair: tuple[Network, Network], domain: Domain) -> float:
    x: Array = np.concatenate([points(box, np.random.default_rng(0), 100_000) for box in domain.boxes])
    return float(np.abs(pair[0](x) - pair[1](x)).sum(1).max())


@pytest.mark.parametrize(
    ("goal", "side"), [(Goal(1e-3, time_limit=20), 1.0), (Goal(0.0, 1e-6, time_limit=20), 0.6)], ids=["1e-3", "1e-6"]
)
def test_relu_pairs_close_and_hold(relu_pair: tuple[Network, Network], goal: Goal, side: float) -> None:
    domain = cube(4, side)
    found = pairwise_disagreement_threshold(*relu_pair, domain, goal=goal, backend=Engine("cpu"))
    assert found.status is Status.EXACT
    assert goal.reached(found.lower, found.upper)
    assert sampled(relu_pair, domain) <= found.upper
    assert found.outputs is not None
    assert L1()(*found.outputs) >= found.lower


@pytest.mark.skipif(NO_HIGHS, reason="needs highspy")
@pytest.mark.parametrize("relative", [1e-3, 1e-6])
def test_relu_pairs_as_highs_has_them(relu_pair: tuple[Network, Network], relative: float) -> None:
    query = L1().queries(*relu_pair, cube(4, 0.2))[0][0]
    goal = Goal(0.0, relative, time_limit=20)
    ours, theirs = Engine("cpu").answer(query, goal), Milp("highs").answer(query, Goal(1e-4, time_limit=20))
    check_answer(query, ours, goal, np.random.default_rng(0))
    assert ours.status is Status.EXACT
    assert theirs.status is Status.EXACT
    assert overlap(ours, theirs, 2e-6)


def test_tanh_pairs_hold_and_close(tanh_pair: tuple[Network, Network]) -> None:
    domain, goal = cube(3, 0.3), Goal(0.05, time_limit=15)
    query = L1().queries(*tanh_pair, domain)[0][0]
    found = Engine("cpu").answer(query, goal)
    check_answer(query, found, goal, np.random.default_rng(0))
    assert found.status is Status.EXACT


def test_deep_pairs_hold(deep_pair: tuple[Network, Network]) -> None:
    """Six hidden layers: on a small box they close, on the whole one the interval holds."""
    for side, goal in ((0.05, Goal(0.0, 1e-3, time_limit=20)), (1.0, Goal(1e-3, time_limit=1.0))):
        query = L1().queries(*deep_pair, cube(5, side))[0][0]
        found = Engine("cpu").answer(query, goal)
        check_answer(query, found, goal, np.random.default_rng(0))
        assert found.witness is not None
        assert side == 1.0 or found.status is Status.EXACT


@pytest.mark.parametrize("names", [("a", "b"), ("a", "c"), ("b", "c")])
@pytest.mark.parametrize("where", ["seen.toml", "domain.toml"])
def test_the_examples(names: tuple[str, str], where: str) -> None:
    first, second = (load(EXAMPLES / f"product_{name}.onnx") for name in names)
    domain = load_domain(EXAMPLES / where)
    goal = Goal(0.0, 1e-6, time_limit=20)
    found = pairwise_disagreement_threshold(first, second, domain, goal=goal, backend=Engine("cpu"))
    assert found.status is Status.EXACT
    assert sampled((first, second), domain) <= found.upper
    assert found.witness is not None
    assert domain.contains(found.witness)
    if not NO_HIGHS:
        theirs = pairwise_disagreement_threshold(first, second, domain, goal=Goal(1e-5), backend=Milp("highs"))
        assert abs(theirs.lower - found.lower) <= 2e-6 * max(1.0, found.lower) + 1e-5
