"""Stable-Baselines3 as trainer: its SAC for Mountain Car, its PPO for comparison, a seed at a time.

Enters: a recipe, a seed, a folder. Leaves: the same files as the population trainer's. Every part of a training is
seeded afresh and begins new episodes, so that one that was interrupted goes on to the same policy.

SAC squashes: its action is tanh of what the network says, rescaled to the bounds. The network exported is the part
before tanh, the mean clipped to +-`largest_mean`, because that part is piecewise linear.
"""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Discrete
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from karenina.network import IDENTITY, Activation, Layer, Network
from karenina.zoo.environments.stable_baselines import StableBaselinesEnvironments
from karenina.zoo.ppo import Settings
from karenina.zoo.recipes import Recipe, SacSettings, StockSettings
from karenina.zoo.training_folder import CURVE_POINTS, Progress, TrainingFolder, seed_name

__all__ = ["actor_of", "model_for", "train_seed"]

_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def train_seed(recipe: Recipe, seed: int, folder: TrainingFolder, progress: Any) -> None:
    """Train one seed to the end, from its last checkpoint if it has one."""
    story, arrays = folder.resume(seed)
    model = model_for(recipe, seed)
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own would leave a folder behind
    if arrays:
        _restore(model, arrays)
    while story.checkpoints < recipe.checkpoints:
        started = time.perf_counter()
        _reseed(model, seed, story.checkpoints)
        model.learn(recipe.checkpoint_steps, _Curve(story, recipe), reset_num_timesteps=False)
        story.checkpoints += 1
        story.seconds += time.perf_counter() - started
        folder.checkpoint(seed, story, actor_of(model, seed), _arrays(model))
        done = f"checkpoint {story.checkpoints}/{recipe.checkpoints}"
        progress(f"{recipe.benchmark} seed {seed}: {done}, reward {story.average:.1f}, {story.seconds:.0f} s")
    folder.finish(seed, story, actor_of(model, seed), {"action": _action(model), "device": "cpu"})


def _action(model: PPO | SAC) -> str:
    """What is done with the exported network's output."""
    if isinstance(model.action_space, Discrete):
        return "the place of the largest output"
    if isinstance(model, SAC):
        return "tanh of the output, rescaled to the action space"
    return "the output, clipped to the action space"


def model_for(recipe: Recipe, seed: int) -> PPO | SAC:
    """An untrained model with the recipe's hyperparameters."""
    torch.manual_seed(seed)
    settings = recipe.settings
    count = settings.environments if isinstance(settings, Settings) else 1
    cut = settings.bootstrap if isinstance(settings, Settings) else True
    kind = StableBaselinesEnvironments if cut else _Ending
    environments = kind(recipe.parameters().simulator(count))
    return _ppo(settings, environments) if isinstance(settings, Settings) else _sac(settings, environments)


class _Ending(StableBaselinesEnvironments):
    """Environments that do not tell a time limit from an end: Stable-Baselines3 then expects nothing after it."""

    def step_wait(self) -> Any:
        observations, rewards, done, infos = super().step_wait()
        for info in infos:
            info["TimeLimit.truncated"] = False
        return observations, rewards, done, infos


_MODULE = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


def _activation(settings: Settings) -> str:
    return settings.activation if isinstance(settings, StockSettings) else "relu"


def _ppo(settings: Settings, environments: VecEnv) -> PPO:
    return PPO(
        "MlpPolicy",
        environments,
        learning_rate=settings.learning_rate,
        n_steps=settings.steps,
        batch_size=settings.batch,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip_range,
        ent_coef=settings.entropy_coefficient,
        vf_coef=settings.value_coefficient,
        max_grad_norm=settings.largest_gradient,
        policy_kwargs={"net_arch": list(settings.hidden), "activation_fn": _MODULE[_activation(settings)]},
        device="cpu",
    )


def _sac(settings: SacSettings, environments: VecEnv) -> SAC:
    return SAC(
        "MlpPolicy",
        environments,
        learning_rate=settings.learning_rate,
        buffer_size=settings.buffer,
        learning_starts=settings.learning_starts,
        batch_size=settings.batch,
        tau=settings.tau,
        gamma=settings.gamma,
        train_freq=settings.steps,
        gradient_steps=settings.gradient_steps,
        ent_coef=settings.entropy_coefficient,
        use_sde=True,
        policy_kwargs={
            "log_std_init": settings.log_deviation,
            "clip_mean": settings.largest_mean,
            "net_arch": list(settings.hidden),
        },
        device="cpu",
    )


