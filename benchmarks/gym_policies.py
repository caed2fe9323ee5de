"""Train the Tanh policies that `tanh.py` asks about: PPO as Stable-Baselines3 has it, on gymnasium's robots.

    pip install stable-baselines3 "gymnasium[box2d,mujoco]"
    python benchmarks/gym_policies.py [--tasks lunarlander hopper halfcheetah bipedalwalker] [--steps 200000]

Two seeds a task. What they learn goes to `policies/TASK.npz`: the actors' weights in float32, and the least and the
greatest observation that the trained policies meet in rollouts, which is the box they are compared on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

TASKS = {
    "lunarlander": "LunarLanderContinuous-v3",
    "hopper": "Hopper-v5",
    "halfcheetah": "HalfCheetah-v5",
    "bipedalwalker": "BipedalWalker-v3",
}
SEEDS = (0, 1)
SEEN = 5000  # observations of each policy's rollouts
FOLDER = Path(__file__).parent / "policies"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--steps", type=int, default=200_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    for task in arguments.tasks:
        arrays: dict[str, Any] = {}
        seen = []
        for seed in SEEDS:
            actor, observations, reward = train(TASKS[task], seed, arguments.steps)
            print(f"{task}, seed {seed}: reward {reward:.1f} an episode", flush=True)
            arrays |= {f"{seed}.{name}": value for name, value in actor.items()}
            seen.append(observations)
        every = np.concatenate(seen)
        arrays |= {"lower": every.min(0), "upper": every.max(0)}
        np.savez_compressed(FOLDER / f"{task}.npz", allow_pickle=False, **arrays)


def train(name: str, seed: int, steps: int) -> tuple[dict[str, npt.NDArray[np.float32]], Any, float]:
    """The actor's weights and biases by layer, what it sees in rollouts, and its mean reward there."""
    import gymnasium
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", gymnasium.make(name), seed=seed, device="cpu")
    model.learn(steps)
    policy = model.policy
    layers = [layer for layer in [*policy.mlp_extractor.policy_net, policy.action_net] if hasattr(layer, "weight")]
    actor = {f"{k}.{part}": getattr(layer, part).detach().numpy() for k, layer in enumerate(layers) for part in PARTS}
    environment = gymnasium.make(name)
    observation, _ = environment.reset(seed=1000 + seed)
    seen, rewards, total = [observation], [], 0.0
    while len(seen) < SEEN:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = environment.step(action)
        total += float(reward)
        seen.append(observation)
        if terminated or truncated:
            rewards.append(total)
            total = 0.0
            observation, _ = environment.reset()
            seen.append(observation)
    return actor, np.array(seen, np.float32), float(np.mean(rewards)) if rewards else total


PARTS = ("weight", "bias")

if __name__ == "__main__":
    main()
