"""The populations that ship: they load with the core alone, and are and earn what their manifests say."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from karenina.zoo import figures
from karenina.zoo.environments.benchmark import benchmark_named
from karenina.zoo.evaluation import evaluate
from karenina.zoo.population import load, shipped
from karenina.zoo.recipes import recipe

SHAPES = {
    "cartpole": (4, 32, 16),
    "mountaincar": (2, 64, 16),
    "aurora_short": (30, 32, 16),
    "aurora_long": (30, 32, 16),
    "pendulum": (3, 64, 64),
    "cartpole_discrete": (4, 64, 64),
    "acrobot": (6, 64, 64),
}
OUTPUTS = {"cartpole_discrete": 2, "acrobot": 3}  # one each of the others
EPISODES = 150


def test_loading_needs_the_core_alone() -> None:
    code = """
import sys
for name in ("gymnasium", "numba", "stable_baselines3", "matplotlib", "onnxruntime", "ray"):
    sys.modules[name] = None
import karenina.zoo
print(*(len(karenina.zoo.load(name).networks) for name in karenina.zoo.shipped()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["16"] * len(shipped())


@pytest.mark.parametrize("benchmark", shipped())
def test_policies_have_the_recipes_shape(benchmark: str) -> None:
    for network in load(benchmark, everything=True).networks.values():
        weights = [layer.weight.shape for layer in network.layers]
        inputs, first, second = SHAPES[benchmark]
        assert weights[:3] == [(first, inputs), (second, first), (OUTPUTS.get(benchmark, 1), second)]


@pytest.mark.parametrize("benchmark", shipped())
def test_all_were_trained_alike_and_counted(benchmark: str) -> None:
    found = load(benchmark, everything=True).provenance
    assert found["training"]["benchmark"] == benchmark
    assert found["passed"] == len(found["policies"])
    assert found["trained"] == found["passed"] + len(found["failed"])
    least = found["filter"]["least"]
    assert all(own["in-distribution"]["mean"] < least for own in found["failed"].values())
    assert found["filter"]["reason"]
    seeds = [own["seed"] for own in found["policies"].values()]
    assert len(set(seeds)) == len(seeds)
    files = {own["file"] for own in found["policies"].values()}
    home = load(benchmark).directory
    assert {str(path.relative_to(home).as_posix()) for path in home.rglob("*.onnx")} == files


@pytest.mark.parametrize("benchmark", shipped())
def test_the_environment_has_not_changed_since(benchmark: str) -> None:
    """Whoever evaluates the policies again gets the environment in which they were trained and evaluated."""
    found = load(benchmark).provenance
    described = {**recipe(benchmark).described(), "trainer": found["training"]["trainer"]}
    assert found["training"] == described
    for preset, recorded in found["evaluation"]["presets"].items():
        own = asdict(benchmark_named(benchmark).parameters(preset))
        assert {name: _listed(value) for name, value in own.items()} == recorded


def _listed(value: object) -> object:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("benchmark", shipped())
def test_rewards_are_those_recorded(benchmark: str) -> None:
    """Other scenarios, far fewer: within five standard errors."""
    population = load(benchmark)
    some = {name: population.networks[name] for name in list(population.networks)[3:16:8]}
    episodes = population.provenance["evaluation"]["episodes"]
    found = evaluate(some, benchmark, ["in-distribution", "ood"], episodes=EPISODES, seed=12).models
    for name, rewards in found.items():
        for preset, own in rewards.items():
            recorded = population.rewards[name][preset]
            error = recorded["std"] * math.sqrt(1 / EPISODES + 1 / episodes)
            assert own.mean == pytest.approx(recorded["mean"], abs=5 * error + 1e-9), (name, preset)


@pytest.mark.parametrize("benchmark", shipped())
def test_good_means_above_the_threshold(benchmark: str) -> None:
    population = load(benchmark, everything=True)
    threshold = population.provenance["evaluation"]["threshold"]
    for rewards in population.rewards.values():
        assert all(own["good"] == (own["mean"] > threshold) for own in rewards.values())


@pytest.mark.parametrize("benchmark", shipped())
def test_onnxruntime_computes_the_same(benchmark: str) -> None:
    population = load(benchmark)
    box = population.domain.boxes[0]
    inputs = np.random.default_rng(0).uniform(box.lower, box.upper, (12, len(box.lower))).astype(np.float32)
    for name, network in population.networks.items():
        file = population.directory / population.provenance["policies"][name]["file"]
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        asked = session.get_inputs()[0].name
        expected = np.concatenate([session.run(None, {asked: row[None]})[0] for row in inputs])
        ours = np.asarray(network(inputs.astype(np.float64)))
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_pictures(tmp_path: Path) -> None:
    assert figures.main([]) == 2
    first = shipped()[0]
    paths = figures.draw(first, tmp_path)
    assert [path.name for path in paths] == [f"{first}_curves.png", f"{first}_rewards.png"]
    assert all(1_000 < path.stat().st_size < 100_000 for path in paths)
    population = load(first, everything=True)
    earned, curves = figures.rewards_data(population), figures.curves_data(population)
    assert sum(own.named for own in earned) == sum(curve.named for curve in curves) == 16
    assert len(earned) == len(curves) == len(population.networks)
    assert all(own.good == population.rewards[own.name]["ood"]["good"] for own in earned)
