"""Evaluation on several processes, which take seconds to start."""

from __future__ import annotations

import numpy as np
import pytest

from karenina.network import RELU, Layer, Network
from karenina.zoo.evaluation import evaluate

pytestmark = pytest.mark.slow


def network(seed: int) -> Network:
    generator = np.random.default_rng(seed)
    hidden = Layer.of(generator.normal(size=(8, 4)), generator.normal(size=8), RELU)
    return Network((hidden, Layer.of(generator.normal(size=(1, 8)), np.zeros(1))))


def test_processes_change_nothing() -> None:
    policies = {f"p{k}": network(k) for k in range(3)}
    calls: list[tuple[int, int]] = []
    one = evaluate(policies, "cartpole", ["ood"], episodes=3000)
    two = evaluate(policies, "cartpole", ["ood"], episodes=3000, jobs=2, progress=lambda *told: calls.append(told))
    assert one == two
    assert list(two.models) == ["p0", "p1", "p2"]
    assert calls == [(1, 3), (2, 3), (3, 3)]
