"""Proximal policy optimisation of a whole population at once, as Stable-Baselines3's PPO does it for one policy.

Enters: seeds, a simulator with an equal share of episodes for every seed, settings. Leaves: trained parameters of
all seeds, and how their rewards grew. Reads from top to bottom: settings, parameters, rollout, advantages, update.

The actor and the critic of a seed have the same shape (one output each), so the population is a stack of 2 * seeds
networks: rows [:seeds] are the actors, rows [seeds:] the critics. All numbers of a network are one row of one
array; a minibatch of all seeds is a dozen batched matrix products, whose gradients are written out by hand.

Every seed has its own random numbers and episodes, so what it learns does not depend on the seeds beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from karenina.errors import InputError
from karenina.zoo.environments.compiling import compiled

if TYPE_CHECKING:
    from karenina.zoo.environments.simulator import Simulator

__all__ = [
    "Episodes",
    "Learners",
    "Rollout",
    "Settings",
    "Shape",
    "Update",
    "advantages",
    "collect",
    "train",
]

Floats = npt.NDArray[np.float32]
Compiled = tuple[Floats, Floats, Floats, Floats, Floats, Floats]


# ---- settings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The defaults of Stable-Baselines3, with the paper's hidden layers."""

    gamma: float = 0.99
    gae_lambda: float = 0.95
    steps: int = 2048  # of an environment between two updates
    environments: int = 1  # of a seed
    batch: int = 64
    epochs: int = 10
    learning_rate: float = 3e-4
    clip_range: float = 0.2
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.0
    largest_gradient: float = 0.5
    hidden: tuple[int, int] = (32, 16)
    bootstrap: bool = True  # an episode cut by its time limit is worth what the critic expects after it; else nothing

    def __post_init__(self) -> None:
        if min(self.steps, self.environments, self.batch, self.epochs) < 1 or self.samples % self.batch:
            counts = f"{self.steps} steps of {self.environments} environments in batches of {self.batch}"
            raise InputError(f"steps times environments must be a multiple of the batch, not {counts}")

    @property
    def samples(self) -> int:
        """Samples of one seed for one update."""
        return self.steps * self.environments


# ---- parameters ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Where a network's numbers lie in its row: weights and biases of three layers, then the log of the deviation.

    Rows are padded to whole cache lines, because matrix products may round differently elsewhere in memory, and a
    seed shall not depend on its place in the population.
    """

    inputs: int
    first: int
    second: int

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        return (
            (self.first, self.inputs),
            (self.first,),
            (self.second, self.first),
            (self.second,),
            (1, self.second),
            (1,),
            (1,),
        )

    @property
    def used(self) -> int:
        return sum(math.prod(block) for block in self.blocks)

    @property
    def size(self) -> int:
        return -(-self.used // 16) * 16

    def views(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Weights, biases (three times) and log deviation of (networks, size) numbers: views, nothing is copied."""
        sizes = [math.prod(block) for block in self.blocks]
        parts = torch.split(rows[:, : self.used], sizes, dim=1)
        return tuple(torch.unflatten(part, 1, block) for part, block in zip(parts, self.blocks, strict=True))

    def initial(self, seed: int) -> torch.Tensor:
        """Actor and critic as Stable-Baselines3 starts them: orthogonal weights, no bias, log deviation 0."""
        generator = torch.Generator().manual_seed(seed)
        rows = torch.zeros(2, self.size)  # (actor and critic, size)
        weights = self.views(rows)[0:6:2]
        for network, last_gain in enumerate((0.01, 1.0)):
            for weight, gain in zip(weights, (math.sqrt(2), math.sqrt(2), last_gain), strict=True):
                torch.nn.init.orthogonal_(weight[network], gain, generator)
        return rows


