"""Aurora against an event heap in exact arithmetic, packet for packet, and its scenarios against their description."""

from __future__ import annotations

import math

import numpy as np
import pytest
from event_heap import compare, uniform

from karenina.errors import InputError
from karenina.zoo.environments.aurora import PRESETS, Aurora, Parameters
from karenina.zoo.environments.random_numbers import episode_seeds
from karenina.zoo.environments.simulator import Array, simulator


def actions(steps: int, count: int, size: float, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, size, (steps, count))


@pytest.mark.parametrize("size", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("preset", ["in-distribution", "ood"])
def test_packet_for_packet_as_an_event_heap(preset: str, size: float) -> None:
    counts = compare(PRESETS[preset], range(4), actions(10, 4, size))
    assert counts.sum() > 3000


def test_packet_for_packet_when_nothing_ever_queues() -> None:
    """Round-trip times are then all equal, and the end of an interval falls exactly on a packet's arrival."""
    calm = Parameters(rate_ratio=(0.3, 0.6), rate_cap=100.0, loss=(0.0, 0.0))
    compare(calm, range(10), np.zeros((20, 10)))


def test_packet_for_packet_at_high_rates() -> None:
    wild = PRESETS["ood"].replace(rate_ratio=(100.0, 200.0), latency=(0.05, 0.06))
    counts = compare(wild, range(1), actions(4, 1, 10.0))
    assert counts[:, 0].mean() > 1000


def test_packet_for_packet_with_a_queue_of_one_and_heavy_loss() -> None:
    shallow = Parameters(queue_exponent=(0.0, 0.0), shallow_buffer=0.0, loss=(0.3, 0.6), rate_ratio=(0.5, 4.0))
    compare(shallow, range(4), actions(10, 4, 10.0))


def test_packet_for_packet_while_nothing_is_acked() -> None:
    """All packets are lost: the interval keeps its length, and the observation stays as it was."""
    counts = compare(Parameters(loss=(1.0, 1.0)), range(3), actions(10, 3, 5.0))
    assert counts[:, 1].sum() == 0


def test_the_room_for_packets_in_flight_grows() -> None:
    """A long queue holds thousands: the same episode alone and beside others, whose needs differ."""
    deep = Parameters(queue_exponent=(7.0, 8.0), rate_ratio=(1.5, 1.5))
    counts = compare(deep, range(1), np.full((6, 1), 20.0))
    assert counts[:, 0].sum() > 1000


def test_features_stay_inside_the_declared_space() -> None:
    for preset, size in (("in-distribution", 5.0), ("ood", 20.0)):
        many = simulator("aurora", preset, 200)
        for row in actions(60, 200, size):
            seen = many.step(row[:, None]).observations
            assert (seen >= many.observation_low).all()
            assert (seen <= many.observation_high).all()


@pytest.mark.parametrize("preset", list(PRESETS))
def test_scenarios_stay_in_their_ranges(preset: str) -> None:
    own = PRESETS[preset]
    many = Aurora(own, 3000)
    many.reset(episode_seeds(1, 3000))
    ratio = many.rates / many.links.bandwidth
    for values, (low, high) in (
        (many.links.bandwidth, own.bandwidth),
        (many.links.latency, own.latency),
        (many.links.loss, own.loss),
        (ratio, own.rate_ratio),
    ):
        assert low - 1e-12 <= values.min() <= values.max() <= high + 1e-12
        if own.mean_position is None:
            assert values.mean() == pytest.approx((low + high) / 2, abs=5 * (high - low) / math.sqrt(12 * 3000) + 1e-12)
    packets = many.links.queue * many.links.bandwidth
    np.testing.assert_allclose(packets, np.round(packets), atol=1e-9)
    if own.shallow_buffer is not None:
        np.testing.assert_array_equal(np.round(packets), np.floor(0.01 * many.links.bandwidth * many.links.latency + 1))


@pytest.mark.parametrize("position", [0.3, 0.8])
def test_truncated_normal_draws_have_the_moments_of_their_density(position: float) -> None:
    count = 20_000
    many = Aurora(PRESETS["ood"].replace(mean_position=position), count)
    many.reset(episode_seeds(2, count))
    for values, low, high in (
        (many.links.bandwidth, 400.0, 500.0),
        (many.links.latency, 0.4, 0.5),
        (many.rates / many.links.bandwidth, 2.0, 8.0),
    ):
        grid = np.linspace(low, high, 20_001)
        density = np.exp(-0.5 * (grid - (position * high + (1 - position) * low)) ** 2 / ((high - low) / 4))
        density /= density.sum()
        expected = (density * grid).sum()
        spread = math.sqrt((density * (grid - expected) ** 2).sum())
        assert values.mean() == pytest.approx(expected, abs=5 * spread / math.sqrt(count))
        assert values.std() == pytest.approx(spread, rel=0.05)


def test_a_sender_that_does_nothing_scores_98_out_of_distribution() -> None:
    """The figure of the original's simulation, which makes 99 a meaningful threshold."""
    many = simulator("aurora_short", "ood", 4000)
    many.reset(episode_seeds(3, 4000))
    total = sum(many.step(np.zeros((4000, 1))).rewards for _ in range(50))
    assert np.mean(total) == pytest.approx(98.5, abs=1.5)


def test_the_rate_follows_the_action_between_floor_and_cap() -> None:
    one = Aurora(Parameters(rate_ratio=(1.0, 1.0), bandwidth=(200.0, 200.0)), 1)
    rate = 200.0
    for action in (1.0, -1.0, 4.0, -4.0, 0.0):
        rate = rate * (1 + 0.025 * action) if action >= 0 else rate / (1 - 0.025 * action)
        one.step(np.array([[action]]))
        assert one.rates[0] == pytest.approx(rate)
    one.step(np.array([[1e12]]))
    assert one.rates[0] == 1000.0
    one.step(np.array([[-1e12]]))
    assert one.rates[0] == 40.0


def test_random_numbers_are_splitmix64() -> None:
    many = Aurora(Parameters(), 3)
    seeds = np.array([0, 1, 2**64 - 1], np.uint64)
    many.reset(seeds)
    expected = [100 + 400 * uniform(int(seed), 1, 0) for seed in seeds]
    np.testing.assert_allclose(many.links.bandwidth, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"bandwidth": (500.0, 100.0)}, "bandwidth"),
        ({"latency": (0.0, 0.5)}, "latency"),
        ({"loss": (0.0, 1.5)}, "probability"),
        ({"rate_floor": 2000.0}, "rate_cap"),
        ({"mean_position": 3.0}, "mean_position"),
        ({"shallow_buffer": -1.0}, "shallow_buffer"),
        ({"history": 0}, "history"),
        ({"bandwith": (1.0, 2.0)}, "bandwidth"),
    ],
)
def test_wrong_parameters_are_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Parameters().replace(**changes)
