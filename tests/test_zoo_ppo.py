"""The population trainer against Stable-Baselines3: one update, advantages, rollouts; and seeds against each other."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")
stable_baselines3 = pytest.importorskip("stable_baselines3")
pytest.importorskip("numba")

from stable_baselines3.common.vec_env import VecEnv  # noqa: E402

from karenina.errors import InputError  # noqa: E402
from karenina.zoo import ppo  # noqa: E402
from karenina.zoo.environments.simulator import Step  # noqa: E402

CARTPOLE = ppo.Settings(gamma=0.95, batch=128, steps=2048, epochs=10)
AURORA = ppo.Settings(
    gamma=0.99, steps=8192, epochs=4, learning_rate=1e-3, value_coefficient=1.0, entropy_coefficient=1e-2
)
SMALL = ppo.Settings(steps=64, batch=16, epochs=3, learning_rate=1e-2)


class Drift:
    """A point that drifts and is pushed; it is lost beyond 2, and an episode is cut after 13 steps."""

    observation_size, action_size, action_low, action_high, episode_steps = 3, 1, -0.5, 0.5, 13
    choices = 0
    observation_low, observation_high = np.full(3, -9.0), np.full(3, 9.0)

    def __init__(self, count: int) -> None:
        self.count = count
        self.state = np.zeros((count, 3))
        self.age = np.zeros(count, np.int64)

    def reset(self, seeds: npt.NDArray[np.uint64], where: npt.NDArray[np.bool_] | None = None) -> Any:
        for k in np.flatnonzero(np.ones(self.count, np.bool_) if where is None else where):
            self.state[k] = np.random.default_rng(int(seeds[k])).uniform(-1, 1, 3)
            self.age[k] = 0
        return self.state.copy()

    def step(self, actions: npt.NDArray[np.float64]) -> Step:
        assert actions.shape == (self.count, 1)
        assert np.abs(actions).max() <= 0.5
        self.state[:, 0] += 0.3 * self.state[:, 1] + actions[:, 0]
        self.state[:, 2] = np.sin(self.state[:, 2] + actions[:, 0])
        self.age += 1
        lost = np.abs(self.state[:, 0]) > 2
        return Step(self.state.copy(), 1 - np.abs(self.state[:, 0]), lost, self.age >= 13)


class DriftEnvironments(VecEnv):  # type: ignore[misc]
    """The same episodes as Stable-Baselines3 wants them, with the scenarios the trainer would choose."""

    def __init__(self, episodes: ppo.Episodes, tell_cuts: bool = True) -> None:
        box = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        super().__init__(episodes.simulator.count, box, gymnasium.spaces.Box(-0.5, 0.5, (1,), np.float32))
        self.episodes, self.tell_cuts = episodes, tell_cuts

    def reset(self) -> Any:
        return self.episodes.observations.astype(np.float32)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        step = self.episodes.simulator.step(self.actions.astype(np.float64))
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [
            {"terminal_observation": x, "TimeLimit.truncated": bool(self.tell_cuts and cut and not lost)}
            for x, cut, lost in zip(step.observations.astype(np.float32), step.truncated, step.terminated, strict=True)
        ]
        fresh = self.episodes.restart(done) if done.any() else step.observations
        return fresh.astype(np.float32), step.rewards.astype(np.float32), done, infos

    def close(self) -> None: ...
    def env_is_wrapped(self, *_: Any) -> Any:
        return [False] * self.num_envs

    def env_method(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def get_attr(self, *_: Any) -> Any:
        return [None] * self.num_envs

    def set_attr(self, *_: Any) -> None:
        raise NotImplementedError


def reference(settings: ppo.Settings, environments: VecEnv) -> Any:
    """Stable-Baselines3's PPO with these settings."""
    return stable_baselines3.PPO(
        "MlpPolicy",
        environments,
        learning_rate=settings.learning_rate,
        n_steps=settings.steps,
        batch_size=settings.batch,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        ent_coef=settings.entropy_coefficient,
        vf_coef=settings.value_coefficient,
        max_grad_norm=settings.largest_gradient,
        policy_kwargs={"net_arch": list(settings.hidden), "activation_fn": torch.nn.ReLU},
        device="cpu",
    )


def parameters_of(policy: Any) -> list[list[torch.Tensor]]:
    """Actor's and critic's tensors in the order of a row."""
    extractor = policy.mlp_extractor
    actor = [*extractor.policy_net.parameters(), *policy.action_net.parameters(), policy.log_std]
    return [actor, [*extractor.value_net.parameters(), *policy.value_net.parameters()]]