@dataclass
class Learners:
    """The state of a population: networks, Adam's moments, and the number of updates behind them."""

    seeds: tuple[int, ...]
    shape: Shape
    parameters: torch.Tensor  # (2 * seeds, size): actors, then critics
    first_moment: torch.Tensor  # (2 * seeds, size)
    second_moment: torch.Tensor  # (2 * seeds, size)
    minibatches: int = 0

    @classmethod
    def start(cls, seeds: Sequence[int], inputs: int, settings: Settings, device: str = "cpu") -> Learners:
        shape = Shape(inputs, *settings.hidden)
        parameters = torch.stack([shape.initial(seed) for seed in seeds], dim=1).flatten(0, 1).to(device)
        return cls(tuple(seeds), shape, parameters, torch.zeros_like(parameters), torch.zeros_like(parameters))

    def compiled(self) -> Compiled:
        """The networks for the compiled loops: weights transposed, so that the inner loop runs over neurons."""
        weights = self.shape.views(self.parameters.detach().cpu())
        transposed = [part.mT if part.ndim == 3 else part for part in weights[:6]]
        first, first_bias, second, second_bias, last, last_bias = (
            np.ascontiguousarray(part.numpy()) for part in transposed
        )
        return first, first_bias, second, second_bias, last, last_bias

    def log_deviations(self) -> Floats:
        """(seeds,)"""
        result: Floats = self.parameters[: len(self.seeds), self.shape.used - 1].cpu().numpy().copy()
        return result


# ---- rollout -------------------------------------------------------------------------------------------------------


@compiled
def _output(networks: Compiled, k: int, x: Floats, h: Floats, g: Floats) -> float:
    """The output of network k for the input x; h and g are scratch for its hidden layers."""
    first, first_bias, second, second_bias, last, last_bias = networks
    h[:] = first_bias[k]
    for i in range(len(x)):
        for j in range(len(h)):
            h[j] += first[k, i, j] * x[i]
    g[:] = second_bias[k]
    for i in range(len(h)):
        if h[i] > 0:
            for j in range(len(g)):
                g[j] += second[k, i, j] * h[i]
    y = last_bias[k, 0]
    for i in range(len(g)):
        if g[i] > 0:
            y += last[k, i, 0] * g[i]
    return float(y)


@compiled
def _act(
    networks: Compiled, log_deviations: Floats, noise: Floats, x: Any, t: int, low: float, high: float, into: Any
) -> Any:
    """A step of all episodes into column t: observations, sampled actions, log densities, the critics' values.

    The result is what the simulator executes: actions clipped to their bounds, (slots, 1).
    """
    observations, actions, densities, values = into
    seeds, slots = len(log_deviations), len(x)
    h = np.empty(networks[0].shape[2], np.float32)
    g = np.empty(networks[2].shape[2], np.float32)
    executed = np.empty((slots, 1))
    for k in range(slots):
        s = k // (slots // seeds)
        observed = observations[k, t]
        observed[:] = x[k]
        draw = np.float64(noise[k, t])
        actions[k, t] = _output(networks, s, observed, h, g) + math.exp(log_deviations[s]) * draw
        densities[k, t] = -0.5 * draw * draw - log_deviations[s] - 0.5 * math.log(2 * math.pi)
        values[k, t] = _output(networks, seeds + s, observed, h, g)
        executed[k, 0] = min(max(np.float64(actions[k, t]), low), high)
    return executed


@compiled
def _book(earned: Any, terminated: Any, truncated: Any, t: int, rewards: Any, starts: Any, returns: Any) -> bool:
    """Book a step's rewards and ends; whether any episode is over."""
    over = False
    for k in range(len(earned)):
        rewards[k, t] = earned[k]
        returns[k] += earned[k]
        starts[k, t + 1] = terminated[k] or truncated[k]
        over = over or starts[k, t + 1]
    return over


