"""Pendulum, Acrobot and the discrete Cartpole against gymnasium's own, step for step, and their presets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from karenina.errors import InputError
from karenina.network import Network
from karenina.zoo.environments.acrobot import Acrobot
from karenina.zoo.environments.acrobot import Parameters as AcrobotParameters
from karenina.zoo.environments.benchmark import benchmark_named
from karenina.zoo.environments.pendulum import PRESETS, Parameters, Pendulum
from karenina.zoo.environments.random_numbers import episode_seeds
from karenina.zoo.environments.simulator import Array, Simulator, parameters, simulator
from karenina.zoo.environments.stable_baselines import StableBaselinesEnvironments
from karenina.zoo.environments.vector import VectorEnvironments
from karenina.zoo.evaluation import total_rewards
from karenina.zoo.population import load, shipped

TASKS = ["pendulum", "acrobot", "cartpole_discrete"]


@pytest.mark.parametrize(
    ("changes", "attributes"),
    [
        ({}, {}),
        ({"mass": 2.0, "length": 0.7, "gravity": 6.0}, {"m": 2.0, "l": 0.7, "g": 6.0}),
        ({"max_speed": 16.0, "start_speeds": ((8.0, 16.0),)}, {"max_speed": 16.0}),
    ],
)
def test_pendulum_step_for_step(changes: dict[str, object], attributes: dict[str, float]) -> None:
    generator = np.random.default_rng(0)
    ours = Pendulum(Parameters().replace(**changes), 1)
    for seed in range(4):
        seen = ours.reset(np.array([seed], np.uint64))[0]
        theirs: Any = PendulumEnv()
        theirs.reset(seed=0)
        for name, value in attributes.items():
            setattr(theirs, name, value)
        theirs.state = np.array([ours.angles[0], seen[2]])
        for _ in range(200):
            action = generator.normal(0, 2, 1)
            expected = theirs.step(action)
            step = ours.step(action[None])
            np.testing.assert_allclose(step.observations[0], expected[0], rtol=1e-5, atol=1e-6)
            assert step.rewards[0] == pytest.approx(expected[1], rel=1e-9)
        assert step.truncated[0]


@pytest.mark.parametrize(
    ("changes", "attributes"),
    [
        ({}, {}),
        ({"first_length": 0.2, "first_centre": 0.1}, {"LINK_LENGTH_1": 0.2, "LINK_COM_POS_1": 0.1}),
        (
            {"first_mass": 0.7, "second_mass": 1.4, "second_centre": 0.6, "moment": 0.8},
            {"LINK_MASS_1": 0.7, "LINK_MASS_2": 1.4, "LINK_COM_POS_2": 0.6, "LINK_MOI": 0.8},
        ),
    ],
)
def test_acrobot_step_for_step(changes: dict[str, object], attributes: dict[str, float]) -> None:
    """Gymnasium is given our state before each step: chaos would part them otherwise."""
    ours = Acrobot(AcrobotParameters().replace(**changes), 1)
    theirs: Any = AcrobotEnv()
    theirs.reset(seed=0)
    for name, value in attributes.items():
        setattr(theirs, name, value)
    for seed in range(3):
        ours.reset(np.array([seed], np.uint64))
        for t in range(500):
            state = ours.states[0]
            action = int(np.sign(state[2] - 0.3 * state[3]) + 1) if t % 7 else t % 3
            theirs.state = state.copy()
            expected = theirs.step(action)
            step = ours.step(np.array([[action]]))
            np.testing.assert_allclose(step.observations[0], expected[0], rtol=1e-5, atol=1e-5)
            assert (step.rewards[0], step.terminated[0]) == (expected[1], expected[2])
            if step.finished[0]:
                break
        assert step.finished[0]


@pytest.mark.parametrize("half_length", [0.5, 1.0])
def test_discrete_cartpole_step_for_step(half_length: float) -> None:
    generator = np.random.default_rng(1)
    ours: Any = parameters("cartpole_discrete", half_length=half_length).simulator(1)
    theirs: Any = CartPoleEnv()
    theirs.reset(seed=0)
    theirs.length, theirs.polemass_length = half_length, theirs.masspole * half_length
    for seed in range(4):
        theirs.state = ours.reset(np.array([seed], np.uint64))[0]
        theirs.steps_beyond_terminated = None
        while True:
            action = int(generator.integers(2))
            expected = theirs.step(action)
            step = ours.step(np.array([[action]]))
            np.testing.assert_allclose(step.observations[0], theirs.state, rtol=1e-9, atol=1e-12)
            assert (step.rewards[0], step.terminated[0]) == (expected[1], expected[2])
            if step.terminated[0]:
                break


def test_pendulums_begin_where_the_preset_says() -> None:
    many = Pendulum(PRESETS["ood"], 4000)
    speeds = many.reset(episode_seeds(0, 4000))[:, 2]
    assert 8 <= np.abs(speeds).min() <= np.abs(speeds).max() <= 16
    assert (speeds > 0).mean() == pytest.approx(0.5, abs=0.04)
    angles = many.angles
    assert -math.pi <= angles.min() < -3 < 3 < angles.max() <= math.pi
    assert np.abs(Pendulum(PRESETS["in-distribution"], 1000).observations[:, 2]).max() <= 1


def test_a_pendulum_left_to_spin_earns_what_the_threshold_assumes() -> None:
    found = total_rewards(lambda seen, _: np.zeros((len(seen), 1)), PRESETS["ood"], 512, 3).mean()
    assert found == pytest.approx(-3500, abs=150)
    assert found < benchmark_named("pendulum").threshold


@pytest.mark.parametrize("benchmark", TASKS[1:])
def test_choices_are_discrete_everywhere(benchmark: str) -> None:
    made = simulator(benchmark, count=3)
    for wrong in (-1.0, 0.5, float(made.choices)):
        with pytest.raises(InputError, match="whole numbers"):
            made.step(np.full((3, 1), wrong))
    vector = VectorEnvironments(simulator(benchmark, count=3), seed=0)
    assert isinstance(vector.single_action_space, spaces.Discrete)
    vector.reset(seed=0)
    seen, *_ = vector.step(np.array([0, 1, 0]))
    baselines = StableBaselinesEnvironments(simulator(benchmark, count=3), seed=0)
    baselines.seed(0)
    baselines.reset()
    again, *_ = baselines.step(np.array([0, 1, 0]))
    np.testing.assert_array_equal(seen, again)
    assert (seen[0] != seen[1]).any()


def test_the_largest_output_is_the_choice() -> None:
    judged = benchmark_named("acrobot")
    outputs = np.array([[0.1, 3.0, -1.0], [2.0, 1.0, 1.5], [-3.0, -2.0, -1.0]])
    assert judged.actions(outputs, simulator("acrobot", count=3)).ravel().tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("benchmark", "changes", "word"),
    [
        ("pendulum", {"mass": 0.0}, "mass"),
        ("pendulum", {"gravity": -1.0}, "gravity"),
        ("pendulum", {"start_speeds": ((2.0, 1.0),)}, "start_speeds"),
        ("pendulum", {"start_speeds": ()}, "at least one"),
        ("acrobot", {"moment": 0.0}, "moment"),
        ("acrobot", {"start_width": -1.0}, "start_width"),
        ("acrobot", {"second_length": 1.0}, "second_length"),
    ],
)
def test_wrong_parameters_are_refused(benchmark: str, changes: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        parameters(benchmark, "in-distribution", **changes)


@pytest.mark.skipif("pendulum" not in shipped(), reason="its policies do not ship yet")
def test_policies_that_brake_earn_what_the_threshold_assumes() -> None:
    """The shipped policies, but braking as hard as they can while the pendulum spins faster than in training."""
    for network in list(load("pendulum").networks.values())[::5]:

        def brake(seen: Array, _: Simulator, network: Network = network) -> Array:
            return np.where(np.abs(seen[:, 2:]) > 8, -2 * np.sign(seen[:, 2:]), network(seen))

        assert -900 < total_rewards(brake, PRESETS["ood"], 128, 3).mean() < -300
