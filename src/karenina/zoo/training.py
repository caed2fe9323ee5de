"""Training populations: policies that differ in nothing but their seed.

Enters: a recipe, seeds, a folder. Leaves: a `TrainingFolder` with an ONNX actor and its provenance for every seed.

A training proceeds in parts, one a checkpoint. A part begins new episodes and draws its random numbers from the seed
and its own number, so a training that was interrupted goes on from its last checkpoint to the very networks it would
have reached at once. With the population trainer seeds are trained in groups, and groups in processes of their own;
what a seed learns depends on neither.
"""

from __future__ import annotations

import enum
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from karenina.engine.threads import one_torch_thread
from karenina.errors import InputError, MissingExtra
from karenina.network import RELU, Layer, Network
from karenina.zoo import ppo
from karenina.zoo.recipes import Recipe
from karenina.zoo.training_folder import Progress, TrainingFolder, seed_name

__all__ = ["Trainer", "actor", "groups", "say", "train_population"]

Say = Callable[[str], None]
_GROUP_SAMPLES = 8192  # of a minibatch of a group: beyond, the activations leave the cache and nothing is gained


class Trainer(enum.StrEnum):
    """Who trains: all seeds of a group at once, or Stable-Baselines3 one after the other."""

    POPULATION = "population"
    SB3 = "sb3"


def say(text: str) -> None:
    """A line of progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def train_population(
    recipe: Recipe,
    seeds: Sequence[int],
    out: str | Path,
    *,
    jobs: int = 1,
    device: str = "auto",
    trainer: str = Trainer.POPULATION,
    resume: bool = False,
    progress: Say = say,
) -> TrainingFolder:
    """Train a policy for every seed, `jobs` processes at a time, into the folder `out/benchmark`.

    Without `resume` a folder that holds anything of these seeds is refused; with it, finished seeds are left alone
    and interrupted ones go on from their last checkpoint.
    """
    chosen = _trainer(recipe, trainer)
    folder = TrainingFolder(Path(out) / recipe.benchmark, {**recipe.described(), "trainer": chosen.value})
    _check(folder, seeds, jobs, resume)
    left = [seed for seed in seeds if not folder.finished(seed)]
    tasks = [_Task(recipe, folder, group, _device(device), chosen) for group in groups(left, recipe, chosen, jobs)]
    progress(f"{recipe.benchmark}: {len(seeds) - len(left)} of {len(seeds)} seeds are trained")
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            task(progress)
    else:
        _in_processes(tasks, jobs)
    return folder


def _trainer(recipe: Recipe, name: str) -> Trainer:
    """Only the paper's PPO has a population trainer; the others are Stable-Baselines3's in any case."""
    chosen = Trainer.SB3 if recipe.stock else Trainer(name)
    if chosen is Trainer.SB3 and importlib.util.find_spec("stable_baselines3") is None:
        raise MissingExtra("stable-baselines3", "zoo")
    return chosen


def _check(folder: TrainingFolder, seeds: Sequence[int], jobs: int, resume: bool) -> None:
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(f"seeds are different whole numbers, at least one, none negative, not {list(seeds)}")
    if jobs < 1:
        raise InputError(f"at least one job is needed, not {jobs}")
    begun = folder.begun(seeds)
    if begun and not resume:
        raise InputError(
            f"{folder.path} already holds {seed_name(begun[0])}: resume that training, or name another folder"
        )


def _device(name: str) -> str:
    """`auto` is the CPU, where the episodes are simulated in any case."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device is available: use the device cpu")
    return "cpu" if name == "auto" else name


