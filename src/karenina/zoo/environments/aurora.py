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

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.zoo.environments.aurora_link import Flight, Interval, Links, grown, run
from karenina.zoo.environments.compiling import compiled, inlined
from karenina.zoo.environments.episodes import Episodes
from karenina.zoo.environments.random_numbers import key_of, unit
from karenina.zoo.environments.simulator import Array, Flags, Seeds, replaced

__all__ = ["FEATURES", "PRESETS", "Aurora", "Parameters"]

Range = tuple[float, float]
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
            low, high = getattr(self, name)
            if not 0 <= low <= high < math.inf:
                raise InputError(f"aurora: {name} is a pair 0 <= low <= high, not {(low, high)}")
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
        for name in ("rate_step", "action_bound", "history", "episode_steps"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"aurora: {name} must be positive, not {getattr(self, name)}")

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


@compiled
def _features(active: Flags, seen: Interval, smallest: Array, durations: Array, observations: Array) -> None:
    """Append each interval's features to its episode's history, and set how long the next interval is."""
    size = observations.shape[1]
    for k in range(len(active)):
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
        self.action_low, self.action_high = -parameters.action_bound, parameters.action_bound
        self._ranges = np.array([getattr(parameters, name) for name in _RANGES])  # (5, low and high)
        self._links, self._flight, self._seen = _nothing(count)
        self._smallest = np.full(count, np.inf)  # the smallest average round-trip time of any interval so far
        self._durations = np.zeros(count)  # of the next interval
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

    def _new_rates(self, actions: Array) -> Array:
        """A positive action multiplies the rate, a negative one divides it."""
        own = self.parameters
        delta = own.rate_step * np.clip(actions[:, 0], self.action_low, self.action_high)
        changed = np.where(delta >= 0, self._flight.rate * (1 + np.abs(delta)), self._flight.rate / (1 + np.abs(delta)))
        return np.asarray(np.clip(changed, own.rate_floor, own.rate_cap))

    def _advance(self, actions: Array) -> None:
        active = ~(self._terminated | self._truncated)
        rates, seen = self._new_rates(actions), self._seen
        first = 0
        while (first := run(first, active, rates, self._durations, self._links, self._flight, seen)) < self.count:
            self._flight = grown(self._flight)
        _features(active, seen, self._smallest, self._durations, self._observations)
        self._rewards[:] = np.where(active, self._weighed(seen), 0.0)
        self._steps[active] += 1
        self._truncated |= active & (self._steps >= self.parameters.episode_steps)

    def _weighed(self, seen: Interval) -> Array:
        own = self.parameters
        reports = seen.acked + seen.lost
        loss = np.divide(seen.lost, reports, out=np.zeros(self.count), where=reports > 0)
        throughput = (seen.acked - 1) / seen.duration
        delay = own.latency_weight * seen.average
        return np.asarray(own.throughput_weight * throughput - delay - own.loss_weight * loss)
