"""How good policies are in simulation, in and out of distribution.

Enters: policies as networks, a benchmark, presets, a number of episodes, a seed. Leaves: for every policy and preset
the mean and the spread of the undiscounted reward of an episode, and whether the benchmark calls that good. Every
policy plays the same scenarios; how many processes do the work changes nothing.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np
import torch

from karenina.errors import InputError
from karenina.network import Network
from karenina.zoo.environments.benchmark import Benchmark, benchmark_named
from karenina.zoo.environments.random_numbers import episode_seeds
from karenina.zoo.environments.simulator import Array, Parameters, Simulator

__all__ = ["Evaluation", "Rewards", "evaluate", "total_rewards"]

_AT_ONCE = 1024  # episodes simulated side by side: enough to be fast, few enough that Aurora's queues fit in memory


@dataclass(frozen=True)
class Rewards:
    """The reward of an episode of one policy in one preset, over all episodes."""

    mean: float
    std: float
    standard_error: float  # of the mean
    good: bool


@dataclass(frozen=True)
class Evaluation:
    """What was asked, and the rewards: policy -> preset -> rewards."""

    benchmark: Benchmark
    presets: Mapping[str, Parameters]
    episodes: int
    seed: int
    models: Mapping[str, Mapping[str, Rewards]]


Told = Callable[[int, int], None]  # how many of how many are done


def evaluate(
    policies: Mapping[str, Network],
    benchmark: str,
    presets: Sequence[str] = (),
    *,
    episodes: int = 20_000,
    seed: int = 0,
    jobs: int = 1,
    changes: Mapping[str, object] | None = None,
    executed: bool = False,
    progress: Told | None = None,
) -> Evaluation:
    """Play every preset (all of the benchmark's, if none is named) with every policy.

    changes: parameters of the environment that differ from the presets. executed: the networks' outputs are the
    actions themselves, also where the benchmark's policies are squashed afterwards.
    """
    judged = benchmark_named(benchmark)
    if episodes < 1 or jobs < 1:
        raise InputError(f"an evaluation needs at least one episode and one process, not {episodes} and {jobs}")
    chosen = {preset: judged.parameters(preset, **(changes or {})) for preset in presets or judged.presets}
    tasks = [
        _Task(name, network, judged, preset, own, episodes, seed, executed)
        for name, network in policies.items()
        for preset, own in chosen.items()
    ]
    for task in tasks[:: len(chosen)]:
        task.check()
    found: dict[str, dict[str, Rewards]] = {name: {} for name in policies}
    for done, (task, rewards) in enumerate(_played(tasks, jobs), start=1):
        found[task.name][task.preset] = rewards
        if progress is not None:
            progress(done, len(tasks))
    models = {name: {preset: rewards[preset] for preset in chosen} for name, rewards in found.items()}
    return Evaluation(judged, chosen, episodes, seed, models)


@dataclass(frozen=True, eq=False)
class _Task:
    """One policy in one preset."""

    name: str
    network: Network
    benchmark: Benchmark
    preset: str
    parameters: Parameters
    episodes: int
    seed: int
    executed: bool

    def check(self) -> None:
        """Refuse a network that does not fit the environment."""
        fits = self.parameters.simulator(1)
        sizes = (self.network.input_size, self.network.output_size)
        outputs = fits.choices or fits.action_size
        if sizes != (fits.observation_size, outputs):
            expected = f"{fits.observation_size} inputs and {outputs} output(s)"
            raise InputError(
                f"{self.name}: a policy of {self.benchmark.name} has {expected}, not {sizes[0]} and {sizes[1]}"
            )

    def play(self) -> Rewards:
        totals = total_rewards(self._policy, self.parameters, self.episodes, self.seed)
        std = float(totals.std(ddof=1)) if self.episodes > 1 else 0.0
        mean = float(totals.mean())
        return Rewards(mean, std, std / math.sqrt(self.episodes), mean > self.benchmark.threshold)

    def _policy(self, observations: Array, simulator: Simulator) -> Array:
        outputs = self.network(observations)
        return outputs if self.executed else self.benchmark.actions(outputs, simulator)


def total_rewards(policy: Callable[[Array, Simulator], Array], own: Parameters, episodes: int, seed: int) -> Array:
    """The undiscounted reward of each episode: (episodes,)."""
    totals = np.empty(episodes)
    simulator = own.simulator(min(_AT_ONCE, episodes))
    for first in range(0, episodes, simulator.count):
        seeds = episode_seeds(seed, simulator.count, first)  # the last round may play some too many
        totals[first : first + simulator.count] = _play(policy, simulator, seeds)[: episodes - first]
    return totals


def _play(policy: Callable[[Array, Simulator], Array], simulator: Simulator, seeds: np.ndarray) -> Array:
    """Total rewards of a simulator's episodes; the policy is asked only about those that go on."""
    observations = simulator.reset(seeds)
    totals = np.zeros(simulator.count)
    actions = np.zeros((simulator.count, simulator.action_size))
    running = np.arange(simulator.count)
    while len(running):
        actions[running] = policy(observations[running], simulator)
        step = simulator.step(actions)
        observations = step.observations
        totals += step.rewards
        running = np.flatnonzero(~step.finished)
    return totals


def _played(tasks: Sequence[_Task], jobs: int) -> Iterator[tuple[_Task, Rewards]]:
    if jobs == 1 or len(tasks) < 2:
        yield from _in_turn(tasks)
        return
    fresh = multiprocessing.get_context("spawn")  # a forked torch may wait for ever
    with ProcessPoolExecutor(min(jobs, len(tasks)), fresh, _one_thread) as pool:
        waiting = {pool.submit(task.play): task for task in tasks}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _in_turn(tasks: Iterable[_Task]) -> Iterator[tuple[_Task, Rewards]]:
    threads = torch.get_num_threads()
    try:
        _one_thread()
        for task in tasks:
            yield task, task.play()
    finally:
        torch.set_num_threads(threads)


def _one_thread() -> None:
    """Faster on products this small, and rounded the same everywhere."""
    torch.set_num_threads(1)
