"""Random numbers that are functions of a seed and a counter: no state, so no order of events can change them.

Enters: an episode's seed. Leaves: a key, and from the key and a counter uniform numbers, compiled.
The generator is splitmix64: its output function applied to key + counter * odd constant.
"""

from __future__ import annotations

import numpy as np

from karenina.zoo.environments.compiling import compiled, inlined
from karenina.zoo.environments.simulator import Seeds

__all__ = ["episode_seeds", "key_of", "mix", "seeds_at", "unit"]

_STEP = np.uint64(0x9E3779B97F4A7C15)  # splitmix64's increment: 2^64 divided by the golden ratio
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inlined
def mix(word: np.uint64) -> np.uint64:
    """64 bits, each depending on all bits of the word."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@inlined
def key_of(seed: np.uint64, stream: int) -> np.uint64:
    """The key of one stream of random numbers of an episode; seeds that are neighbours have unrelated keys."""
    return mix(mix(seed + _STEP) + np.uint64(stream) * _STEP)


@inlined
def unit(key: np.uint64, counter: int) -> float:
    """The counter-th number of a stream, uniform in [0, 1)."""
    return float(mix(key + np.uint64(counter) * _STEP) >> _S11) * 2.0**-53


@compiled
def _seeds(seed: np.uint64, numbers: Seeds, seeds: Seeds) -> None:
    key = key_of(seed, 0)
    for k in range(len(seeds)):
        seeds[k] = mix(key + numbers[k] * _STEP)


def seeds_at(seed: int, numbers: Seeds) -> Seeds:
    """The seeds of the episodes with these numbers, of a run with this seed; any whole number is a seed."""
    seeds = np.empty(len(numbers), np.uint64)
    _seeds(np.uint64(seed % 2**64), numbers, seeds)
    return seeds


def episode_seeds(seed: int, count: int, first: int = 0) -> Seeds:
    """The seeds of episodes first ... first + count - 1 of a run with this seed."""
    return seeds_at(seed, np.arange(first, first + count, dtype=np.uint64))
