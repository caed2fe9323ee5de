"""Populations: assembled from a training and an evaluation, loaded with the core alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karenina.domain_file import load_domain
from karenina.errors import InputError
from karenina.network import RELU, Layer, Network
from karenina.zoo import assembly, population
from karenina.zoo.assembly import PAPER_SEEDS, assemble
from karenina.zoo.population import load_population
from karenina.zoo.training_folder import Progress, TrainingFolder, seed_name

SIZES = {
    "cartpole": 4,
    "mountaincar": 2,
    "aurora_short": 30,
    "aurora_long": 30,
    "pendulum": 3,
    "cartpole_discrete": 4,
    "acrobot": 6,
}
SEEDS = (1, 3, *range(5, 25), 4, 52, 945, 885)


def policy(seed: int, inputs: int) -> Network:
    rng = np.random.default_rng(seed)
    first = Layer.of(rng.normal(size=(5, inputs)), rng.normal(size=5), RELU)
    return Network((first, Layer.of(rng.normal(size=(1, 5)), rng.normal(size=1))), seed_name(seed))


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A finished training of Aurora: seed 3 fails, the others pass."""
    folder = TrainingFolder(tmp_path / "trained", {"benchmark": "aurora_short", "checkpoints": 6})
    for seed in SEEDS:
        story = Progress(6, 1.5, list(range(10, 2600, 10)), [float(k) for k in range(259)])
        folder.finish(seed, story, policy(seed, 30), {"action": "the output", "device": "cpu"})
    return folder.path


@pytest.fixture
def evaluation() -> dict[str, Any]:
    def rewards(seed: int) -> dict[str, Any]:
        inside = 99.0 if seed == 3 else 100.0 + seed
        return {
            "in-distribution": {"mean": inside, "std": 1.0, "good": True},
            "ood": {"mean": 5.0, "std": 2.0, "good": False},
        }

    return {"episodes": 20_000, "seed": 0, "models": {seed_name(seed): rewards(seed) for seed in SEEDS}}


def made(training: Path, evaluation: dict[str, Any], out: Path) -> Path:
    assemble(training, evaluation, 100.0, out, "a gap in the rewards")
    text = Path(str(population._home("aurora_short"))) / "domain.toml"
    (out / "domain.toml").write_text(text.read_text())
    return out


