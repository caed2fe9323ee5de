"""Trainings on disk: resumed, regrouped and refused; the recipes against the paper's numbers."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

pytest.importorskip("gymnasium")
pytest.importorskip("numba")

from karenina.errors import InputError
from karenina.loading import load
from karenina.zoo import ppo, training
from karenina.zoo.recipes import Recipe, SacSettings, recipe
from karenina.zoo.train_command import assignments, seed_list, train
from karenina.zoo.training import Trainer, groups, train_population
from karenina.zoo.training_folder import CURVE_POINTS, Progress, TrainingFolder, write_atomically

TINY = recipe(
    "cartpole", {"checkpoints": 3, "checkpoint_steps": 200, "steps": 128, "batch": 64, "epochs": 2}, {"force": 12.0}
)


def silent(_: str) -> None: ...


def digests(folder: TrainingFolder, seeds: tuple[int, ...]) -> list[str]:
    return [load(folder.policy(seed)).digest() for seed in seeds]


def test_a_training_leaves_policies_checkpoints_and_provenance(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = train_population(TINY, (3, 12), tmp_path, progress=lines.append)
    assert folder.path == tmp_path / "cartpole"
    names = {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}
    expected = {f"seed_{s}.{end}" for s in ("003", "012") for end in ("onnx", "json")}
    expected |= {f"checkpoints/seed_{s}_0{k}.onnx" for s in ("003", "012") for k in (1, 2, 3)}
    assert names == expected | {f"state/seed_{s}.npz" for s in ("003", "012")}
    policy = load(folder.policy(3))
    assert policy.shape == "4-32-16-1"
    assert policy.digest() == load(folder.path / "checkpoints" / "seed_003_03.onnx").digest()
    assert policy.digest() != load(folder.path / "checkpoints" / "seed_003_02.onnx").digest()
    story = json.loads(folder.provenance(3).read_text())
    assert story["seed"] == 3
    assert story["digest"] == policy.digest()
    assert story["training"]["environment"]["force"] == 12.0
    assert story["training"]["hyperparameters"]["gamma"] == 0.95
    assert story["training"]["checkpoint_steps"] == 256  # whole rollouts
    assert story["curve"]["steps"][-1] == 3 * 256
    assert {"karenina", "python", "numpy", "torch", "numba"} <= story["versions"].keys()
    assert any("checkpoint 2/3" in line for line in lines)


def test_an_interrupted_training_goes_on_to_the_same_policies(tmp_path: Path) -> None:
    """Stopped at different points for different seeds, and regrouped on the way."""
    seeds = (1, 2, 3)
    expected = digests(train_population(TINY, seeds, tmp_path / "whole", progress=silent), seeds)

    def stop_after(checkpoint: int) -> Any:
        def progress(line: str) -> None:
            if f"checkpoint {checkpoint}/3" in line:
                raise KeyboardInterrupt

        return progress

    with pytest.raises(KeyboardInterrupt):
        train_population(TINY, (2,), tmp_path / "parts", progress=stop_after(2))
    with pytest.raises(KeyboardInterrupt):
        train_population(TINY, (1, 2), tmp_path / "parts", progress=stop_after(1), resume=True)
    folder = train_population(TINY, seeds, tmp_path / "parts", resume=True, progress=silent)
    assert digests(folder, seeds) == expected
    stories = [
        json.loads(TrainingFolder(tmp_path / k / "cartpole", {}).provenance(2).read_text()) for k in ("whole", "parts")
    ]
    assert stories[0]["curve"] == stories[1]["curve"]
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    train_population(TINY, seeds, tmp_path / "parts", resume=True, progress=silent)
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before  # all were finished


SMALL_SAC = recipe(
    "mountaincar",
    {"checkpoints": 2, "checkpoint_steps": 60, "batch": 16, "gradient_steps": 4, "buffer": 100},
    {"episode_steps": 25, "penalty": "clipped"},
)


@pytest.mark.parametrize(("training", "trainer"), [(SMALL_SAC, "population"), (TINY, "sb3")])
def test_stable_baselines_is_resumed_too(training: Recipe, trainer: str, tmp_path: Path) -> None:
    """SAC is Stable-Baselines3's whatever the trainer; its replay buffer is full before the end here."""
    pytest.importorskip("stable_baselines3")
    whole = train_population(training, (7,), tmp_path / "whole", trainer=trainer, progress=silent)

    def stop(line: str) -> None:
        if "checkpoint 1/" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_population(training, (7,), tmp_path / "parts", trainer=trainer, progress=stop)
    parts = train_population(training, (7,), tmp_path / "parts", trainer=trainer, progress=silent, resume=True)
    assert digests(parts, (7,)) == digests(whole, (7,))
    stories = [json.loads(folder.provenance(7).read_text()) for folder in (whole, parts)]
    assert stories[0]["curve"] == stories[1]["curve"]
    assert stories[0]["training"]["trainer"] == "sb3"
    assert ("tanh" in stories[0]["action"]) == (training is SMALL_SAC)


