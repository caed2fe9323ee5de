"""Evaluation against episodes played one by one, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from karenina.cli import run
from karenina.errors import InputError
from karenina.network import RELU, Layer, Network
from karenina.zoo.environments.benchmark import BENCHMARKS, benchmark_named
from karenina.zoo.environments.random_numbers import episode_seeds
from karenina.zoo.environments.registration import IDENTIFIERS
from karenina.zoo.environments.simulator import parameters
from karenina.zoo.environments.single import SingleEnvironment
from karenina.zoo.evaluation import evaluate, total_rewards

SIZES = {
    "cartpole": 4,
    "mountaincar": 2,
    "aurora_short": 30,
    "aurora_long": 30,
    "pendulum": 3,
    "cartpole_discrete": 4,
    "acrobot": 6,
}
CHOICES = {"cartpole_discrete": 2, "acrobot": 3}


def network(inputs: int, seed: int = 0, scale: float = 1.0, outputs: int = 1) -> Network:
    generator = np.random.default_rng(seed)
    hidden = Layer.of(generator.normal(size=(8, inputs)), generator.normal(size=8), RELU)
    last = Layer.of(scale * generator.normal(size=(outputs, 8)), np.zeros(outputs))
    return Network((hidden, last), f"random_{seed}")


def balancing(side: float = 0.0) -> Network:
    """A linear policy that balances around x = side."""
    return Network((Layer.of([[1.0, 2.0, 50.0, 10.0]], [-side]),), "balancing")


def one_by_one(benchmark: str, preset: str, policy: Network, episodes: int, seed: int) -> list[float]:
    """Total rewards through the gymnasium environments."""
    name = "aurora" if benchmark.startswith("aurora") else benchmark
    registered = {simulated: identifier for identifier, (simulated, _) in IDENTIFIERS.items()}
    changes = {"episode_steps": 50} if name == "aurora" else {}
    if name in registered:
        made = gymnasium.make(registered[name], preset=preset, **changes)
    else:  # gymnasium's own tasks, of which ours are variants
        made = SingleEnvironment(name, preset)
    totals = []
    for number in range(episodes):
        made.reset(seed=int(episode_seeds(seed, 1, first=number)[0] % 2**63))
        raw = made.unwrapped
        simulator: Any = raw.simulator
        seen = simulator.reset(episode_seeds(seed, 1, first=number))[0]  # the seed itself, all 64 bits of it
        total, over = 0.0, False
        while not over:
            output = policy(seen)
            action = 2.0 * np.tanh(output) if benchmark == "mountaincar" else output
            action = np.argmax(output) if benchmark in CHOICES else action
            _, reward, terminated, truncated, _ = raw.step(action)
            seen = simulator.observations[0]
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    return totals


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("preset", ["in-distribution", "ood"])
def test_rewards_are_those_of_episodes_one_by_one(benchmark: str, preset: str) -> None:
    policy = network(SIZES[benchmark], scale=3.0, outputs=CHOICES.get(benchmark, 1))
    found = evaluate({"a": policy}, benchmark, [preset], episodes=12, seed=5).models["a"][preset]
    expected = one_by_one(benchmark, preset, policy, 12, 5)
    assert found.mean == pytest.approx(np.mean(expected), rel=1e-9)
    assert found.std == pytest.approx(np.std(expected, ddof=1), rel=1e-6)
    assert found.standard_error == pytest.approx(found.std / np.sqrt(12))


def test_good_is_above_the_threshold() -> None:
    found = evaluate({"balancing": balancing(), "falling": network(4)}, "cartpole", episodes=50).models
    assert found["balancing"]["in-distribution"].mean == 500
    assert found["balancing"]["in-distribution"].good
    assert not found["balancing"]["ood"].good
    assert not found["falling"]["in-distribution"].good
    sides = ["ood-right", "ood-left", "ood"]
    right = evaluate({"right": balancing(6.2)}, "cartpole", sides, episodes=400).models["right"]
    assert right["ood-right"].mean == 500
    assert right["ood"].mean == pytest.approx((500 + right["ood-left"].mean) / 2, rel=0.15)


def test_every_policy_plays_the_same_scenarios() -> None:
    """Rewards do not depend on the other policies and presets."""
    policies = {f"p{k}": network(30, k) for k in range(3)}
    together = evaluate(policies, "aurora_short", ["ood"], episodes=30, seed=2).models
    alone = evaluate({"p2": policies["p2"]}, "aurora_short", ["in-distribution", "ood"], episodes=30, seed=2).models
    assert together["p2"]["ood"] == alone["p2"]["ood"]
    other = evaluate(policies, "aurora_short", ["ood"], episodes=30, seed=3).models
    assert other["p2"]["ood"] != together["p2"]["ood"]


def test_rounds_join_seamlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    own = parameters("mountaincar", "ood")

    def push(observations: Any, _: Any) -> Any:
        return np.sign(observations[:, 1:])

    whole = total_rewards(push, own, 100, 7)
    monkeypatch.setattr("karenina.zoo.evaluation._AT_ONCE", 16)
    np.testing.assert_array_equal(total_rewards(push, own, 100, 7), whole)


def test_progress_is_told() -> None:
    calls: list[tuple[int, int]] = []
    policies = {f"p{k}": network(4, k) for k in range(2)}
    found = evaluate(policies, "cartpole", ["ood"], episodes=2, progress=lambda *told: calls.append(told))
    assert list(found.models) == ["p0", "p1"]
    assert calls == [(1, 2), (2, 2)]


def test_a_sender_that_does_nothing_is_near_the_threshold() -> None:
    nothing = Network((Layer.of(np.zeros((1, 30)), [0.0]),), "nothing")
    found = evaluate({"nothing": nothing}, "aurora_long", ["ood"], episodes=3000).models["nothing"]["ood"]
    assert found.mean == pytest.approx(99, abs=1.5)


def test_mountain_car_outputs_are_squashed_unless_they_are_actions() -> None:
    """With a goal out of reach the reward is the penalty of 300 steps: on the action as a share of the largest, 2."""
    push = {"push": Network((Layer.of(np.zeros((1, 2)), [0.5]),), "push")}
    options: dict[str, Any] = {"episodes": 2, "changes": {"goal_position": 9.0}}
    squashed = evaluate(push, "mountaincar", ["in-distribution"], **options)
    executed = evaluate(push, "mountaincar", ["in-distribution"], executed=True, **options)
    assert squashed.models["push"]["in-distribution"].mean == pytest.approx(-300 * 0.1 * np.tanh(0.5) ** 2)
    assert executed.models["push"]["in-distribution"].mean == pytest.approx(-300 * 0.1 * 0.25**2)


def test_parameters_can_be_changed() -> None:
    found = evaluate({"b": balancing()}, "cartpole", ["in-distribution"], episodes=5, changes={"episode_steps": 20})
    assert found.models["b"]["in-distribution"].mean == 20


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (({"a": network(3)}, "cartpole"), "4 inputs"),
        (({"a": network(4)}, "pong"), "cartpole"),
        (({"a": network(4)}, "cartpole", ["odd"]), "ood-left"),
    ],
)
def test_mistakes_are_named(arguments: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        evaluate(*arguments, episodes=2)


def test_every_benchmark_describes_what_its_environment_has() -> None:
    for name in SIZES:
        described = benchmark_named(name)
        assert described.reason
        for preset in described.presets:
            assert described.parameters(preset).simulator(1).observation_size == SIZES[name]


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k in range(2):
        network(4, k).to_onnx(tmp_path / f"seed_{k}.onnx")
    more = ["--episodes", "20", "--seed", "3", "--preset", "ood", "--set", "episode_steps=100", "--json"]
    assert run(["zoo", "evaluate", "cartpole", "--models", str(tmp_path), *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["models"]) == ["seed_0", "seed_1"]
    assert set(found["models"]["seed_0"]["ood"]) == {"mean", "std", "standard_error", "good"}
    assert found["presets"]["ood"]["episode_steps"] == 100
    expected = evaluate({"a": network(4, 1)}, "cartpole", ["ood"], episodes=20, seed=3).models["a"]["ood"]
    assert found["models"]["seed_1"]["ood"]["mean"] == expected.mean


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "good.onnx", tmp_path / "bad.onnx"]
    for file, policy in zip(files, (balancing(), network(4)), strict=True):
        policy.to_onnx(file)
    presets = ["--preset", "in-distribution", "--preset", "ood"]
    assert run(["zoo", "evaluate", "cartpole", "--models", *map(str, files), *presets, "--episodes", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["in-distribution", "ood"]
    assert lines[2].split()[:5] == ["good", "500.00", "±", "0.00", "*"]
    assert "*" not in lines[3]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["pong"], "unknown benchmark"),
        (["cartpole", "--models", "missing.onnx"], "missing.onnx"),
        (["cartpole", "--set", "force"], "name=value"),
        (["cartpole", "--action", "executed"], "--models"),
        (["cartpole", "--models", "MODEL", "--preset", "odd"], "ood-left"),
        (["cartpole", "--models", "MODEL", "--set", "force=strong"], "force"),
        (["aurora_short", "--models", "MODEL"], "30 inputs"),
    ],
)
def test_the_command_refuses_mistakes(
    arguments: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network(4).to_onnx(tmp_path / "policy.onnx")
    given = [str(tmp_path / "policy.onnx") if argument == "MODEL" else argument for argument in arguments]
    assert run(["zoo", "evaluate", *given, "--episodes", "2"]) == 2
    said = capsys.readouterr()
    assert word in " ".join(said.err.split())
    assert said.out == ""
    assert "Traceback" not in said.err


def test_without_the_extra_the_command_names_it(tmp_path: Path) -> None:
    network(4).to_onnx(tmp_path / "policy.onnx")
    code = f"""
import sys
sys.modules.update(dict.fromkeys(["numba", "gymnasium", "stable_baselines3"]))  # as if they were not installed
from karenina.cli import run
sys.exit(run(["zoo", "evaluate", "cartpole", "--models", {str(tmp_path / "policy.onnx")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "numba" in done.stderr
    assert "karenina[zoo]" in done.stderr


def test_importing_the_zoo_needs_nothing_more() -> None:
    code = (
        "import sys, karenina.zoo, karenina.zoo.commands;"
        "print([m for m in ('gymnasium', 'numba', 'stable_baselines3', 'torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
