"""The environments as gymnasium and Stable-Baselines3 see them, and what all simulators promise."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger

from karenina.errors import InputError
from karenina.zoo.environments.aurora import Parameters as AuroraParameters
from karenina.zoo.environments.random_numbers import episode_seeds, seeds_at
from karenina.zoo.environments.registration import IDENTIFIERS
from karenina.zoo.environments.simulator import ENVIRONMENTS, Array, Simulator, Step, parameters, simulator
from karenina.zoo.environments.stable_baselines import StableBaselinesEnvironments
from karenina.zoo.environments.vector import VectorEnvironments

BENCHMARKS = ["cartpole", "mountaincar", "aurora"]
SHORT = {"cartpole": 500, "mountaincar": 40, "aurora": 12}  # steps, so that episodes end in the tests
PRESETS = [(name, preset) for name in BENCHMARKS for preset in ("in-distribution", "ood")]


def short(benchmark: str, preset: str = "in-distribution", count: int = 1) -> Simulator:
    return parameters(benchmark, preset, episode_steps=SHORT[benchmark]).simulator(count)


def policy(observations: Array) -> Array:
    """Some policy that sees the whole observation; a row's action is the same to the last bit beside any others."""
    weights = [math.cos(i + 1.0) for i in range(observations.shape[1])]
    seen = [math.fsum(weight * value for weight, value in zip(weights, row, strict=True)) for row in observations]
    return np.array([[3.0 * math.sin(5.0 * value)] for value in seen])


def episode(benchmark: str, preset: str, seed: np.uint64) -> list[tuple[Array, float, bool, bool]]:
    """One whole episode alone: observation before each step, reward, ends."""
    alone = short(benchmark, preset)
    seen = alone.reset(np.array([seed], np.uint64))
    steps = []
    while True:
        step = alone.step(policy(seen))
        steps.append((step.observations[0], step.rewards[0], step.terminated[0], step.truncated[0]))
        seen = step.observations
        if step.finished[0]:
            return steps


def rollout(many: Simulator, seeds: Any, steps: int) -> list[Step]:
    seen = many.reset(np.asarray(seeds, np.uint64))
    found = []
    for _ in range(steps):
        found.append(many.step(policy(seen)))
        seen = found[-1].observations
    return found


@pytest.mark.parametrize(("benchmark", "preset"), PRESETS)
def test_an_episode_depends_on_its_seed_alone(benchmark: str, preset: str) -> None:
    """Alone or among others, in any order, on a used simulator or a fresh one."""
    seeds = episode_seeds(4, 20)
    many = short(benchmark, preset, 20)
    forwards = rollout(many, seeds, SHORT[benchmark])
    backwards = rollout(many, seeds[::-1], SHORT[benchmark])
    for k in (0, 7, 19):
        for t, (observation, reward, terminated, truncated) in enumerate(episode(benchmark, preset, seeds[k])):
            for step, place in ((forwards[t], k), (backwards[t], 19 - k)):
                np.testing.assert_array_equal(step.observations[place], observation)
                assert step.rewards[place] == reward
                assert (step.terminated[place], step.truncated[place]) == (terminated, truncated)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_only_the_masked_episodes_begin_afresh(benchmark: str) -> None:
    many = short(benchmark, count=6)
    before = many.step(np.zeros((6, 1))).observations
    where = np.array([True, False] * 3)
    begun = many.reset(episode_seeds(9, 6), where)
    fresh = short(benchmark, count=6).reset(episode_seeds(9, 6))
    np.testing.assert_array_equal(begun[where], fresh[where])
    np.testing.assert_array_equal(begun[~where], before[~where])


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_finished_episode_stands_still(benchmark: str) -> None:
    many = parameters(benchmark, episode_steps=3).simulator(2)
    for _ in range(3):
        last = many.step(np.ones((2, 1)))
    assert last.truncated.all()
    after = many.step(np.ones((2, 1)))
    np.testing.assert_array_equal(after.observations, last.observations)
    np.testing.assert_array_equal(after.rewards, 0)
    assert after.truncated.all()
    assert not after.terminated.any()


def test_results_stay_as_they_are() -> None:
    many = simulator("cartpole", count=3)
    first = many.step(np.ones((3, 1)))
    copy = first.observations.copy()
    many.step(-np.ones((3, 1)))
    np.testing.assert_array_equal(first.observations, copy)