def test_without_bootstrap_an_episode_that_is_cut_has_ended() -> None:
    baselines = pytest.importorskip("karenina.zoo.stable_baselines")
    for bootstrap in (True, False):
        short = recipe("cartpole", {"bootstrap": bootstrap}, {"episode_steps": 1, "angle_limit": 1.0})
        environments = baselines.model_for(short, 1).env
        environments.reset()
        _, _, done, infos = environments.step(np.zeros((1, 1), np.float32))
        assert done.all()
        assert infos[0]["TimeLimit.truncated"] is bootstrap


STOCK = {"checkpoints": 2, "checkpoint_steps": 64, "steps": 32, "environments": 2, "batch": 32, "epochs": 1}


@pytest.mark.parametrize("benchmark", ["pendulum", "cartpole_discrete", "acrobot"])
def test_stock_policies_are_stable_baselines(benchmark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tanh networks that act as their models, whatever trainer is asked for; and no logs are left behind."""
    baselines = pytest.importorskip("karenina.zoo.stable_baselines")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    training = recipe(benchmark, STOCK)
    folder = train_population(training, (2,), tmp_path, progress=silent)
    assert list((tmp_path / "temporary").iterdir()) == []
    story = json.loads(folder.provenance(2).read_text())
    assert story["training"]["trainer"] == "sb3"
    assert story["training"]["hyperparameters"]["activation"] == "tanh"
    assert ("largest output" in story["action"]) == (benchmark != "pendulum")
    model = baselines.model_for(training, 2)
    network = baselines.actor_of(model, 2)
    assert not network.piecewise_linear
    x = np.random.default_rng(0).normal(size=(100, network.input_size)).astype(np.float32)
    action, _ = model.predict(x, deterministic=True)
    y = network(x)
    if benchmark == "pendulum":
        np.testing.assert_allclose(np.clip(y, -2, 2), action, atol=1e-5)
    else:
        assert (y.argmax(axis=1) == action).mean() > 0.98  # but for ties to rounding


def test_stock_settings_refuse_other_activations() -> None:
    with pytest.raises(InputError, match="tanh or relu"):
        recipe("pendulum", {"activation": "sine"})


@pytest.mark.parametrize("training", [SMALL_SAC, TINY])
def test_exported_actors_act_as_their_models_do(training: Recipe) -> None:
    baselines = pytest.importorskip("karenina.zoo.stable_baselines")
    model = baselines.model_for(training, 3)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=torch.manual_seed(0))
    network = baselines.actor_of(model, 3)
    x = np.random.default_rng(0).normal(size=(200, network.input_size)).astype(np.float32)
    action, _ = model.predict(x, deterministic=True)
    y = network(x)
    if training is SMALL_SAC:
        assert network.piecewise_linear
        assert {-5.0, 5.0} & set(np.round(y.ravel(), 12))  # the clip is at work
        y = 2 * np.tanh(y)
    np.testing.assert_allclose(np.clip(y, model.action_space.low, model.action_space.high), action, atol=1e-5)


def test_what_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    train_population(TINY, (1,), tmp_path, progress=silent)
    with pytest.raises(InputError, match="already holds seed_001"):
        train_population(TINY, (1, 2), tmp_path, progress=silent)
    other = recipe("cartpole", {"checkpoints": 2, "checkpoint_steps": 128, "steps": 128, "batch": 64})
    with pytest.raises(InputError, match="other settings"):
        train_population(other, (1,), tmp_path, resume=True, progress=silent)


def test_a_broken_state_is_named(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path, {})
    folder.state(1).parent.mkdir(parents=True)
    folder.state(1).write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(InputError, match=re.escape(str(folder.state(1)))):
        folder.resume(1)
    assert folder.resume(2) == (Progress(), {})


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_atomically(path, lambda p: p.write_text("old"))

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_recipes_are_the_papers() -> None:
    cartpole, car = recipe("cartpole"), recipe("mountaincar")
    short, long = recipe("aurora_short"), recipe("aurora_long")
    assert isinstance(cartpole.settings, ppo.Settings)
    assert (cartpole.settings.gamma, cartpole.settings.batch, cartpole.settings.hidden) == (0.95, 128, (32, 16))
    assert (cartpole.checkpoints, cartpole.iterations) == (10, 25)  # 25 rollouts of 2048 are the first past 50,000
    assert isinstance(car.settings, SacSettings)
    assert (car.settings.gamma, car.settings.batch, car.settings.tau) == (0.9999, 512, 0.01)
    assert (car.checkpoints, car.checkpoint_steps, car.algorithm) == (10, 5_000, "SAC")
    assert short.settings == long.settings
    assert isinstance(short.settings, ppo.Settings)
    assert (cartpole.settings.bootstrap, short.settings.bootstrap) == (True, False)
    assert (short.checkpoints, short.checkpoint_steps, short.iterations) == (6, 656_000, 81)
    assert short.described()["environment"]["episode_steps"] == 50
    assert long.described()["environment"]["episode_steps"] == 400


@pytest.mark.parametrize(
    ("hyperparameters", "environment", "message"),
    [
        ({"momentum": 1}, {}, "no hyperparameter 'momentum'"),
        ({"batch": "many"}, {}, "not of that kind"),
        ({"batch": True}, {}, "not of that kind"),
        ({"bootstrap": 1}, {}, "not of that kind"),
        ({"batch": 100}, {}, "multiple of the batch"),
        ({"checkpoints": 0}, {}, "at least one checkpoint"),
        ({}, {"wind": 3}, "no parameter 'wind'"),
        ({}, {"force": -1.0}, "force"),
    ],
)
def test_recipes_refuse(hyperparameters: dict[str, object], environment: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        recipe("cartpole", hyperparameters, environment)


def test_unknown_benchmark() -> None:
    with pytest.raises(InputError, match="there are cartpole"):
        recipe("pong")


def test_assignments() -> None:
    assert assignments(["a=1", "b = 2.5", "c=auto", "d=[1, 2]"]) == {"a": 1, "b": 2.5, "c": "auto", "d": [1, 2]}
    with pytest.raises(InputError, match="name=value"):
        assignments(["alone"])


def test_seed_list() -> None:
    assert seed_list("1-3,7, 9-9") == [1, 2, 3, 7, 9]
    for wrong in ("", "a", "3-", "-3", "1;2"):
        with pytest.raises(InputError, match="seeds are written"):
            seed_list(wrong)


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,)])
def test_seeds_are_checked(seeds: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seeds are different"):
        train_population(TINY, seeds, tmp_path, progress=silent)


@pytest.mark.parametrize("jobs", [1, 2, 3, 16])
@pytest.mark.parametrize("count", [0, 1, 5, 64, 200])
@pytest.mark.parametrize("batch", [64, 2048])
def test_groups_hold_every_seed_once(count: int, jobs: int, batch: int) -> None:
    seeds = list(range(7, 7 + count))
    found = groups(seeds, recipe("aurora_short", {"batch": batch}), Trainer.POPULATION, jobs)
    assert [seed for group in found for seed in group] == seeds
    assert all(len(group) <= 8192 // batch for group in found)
    assert len(found) >= min(jobs, count)
    if found:
        assert max(map(len, found)) - min(map(len, found)) <= 1


def test_curves_are_thinned_to_their_end() -> None:
    story = Progress(1, 0.0, list(range(1, 1001)), [float("nan"), *map(float, range(999))])
    curve = story.curve()
    assert len(curve["steps"]) <= CURVE_POINTS
    assert (curve["steps"][-1], curve["reward"][-1]) == (1000, 998.0)
    assert np.isfinite(curve["reward"]).all()
    assert Progress().curve() == {"steps": [], "reward": []}


def test_a_recipe_knows_its_benchmark() -> None:
    assert isinstance(TINY, Recipe)
    assert training.actor(ppo.Learners.start((5,), 4, ppo.Settings()), 0).name == "seed_005"


@pytest.fixture
def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(train)
    return app


def test_the_command_trains(command: typer.Typer, tmp_path: Path) -> None:
    shorter = ["checkpoints=1", "checkpoint_steps=64", "steps=64", "batch=32", "epochs=1"]
    changes = [word for change in shorter for word in ("--hyperparameter", change)]
    arguments = ["cartpole", "--seeds", "5,7-8", "--out", str(tmp_path), "--set", "force=11", *changes]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "cartpole")
    assert "checkpoint 1/1" in done.stderr
    story = json.loads((tmp_path / "cartpole" / "seed_007.json").read_text())
    assert story["training"]["environment"]["force"] == 11
    assert story["training"]["hyperparameters"]["epochs"] == 1
    again = CliRunner().invoke(command, arguments)
    assert isinstance(again.exception, InputError)
    assert CliRunner().invoke(command, [*arguments, "--resume"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pong"], "no recipe"),
        (["cartpole", "--seeds", "x"], "seeds are written"),
        (["cartpole", "--set", "force"], "name=value"),
        (["cartpole", "--device", "cuda"], "no CUDA device"),
    ],
)
def test_the_command_refuses(
    command: typer.Typer, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = CliRunner().invoke(command, [*arguments, "--out", str(tmp_path)])
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
