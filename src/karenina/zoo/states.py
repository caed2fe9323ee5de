"""Which observations policies meet in a preset: what the input domains of gymnasium's tasks are drawn around.

Enters: a benchmark's shipped policies (or a folder's), a preset. Leaves: the least and the greatest value of every
observation, and some quantiles, as a table.

    python -m karenina.zoo.states cartpole_discrete --preset ood [--models trained/cartpole_discrete]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from karenina.errors import InputError, KareninaError
from karenina.loading import load as load_network
from karenina.network import Network
from karenina.zoo.environments.benchmark import benchmark_named
from karenina.zoo.environments.random_numbers import episode_seeds
from karenina.zoo.environments.simulator import Array
from karenina.zoo.population import load

__all__ = ["main", "states"]

QUANTILES = (0.0, 0.005, 0.05, 0.5, 0.95, 0.995, 1.0)


def states(networks: Iterable[Network], benchmark: str, preset: str, episodes: int, seed: int = 0) -> Array:
    """All observations that the policies act on: (observations, observation_size)."""
    judged = benchmark_named(benchmark)
    seen = []
    for network in networks:
        simulator = judged.parameters(preset).simulator(episodes)
        observations = simulator.reset(episode_seeds(seed, episodes))
        running = np.ones(episodes, np.bool_)
        while running.any():
            seen.append(observations[running])
            step = simulator.step(judged.actions(network(observations), simulator))
            observations, running = step.observations, ~step.finished
    return np.concatenate(seen)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m karenina.zoo.states", description=__doc__.split("\n")[0])
    parser.add_argument("benchmark")
    parser.add_argument("--preset", default="ood")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--models", type=Path, help="a folder of policies; if none, all that ship")
    given = parser.parse_args(arguments)
    try:
        found = states(_networks(given.benchmark, given.models), given.benchmark, given.preset, given.episodes)
    except KareninaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{given.benchmark}, {given.preset}: {len(found)} observations")
    for quantile, row in zip(QUANTILES, np.quantile(found, QUANTILES, axis=0), strict=True):
        print(f"{quantile:6.1%}", *(f"{value:9.3f}" for value in row))
    return 0


def _networks(benchmark: str, folder: Path | None) -> list[Network]:
    if folder is None:
        return list(load(benchmark, everything=True).networks.values())
    paths = sorted(folder.glob("seed_*.onnx"))
    if not paths:
        raise InputError(f"{folder} holds no trained policies: seed_*.onnx are missing")
    return [load_network(path) for path in paths]


if __name__ == "__main__":
    sys.exit(main())