def test_seeds_of_a_run_differ_and_continue() -> None:
    seeds = episode_seeds(0, 10_000)
    assert len(np.unique(seeds)) == 10_000
    np.testing.assert_array_equal(episode_seeds(0, 50, first=100), seeds[100:150])
    np.testing.assert_array_equal(seeds_at(0, np.array([7, 3], np.uint64)), seeds[[7, 3]])
    assert not np.isin(episode_seeds(1, 10_000), seeds).any()
    assert not np.isin(episode_seeds(-1, 10_000), seeds).any()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: simulator("pong"), "cartpole"),
        (lambda: simulator("cartpole", "strange"), "ood-left"),
        (lambda: simulator("cartpole", AuroraParameters()), "Parameters"),
        (lambda: simulator("cartpole", count=0), "at least one"),
        (lambda: parameters("cartpole", force=-1.0), "force"),
        (lambda: parameters("cartpole", strength=1.0), "strength"),
        (lambda: parameters("cartpole", force="strong"), "force"),
        (lambda: parameters("cartpole", episode_steps=1.5), "episode_steps"),
        (lambda: parameters("cartpole", platforms=[[1, 2, 3]]), "platforms"),
        (lambda: parameters("mountaincar", slope=1.5), "slope"),
        (lambda: parameters("mountaincar", start_positions=[1]), "start_positions"),
        (lambda: parameters("aurora", shallow_buffer="deep"), "shallow_buffer"),
        (lambda: parameters("aurora", loss=0.1), "loss"),
        (lambda: simulator("cartpole", count=2).step(np.zeros((3, 1))), "shape"),
        (lambda: simulator("cartpole").step(np.array([[np.nan]])), "NaN"),
        (lambda: simulator("cartpole", count=2).reset(np.zeros(3, np.uint64)), "one seed"),
    ],
)
def test_mistakes_are_named(call: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        call()


def test_values_may_come_from_json() -> None:
    changed: Any = parameters("cartpole", platforms=[[-1, 1]], force=5)
    assert changed.platforms == ((-1, 1),)
    assert changed.simulator(2).step(np.ones((2, 1))).rewards.sum() == 2
    deep: Any = parameters("aurora", "ood", shallow_buffer=None, mean_position=0.5)
    assert (deep.shallow_buffer, deep.mean_position) == (None, 0.5)


def test_both_aurora_benchmarks_are_one_simulator_with_another_length() -> None:
    assert simulator("aurora_short").episode_steps == 50
    assert simulator("aurora_long", "ood").episode_steps == 400
    gymnasiums = {"pendulum", "cartpole_discrete", "acrobot"}
    assert set(ENVIRONMENTS) == {"cartpole", "mountaincar", "aurora", "aurora_short", "aurora_long"} | gymnasiums


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_gymnasium_finds_nothing_wrong(identifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made = gymnasium.make(identifier)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(made.unwrapped)
    made.close()
    # The actions are forces of the paper's size, not the numbers between -1 and 1 that it recommends.
    assert all("we recommend using a symmetric and normalized space" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_a_single_environment_is_the_simulator(identifier: str) -> None:
    benchmark = IDENTIFIERS[identifier][0]
    made = gymnasium.make(identifier, preset="ood", episode_steps=SHORT[benchmark])
    seen, _ = made.reset(seed=5)
    whole = episode(benchmark, "ood", np.uint64(5))
    exact = short(benchmark, "ood").reset(np.array([5], np.uint64))
    for observation, reward, terminated, truncated in whole:
        seen, *rest, _ = made.step(policy(exact)[0])  # the action is not rounded to float32
        np.testing.assert_allclose(seen, observation, rtol=1e-6)
        assert rest == [reward, terminated, truncated]
        exact = observation[None]


@pytest.mark.parametrize("preset", ["in-distribution", "ood"])
@pytest.mark.parametrize("identifier", list(IDENTIFIERS)[:2])
def test_pictures_change_with_the_state(identifier: str, preset: str) -> None:
    made = gymnasium.make(identifier, preset=preset, render_mode="rgb_array")
    made.reset(seed=1)
    first: Any = made.render()
    for _ in range(8):
        made.step(made.action_space.high)
    second: Any = made.render()
    made.close()
    assert first.shape == second.shape
    assert first.shape[0] >= 400
    assert first.shape[1:] == (600, 3)
    assert (first != second).any()


def test_unseeded_episodes_differ_and_seeded_ones_do_not() -> None:
    made = gymnasium.make("karenina/CartPoleContinuous-v0")
    first, again = made.reset(seed=3)[0], made.reset(seed=3)[0]
    np.testing.assert_array_equal(first, again)
    assert (made.reset()[0] != first).any()


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("gymnasium, karenina.zoo.environments", "karenina/PccNs-v0"),
        ("gymnasium", "karenina.zoo.environments:karenina/PccNs-v0"),
    ],
)
def test_gymnasium_knows_the_names(imports: str, name: str) -> None:
    code = f"import {imports}; print(gymnasium.make('{name}').unwrapped)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SingleEnvironment" in done.stdout, done.stderr


@pytest.mark.parametrize(("benchmark", "preset"), PRESETS)
def test_gymnasium_vectors_are_single_episodes_in_a_row(benchmark: str, preset: str) -> None:
    many = short(benchmark, preset, 5)
    vector = VectorEnvironments(many)
    seen, _ = vector.reset(seed=11)
    assert seen.dtype == np.float32
    running: list[list[Any]] = [[] for _ in range(5)]
    finished: list[list[Any]] = [[] for _ in range(5)]
    resting = np.zeros(5, np.bool_)
    exact = many.observations  # type: ignore[attr-defined]
    for _ in range(3 * SHORT[benchmark]):
        seen, rewards, terminated, truncated, _ = vector.step(policy(exact))
        exact = many.observations  # type: ignore[attr-defined]
        np.testing.assert_array_equal(seen, exact.astype(np.float32))
        for k in range(5):
            if resting[k]:
                assert (rewards[k], terminated[k], truncated[k]) == (0, False, False)
                continue
            running[k].append((rewards[k], terminated[k], truncated[k]))
            if terminated[k] or truncated[k]:
                finished[k].append(running[k])
                running[k] = []
        resting = terminated | truncated
    for k in range(5):
        assert len(finished[k]) >= 2
        for n, steps in enumerate(finished[k]):
            whole = episode(benchmark, preset, episode_seeds(11, 1, first=5 * n + k)[0])
            assert [step[1:] for step in whole] == steps


@pytest.mark.parametrize(("benchmark", "preset"), PRESETS)
def test_stable_baselines_environments_are_single_episodes_in_a_row(benchmark: str, preset: str) -> None:
    many = short(benchmark, preset, 5)
    environments = StableBaselinesEnvironments(many)
    environments.seed(11)
    environments.reset()
    numbers, lengths = [0] * 5, [0] * 5
    exact = many.observations  # type: ignore[attr-defined]
    for _ in range(3 * SHORT[benchmark]):
        seen, _, dones, infos = environments.step(policy(exact))
        exact = many.observations  # type: ignore[attr-defined]
        np.testing.assert_array_equal(seen, exact.astype(np.float32))
        for k in range(5):
            lengths[k] += 1
            if not dones[k]:
                continue
            whole = episode(benchmark, preset, episode_seeds(11, 1, first=5 * numbers[k] + k)[0])
            last, _, terminated, truncated = whole[-1]
            np.testing.assert_array_equal(infos[k]["terminal_observation"], last.astype(np.float32))
            assert infos[k]["TimeLimit.truncated"] == (truncated and not terminated)
            assert infos[k]["episode"]["l"] == lengths[k] == len(whole)
            assert infos[k]["episode"]["r"] == pytest.approx(sum(step[1] for step in whole))
            numbers[k] += 1
            lengths[k] = 0
    assert min(numbers) >= 2


def test_gymnasium_makes_vectors() -> None:
    made = gymnasium.make_vec("karenina/CartPoleContinuous-v0", num_envs=3, preset="ood-left")
    assert isinstance(made, VectorEnvironments)
    seen, _ = made.reset(seed=0)
    assert seen.shape == (3, 4)
    assert (seen[:, 0] < -6).all()
    statistics = gymnasium.wrappers.vector.RecordEpisodeStatistics(made)
    statistics.reset(seed=0)
    totals = []
    for _ in range(100):
        *_, infos = statistics.step(np.ones((3, 1), np.float32))
        if "episode" in infos:
            totals += list(infos["episode"]["r"][infos["_episode"]])
    assert totals
    assert all(5 < total < 20 for total in totals)


def test_stable_baselines_learns_on_them() -> None:
    environments = StableBaselinesEnvironments(simulator("cartpole", count=4))
    assert environments.get_attr("episode_steps", [0, 1]) == [500, 500]
    model = PPO("MlpPolicy", environments, n_steps=32, batch_size=32, n_epochs=1, seed=1, device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own leaves a folder behind
    model.learn(256)
    assert len(model.ep_info_buffer) > 0