def test_the_named_set_is_the_first_that_pass_in_the_papers_order(
    training: Path, evaluation: dict[str, Any], tmp_path: Path
) -> None:
    folder = made(training, evaluation, tmp_path / "out")
    assert json.loads((folder / "manifest.json").read_text()) == assemble(
        training, evaluation, 100.0, folder, "a gap in the rewards"
    )
    found = load_population(folder)
    seeds = [int(name.removeprefix("seed_")) for name in found.networks]
    assert seeds == [4, 52, 885, 945, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    assert (found.benchmark, found.distance, found.tolerance) == ("aurora_short", "l1", 1.0)
    assert found.domain.size == 30
    assert found.rewards["seed_052"]["in-distribution"]["mean"] == 152.0
    manifest = found.provenance
    assert (manifest["trained"], manifest["passed"]) == (26, 25)
    assert list(manifest["failed"]) == ["seed_003"]
    assert manifest["filter"] == {"preset": "in-distribution", "least": 100.0, "reason": "a gap in the rewards"}
    assert manifest["evaluation"] == {"episodes": 20_000, "seed": 0}
    curve = manifest["policies"]["seed_004"]["curve"]
    assert len(curve["steps"]) <= 100
    assert (curve["steps"][-1], curve["reward"][-1]) == (2590, 258.0)


def test_everything_is_all_that_passed(training: Path, evaluation: dict[str, Any], tmp_path: Path) -> None:
    folder = made(training, evaluation, tmp_path / "out")
    named, everything = load_population(folder), load_population(folder, everything=True)
    assert list(everything.networks)[:16] == list(named.networks)
    assert len(everything.networks) == len(SEEDS) - 1
    for name, network in everything.networks.items():
        assert network.name == name
        assert network.digest() == policy(int(name.removeprefix("seed_")), 30).digest()
    # A folder given to the command line means the files right in it: the named set.
    assert {path.stem for path in folder.glob("*.onnx")} == set(named.networks)


def test_other_versions_are_told(training: Path, evaluation: dict[str, Any], tmp_path: Path) -> None:
    path = training / "seed_007.json"
    story = json.loads(path.read_text())
    story["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(story))
    policies = assemble(training, evaluation, 100.0, tmp_path / "out")["policies"]
    assert {name for name, own in policies.items() if "versions" in own} == {"seed_007"}
    assert policies["seed_007"]["versions"]["torch"] == "1.0"


def test_an_earlier_assembly_leaves_nothing_behind(training: Path, evaluation: dict[str, Any], tmp_path: Path) -> None:
    folder = made(training, evaluation, tmp_path / "out")
    evaluation["models"]["seed_052"]["in-distribution"]["mean"] = 0.0
    found = load_population(made(training, evaluation, folder), everything=True)
    assert len(found.networks) == len(SEEDS) - 2
    assert {path.stem for path in folder.rglob("*.onnx")} == set(found.networks)


def test_a_policy_that_was_exchanged_is_noticed(training: Path, evaluation: dict[str, Any], tmp_path: Path) -> None:
    folder = made(training, evaluation, tmp_path / "out")
    policy(999, 30).to_onnx(folder / "seed_052.onnx")
    with pytest.raises(InputError, match=r"seed_052.onnx is not the policy"):
        load_population(folder)


def test_assembly_refuses(training: Path, evaluation: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 of 26 policies pass"):
        assemble(training, evaluation, 1_000.0, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    del evaluation["models"]["seed_004"]
    with pytest.raises(InputError, match="no in-distribution reward of seed_004"):
        assemble(training, evaluation, 100.0, tmp_path / "out")
    story = json.loads((training / "seed_005.json").read_text())
    story["training"]["checkpoints"] = 7
    (training / "seed_005.json").write_text(json.dumps(story))
    with pytest.raises(InputError, match="trained otherwise"):
        assemble(training, evaluation, 100.0, tmp_path / "out")
    with pytest.raises(InputError, match="holds no trained policies"):
        assemble(tmp_path, evaluation, 100.0, tmp_path / "out")


def test_command(
    training: Path, evaluation: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evaluation.json"
    arguments = [str(training), str(file), "--least", "100", "--out", str(tmp_path / "out")]
    assert assembly.main(arguments) == 2
    assert str(file) in capsys.readouterr().err
    file.write_text(json.dumps(evaluation))
    assert assembly.main(arguments) == 0
    assert capsys.readouterr().out.startswith("aurora_short: 25 of 26 pass; named: seed_004, seed_052")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"benchmark": "pong"}', '{"benchmark": "cartpole", "policies": {}, "chosen": ["seed_001"]}'],
)
def test_broken_manifests_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest.json is not the manifest"):
        load_population(tmp_path)


def test_unknown_and_missing_populations(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown benchmark 'pong'"):
        population.load("pong")
    with pytest.raises(InputError, match="no trained policies"):
        load_population(tmp_path)


@pytest.mark.parametrize("benchmark", population.shipped())
def test_domains_are_those_described(benchmark: str) -> None:
    domain = load_domain(population._home(benchmark) / "domain.toml")
    assert domain.size == SIZES[benchmark]
    if benchmark == "cartpole":
        assert [box.lower[0] for box in domain.boxes] == [-10.0, 2.4]
        assert [box.upper[0] for box in domain.boxes] == [-2.4, 10.0]
        assert domain.boxes[0].upper[1:].tolist() == [2.66, 0.23, 1.22]
    if benchmark.startswith("aurora"):
        assert domain.boxes[0].lower.reshape(10, 3).tolist() == [[-0.007, 1.0, 0.7]] * 10
        assert domain.boxes[0].upper.reshape(10, 3).tolist() == [[0.007, 1.04, 8.0]] * 10
    if benchmark == "pendulum":  # every state that spins faster than 8 is in a box
        angle = np.linspace(-np.pi, np.pi, 997)
        for speed in (-16.0, -8.0, 11.0):
            rows = np.stack([np.cos(angle), np.sin(angle), np.full_like(angle, speed)], axis=1)
            inside = [((box.lower <= rows) & (rows <= box.upper)).all(axis=1) for box in domain.boxes]
            assert np.any(inside, axis=0).all()


@pytest.mark.parametrize("benchmark", population.shipped())
def test_shipped_populations_are_whole(benchmark: str) -> None:
    found = population.load(benchmark, everything=True)
    named = population.load(benchmark)
    assert len(named.networks) == 16
    assert list(found.networks)[:16] == list(named.networks)
    least = found.provenance["filter"]["least"]
    for name, network in found.networks.items():
        found.domain.require_size(network)
        assert network.piecewise_linear == (benchmark in PAPER_SEEDS)  # gymnasium's tasks have Tanh policies
        assert found.rewards[name]["in-distribution"]["mean"] >= least
    order = [found.provenance["policies"][name]["seed"] for name in found.networks]
    known = [seed for seed in PAPER_SEEDS.get(benchmark, ()) if seed in order]
    assert order == known + sorted(set(order) - set(known))


def test_loading_needs_neither_gymnasium_nor_numba() -> None:
    heavy = ["gymnasium", "numba", "stable_baselines3"]
    code = f"import sys, karenina.zoo.population; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
