"""Networks of Aurora's size by the thousand: 64 trained seeds, and 16 checkpoints of each training.

    python benchmarks/checkpoints.py [--seeds 64] [--checkpoints 16] [--jobs 2] [--out build/aurora_checkpoints.npz]

Trains the seeds of `aurora_short` by the zoo's recipe and keeps each policy at equal distances over the last half of
its training, the end included. The weights are float32, as they were trained; the file is too large to ship (6 MB),
and the same command makes it again. `checkpoint_networks` reads it: first the ends of all seeds, then checkpoints
between, those farthest from one another first: the first 64 are 64 seeds, and beyond, copies come ever nearer.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from karenina import Network
from karenina.network import RELU, Layer
from karenina.zoo import load

FILE = Path(__file__).parent.parent / "build" / "aurora_checkpoints.npz"
BENCHMARK = "aurora_short"
SIZES = (30, 32, 16, 1)
Floats = npt.NDArray[np.float32]
Averages = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--checkpoints", type=int, default=16, help="of each seed")
    parser.add_argument("--rollouts", type=int, help="of each training, instead of the recipe's: to try this out")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=FILE)
    arguments = parser.parse_args()
    start = time.perf_counter()
    seeds = trained_seeds()[: arguments.seeds]
    groups = [tuple(map(int, group)) for group in np.array_split(seeds, arguments.jobs)]
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        count = [arguments.checkpoints] * len(groups)
        found = list(pool.map(train_group, groups, count, [arguments.rollouts] * len(groups)))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    after = kept(arguments.rollouts or all_rollouts(), arguments.checkpoints)
    np.savez(arguments.out, seeds=np.array(seeds), actors=np.concatenate(found), rollouts=after)
    seconds = time.perf_counter() - start
    print(f"{arguments.out}: {len(seeds)} seeds, {arguments.checkpoints} checkpoints each, {seconds:.0f} s")
    print(f"of the ends {equal_to_shipped(arguments.out)} are the policies that ship, to the last bit")


def all_rollouts() -> int:
    from karenina.zoo.recipes import RECIPES

    return RECIPES[BENCHMARK].checkpoints * RECIPES[BENCHMARK].iterations


def trained_seeds() -> list[int]:
    """All 64 that were trained, those too that the filter on in-distribution reward took out."""
    manifest = json.loads((load(BENCHMARK).directory / "manifest.json").read_text())
    return sorted(int(name.removeprefix("seed_")) for name in (*manifest["policies"], *manifest["failed"]))


def kept(rollouts: int, count: int) -> npt.NDArray[np.int64]:
    """After which rollouts a policy is kept: equal distances over the last half, the end included."""
    return np.array([rollouts - rollouts // 2 + math.ceil(rollouts // 2 * k / count) for k in range(1, count + 1)])


def train_group(seeds: tuple[int, ...], count: int, rollouts: int | None) -> Floats:
    """(seeds, checkpoints, numbers): the actors' weights and biases, layer by layer."""
    from karenina.zoo import ppo
    from karenina.zoo.recipes import RECIPES

    torch.set_num_threads(1)
    recipe = RECIPES[BENCHMARK]
    settings = recipe.settings
    assert isinstance(settings, ppo.Settings)
    whole = rollouts or all_rollouts()
    wanted, parameters, found = set(kept(whole, count).tolist()), recipe.parameters(), list[torch.Tensor]()
    learners = ppo.Learners.start(seeds, parameters.simulator(1).observation_size, settings)
    part, done = 0, 0
    while done < whole:  # part by part as `karenina zoo train` does, with its random numbers
        first, here = done, min(recipe.iterations, whole - done)

        def keep(iteration: int, _: Averages, first: int = first) -> None:
            if first + iteration in wanted:
                found.append(learners.parameters[: len(seeds), : learners.shape.used - 1].clone())

        simulator = parameters.simulator(len(seeds) * settings.environments)
        ppo.train(learners, settings, simulator, here, part, report=keep)
        part, done = part + 1, done + here
        print(f"seeds {seeds[0]} ... {seeds[-1]}: {done} of {whole} rollouts", flush=True)
    actors: Floats = torch.stack(found, 1).numpy()
    return actors


def checkpoint_networks(count: int, file: Path = FILE) -> list[Network]:
    """The first networks of the file, in the order that the module's text names."""
    if not file.exists():
        raise SystemExit(f"{file} is not there: python benchmarks/checkpoints.py makes it")
    with np.load(file) as data:
        seeds, actors = data["seeds"].tolist(), data["actors"]
    places = [(seed, checkpoint) for checkpoint in spread(actors.shape[1]) for seed in range(len(seeds))]
    if count > len(places):
        raise SystemExit(f"{file} holds {len(places)} networks, fewer than {count}")
    return [network(actors[s, c], f"seed_{seeds[s]:03}-{c + 1:02}") for s, c in places[:count]]


def spread(count: int) -> list[int]:
    """0 ... count - 1, the last first, and then always halfway between those that were."""
    order, step = [count - 1], count
    while step > 1:
        step //= 2
        order += [k for k in range(count - 1 - step, -1, -step) if k not in order]
    return order + [k for k in range(count) if k not in order]


def network(numbers: Floats, name: str) -> Network:
    """A policy from its numbers."""
    layers, at = [], 0
    for k in range(len(SIZES) - 1):
        weights = SIZES[k] * SIZES[k + 1]
        weight = numbers[at : at + weights].reshape(SIZES[k + 1], SIZES[k])
        bias = numbers[at + weights : at + weights + SIZES[k + 1]]
        at += weights + SIZES[k + 1]
        layers.append(Layer.of(weight, bias, RELU) if k < len(SIZES) - 2 else Layer.of(weight, bias))
    return Network(tuple(layers), name)


def equal_to_shipped(file: Path) -> str:
    """How many of the last checkpoints are, number by number, the policies that ship."""
    shipped = load(BENCHMARK, everything=True).networks
    with np.load(file) as data:
        ends = {
            f"seed_{seed:03}": actor[-1] for seed, actor in zip(data["seeds"].tolist(), data["actors"], strict=True)
        }
    both = [name for name in ends if name in shipped]
    return f"{sum(network(ends[name], name).digest() == shipped[name].digest() for name in both)} of {len(both)}"


if __name__ == "__main__":
    main()