def groups(seeds: Sequence[int], recipe: Recipe, trainer: Trainer, jobs: int) -> list[tuple[int, ...]]:
    """Seeds that are trained together: as many as are fast, but so that every job has some."""
    if trainer is Trainer.SB3 or not seeds:
        return [(seed,) for seed in seeds]
    largest = max(1, _GROUP_SAMPLES // recipe.settings.batch)
    count = max(min(jobs, len(seeds)), -(-len(seeds) // largest))
    count = -(-count // jobs) * jobs if len(seeds) >= jobs else count  # no job idles while another has two groups
    parts = np.array_split(np.array(seeds), min(count, len(seeds)))
    return [tuple(int(seed) for seed in part) for part in parts]


@dataclass(frozen=True)
class _Task:
    """The training of one group, in this process or another."""

    recipe: Recipe
    folder: TrainingFolder
    seeds: tuple[int, ...]
    device: str
    trainer: Trainer

    def __call__(self, progress: Say = say) -> None:
        with one_torch_thread():  # matrices this small gain nothing from more
            if self.trainer is Trainer.POPULATION:
                _train_group(self, progress)
            else:
                from karenina.zoo.stable_baselines import train_seed

                for seed in self.seeds:
                    train_seed(self.recipe, seed, self.folder, progress)


def _in_processes(tasks: Sequence[_Task], jobs: int) -> None:
    """Fresh processes: torch's threads do not survive a fork."""
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
        try:
            for done in as_completed([pool.submit(task) for task in tasks]):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def actor(learners: ppo.Learners, place: int) -> Network:
    """The policy at a place of the population: the mean of its actions, a ReLU network."""
    weights = learners.shape.views(learners.parameters)
    pairs = [(weights[2 * k][place].cpu(), weights[2 * k + 1][place].cpu()) for k in range(3)]
    hidden = [Layer.of(weight, bias, RELU) for weight, bias in pairs[:2]]
    return Network((*hidden, Layer.of(*pairs[2])), seed_name(learners.seeds[place]))


def _train_group(task: _Task, progress: Say) -> None:
    """Train the seeds of a group to the end: always those that are furthest behind, which after an interruption may
    be some of them only."""
    held = {seed: task.folder.resume(seed) for seed in task.seeds}
    while True:
        done = min(story.checkpoints for story, _ in held.values())
        if done == task.recipe.checkpoints:
            break
        behind = [seed for seed in task.seeds if held[seed][0].checkpoints == done]
        learners = _restored(behind, held, task)
        started = time.perf_counter()
        _train_part(task.recipe, learners, done, [held[seed][0] for seed in behind])
        seconds = (time.perf_counter() - started) / len(behind)
        for place, seed in enumerate(behind):
            story = held[seed][0]
            story.checkpoints, story.seconds = done + 1, story.seconds + seconds
            held[seed] = (story, _arrays(learners, place))
            task.folder.checkpoint(seed, story, actor(learners, place), held[seed][1])
        progress(_line(task.recipe, behind, [held[seed][0] for seed in behind]))
    learners = _restored(task.seeds, held, task)
    for place, seed in enumerate(task.seeds):
        notes = {"action": "the output, clipped to the action space", "device": task.device}
        task.folder.finish(seed, held[seed][0], actor(learners, place), notes)


def _line(recipe: Recipe, seeds: Sequence[int], stories: Sequence[Progress]) -> str:
    averages = [story.average for story in stories]
    who = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} ... {seeds[-1]} ({len(seeds)})"
    rewards = f"reward {min(averages):.1f} to {max(averages):.1f}, mean {np.mean(averages):.1f}"
    seconds = sum(story.seconds for story in stories)
    where = f"checkpoint {stories[0].checkpoints}/{recipe.checkpoints}"
    return f"{recipe.benchmark} {who}: {where}, {rewards}, {seconds:.0f} s"


def _train_part(recipe: Recipe, learners: ppo.Learners, part: int, stories: Sequence[Progress]) -> None:
    """One checkpoint's share of training; the curves of the seeds' stories grow."""
    settings = recipe.settings
    assert isinstance(settings, ppo.Settings)
    simulator = recipe.parameters().simulator(len(learners.seeds) * settings.environments)
    average = np.array([story.average for story in stories])

    def report(iteration: int, averages: npt.NDArray[np.float64]) -> None:
        for story, reward in zip(stories, averages, strict=True):
            story.steps.append((part * recipe.iterations + iteration) * settings.samples)
            story.rewards.append(float(reward))

    ppo.train(learners, settings, simulator, recipe.iterations, part, average, recipe.episode_weight, report)


_STATE = ("parameters", "first_moment", "second_moment")


def _arrays(learners: ppo.Learners, place: int) -> dict[str, npt.NDArray[Any]]:
    """A seed's networks and moments, (actor and critic, size) each."""
    count = len(learners.seeds)
    arrays = {name: getattr(learners, name)[[place, count + place]].cpu().numpy() for name in _STATE}
    return {**arrays, "minibatches": np.array(learners.minibatches)}


def _restored(
    seeds: Sequence[int], held: dict[int, tuple[Progress, dict[str, npt.NDArray[Any]]]], task: _Task
) -> ppo.Learners:
    """The population of some seeds as it was kept; a seed that was not is at its beginning."""
    settings = task.recipe.settings
    assert isinstance(settings, ppo.Settings)
    inputs = task.recipe.parameters().simulator(1).observation_size
    learners = ppo.Learners.start(seeds, inputs, settings, task.device)
    for place, seed in enumerate(seeds):
        arrays = held[seed][1]
        if arrays:
            rows = [place, len(seeds) + place]
            for name in _STATE:
                getattr(learners, name)[rows] = torch.from_numpy(arrays[name]).to(task.device)
            learners.minibatches = int(arrays["minibatches"])
    return learners