def give(learners: ppo.Learners, seed: int, policy: Any) -> None:
    """Copy a seed's networks into a policy of Stable-Baselines3."""
    seeds = len(learners.seeds)
    views = learners.shape.views(learners.parameters)
    with torch.no_grad():
        for network, tensors in zip((seed, seeds + seed), parameters_of(policy), strict=True):
            for view, tensor in zip(views, tensors, strict=False):
                tensor.copy_(view[network])


def row_of(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def random_rollout(settings: ppo.Settings, slots: int, inputs: int, rng: np.random.Generator) -> ppo.Rollout:
    grid = (slots, settings.steps)
    rollout = ppo.Rollout.empty(slots, settings.steps, inputs)
    rollout.observations[:] = rng.normal(size=(*grid, inputs))
    rollout.actions[:] = rng.normal(size=grid)
    rollout.densities[:] = -0.5 * rollout.actions**2 - 0.9 + 0.3 * rng.normal(size=grid)  # ratios beyond the clip
    rollout.values[:] = rng.normal(size=grid)
    rollout.rewards[:] = 5 * rng.normal(size=grid)  # so large that gradients are clipped
    rollout.starts[:] = rng.uniform(size=rollout.starts.shape) < 0.1
    rollout.last_values[:] = rng.normal(size=slots)
    return rollout


def fill(buffer: Any, rollout: ppo.Rollout, slots: slice) -> None:
    """Hand a seed's part of a rollout to Stable-Baselines3, which computes returns and advantages itself."""
    for t in range(buffer.buffer_size):
        buffer.add(
            rollout.observations[slots, t],
            rollout.actions[slots, t],
            rollout.rewards[slots, t],
            rollout.starts[slots, t],
            torch.from_numpy(rollout.values[slots, t]),
            torch.from_numpy(rollout.densities[slots, t]),
        )
    buffer.compute_returns_and_advantage(
        torch.from_numpy(rollout.last_values[slots]), rollout.starts[slots, -1].astype(np.float32)
    )


@pytest.mark.parametrize(
    ("settings", "inputs"),
    [
        (CARTPOLE, 4),
        (replace(AURORA, steps=2048), 30),
        (replace(AURORA, batch=1024), 30),
        (replace(SMALL, environments=3, largest_gradient=0.05), 5),
        (replace(SMALL, largest_gradient=1e9), 5),
    ],
)
def test_update_equals_stable_baselines(settings: ppo.Settings, inputs: int) -> None:
    settings = replace(settings, epochs=min(settings.epochs, 4))
    rng = np.random.default_rng(5)
    learners = ppo.Learners.start((3, 8), inputs, settings)
    noise = torch.manual_seed(0)
    learners.parameters[:, : learners.shape.used] += 0.1 * torch.randn(4, learners.shape.used, generator=noise)
    learners.parameters[2:, learners.shape.used - 1] = 0  # a critic has no deviation
    rollout = random_rollout(settings, 2 * settings.environments, inputs, rng)
    orders = np.array([[rng.permutation(settings.samples) for _ in range(2)] for _ in range(settings.epochs)])
    expected = []
    for seed in range(2):
        model = reference(settings, _nowhere(inputs, settings.environments))
        give(learners, seed, model.policy)
        slots = slice(seed * settings.environments, (seed + 1) * settings.environments)
        fill(model.rollout_buffer, rollout, slots)
        model._logger = stable_baselines3.common.logger.Logger(None, [])
        with pytest.MonkeyPatch.context() as patch:
            sequence = iter(orders[:, seed])
            patch.setattr(np.random, "permutation", lambda _, sequence=sequence: next(sequence))
            model.train()
        expected.append([row_of(tensors) for tensors in parameters_of(model.policy)])
        np.testing.assert_allclose(
            ppo.advantages(rollout, settings)[slots].reshape(-1),
            model.rollout_buffer.advantages.reshape(-1),
            rtol=1e-5,
            atol=1e-5,
        )
    before = learners.parameters.clone()
    ppo.Update(learners, settings)(rollout, orders)
    for seed in range(2):
        for network, row in zip((seed, 2 + seed), expected[seed], strict=True):
            moved = (learners.parameters[network] - before[network]).abs().max()
            found = learners.parameters[network, : len(row)]
            assert moved > 1e-3
            torch.testing.assert_close(found, row, rtol=0, atol=5e-5 * float(moved))


def _nowhere(inputs: int, environments: int) -> VecEnv:
    """Environments that only have spaces."""
    made = DriftEnvironments(ppo.Episodes(Drift(environments), (0,), 0))
    made.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (inputs,), np.float32)
    return made