@compiled
def _values(networks: Compiled, seeds: int, x: Any, where: Any, values: Floats) -> None:
    """The critics' values of the observations that `where` marks."""
    h = np.empty(networks[0].shape[2], np.float32)
    g = np.empty(networks[2].shape[2], np.float32)
    for k in range(len(x)):
        if where[k]:
            values[k] = _output(networks, seeds + k // (len(x) // seeds), x[k].astype(np.float32), h, g)


@dataclass
class Rollout:
    """What an update learns from. Episode slot k belongs to seed k // environments."""

    observations: Floats  # (slots, steps, inputs)
    actions: Floats  # (slots, steps), as sampled: unclipped
    densities: Floats  # (slots, steps): log of the density the action was sampled with
    values: Floats  # (slots, steps)
    rewards: Floats  # (slots, steps)
    starts: npt.NDArray[np.bool_]  # (slots, steps + 1): the step begins an episode
    last_values: Floats  # (slots,): of the observations after the last step

    @classmethod
    def empty(cls, slots: int, steps: int, inputs: int) -> Rollout:
        grid = (slots, steps)
        actions, densities, values, rewards = (np.zeros(grid, np.float32) for _ in range(4))
        starts = np.ones((slots, steps + 1), np.bool_)
        observations, last_values = np.zeros((*grid, inputs), np.float32), np.zeros(slots, np.float32)
        return cls(observations, actions, densities, values, rewards, starts, last_values)


class Episodes:
    """The running episodes of a population: who is where, what was earned, and which scenario comes next."""

    def __init__(self, simulator: Simulator, seeds: Sequence[int], part: int, weight: float = 0.05) -> None:
        self.simulator, self.weight = simulator, weight
        share = simulator.count // len(seeds)
        slots = [np.random.SeedSequence((seed, part, e)) for seed in seeds for e in range(share)]
        self.bases = np.array([slot.generate_state(1, np.uint64)[0] for slot in slots])  # (slots,)
        self.numbers = np.zeros(simulator.count, np.uint64)
        self.observations = simulator.reset(self._scenarios())  # (slots, inputs), float64
        self.returns = np.zeros(simulator.count)
        self.average = np.full(simulator.count, np.nan)  # exponentially weighted, of finished episodes

    def _scenarios(self) -> npt.NDArray[np.uint64]:
        """A seed for the next episode of every slot: the slot's own sequence, whatever the others do."""
        scenarios: npt.NDArray[np.uint64] = self.bases + self.numbers
        return scenarios

    def restart(self, done: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Book the finished episodes and begin new ones in their places; the observations of all slots."""
        known = np.where(np.isnan(self.average), self.returns, self.average)
        self.average = np.where(done, known + self.weight * (self.returns - known), self.average)
        self.returns[done] = 0
        self.numbers += done
        return self.simulator.reset(self._scenarios(), done)


def collect(learners: Learners, settings: Settings, episodes: Episodes, noise: Floats, into: Rollout) -> None:
    """Let all policies act for `settings.steps` steps; `noise` is (slots, steps).

    An episode cut by its time limit is worth what the critic says it would still have earned, if settings say so.
    """
    networks, log_deviations = learners.compiled(), learners.log_deviations()
    simulator, seeds = episodes.simulator, len(learners.seeds)
    low, high, x = float(simulator.action_low), float(simulator.action_high), episodes.observations
    columns = (into.observations, into.actions, into.densities, into.values)
    rest = np.zeros(simulator.count, np.float32)  # (slots,): values of cut episodes
    into.starts[:, 0] = into.starts[:, -1]
    for t in range(settings.steps):
        step = simulator.step(_act(networks, log_deviations, noise, x, t, low, high, columns))
        x = step.observations
        if _book(step.rewards, step.terminated, step.truncated, t, into.rewards, into.starts, episodes.returns):
            cut = step.truncated & ~step.terminated
            if settings.bootstrap and cut.any():
                _values(networks, seeds, x, cut, rest)
                into.rewards[cut, t] += np.float32(settings.gamma) * rest[cut]
            x = episodes.restart(into.starts[:, t + 1])
    episodes.observations = x
    _values(networks, seeds, x, np.ones(len(x), np.bool_), into.last_values)


# ---- advantages ----------------------------------------------------------------------------------------------------


@compiled
def _advantages(rewards: Any, values: Any, starts: Any, last: Any, gamma: float, decay: float, result: Any) -> None:
    slots, steps = rewards.shape
    for k in range(slots):
        following, advantage = last[k], 0.0
        for t in range(steps - 1, -1, -1):
            goes_on = 0.0 if starts[k, t + 1] else 1.0
            advantage = rewards[k, t] + gamma * following * goes_on - values[k, t] + decay * goes_on * advantage
            result[k, t] = advantage
            following = values[k, t]


def advantages(rollout: Rollout, settings: Settings) -> Floats:
    """Generalised advantage estimates, (slots, steps)."""
    result = np.empty_like(rollout.rewards)
    decay = settings.gamma * settings.gae_lambda
    _advantages(rollout.rewards, rollout.values, rollout.starts, rollout.last_values, settings.gamma, decay, result)
    return result


# ---- update --------------------------------------------------------------------------------------------------------


class Update:
    """The epochs of minibatches after a rollout. On a GPU an epoch is captured once and replayed as a whole."""

    def __init__(self, learners: Learners, settings: Settings) -> None:
        self.learners, self.settings = learners, settings
        parameters, inputs, seeds = learners.parameters, learners.shape.inputs, len(learners.seeds)
        self.gradient = torch.zeros_like(parameters)  # (2 * seeds, size)
        self.weights = learners.shape.views(parameters)
        self.gradients = learners.shape.views(self.gradient)
        samples = (seeds, settings.samples, inputs + 4)
        self.samples = parameters.new_zeros(samples)  # observation, action, density, advantage, return
        self.shuffled = parameters.new_zeros(samples)
        self.rates = parameters.new_zeros(settings.samples // settings.batch, 2)  # Adam's, a minibatch
        self.graph: Any = None

    def __call__(self, rollout: Rollout, orders: npt.NDArray[np.int64]) -> None:
        """Learn from a rollout; `orders` is a permutation of the samples for every epoch and seed."""
        self._load(rollout)
        seeds, samples = orders.shape[1:]
        rows = orders + samples * np.arange(seeds)[:, None]  # (epochs, seeds, samples), of the samples of all seeds
        for chosen in torch.from_numpy(rows).flatten(1).to(self.samples.device):
            torch.index_select(self.samples.flatten(0, 1), 0, chosen, out=self.shuffled.view(seeds * samples, -1))
            self._normalise()
            self._set_rates()
            self._run()

    def _load(self, rollout: Rollout) -> None:
        seeds, inputs = len(self.learners.seeds), self.learners.shape.inputs
        gained = advantages(rollout, self.settings)
        columns = (rollout.actions, rollout.densities, gained, gained + rollout.values)
        packed = np.concatenate([rollout.observations, np.stack(columns, axis=-1)], axis=-1)
        self.samples.copy_(torch.from_numpy(packed.reshape(seeds, self.settings.samples, inputs + 4)))

    def _normalise(self) -> None:
        """Advantages of every minibatch to mean 0 and deviation 1."""
        gained = self.shuffled[..., -2].view(len(self.shuffled), -1, self.settings.batch)  # (seeds, minibatches, batch)
        if self.settings.batch > 1:
            gained.sub_(gained.mean(2, keepdim=True)).div_(gained.std(2, keepdim=True) + 1e-8)

    def _set_rates(self) -> None:
        """Adam's step and epsilon with the corrections of its moments' bias, for the minibatches to come."""
        count = len(self.rates)
        done = self.learners.minibatches + np.arange(1, count + 1)
        correction = np.sqrt(1 - 0.999**done)
        rates = np.stack([self.settings.learning_rate * correction / (1 - 0.9**done), 1e-5 * correction], axis=1)
        self.rates.copy_(torch.from_numpy(rates))
        self.learners.minibatches += count

    def _run(self) -> None:
        if not self.samples.is_cuda:
            self._epoch()
            return
        if self.graph is None:
            self._capture()
        self.graph.replay()

    def _capture(self) -> None:
        """Record an epoch as a CUDA graph. The rehearsal that a recording needs is undone."""
        state = (self.learners.parameters, self.learners.first_moment, self.learners.second_moment)
        kept = [tensor.clone() for tensor in state]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._minibatch(0)
        torch.cuda.current_stream().wait_stream(stream)
        for tensor, before in zip(state, kept, strict=True):
            tensor.copy_(before)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._epoch()

    def _epoch(self) -> None:
        for k in range(len(self.rates)):
            self._minibatch(k)

    def _minibatch(self, k: int) -> None:
        """Forward, loss and backward of minibatch k, then Adam."""
        seeds, batch, size = len(self.learners.seeds), self.settings.batch, self.learners.shape.inputs
        samples = self.shuffled[:, k * batch : (k + 1) * batch]
        x = samples[..., :size]  # (seeds, batch, inputs)
        first, first_bias, second, second_bias, last, last_bias, log_deviation = self.weights

        h = x.new_empty(2 * seeds, batch, first.shape[1])
        torch.baddbmm(first_bias[:seeds, None], x, first[:seeds].mT, out=h[:seeds])
        torch.baddbmm(first_bias[seeds:, None], x, first[seeds:].mT, out=h[seeds:])
        h.relu_()
        g = torch.baddbmm(second_bias[:, None], h, second.mT).relu_()
        y = torch.baddbmm(last_bias[:, None], g, last.mT)[..., 0]  # (2 * seeds, batch): means, then values

        slope = self._output_gradient(y, samples[..., size:], log_deviation[:seeds])[..., None]
        d_first, d_first_bias, d_second, d_second_bias, d_last, d_last_bias, _ = self.gradients
        torch.bmm(slope.mT, g, out=d_last)
        torch.sum(slope, 1, out=d_last_bias)
        slope = (slope * last).mul_(g > 0)
        torch.bmm(slope.mT, h, out=d_second)
        torch.sum(slope, 1, out=d_second_bias)
        slope = torch.bmm(slope, second).mul_(h > 0)
        torch.bmm(slope[:seeds].mT, x, out=d_first[:seeds])
        torch.bmm(slope[seeds:].mT, x, out=d_first[seeds:])
        torch.sum(slope, 1, out=d_first_bias)
        self._adam(k)

    def _output_gradient(self, y: torch.Tensor, columns: torch.Tensor, log_deviation: torch.Tensor) -> torch.Tensor:
        """How the loss changes with the networks' outputs, (2 * seeds, batch); the deviation's part is stored."""
        seeds, batch = columns.shape[:2]
        action, density, gained, returns = columns.unbind(-1)  # (seeds, batch)
        precision = torch.exp(-2 * log_deviation)  # (seeds, 1)
        away = action - y[:seeds]
        distance = away * away * precision
        ratio = torch.exp(-0.5 * distance - log_deviation - 0.5 * math.log(2 * math.pi) - density)
        unclipped = torch.where(
            gained > 0, ratio <= 1 + self.settings.clip_range, ratio >= 1 - self.settings.clip_range
        )
        pull = torch.where(unclipped, gained * ratio, 0.0) * (-1 / batch)  # of the log density
        slope = torch.empty_like(y)
        torch.mul(pull * away, precision, out=slope[:seeds])
        torch.mul(y[seeds:] - returns, 2 * self.settings.value_coefficient / batch, out=slope[seeds:])
        stored = self.gradient[:seeds, self.learners.shape.used - 1]
        torch.sum(pull * (distance - 1), 1, out=stored)
        stored.sub_(self.settings.entropy_coefficient)
        return slope

    def _adam(self, k: int) -> None:
        """Clip the gradient of every seed (actor and critic together) and take Adam's step."""
        learners, gradient = self.learners, self.gradient
        norm = gradient.square().sum(1).view(2, -1).sum(0).sqrt()  # (seeds,)
        shrink = (self.settings.largest_gradient / (norm + 1e-6)).clamp(max=1)
        gradient.mul_(shrink.repeat(2)[:, None])
        learners.first_moment.lerp_(gradient, 0.1)
        learners.second_moment.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        step = learners.first_moment / learners.second_moment.sqrt().add_(self.rates[k, 1])
        learners.parameters.sub_(step.mul_(self.rates[k, 0]))


# ---- training ------------------------------------------------------------------------------------------------------


def train(
    learners: Learners,
    settings: Settings,
    simulator: Simulator,
    iterations: int,
    part: int = 0,
    average: npt.NDArray[np.float64] | None = None,
    weight: float = 0.05,
    report: Callable[[int, npt.NDArray[np.float64]], None] | None = None,
) -> None:
    """Train in place for a number of rollouts and updates, beginning new episodes.

    Everything random is drawn from (seed, part), so a training in several parts can stop after any of them and
    go on later as if it had not. After every update `report` gets the number of rollouts and the seeds' average
    rewards of an episode (a new one counts with `weight`, going on from `average`).
    """
    seeds = learners.seeds
    if simulator.count != len(seeds) * settings.environments or simulator.action_size != 1:
        expected = f"{len(seeds)} * {settings.environments} episodes with one action"
        raise InputError(f"{expected} are needed, not {simulator.count} with {simulator.action_size}")
    streams = [np.random.default_rng((seed, part)) for seed in seeds]
    episodes = Episodes(simulator, seeds, part, weight)
    if average is not None:
        episodes.average = np.repeat(average, settings.environments)
    rollout = Rollout.empty(simulator.count, settings.steps, simulator.observation_size)
    update = Update(learners, settings)
    shape = (settings.environments, settings.steps)
    for iteration in range(1, iterations + 1):
        noise = np.concatenate([stream.standard_normal(shape, np.float32) for stream in streams])
        collect(learners, settings, episodes, noise, rollout)
        orders = [[stream.permutation(settings.samples) for _ in range(settings.epochs)] for stream in streams]
        update(rollout, np.array(orders).swapaxes(0, 1))  # (epochs, seeds, samples)
        if report is not None:
            report(iteration, _mean_known(episodes.average.reshape(len(seeds), -1)))


def _mean_known(averages: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The mean over a seed's environments of those that have finished an episode; NaN if none has."""
    known = ~np.isnan(averages)
    total = np.where(known, averages, 0).sum(1)
    return np.where(known.any(1), total / np.maximum(known.sum(1), 1), np.nan)
