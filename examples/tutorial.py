"""The tutorial's material: small policies trained with stock Stable-Baselines3, what they saw, and what they earn
elsewhere.

    python examples/tutorial.py [FOLDER] [--policies N] [--steps N]

Leaves in FOLDER (tutorial by default): policies/seed_1.zip, seed_2.zip, ...; observations.npy, the states they met
on the cart-pole they were trained on; rewards.csv, what they earn on one with a pole three times as long. Needs
Stable-Baselines3 (the extra `zoo` has it); takes some 15 seconds a policy.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3 import PPO

EPISODES = 10


def train(seed: int, steps: int) -> PPO:
    """A policy as anybody would train it."""
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=1024, seed=seed, device="cpu")
    return model.learn(steps)


def play(model: PPO, pole: float, seed: int) -> tuple[float, list[np.ndarray]]:
    """The mean reward of some episodes on a cart-pole with a pole so many times as long, and the states met."""
    environment = gymnasium.make("CartPole-v1")
    cart = environment.unwrapped
    cart.length *= pole
    cart.polemass_length = cart.masspole * cart.length
    earned, states = 0.0, []
    for episode in range(EPISODES):
        state, _ = environment.reset(seed=seed + episode)
        over = False
        while not over:
            states.append(state)
            action, _ = model.predict(state, deterministic=True)
            state, reward, terminated, truncated, _ = environment.step(action)
            earned += float(reward)
            over = terminated or truncated
    return earned / EPISODES, states


def main() -> None:
    """Train, record, evaluate."""
    parser = argparse.ArgumentParser(description="Train some policies for the tutorial.")
    parser.add_argument("folder", nargs="?", default="tutorial", type=Path)
    parser.add_argument("--policies", default=6, type=int)
    parser.add_argument("--steps", default=20_000, type=int)
    given = parser.parse_args()
    (given.folder / "policies").mkdir(parents=True, exist_ok=True)
    rewards, seen = [], []
    for seed in range(1, given.policies + 1):
        model = train(seed, given.steps)
        model.save(given.folder / "policies" / f"seed_{seed}.zip")
        here, states = play(model, 1.0, seed=1000)
        there, _ = play(model, 3.0, seed=2000)
        seen += states
        rewards.append((f"seed_{seed}", there))
        print(f"seed_{seed}: {here:.0f} where it was trained, {there:.0f} with a longer pole", flush=True)
    np.save(given.folder / "observations.npy", np.array(seen))
    with (given.folder / "rewards.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("name", "reward"), *rewards])


if __name__ == "__main__":
    main()
