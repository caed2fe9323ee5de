"""One sender on one congested link, a monitor interval at a time: Aurora's network, compiled.

Enters: the link of every episode, what is in flight on it, and the new sending rates. Leaves: what the sender saw
in the interval, and the state after it.

No event heap. The queue drains in real time, so it is known by the one moment it will be empty at, and packets
leave it, reach the receiver and are reported back in the order they were sent. A packet sent at t leaves the queue
at max(t, empty), reaches the receiver one latency later and is reported after another, also if it was dropped.
So three streams, each in order, replace the heap: the sends, the arrivals and the reports. An interval runs until the
first event of any stream at or past its end; that one event still belongs to it.

What is in flight is a line of entries in order. Packets that find the queue full share the leaving time of the next
one that does not, and its entry, which counts them. So a sender at many times the bandwidth costs no more than one at
the bandwidth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from karenina.zoo.environments.compiling import compiled, inlined
from karenina.zoo.environments.random_numbers import unit
from karenina.zoo.environments.simulator import Array, Flags, Seeds

__all__ = ["Flight", "Interval", "Links", "grown", "run"]

Integers = npt.NDArray[np.int64]
_NO_ACK = -1.0  # instead of a waiting time: all packets of the entry were lost


class Links(NamedTuple):
    """The network of every episode, fixed while the episode lasts; all (count,)."""

    bandwidth: Array  # packets a second
    latency: Array  # seconds, one way
    queue: Array  # seconds it takes to drain the full queue
    loss: Array  # probability of random loss
    keys: Seeds  # of the random losses


class Flight(NamedTuple):
    """Where every episode stands; (count,), but for the entries.

    Entries head to tail are in flight: first `lost` packets, then one that is acked after it waited in the queue.
    """

    now: Array
    empty: Array  # when the queue will be empty if nothing more is sent
    next_send: Array
    rate: Array  # packets a second
    sent: Integers  # packets since the beginning
    head: Integers
    tail: Integers
    leaving: Array  # (count, capacity): when the packets leave the queue
    waited: Array  # (count, capacity)
    lost: npt.NDArray[np.int32]  # (count, capacity)


class Interval(NamedTuple):
    """What the sender saw in one monitor interval; all (count,)."""

    duration: Array
    sent: Integers
    acked: Integers
    lost: Integers
    average: Array  # round-trip time; 0 if nothing was acked
    increase: Array  # mean round-trip time of the second half less that of the first


@inlined
def _first_at(base: float, gap: float, rate: float, time: float) -> int:
    """The first n >= 0 with base + n * gap >= time, exactly so in floating point: the guess is corrected."""
    n = max(math.ceil((time - base) * rate), 0)
    while n > 0 and base + (n - 1) * gap >= time:
        n -= 1
    while base + n * gap < time:
        n += 1
    return n


@inlined
def _first_with_room(base: float, gap: float, full: float, room: float, guess: int, n: int, last: int) -> int:
    """The first packet after the n-th, at most the last, that waits no longer than there is room for.

    full: when the queue is empty; room: the longest waiting time of a packet that is let in. The guess is corrected.
    """
    m = min(max(guess, n + 1), last)
    while m > n + 1 and full - (base + (m - 1) * gap) <= room:
        m -= 1
    while m < last and full - (base + m * gap) > room:
        m += 1
    return m


@compiled
def _send(k: int, links: Links, flight: Flight, rate: float, count: int, spare: int) -> bool:
    """Send the next `count` packets of episode k; False, with nothing changed, if that leaves too few spare entries."""
    leaving, waited, lost = flight.leaving[k], flight.waited[k], flight.lost[k]
    tail, empty, base, gap = flight.tail[k], flight.empty[k], flight.next_send[k], 1.0 / rate
    service, loss, key, first = 1.0 / links.bandwidth[k], links.loss[k], links.keys[k], flight.sent[k]
    room = links.queue[k] - service
    newest = max(tail - 1, 0)  # the one older entry that may take more packets
    newest_waited, newest_lost = waited[newest], lost[newest]
    is_open = tail > flight.head[k] and newest_waited == _NO_ACK
    n, dropped = 0, 0
    while n < count:
        time = base + n * gap
        leaves = max(empty, time)
        if not is_open or leaving[tail - 1] != leaves:
            if tail + spare >= len(leaving):
                waited[newest], lost[newest] = newest_waited, newest_lost
                return False
            leaving[tail], waited[tail], lost[tail] = leaves, _NO_ACK, 0
            tail += 1
            is_open = True
        if leaves - time > room:
            # As many as last time, give or take one; that guess is faster than its calculation.
            guess = n + dropped if dropped > 0 else math.ceil((empty - room - base) * rate)
            m = _first_with_room(base, gap, empty, room, guess, n, count)
            dropped = m - n
            lost[tail - 1] += dropped
            n = m
            continue
        if loss > 0.0 and unit(key, first + n) < loss:
            lost[tail - 1] += 1
        else:
            waited[tail - 1] = leaves - time
            empty = leaves + service
            is_open = False
        n += 1
    flight.tail[k], flight.empty[k] = tail, empty
    flight.next_send[k] = base + count * gap
    flight.sent[k] += count
    return True


@inlined
def _first_past(leaving: Array, first: int, last: int, latency: float, hops: int, end: float) -> int:
    """The first of the entries, which are in order, that has travelled its hops at or past the end."""
    while first < last:
        middle = (first + last) // 2
        time = leaving[middle] + latency
        if hops == 2:
            time += latency
        if time < end:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def _sum(samples: Array, first: int, last: int) -> float:
    total = 0.0
    for i in range(first, last):
        total += samples[i]
    return total


@inlined
def _summarise(k: int, seen: Interval, latency: float, acked: int, samples: Array) -> None:
    """Means of the waiting times; the way there and back is added once, so that no queue means exactly no wait.

    Without a queue an interval's end falls exactly on a packet's arrival, and rounding must not decide on which side.
    """
    half = acked // 2
    earlier, later = _sum(samples, 0, half), _sum(samples, half, acked)
    seen.average[k] = 2.0 * latency + (earlier + later) / acked if acked > 0 else 0.0
    seen.increase[k] = later / (acked - half) - earlier / half if half > 0 else 0.0


@compiled
def _receive(k: int, latency: float, flight: Flight, end: float, seen: Interval, samples: Array) -> float:
    """Take the reports before the end, and the one event at or past it; returns when that was.

    The next send is past the end already. If it is the event, it is still to be sent.
    """
    leaving, waited, lost = flight.leaving[k], flight.waited[k], flight.lost[k]
    head, tail = flight.head[k], flight.tail[k]
    reported = _first_past(leaving, head, tail, latency, 2, end)
    arrived = _first_past(leaving, reported, tail, latency, 1, end)
    acked, losses = 0, 0
    for i in range(head, reported):
        losses += lost[i]
        samples[acked] = waited[i]
        acked += waited[i] != _NO_ACK
    report = leaving[reported] + latency + latency if reported < tail else math.inf
    arrival = leaving[arrived] + latency if arrived < tail else math.inf
    if report < min(arrival, flight.next_send[k]):
        if lost[reported] > 0:
            lost[reported] -= 1
            losses += 1
            reported += lost[reported] == 0 and waited[reported] == _NO_ACK
        else:
            samples[acked] = waited[reported]
            acked += 1
            reported += 1
    flight.head[k] = reported
    seen.acked[k], seen.lost[k] = acked, losses
    _summarise(k, seen, latency, acked, samples)
    return float(min(report, arrival, flight.next_send[k]))


@inlined
def _move_to_front(k: int, flight: Flight) -> None:
    """Entries in flight to the front of their line, once as many before them are done with."""
    head, tail = flight.head[k], flight.tail[k]
    if head >= tail - head:
        for i in range(head, tail):
            flight.leaving[k, i - head] = flight.leaving[k, i]
            flight.waited[k, i - head] = flight.waited[k, i]
            flight.lost[k, i - head] = flight.lost[k, i]
        flight.head[k], flight.tail[k] = 0, tail - head


@compiled
def run(first: int, active: Flags, rates: Array, durations: Array, links: Links, flight: Flight, seen: Interval) -> int:
    """One monitor interval of the active episodes from the first on; the first one with too few entries.

    That episode is untouched: give it more and go on with it. All done: the number of episodes.
    """
    samples = np.empty(flight.leaving.shape[1] + 1)
    for k in range(first, len(active)):
        if not active[k]:
            continue
        _move_to_front(k, flight)
        start, rate = flight.now[k], rates[k]
        end = start + durations[k]
        count = _first_at(flight.next_send[k], 1.0 / rate, rate, end)
        if not _send(k, links, flight, rate, count, 1):
            return k
        flight.rate[k] = rate
        now = _receive(k, links.latency[k], flight, end, seen, samples)
        if now == flight.next_send[k]:
            _send(k, links, flight, rate, 1, 0)
            count += 1
        flight.now[k] = now
        seen.duration[k], seen.sent[k] = now - start, count
    return len(active)


def grown(flight: Flight) -> Flight:
    """The same flight with room for twice as many entries."""
    twice = {name: np.concatenate([old, np.zeros_like(old)], 1) for name, old in _entries(flight).items()}
    return flight._replace(**twice)


def _entries(flight: Flight) -> dict[str, npt.NDArray[np.generic]]:
    return {name: array for name, array in flight._asdict().items() if array.ndim == 2}
