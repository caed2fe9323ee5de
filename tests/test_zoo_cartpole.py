"""Cartpole against gymnasium's CartPole, driven with the same forces, and its presets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from karenina.errors import InputError
from karenina.zoo.environments.cartpole import PRESETS, CartPole, Mapping, Parameters
from karenina.zoo.environments.random_numbers import episode_seeds
from karenina.zoo.environments.simulator import simulator


def theirs(state: np.ndarray[tuple[int], np.dtype[np.float64]], force: float) -> CartPoleEnv:
    """Gymnasium's CartPole in this state, one step with this force later."""
    environment = CartPoleEnv()
    environment.reset(seed=0)
    environment.state = state
    environment.force_mag = abs(force)
    environment.outcome = environment.step(int(force > 0))
    return environment


@pytest.mark.parametrize("size", [0.5, 10.0, 30.0])
def test_step_for_step_as_gymnasium(size: float) -> None:
    """Whole episodes, until both say that they are over."""
    generator = np.random.default_rng(0)
    for seed in range(5):
        ours = CartPole(Parameters(), 1)
        state = ours.reset(np.array([seed], np.uint64))[0]
        for _ in range(500):
            action = float(generator.normal(0, size)) + 20 * state[2]
            force = math.copysign(max(abs(action), 10.0), action)
            expected = theirs(state, force)
            step = ours.step(np.array([[action]]))
            state = step.observations[0]
            np.testing.assert_allclose(state, expected.state, rtol=1e-12, atol=1e-14)
            assert step.rewards[0] == expected.outcome[1] == 1
            assert step.terminated[0] == expected.outcome[2]
            if step.terminated[0]:
                break
        assert step.terminated[0]


@pytest.mark.parametrize(
    ("mapping", "action", "force"),
    [
        ("minimum-magnitude", 3.0, 10.0),
        ("minimum-magnitude", -3.0, -10.0),
        ("minimum-magnitude", 25.0, 25.0),
        ("minimum-magnitude", -25.0, -25.0),
        ("minimum-magnitude", 0.0, 10.0),
        ("minimum-magnitude", 250.0, 100.0),
        ("sign", 0.2, 10.0),
        ("sign", -7.0, -10.0),
        ("clip", 0.2, 2.0),
        ("clip", -7.0, -10.0),
    ],
)
def test_actions_become_forces(mapping: Mapping, action: float, force: float) -> None:
    ours = CartPole(Parameters(mapping=mapping), 1)
    state = ours.observations[0]
    found = ours.step(np.array([[action]])).observations[0]
    np.testing.assert_allclose(found, theirs(state, force).state, rtol=1e-12)


def test_a_balanced_episode_is_cut_after_500_steps() -> None:
    many = simulator("cartpole", count=50)
    seen, total = many.observations, np.zeros(50)  # type: ignore[attr-defined]
    for _ in range(500):
        step = many.step(seen @ np.array([[1.0], [2.0], [50.0], [10.0]]))
        seen, total = step.observations, total + step.rewards
    np.testing.assert_array_equal(total, 500)
    assert step.truncated.all()
    assert not step.terminated.any()


@pytest.mark.parametrize(("preset", "middles"), [("ood-left", [-6.2]), ("ood-right", [6.2]), ("ood", [-6.2, 6.2])])
def test_episodes_begin_in_the_middle_of_their_platform(preset: str, middles: list[float]) -> None:
    many = CartPole(PRESETS[preset], 2000)
    begun = many.reset(episode_seeds(0, 2000))
    distances = np.abs(begun[:, :1] - np.array(middles))
    assert distances.min(1).max() <= 0.05
    assert np.abs(begun[:, 1:]).max() <= 0.05
    shares = np.bincount(distances.argmin(1), minlength=len(middles)) / 2000
    np.testing.assert_allclose(shares, 1 / len(middles), atol=0.05)
    np.testing.assert_allclose(np.std(begun[:, 1:]), 0.05 / math.sqrt(3), rtol=0.05)


@pytest.mark.parametrize("push", [-10.0, 10.0])
def test_the_platform_ends_where_it_says(push: float) -> None:
    """The pole may fall as far as it likes here, so that the cart runs off an end."""
    ours = CartPole(Parameters(platforms=((2.4, 10.0),), angle_limit=1e9), 1)
    while not (step := ours.step(np.array([[push]]))).terminated[0]:
        assert 2.4 <= step.observations[0, 0] <= 10.0
    x = step.observations[0, 0]
    assert x < 2.4 if push < 0 else x > 10.0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"platforms": ()}, "platforms"),
        ({"platforms": ((1.0, -1.0),)}, "platforms"),
        ({"mapping": "soft"}, "minimum-magnitude"),
        ({"cart_mass": 0.0}, "cart_mass"),
        ({"start_width": -0.1}, "start_width"),
        ({"episode_steps": math.inf}, "episode_steps"),
    ],
)
def test_wrong_parameters_are_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Parameters().replace(**changes)