@pytest.mark.parametrize("bootstrap", [True, False])
def test_rollout_equals_stable_baselines(bootstrap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides see the same episodes and the same noise: actions, values, densities and rewards must agree."""
    settings = replace(SMALL, environments=4, batch=64, bootstrap=bootstrap)
    learners = ppo.Learners.start((11,), 3, settings)
    learners.parameters[:] += 0.2 * torch.randn(learners.parameters.shape, generator=torch.manual_seed(1))
    noise = np.random.default_rng(2).standard_normal((4, settings.steps), np.float32)
    rollout = ppo.Rollout.empty(4, settings.steps, 3)
    ppo.collect(learners, settings, ppo.Episodes(Drift(4), (11,), 0), noise, rollout)

    model = reference(settings, DriftEnvironments(ppo.Episodes(Drift(4), (11,), 0), bootstrap))
    give(learners, 0, model.policy)
    columns = iter(noise.T)
    monkeypatch.setattr(
        torch.distributions.Normal,
        "rsample",
        lambda self: self.mean + self.stddev * torch.tensor(next(columns))[:, None],
    )
    _, callback = model._setup_learn(settings.samples, None)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, settings.steps)
    buffer = model.rollout_buffer
    assert rollout.starts[:, 1:].any(axis=1).all()
    pairs: list[tuple[Any, Any]] = [
        (rollout.observations, buffer.observations),
        (rollout.actions[..., None], buffer.actions),
        (rollout.densities, buffer.log_probs),
        (rollout.values, buffer.values),
        (rollout.rewards, buffer.rewards),
        (rollout.starts[:, :-1], buffer.episode_starts),
        (ppo.advantages(rollout, settings), buffer.advantages),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.swapaxes(0, 1), theirs, rtol=2e-4, atol=2e-4)


def test_initial_networks_are_those_of_stable_baselines() -> None:
    """Orthogonal with the same gains: singular values tell."""
    learners = ppo.Learners.start((1, 2), 30, AURORA)
    model = reference(SMALL, _nowhere(30, 1))
    for network, tensors in zip((0, 2), parameters_of(model.policy), strict=True):
        for view, tensor in zip(learners.shape.views(learners.parameters), tensors, strict=False):
            ours, theirs = view[network], tensor.detach()
            if ours.ndim == 2:
                ours, theirs = torch.linalg.svdvals(ours), torch.linalg.svdvals(theirs)
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not torch.equal(learners.parameters[0], learners.parameters[1])


def _trained(seeds: tuple[int, ...], settings: ppo.Settings) -> tuple[ppo.Learners, list[Any]]:
    learners = ppo.Learners.start(seeds, 3, settings)
    averages: list[Any] = []
    simulator = Drift(len(seeds) * settings.environments)
    ppo.train(learners, settings, simulator, 4, report=lambda _, average: averages.append(average))
    return learners, averages


@pytest.mark.parametrize("environments", [1, 2])
def test_a_seed_does_not_depend_on_its_neighbours(environments: int) -> None:
    settings = replace(SMALL, environments=environments)
    together, averages = _trained((4, 9, 2), settings)
    for k, seed in enumerate(together.seeds):
        alone, average = _trained((seed,), settings)
        assert torch.equal(alone.parameters, together.parameters[[k, 3 + k]])
        assert [a[k] for a in averages] == [a[0] for a in average]


@pytest.mark.parametrize(("settings", "inputs"), [(replace(CARTPOLE, epochs=1), 4), (replace(AURORA, steps=512), 30)])
def test_an_update_does_not_depend_on_the_place_in_the_population(settings: ppo.Settings, inputs: int) -> None:
    """Bit for bit, at real sizes: matrix products round differently where rows are not aligned alike."""
    rng = np.random.default_rng(0)
    whole = random_rollout(settings, 6, inputs, rng)
    orders = np.array([[rng.permutation(settings.samples) for _ in range(6)] for _ in range(settings.epochs)])

    def updated(places: list[int]) -> torch.Tensor:
        learners = ppo.Learners.start(places, inputs, settings)
        part = ppo.Rollout(*(getattr(whole, field.name)[places] for field in fields(whole)))
        ppo.Update(learners, settings)(part, orders[:, places])
        return learners.parameters.view(2, len(places), -1)

    everyone = updated([0, 1, 2, 3, 4, 5])
    for places in ([5], [3, 1], [4, 5, 0]):
        assert torch.equal(updated(places), everyone[:, places])


def test_training_learns() -> None:
    """Pushing back against the drift earns more than the untrained policy does."""
    learners = ppo.Learners.start((1, 2), 3, SMALL)
    averages: list[Any] = []
    ppo.train(learners, SMALL, Drift(2), 60, report=lambda _, average: averages.append(average))
    assert (averages[-1] > averages[0] + 3).all()


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="multiple of the batch"):
        ppo.Settings(steps=100, batch=64)
    with pytest.raises(InputError, match=r"2 \* 1 episodes"):
        ppo.train(ppo.Learners.start((1, 2), 3, SMALL), SMALL, Drift(3), 1)
