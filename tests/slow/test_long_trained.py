"""More trained pairs, to a millionth, against a MILP solver: `make test-slow`."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest
import torch
from random_networks import check_answer, overlap
from torch import nn

from karenina.backends.milp import Milp
from karenina.distance import L1
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.loading import from_torch
from karenina.network import Network
from karenina.query import Goal, Status

pytestmark = pytest.mark.slow

NO_HIGHS = importlib.util.find_spec("highspy") is None
SHAPES = {"4-32-16-1": (4, 32, 16, 1), "2-64-16-1": (2, 64, 16, 1), "5-16-16-16-1": (5, 16, 16, 16, 1)}


def trained(seed: int, sizes: tuple[int, ...]) -> Network:
    """A ReLU network that has learnt sin(3 * sum) + product on [-1, 1]^n."""
    torch.manual_seed(seed)
    modules: list[nn.Module] = []
    for before, size in itertools.pairwise(sizes):
        modules += [nn.Linear(before, size), nn.ReLU()]
    model = nn.Sequential(*modules[:-1])
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(1500):
        x = 2 * torch.rand(256, sizes[0]) - 1
        loss = (model(x) - torch.sin(3 * x.sum(1, keepdim=True)) - x.prod(1, keepdim=True)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return from_torch(model)


@pytest.mark.parametrize("pair", [*itertools.combinations(range(3), 2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_trained_pairs_close_to_a_millionth(shape: str, pair: tuple[int, int]) -> None:
    sizes, side = SHAPES[shape], 0.5
    first, second = (trained(seed, sizes) for seed in pair)
    domain = Domain(Box(np.full(sizes[0], -side), np.full(sizes[0], side)))
    goal = Goal(0.0, 1e-6, time_limit=60)
    query = L1().queries(first, second, domain)[0][0]
    found = Engine("cpu").answer(query, goal)
    check_answer(query, found, goal, np.random.default_rng(0))
    if not NO_HIGHS:
        assert overlap(found, Milp("highs").answer(query, Goal(1e-4, time_limit=30)), 2e-6)
    assert found.status is Status.EXACT
