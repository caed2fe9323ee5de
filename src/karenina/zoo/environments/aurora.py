"""Aurora: congestion control of one sender on one link, after PCC-RL's PccNs-v0.

Enters: `Parameters` or the name of a preset. Leaves: a simulator of any number of episodes.
A step is a monitor interval. The action changes the sending rate; the observation is the last ten intervals, oldest
first, each with its latency gradient, latency ratio and sending ratio; the reward weighs throughput, latency and loss.

Unlike the original, everything is drawn from the episode's seed, an interval in which nothing was acked has latency
ratio 1 (not 0), and an episode begins without the two unrecorded warm-up intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.zoo.environments.aurora_link import Flight, Interval, Links, grown, run
from karenina.zoo.environments.compiling import compiled, inlined
from karenina.zoo.environments.episodes import Episodes
from karenina.zoo.environments.random_numbers import key_of, unit
from karenina.zoo.environments.simulator import Array, Flags, Seeds, replaced, require_positive

__all__ = ["FEATURES", "PRESETS", "Aurora", "Parameters"]

Range = tuple[float, float]
Ends = tuple[Flags, Flags, npt.NDArray[np.int64]]  # terminated, truncated, steps of every episode
FEATURES = ("latency gradient", "latency ratio", "sending ratio")
_RANGES = ("bandwidth", "latency", "queue_exponent", "loss", "rate_ratio")
_NO_CONGESTION = (0.0, 1.0, 1.0)  # the features of an interval of which nothing is known


@dataclass(frozen=True)
class Parameters:
    """All that defines the environment; packets and seconds."""

    bandwidth: Range = (100.0, 500.0)  # packets a second
    latency: Range = (0.05, 0.5)  # one way
    queue_exponent: Range = (0.0, 8.0)  # the queue holds 1 + int(exp(this)) packets
    shallow_buffer: float | None = None  # if given, floor(this * bandwidth * latency + 1) packets instead
    loss: Range = (0.0, 0.05)  # probability
    rate_ratio: Range = (0.3, 1.5)  # initial sending rate, as a multiple of the bandwidth
    # None draws all of the above uniformly. A number p draws them from a normal distribution truncated to the range,
    # around p * high + (1 - p) * low, with variance (high - low) / 4.
    mean_position: float | None = None
    rate_floor: float = 40.0
    rate_cap: float = 1000.0
    rate_step: float = 0.025  # relative change of the rate for an action of 1
    action_bound: float = 1e12
    history: int = 10
    episode_steps: int = 400
    throughput_weight: float = 0.01
    latency_weight: float = 1.0
    loss_weight: float = 2.0

    def __post_init__(self) -> None:
        for name in _RANGES:
            pair = getattr(self, name)
            if len(pair) != 2 or not 0 <= pair[0] <= pair[1] < math.inf:
                raise InputError(f"aurora: {name} is a pair 0 <= low <= high, not {pair}")
        for name in ("bandwidth", "latency", "rate_ratio"):
            if not getattr(self, name)[0] > 0:
                raise InputError(f"aurora: {name} must be positive, not {getattr(self, name)}")
        if self.loss[1] > 1:
            raise InputError(f"aurora: loss is a probability, not {self.loss}")
        if self.shallow_buffer is not None and not 0 <= self.shallow_buffer < math.inf:
            raise InputError(f"aurora: shallow_buffer must not be negative, but is {self.shallow_buffer}")
        if self.mean_position is not None and not 0 <= self.mean_position <= 1:
            raise InputError(f"aurora: mean_position lies between 0 and 1, not at {self.mean_position}")
        if not 0 < self.rate_floor <= self.rate_cap < math.inf:
            raise InputError(f"aurora: rate_floor {self.rate_floor} and rate_cap {self.rate_cap} must be in order")
        require_positive(self, "aurora", ("rate_step", "action_bound", "history", "episode_steps"))

    def replace(self, **changes: object) -> Parameters:
        """These parameters with some changed."""
        return replaced(self, "aurora", changes)

    def simulator(self, count: int) -> Aurora:
        return Aurora(self, count)


# The cap of the original, 1000 packets a second, is below most initial rates here: all policies would look alike.
_OOD = Parameters(
    bandwidth=(400.0, 500.0),
    latency=(0.4, 0.5),
    loss=(0.0, 0.0),
    shallow_buffer=0.01,
    rate_ratio=(2.0, 8.0),
    rate_cap=100_000.0,
)
PRESETS = {
    "in-distribution": Parameters(),
    "ood": _OOD,
    "ood-low-mean": _OOD.replace(mean_position=0.3),
    "ood-high-mean": _OOD.replace(mean_position=0.8),
}


@inlined
def _draw(key: np.uint64, low: float, high: float, position: float) -> float:
    """A number of the range: uniform if the position is NaN, else truncated normal, by rejection."""
    middle, variance = low + position * (high - low), (high - low) / 4.0
    counter = 0
    while True:
        value = low + unit(key, counter) * (high - low)
        if math.isnan(position) or high == low:
            return value
        if unit(key, counter + 1) <= math.exp(-0.5 * (value - middle) ** 2 / variance):
            return value
        counter += 2


@compiled
def _begin(
    seeds: Seeds, where: Flags, ranges: Array, position: float, shallow: float, links: Links, flight: Flight
) -> None:
    drawn = np.empty(len(ranges))
    for k in range(len(seeds)):
        if not where[k]:
            continue
        for i in range(len(ranges)):
            drawn[i] = _draw(key_of(seeds[k], i + 1), ranges[i, 0], ranges[i, 1], position)
        bandwidth, latency = drawn[0], drawn[1]
        packets = 1 + int(math.exp(drawn[2]))
        if not math.isnan(shallow):
            packets = math.floor(shallow * bandwidth * latency + 1.0)
        links.bandwidth[k], links.latency[k], links.loss[k] = bandwidth, latency, drawn[3]
        links.queue[k] = packets / bandwidth
        links.keys[k] = key_of(seeds[k], 0)
        flight.rate[k] = drawn[4] * bandwidth
        flight.now[k] = flight.empty[k] = 0.0
        flight.next_send[k] = 1.0 / flight.rate[k]
        flight.sent[k] = flight.head[k] = flight.tail[k] = 0


class _Terms(NamedTuple):
    """What the compiled step needs of the parameters."""

    action_low: float
    action_high: float
    rate_step: float
    rate_floor: float
    rate_cap: float
    throughput_weight: float
    latency_weight: float
    loss_weight: float
    episode_steps: int


@compiled
def _steer(actions: Array, terms: _Terms, ends: Ends, old: Array, active: Flags, rates: Array) -> None:
    """Who is still on the way, and the new rates: a positive action multiplies the rate, a negative one divides it."""
    terminated, truncated, _ = ends
    for k in range(len(actions)):
        active[k] = not (terminated[k] or truncated[k])
        delta = terms.rate_step * min(max(actions[k, 0], terms.action_low), terms.action_high)
        rate = old[k] * (1 + delta) if delta >= 0 else old[k] / (1 - delta)
        rates[k] = min(max(rate, terms.rate_floor), terms.rate_cap)


@inlined
def _reward(k: int, seen: Interval, terms: _Terms) -> float:
    acked, lost = seen.acked[k], seen.lost[k]
    loss = lost / (acked + lost) if acked + lost > 0 else 0.0
    throughput = (acked - 1) / seen.duration[k]
    delay = terms.latency_weight * seen.average[k]
    return float(terms.throughput_weight * throughput - delay - terms.loss_weight * loss)


@compiled
def _observe(
    active: Flags,
    seen: Interval,
    terms: _Terms,
    smallest: Array,
    durations: Array,
    observations: Array,
    rewards: Array,
    ends: Ends,
) -> None:
    """Append each interval's features to its episode's history, reward it, and say how long the next one is."""
    size = observations.shape[1]
    _, truncated, steps = ends
    for k in range(len(active)):
        rewards[k] = 0.0
        if not active[k]:
            continue
        for i in range(size - 3):
            observations[k, i] = observations[k, i + 3]
        average = seen.average[k]
        ratio = 1.0
        if seen.acked[k] > 0:
            smallest[k] = min(smallest[k], average)
            ratio = average / smallest[k]
            durations[k] = 0.5 * average
        receive, send = (seen.acked[k] - 1) / seen.duration[k], seen.sent[k] / seen.duration[k]
        observations[k, size - 3] = seen.increase[k] / seen.duration[k]
        observations[k, size - 2] = ratio
        observations[k, size - 1] = send / receive if receive > 0.0 and send < 1000.0 * receive else 1.0
        rewards[k] = _reward(k, seen, terms)
        steps[k] += 1
        truncated[k] = steps[k] >= terms.episode_steps


def _nothing(count: int) -> tuple[Links, Flight, Interval]:
    """Arrays for the networks, what is in flight and what was seen, to be filled."""

    def real() -> Array:
        return np.zeros(count)

    def whole() -> npt.NDArray[np.int64]:
        return np.zeros(count, np.int64)

    entries = (count, 128)  # grows when an episode needs more
    links = Links(real(), real(), real(), real(), np.zeros(count, np.uint64))
    line = (np.zeros(entries), np.zeros(entries), np.zeros(entries, np.int32))
    flight = Flight(real(), real(), real(), real(), whole(), whole(), whole(), *line)
    return links, flight, Interval(np.ones(count), whole(), whole(), whole(), real(), real())


class Aurora(Episodes):
    """Episodes of congestion control."""

    def __init__(self, parameters: Parameters, count: int) -> None:
        super().__init__(count, 3 * parameters.history, 1, parameters.episode_steps)
        self.parameters = parameters
        self.action_high = float(parameters.action_bound)
        self.action_low = -self.action_high
        self._ranges = np.array([getattr(parameters, name) for name in _RANGES], np.float64)  # (5, low and high)
        self._links, self._flight, self._seen = _nothing(count)
        self._smallest = np.full(count, np.inf)  # the smallest average round-trip time of any interval so far
        self._durations = np.zeros(count)  # of the next interval
        self._active = np.zeros(count, np.bool_)
        self._rates = np.zeros(count)  # of the coming interval
        own = {name: float(getattr(parameters, name)) for name in _Terms._fields[2:-1]}
        self._terms = _Terms(self.action_low, self.action_high, **own, episode_steps=int(parameters.episode_steps))
        self.reset(np.arange(count, dtype=np.uint64))

    @property
    def links(self) -> Links:
        """The network of every episode."""
        return self._links

    @property
    def interval(self) -> Interval:
        """What the senders saw in the last interval; overwritten by the next step."""
        return self._seen

    @property
    def rates(self) -> Array:
        """The sending rates, packets a second."""
        return self._flight.rate.copy()

    @property
    def observation_low(self) -> Array:
        return np.tile([-float(np.finfo(np.float32).max), 1.0, 0.0], self.parameters.history)

    @property
    def observation_high(self) -> Array:
        free = float(np.finfo(np.float32).max)
        return np.tile([free, free, 1000.0], self.parameters.history)

    def _begin(self, seeds: Seeds, where: Flags) -> None:
        position, shallow = self.parameters.mean_position, self.parameters.shallow_buffer
        choices = (math.nan if position is None else float(position), math.nan if shallow is None else float(shallow))
        _begin(seeds, where, self._ranges, *choices, self._links, self._flight)
        self._smallest[where] = np.inf
        self._durations[where] = 3.0 * self._links.latency[where]
        self._observations[where] = np.tile(_NO_CONGESTION, self.parameters.history)

    def _advance(self, actions: Array) -> None:
        ends = (self._terminated, self._truncated, self._steps)
        active, rates, seen = self._active, self._rates, self._seen
        _steer(actions, self._terms, ends, self._flight.rate, active, rates)
        first = 0
        while (first := run(first, active, rates, self._durations, self._links, self._flight, seen)) < self.count:
            self._flight = grown(self._flight)
        history = (self._smallest, self._durations, self._observations)
        _observe(active, seen, self._terms, *history, self._rewards, ends)
