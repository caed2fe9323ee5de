"""Mountain Car against gymnasium's MountainCarContinuous, and its readings of the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv

from karenina.errors import InputError
from karenina.zoo.environments.mountaincar import PRESETS, MountainCar, Parameters, Penalty
from karenina.zoo.environments.random_numbers import episode_seeds

GYMNASIUM = Parameters(
    min_action=-1.0,
    max_action=1.0,
    max_speed=0.07,
    start_positions=(-0.6, -0.4),
    scale=1.0,
    height_scale=1.0,
    penalty="raw",
    episode_steps=999,
)


def theirs(state: Any, **attributes: float) -> Continuous_MountainCarEnv:
    environment = Continuous_MountainCarEnv()
    environment.reset(seed=0)
    environment.state = np.array(state, np.float64)
    for name, value in attributes.items():
        setattr(environment, name, value)
    return environment


@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
def test_step_for_step_as_gymnasium(size: float) -> None:
    """Gymnasium rounds its state to float32, so it is given ours before each step."""
    generator = np.random.default_rng(1)
    reached = 0
    for seed in range(4):
        ours = MountainCar(GYMNASIUM, 1)
        state = ours.reset(np.array([seed], np.uint64))[0]
        for _ in range(999):
            action = np.array([math.copysign(generator.exponential(size), state[1])])
            state, reward, terminated, _, _ = _one_step(ours, state, action)
            if terminated:
                reached += 1
                assert reward > 90 - 10 * size
                break
    assert reached or size < 1


def _one_step(ours: MountainCar, state: Any, action: Any) -> Any:
    expected = theirs(state).step(action)
    step = ours.step(action[None])
    np.testing.assert_allclose(step.observations[0], expected[0], rtol=1e-6, atol=1e-8)
    assert step.rewards[0] == pytest.approx(expected[1], rel=1e-12)
    assert step.terminated[0] == expected[2]
    return step.observations[0], *expected[1:]


def test_the_walls_are_gymnasiums() -> None:
    """Full force to the left, then to the right: the car stops at the left wall only."""
    ours = MountainCar(GYMNASIUM.replace(goal_position=9.0), 1)
    state = ours.observations[0]
    seen = []
    for t in range(400):
        action = np.array([math.copysign(1.0, state[1]) if t < 200 else 1.0])
        expected = theirs(state, goal_position=9.0).step(action)[0]
        state = ours.step(action[None]).observations[0]
        np.testing.assert_allclose(state, expected, rtol=1e-6, atol=1e-8)
        seen.append(state)
    positions = np.array(seen)
    assert positions[:, 0].min() == -1.2
    assert (positions[positions[:, 0] == -1.2, 1] >= 0).all()
    assert positions[:, 0].max() == 0.6


@pytest.mark.parametrize(("slope", "x"), [("divide", -0.25 * math.pi), ("multiply", -math.pi / 9)])
def test_the_valley_lies_where_the_reading_puts_it(slope: str, x: float) -> None:
    """A car at rest at the bottom stays there."""
    ours = MountainCar(Parameters().replace(slope=slope, start_positions=(x, x)), 1)
    for _ in range(50):
        step = ours.step(np.zeros((1, 1)))
    np.testing.assert_allclose(step.observations[0], [x, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("penalty", "cost"),
    [("raw", 0.1 * 5.0**2), ("clipped", 0.1 * 2.0**2), ("rescaled", 0.1 * 1.0**2)],
)
def test_the_penalty_is_on_the_action_it_says(penalty: Penalty, cost: float) -> None:
    ours = MountainCar(Parameters(penalty=penalty), 1)
    assert ours.step(np.array([[-5.0]])).rewards[0] == pytest.approx(-cost)


def test_height_scales_the_pull() -> None:
    flat, high = (MountainCar(Parameters(height_scale=h, power=0.0), 1) for h in (0.0, 2.0))
    start = flat.observations[0]
    assert flat.step(np.ones((1, 1))).observations[0, 1] == 0
    pull = high.step(np.ones((1, 1))).observations[0, 1]
    assert pull == pytest.approx(-2 * 0.0025 * math.cos(2 * start[0]))


@pytest.mark.parametrize("preset", list(PRESETS))
def test_episodes_begin_where_the_preset_says(preset: str) -> None:
    own = PRESETS[preset]
    begun = MountainCar(own, 2000).reset(episode_seeds(0, 2000))
    for i, (low, high) in enumerate((own.start_positions, own.start_velocities)):
        assert low <= begun[:, i].min() <= begun[:, i].max() <= high
        assert begun[:, i].mean() == pytest.approx((low + high) / 2, abs=0.03 * (high - low))


def test_the_goal_ends_an_episode_with_its_reward() -> None:
    ours = MountainCar(Parameters(start_positions=(0.44, 0.44), start_velocities=(0.05, 0.05)), 1)
    step = ours.step(np.zeros((1, 1)))
    assert step.terminated[0]
    assert step.rewards[0] == 100
    cut = MountainCar(Parameters(), 1)
    for _ in range(300):
        step = cut.step(np.zeros((1, 1)))
    assert step.truncated[0]
    assert not step.terminated[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"max_position": -2.0}, "max_position"),
        ({"start_positions": (0.5, 0.4)}, "start_positions"),
        ({"slope": "steep"}, "divide"),
        ({"penalty": "none"}, "rescaled"),
        ({"scale": 0.0}, "scale"),
        ({"x_scale": 1.5}, "x_scale"),
    ],
)
def test_wrong_parameters_are_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Parameters().replace(**changes)