def _reseed(model: PPO | SAC, seed: int, part: int) -> None:
    """Random numbers of a part are its own; so are its episodes, as the environments are seeded too."""
    words = np.random.SeedSequence((seed, part)).generate_state(1)
    model.set_random_seed(int(words[0]))
    model._last_obs = None  # what makes `learn` reset the environments


class _Curve(BaseCallback):
    """Follows the average reward of an episode as training goes on."""

    def __init__(self, story: Progress, recipe: Recipe) -> None:
        super().__init__()
        self.story, self.average, self.weight = story, story.average, recipe.episode_weight
        self.stride = max(1, recipe.checkpoints * recipe.checkpoint_steps // CURVE_POINTS)
        self.returns: npt.NDArray[np.float64] = np.zeros(1)

    def _on_training_start(self) -> None:
        self.returns = np.zeros(self.training_env.num_envs)

    def _on_step(self) -> bool:
        self.returns += self.locals["rewards"]
        for k in np.flatnonzero(self.locals["dones"]):
            known = self.returns[k] if np.isnan(self.average) else self.average
            self.average = float(known + self.weight * (self.returns[k] - known))
            self.returns[k] = 0
        if not self.story.steps or self.num_timesteps >= self.story.steps[-1] + self.stride:
            self._mark()
        return True

    def _on_training_end(self) -> None:
        if not self.story.steps or self.story.steps[-1] < self.num_timesteps:
            self._mark()

    def _mark(self) -> None:
        self.story.steps.append(self.num_timesteps)
        self.story.rewards.append(self.average)


def _layer(linear: torch.nn.Linear, activation: Activation) -> Layer:
    return Layer.of(linear.weight.detach(), linear.bias.detach(), activation)


def actor_of(model: PPO | SAC, seed: int) -> Network:
    """The deterministic policy: for SAC the clipped mean before tanh, for PPO the mean, or the actions' logits."""
    if isinstance(model, SAC):
        hidden, mean = model.actor.latent_pi, model.actor.mu[0]
        bound = float(model.actor.clip_mean)
        last = _layer(mean, Activation("clip", (-bound, bound)))
    else:
        hidden, last = model.policy.mlp_extractor.policy_net, _layer(model.policy.action_net, IDENTITY)
    smooth = any(isinstance(module, torch.nn.Tanh) for module in hidden)
    activation = Activation("tanh" if smooth else "relu")
    linear = [module for module in hidden if isinstance(module, torch.nn.Linear)]
    return Network((*(_layer(module, activation) for module in linear), last), seed_name(seed))


def _arrays(model: PPO | SAC) -> dict[str, npt.NDArray[Any]]:
    """All that a model has learned: networks and optimisers as torch writes them, and SAC's replay buffer."""
    file = io.BytesIO()
    held: dict[str, Any] = {"parameters": model.get_parameters(), "counts": [model.num_timesteps, model._n_updates]}
    if isinstance(model, SAC) and model.ent_coef_optimizer is not None:
        held["log_ent_coef"] = model.log_ent_coef.detach()
    torch.save(held, file)
    arrays = {"model": np.frombuffer(file.getvalue(), np.uint8)}
    if isinstance(model, SAC):
        buffer = model.replay_buffer
        used = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {f"buffer_{name}": getattr(buffer, name)[:used] for name in _BUFFER}
        arrays["buffer_place"] = np.array([buffer.pos, buffer.full])
    return arrays


def _restore(model: PPO | SAC, arrays: dict[str, npt.NDArray[Any]]) -> None:
    held = torch.load(io.BytesIO(arrays["model"].tobytes()), weights_only=True)
    model.set_parameters(held["parameters"], device="cpu")
    model.num_timesteps, model._n_updates = held["counts"]
    if isinstance(model, SAC):
        if "log_ent_coef" in held:
            model.log_ent_coef.data.copy_(held["log_ent_coef"])
        buffer = model.replay_buffer
        for name in _BUFFER:
            stored = arrays[f"buffer_{name}"]
            getattr(buffer, name)[: len(stored)] = stored
        buffer.pos, buffer.full = int(arrays["buffer_place"][0]), bool(arrays["buffer_place"][1])
