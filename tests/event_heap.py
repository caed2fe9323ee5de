"""Aurora as an event heap in exact arithmetic, written from its description: what the fast simulation must equal.

Every time is a whole multiple of 2^-120 s, as all floating-point numbers that occur are; so nothing is rounded.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from karenina.zoo.environments.aurora import Aurora, Parameters
from karenina.zoo.environments.simulator import Array

__all__ = ["HeapEpisode", "HeapNetwork", "compare", "heap_episode", "uniform"]

UNIT = 2**120
SEND, ARRIVE, REPORT = "send", "arrive", "report"


def exact(seconds: float) -> int:
    """In units of 2^-120 s."""
    numerator, denominator = seconds.as_integer_ratio()
    assert UNIT % denominator == 0
    return numerator * (UNIT // denominator)


def seconds(units: int | Fraction) -> Fraction:
    return Fraction(units) / UNIT


@dataclass
class HeapNetwork:
    """One sender and one link, an event at a time. Times in units."""

    bandwidth: float
    latency: float
    queue_packets: int
    rate: float
    lost_at_random: Callable[[int], bool]
    now: int = 0
    queue_delay: int = 0
    queue_time: int = 0
    events: list[tuple[int, int, str, int, bool]] = field(default_factory=list)
    packets: Iterator[int] = field(default_factory=itertools.count)
    order: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.push(exact(1 / self.rate), SEND)

    def push(self, time: int, kind: str, rtt: int = 0, dropped: bool = False) -> None:
        heapq.heappush(self.events, (time, next(self.order), kind, rtt, dropped))

    def enter(self) -> None:
        """A packet enters the link: dropped by chance, or because the queue is full."""
        number = next(self.packets)
        self.queue_delay = max(0, self.queue_delay - (self.now - self.queue_time))
        self.queue_time = self.now
        waits, service = self.queue_delay, exact(1 / self.bandwidth)
        dropped = self.lost_at_random(number) or waits + service > self.queue_packets * service
        if not dropped:
            self.queue_delay += service
        self.push(self.now + waits + exact(self.latency), ARRIVE, waits + 2 * exact(self.latency), dropped)

    def run(self, duration: Fraction) -> tuple[int, int, int, list[int]]:
        """Until the first event at or past the end: duration, packets sent, packets lost, round-trip times of acks."""
        start, sent, lost = self.now, 0, 0
        end = start + math.ceil(duration)  # times are whole: this is the same end
        rtts: list[int] = []
        while self.now < end:
            self.now, _, kind, rtt, dropped = heapq.heappop(self.events)
            if kind == SEND:
                sent += 1
                self.push(self.now + exact(1 / self.rate), SEND)
                self.enter()
            elif kind == ARRIVE:
                self.push(self.now + exact(self.latency), REPORT, rtt, dropped)
            elif dropped:
                lost += 1
            else:
                rtts.append(rtt)
        return self.now - start, sent, lost, rtts


def mean(values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))


class HeapEpisode:
    """What a policy sees of a `HeapNetwork`."""

    def __init__(self, network: HeapNetwork, floor: float, cap: float) -> None:
        self.network, self.floor, self.cap = network, floor, cap
        self.duration = Fraction(3 * exact(network.latency))
        self.smallest: Fraction | None = None
        self.history = [[0.0, 1.0, 1.0] for _ in range(10)]

    def step(self, action: float) -> dict[str, Any]:
        delta = 0.025 * action
        rate = self.network.rate * (1 + delta) if delta >= 0 else self.network.rate / (1 - delta)
        self.network.rate = min(max(rate, self.floor), self.cap)
        duration, sent, lost, rtts = self.network.run(self.duration)
        acked, half = len(rtts), len(rtts) // 2
        average = mean(rtts) if rtts else Fraction(0)
        increase = mean(rtts[half:]) - mean(rtts[:half]) if half else Fraction(0)
        ratio = Fraction(1)
        if rtts:
            self.duration = average / 2
            self.smallest = average if self.smallest is None else min(self.smallest, average)
            ratio = average / self.smallest
        lasted, rtt = seconds(duration), seconds(average)
        receive, send = 8 * (acked - 1) * 1500 / lasted, 8 * sent * 1500 / lasted
        sending = send / receive if receive > 0 and send < 1000 * receive else Fraction(1)
        self.history = [*self.history[1:], [float(increase / duration), float(ratio), float(sending)]]
        loss = Fraction(lost, lost + acked) if lost + acked else Fraction(0)
        reward = Fraction(1, 100) * (acked - 1) / lasted - rtt - 2 * loss
        return {"duration": lasted, "sent": sent, "acked": acked, "lost": lost, "average": rtt, "reward": reward}


def mixed(word: int) -> int:
    """The output function of splitmix64."""
    word %= 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def uniform(seed: int, stream: int, counter: int) -> float:
    """A number of a stream of an episode's random numbers."""
    step = 0x9E3779B97F4A7C15
    return (mixed(mixed(mixed(seed + step) + stream * step) + counter * step) >> 11) / 2**53


def heap_episode(parameters: Parameters, seed: int) -> HeapEpisode:
    """The scenario of a seed, drawn here by the rules of its description."""

    def draw(stream: int, low: float, high: float) -> float:
        return low + uniform(seed, stream, 0) * (high - low)

    bandwidth, latency = draw(1, *parameters.bandwidth), draw(2, *parameters.latency)
    packets = 1 + int(math.exp(draw(3, *parameters.queue_exponent)))
    if parameters.shallow_buffer is not None:
        packets = math.floor(parameters.shallow_buffer * bandwidth * latency + 1)
    loss = draw(4, *parameters.loss)
    rate = draw(5, *parameters.rate_ratio) * bandwidth
    network = HeapNetwork(bandwidth, latency, packets, rate, lambda i: uniform(seed, 0, i) < loss)
    return HeapEpisode(network, parameters.rate_floor, parameters.rate_cap)


def compare(parameters: Parameters, seeds: range, actions: Array) -> np.ndarray[Any, Any]:
    """Every interval of every episode in both simulations; actions: (steps, episodes).

    Returns the packets sent, acked and lost: (steps, 3, episodes).
    """
    keys = np.array(seeds, np.uint64)
    fast = Aurora(parameters, len(keys))
    fast.reset(keys)
    slow = [heap_episode(parameters, seed) for seed in seeds]
    counts: list[list[Any]] = []
    for row in actions:
        step = fast.step(row[:, None])
        seen = fast.interval
        for k, episode in enumerate(slow):
            told = episode.step(float(row[k]))
            for name in ("sent", "acked", "lost"):
                assert getattr(seen, name)[k] == told[name], (name, k, len(counts))
            assert seen.duration[k] == pytest.approx(float(told["duration"]), abs=1e-10)
            assert seen.average[k] == pytest.approx(float(told["average"]), abs=1e-10)
            assert step.rewards[k] == pytest.approx(float(told["reward"]), abs=1e-8)
            np.testing.assert_allclose(step.observations[k], np.ravel(episode.history), atol=1e-8, rtol=1e-10)
        counts.append([seen.sent.copy(), seen.acked.copy(), seen.lost.copy()])
    return np.array(counts)
