"""Aurora against the event heap in many more scenarios, and over whole episodes."""

from __future__ import annotations

import numpy as np
import pytest
from event_heap import compare

from karenina.zoo.environments.aurora import PRESETS, Parameters

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("preset", ["in-distribution", "ood"])
def test_whole_episodes_packet_for_packet(preset: str, size: float) -> None:
    actions = np.random.default_rng(1).normal(0, size, (50, 10))
    compare(PRESETS[preset], range(100, 110), actions)


def test_long_episodes_packet_for_packet() -> None:
    compare(Parameters(rate_ratio=(0.3, 1.2)), range(3), np.random.default_rng(2).normal(0, 2.0, (400, 3)))


def test_the_cap_packet_for_packet() -> None:
    counts = compare(PRESETS["ood"], range(1), np.full((6, 1), 200.0))
    assert counts[:, 0].max() > 40_000
