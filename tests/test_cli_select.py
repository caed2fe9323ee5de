"""`karenina select`: the models it finds, what it prints and leaves on disk, and the mistakes it refuses."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from command_line import strict_json
from measured import a_network

from karenina import cli
from karenina.cli.population import distinct_names
from karenina.cli.select import with_ray_address
from karenina.disagreement import pairwise_disagreement_threshold
from karenina.domain_file import load_domain
from karenina.loading import load

SEEDS = range(6)
DOMAIN = 'names = ["left", "right side"]\n[[box]]\nlower = [-1, -1]\nupper = [1, 2]\n'
SELECT = ["select", "models", "--domain", "domain.toml", "--device", "cpu"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    (folder / "models").mkdir()
    for seed in SEEDS:
        a_network(seed).to_onnx(folder / "models" / f"seed_{seed}.onnx")
    (folder / "models" / "provenance.json").write_text('{"trained": "yesterday"}')
    (folder / "models" / "README").write_text("about these models\n")
    (folder / "models" / ".hidden.onnx").write_bytes(b"an editor's remains")
    (folder / "models" / "older").mkdir()
    (folder / "domain.toml").write_text(DOMAIN)
    return folder


def selected(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """The result of a selection in JSON."""
    assert cli.run([*SELECT, "--json", *arguments]) == code, capsys.readouterr().err
    return strict_json(capsys.readouterr().out)


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """The result without what differs from run to run: seconds, and where it is."""
    pairs = [{key: value for key, value in pair.items() if key != "seconds"} for pair in result["pairs"]]
    return {key: value for key, value in result.items() if key not in ("seconds", "run")} | {"pairs": pairs}


def lines(run: str | Path) -> int:
    return len((Path(run) / "pairs.jsonl").read_text().splitlines())


# --- What it finds ---------------------------------------------------------------------------------------------------


def by_hand(folder: Path) -> list[set[str]]:
    """The survivors after each iteration of 25 %, from a table of all pairs; Alg. 2 in its simplest form."""
    domain = load_domain(folder / "domain.toml")
    models = {f"seed_{seed}": load(folder / "models" / f"seed_{seed}.onnx") for seed in SEEDS}
    table = {
        (a, b): pairwise_disagreement_threshold(models[a], models[b], domain).lower
        for a in models
        for b in models
        if a < b
    }
    left, trace = set(models), []
    while len(left) > 2:
        scores = {a: np.mean([table[min(a, b), max(a, b)] for b in left if b != a]) for a in left}
        worst = sorted(left, key=lambda name: scores[name], reverse=True)[: max(1, len(left) // 4)]
        left = left - set(worst)
        trace.append(left)
    return trace


def test_the_survivors_are_those_of_the_full_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = selected(capsys)
    trace = by_hand(here)
    assert [set(step["survived"]) for step in result["iterations"]] == trace
    assert set(result["survivors"]) == trace[-1]
    assert result["recommended"] in result["survivors"]
    assert "any two survivors differ by at most" in result["guarantee"]["sentence"]
    for step in result["iterations"]:
        assert step["certified"] is True
        assert all(low <= high for low, high in step["scores"].values())
    assert {"a", "b", "lower", "upper", "witness"} <= result["pairs"][0].keys()
    assert len(result["pairs"]) == 15
    assert [model["name"] for model in result["models"]] == [f"seed_{seed}" for seed in SEEDS]


def test_outputs_belong_to_the_model_they_are_said_to_belong_to(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for pair in selected(capsys)["pairs"]:
        for name, output in zip((pair["a"], pair["b"]), pair["outputs"], strict=True):
            assert load(here / "models" / f"{name}.onnx")(pair["witness"]) == pytest.approx(output, abs=1e-9)


def test_the_text_for_people(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(SELECT) == 0
    out, err = capsys.readouterr()
    (run,) = (here / "karenina-runs").iterdir()
    assert out.splitlines()[0].split() == ["iteration", "models", "removed", "scores", "decided"]
    for label in ("survivors:", "recommended:", "guarantee:", "run:"):
        assert f"\n{label}" in out
    assert out.endswith(f"{run.relative_to(here)}\n")
    assert run.name.startswith("domain-")
    assert "iteration 1, 6 models: bounding all pairs (15)\n" in err
    assert max(map(len, err.splitlines())) <= 80


@pytest.mark.parametrize(
    "options",
    [
        ["--exact"],
        ["--criterion", "max"],
        ["--criterion", "combined", "--percent", "40"],
        ["--distance", "linf", "--tolerance", "0.01"],
        ["--distance", "c-distance", "--condition", "y0 >= -1"],
        ["--iterations", "1"],
        ["--stop-below", "100"],
        ["--similar", "100"],
    ],
)
def test_every_option_reaches_the_selection(here: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    result = selected(capsys, *options)
    settings = result["settings"]
    for name, value in itertools.pairwise(options):
        key = name.removeprefix("--").replace("-", "_")
        if key in settings and not value.startswith("--"):
            assert str(settings[key]).removesuffix(".0") == value
    assert settings["exact"] is ("--exact" in options)
    if options[0] in ("--stop-below", "--similar"):
        assert len(result["survivors"]) == 6
    if options[0] == "--iterations":
        assert len(result["iterations"]) == 1
    assert here.exists()


def test_a_time_limit_that_leaves_decisions_open_is_exit_code_3(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = selected(capsys, "--timeout-per-pair", "1e-9", code=3)
    assert any(not step["certified"] for step in result["iterations"])
    first = lines(result["run"])
    run = Path(result["run"])
    assert selected(capsys, "--out", str(run), "--timeout-per-pair", "1e-9", code=3)["survivors"] == result["survivors"]
    assert lines(run) == first
    again = selected(capsys, "--out", str(run))  # more time: measured again, and certified
    assert all(step["certified"] for step in again["iterations"])
    assert here.exists()


# --- Models ----------------------------------------------------------------------------------------------------------


def test_files_and_folders_are_read_once_each(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = selected(capsys, "models/seed_3.onnx", "./models")
    assert [model["name"] for model in result["models"]] == [f"seed_{seed}" for seed in SEEDS]
    assert here.exists()


def test_links_are_models_by_their_own_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As version control of data and caches of downloads leave them: the content elsewhere, under a name of no use."""
    (here / "links").mkdir()
    for seed in range(4):
        (here / "links" / f"policy_{seed}.onnx").symlink_to(here / "models" / f"seed_{seed}.onnx")
    arguments = ["--domain", "domain.toml", "--json"]
    assert cli.run(["select", "links", *arguments]) == 0
    assert strict_json(capsys.readouterr().out)["names"] == [f"policy_{seed}" for seed in range(4)]
    assert cli.run(["select", "links", "models", *arguments]) == 0
    out, err = capsys.readouterr()
    assert strict_json(out)["names"] == [*(f"policy_{seed}" for seed in range(4)), "seed_4", "seed_5"]
    assert "note: models/seed_0.onnx and links/policy_0.onnx are one and the same file: it is counted once" in err


def test_names_tell_files_apart() -> None:
    names = {
        "/r/one/a.onnx": "one/a",
        "/r/two/a.onnx": "two/a",
        "/r/two/b.onnx": "b",
        "/r/c.onnx": "c.onnx",
        "/r/c.zip": "c.zip",
        "/r/x/y/d.pt.gz": "r/x/y/d",
        "/r/x/z/d.pt.gz": "r/x/z/d",
        "/r/w/x/y/d.pt.gz": "w/x/y/d",
    }
    assert distinct_names([Path(file) for file in names]) == list(names.values())
    assert distinct_names([Path("a.pt"), Path("b.onnx.gz")]) == ["a", "b"]


def test_an_unreadable_file_is_refused_or_left_out_with_a_note(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "models" / "cut.onnx").write_bytes(b"\x08\x07")
    assert cli.run(SELECT) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: models/cut.onnx")
    assert not (here / "karenina-runs").exists()
    assert cli.run([*SELECT, "--skip-unreadable", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "note: left out: models/cut.onnx" in err
    assert len(strict_json(out)["names"]) == 6


def other_models(here: Path) -> None:
    (here / "empty").mkdir()
    (here / "one").mkdir()
    shutil.copy(here / "models" / "seed_0.onnx", here / "one" / "lonely.onnx")
    a_network(9, inputs=3).to_onnx(here / "three_inputs.onnx")
    a_network(9, outputs=2).to_onnx(here / "two_outputs.onnx")
    (here / "foreign").mkdir()
    (here / "foreign" / "thesis.tex").write_text("precious")
    (here / "wide.toml").write_text("[[box]]\nlower = [0, 0, 0]\nupper = [1, 1, 1]\n")


MISTAKES: list[tuple[list[str], str]] = [
    (["select", "--domain", "domain.toml"], "Missing argument 'PATH"),
    (["select", "models"], "Missing option '--domain'"),
    (["select", "empty", "--domain", "domain.toml"], "empty holds no model file"),
    (["select", "nowhere", "--domain", "domain.toml"], "nowhere: no such file"),
    (["select", "one", "--domain", "domain.toml"], "disagreement needs at least two networks, not 1"),
    ([*SELECT, "one"], "seed_0 and lonely hold the same network"),
    ([*SELECT, "three_inputs.onnx"], "seed_0 has 2 inputs and three_inputs has 3"),
    ([*SELECT, "two_outputs.onnx"], "seed_0 has 1 outputs and two_outputs has 2"),
    ([*SELECT, "--domain", "wide.toml"], "wide.toml has 3 inputs but"),
    ([*SELECT, "--domain", "no.toml"], "no.toml cannot be read"),
    ([*SELECT, "--distance", "class"], "class distance needs at least two outputs"),
    ([*SELECT, "--distance", "c-distance", "--condition", "y3 >= 0"], "there is no output y3"),
    ([*SELECT, "--condition", "y0 >= 0"], "conditions belong to the c-distance"),
    ([*SELECT, "--criterion", "luck"], "'luck' is not one of"),
    ([*SELECT, "--percent", "100"], "percent must be a number between 0 and 100"),
    ([*SELECT, "--percent", "0"], "percent must be"),
    ([*SELECT, "--iterations", "-1"], "Invalid value for '--iterations'"),
    ([*SELECT, "--tolerance", "0"], "tolerance must be a finite number > 0"),
    ([*SELECT, "--timeout-per-pair", "0"], "--timeout-per-pair must be a number of seconds > 0"),
    ([*SELECT, "--stop-below", "inf"], "--stop-below must be a finite number"),
    ([*SELECT, "--jobs", "-2"], "Invalid value for '--jobs'"),
    ([*SELECT, "--normalisation", "1.npz", "--normalisation", "2.npz"], "one by one, not a folder"),
    ([*SELECT, "--out", "domain.toml"], "domain.toml is a file"),
    ([*SELECT, "--out", "foreign"], "foreign holds other files and no run.json"),
    ([*SELECT, "--out", "domain.toml/run"], "domain.toml/run cannot be written"),
    (["resume"], "Missing argument 'RUN'"),
    (["resume", "empty"], "empty is not a run folder"),
    (["resume", "nowhere"], "nowhere is not a run folder"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    other_models(here)
    before = sorted(here.rglob("*"))
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        (["a", "--ray"], ["a", "--ray", "local"]),
        (["--ray", "models/", "b"], ["--ray", "local", "models/", "b"]),
        (["--ray", "auto", "b"], ["--ray", "auto", "b"]),
        (["--ray", "head:6379"], ["--ray", "head:6379"]),
        (["--ray", "ray://10.0.0.1:10001", "--json"], ["--ray", "ray://10.0.0.1:10001", "--json"]),
        (["--ray", "--json"], ["--ray", "local", "--json"]),
        (["--ray=head:1"], ["--ray=head:1"]),
    ],
)
def test_ray_may_stand_alone(given: list[str], understood: list[str]) -> None:
    assert with_ray_address(given) == understood


# --- What it leaves --------------------------------------------------------------------------------------------------


def test_the_folder_of_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = selected(capsys, "--out", "run")
    run = here / "run"
    assert {path.name for path in run.iterdir()} == {"run.json", "pairs.jsonl", "selection.json", "run.lock"}
    assert strict_json((run / "selection.json").read_text()) == {**result, "checksum": ANY}
    configuration = strict_json((run / "run.json").read_text())
    assert [model["path"] for model in configuration["models"]] == [
        str(here / "models" / f"seed_{seed}.onnx") for seed in SEEDS
    ]
    assert configuration["models"][0]["digest"] == load(here / "models" / "seed_0.onnx").digest()
    assert len([json.loads(line) for line in (run / "pairs.jsonl").read_text().splitlines()]) == result["measurements"]


def test_the_same_command_again_measures_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = selected(capsys, "--no-cache")
    records = (here / first["run"] / "pairs.jsonl").read_bytes()
    assert timeless(selected(capsys, "--no-cache")) == timeless(first)
    assert (here / first["run"] / "pairs.jsonl").read_bytes() == records


def test_the_order_of_the_files_does_not_change_what_is_measured(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forth = [f"models/seed_{seed}.onnx" for seed in SEEDS]
    arguments = ["--domain", "domain.toml", "--device", "cpu", "--exact", "--json", "--out", "run"]
    assert cli.run(["select", *forth, *arguments]) == 0
    first = strict_json(capsys.readouterr().out)
    assert lines(here / "run") == 15
    assert cli.run(["select", *reversed(forth), *arguments]) == 0
    second = strict_json(capsys.readouterr().out)
    assert lines(here / "run") == 15
    assert set(first["survivors"]) == set(second["survivors"])
    turned = {(pair["b"], pair["a"]): pair for pair in second["pairs"]}
    for pair in first["pairs"]:
        other = turned[pair["a"], pair["b"]]
        assert (pair["lower"], pair["upper"], pair["witness"]) == (other["lower"], other["upper"], other["witness"])
        assert pair["outputs"] == list(reversed(other["outputs"]))


def pair_of(record: dict[str, Any]) -> tuple[str, str]:
    return record["first"], record["second"]


def width_of(record: dict[str, Any]) -> tuple[float, float]:
    return record["goal"]["tolerance"], record["goal"]["relative_tolerance"]


@pytest.mark.parametrize("exact", [True, False])
def test_an_added_model_is_measured_against_the_others_only(
    here: Path, capsys: pytest.CaptureFixture[str], exact: bool
) -> None:
    arguments = ["--no-cache", "--out", "run", *(["--exact"] if exact else [])]
    selected(capsys, *arguments)
    before = (here / "run" / "pairs.jsonl").read_text().splitlines()
    a_network(77).to_onnx(here / "models" / "a_new_one.onnx")
    result = selected(capsys, *arguments)
    added = [json.loads(line) for line in (here / "run" / "pairs.jsonl").read_text().splitlines()[len(before) :]]
    new = load(here / "models" / "a_new_one.onnx").digest()[:32]
    if exact:
        assert len(added) == 6
        assert all(new in (record["first"], record["second"]) for record in added)
    finest: dict[tuple[str, str], tuple[float, float]] = {}
    for record in map(json.loads, before):
        finest[pair_of(record)] = min(width_of(record), finest.get(pair_of(record), (np.inf, np.inf)))
    for record in added:  # an old pair is measured again only to know it better than before
        assert new in pair_of(record) or width_of(record) < finest[pair_of(record)]
    fresh = selected(capsys, "--no-cache", "--out", "fresh", *(["--exact"] if exact else []))
    assert [step["removed"] for step in fresh["iterations"]] == [step["removed"] for step in result["iterations"]]
    (here / "models" / "a_new_one.onnx").unlink()
    count = lines(here / "run")
    selected(capsys, *arguments)  # and removed again
    assert lines(here / "run") == count


def test_a_changed_model_is_measured_again_and_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selected(capsys, "--out", "run", "--exact")
    a_network(88).to_onnx(here / "models" / "seed_2.onnx")
    assert cli.run([*SELECT, "--out", "run", "--exact", "--json"]) == 0
    out, err = capsys.readouterr()
    assert f"note: {here}/models/seed_2.onnx has changed since run was recorded" in err
    assert lines(here / "run") == 15 + 5
    assert timeless(strict_json(out)) == timeless(selected(capsys, "--out", "fresh", "--exact", "--no-cache"))


def test_a_changed_domain_is_measured_again_and_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selected(capsys, "--out", "run", "--exact")
    (here / "domain.toml").write_text(DOMAIN.replace("2]", "2.5]"))
    assert cli.run([*SELECT, "--out", "run", "--exact", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "note: the domain is not the one run was recorded with" in err
    assert lines(here / "run") == 30
    assert timeless(strict_json(out)) == timeless(selected(capsys, "--out", "fresh", "--exact", "--no-cache"))


def test_results_are_shared_by_runs_unless_told_otherwise(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = selected(capsys, "--out", "first")
    cached = sorted((here / "cache").rglob("*.jsonl"))
    stamp = [path.read_bytes() for path in cached]
    second = selected(capsys, "--out", "second")
    assert timeless(first) == timeless(second)
    assert [path.read_bytes() for path in cached] == stamp
    seconds = {(pair["a"], pair["b"]): pair["seconds"] for pair in first["pairs"]}
    assert all(seconds[pair["a"], pair["b"]] == pair["seconds"] for pair in second["pairs"])  # not measured again
    third = selected(capsys, "--out", "third", "--no-cache")
    assert timeless(third) == timeless(first)
    assert any(seconds[pair["a"], pair["b"]] != pair["seconds"] for pair in third["pairs"])


def test_without_a_cache_nothing_is_kept_outside_the_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selected(capsys, "--no-cache", "--out", "run")
    assert not (here / "cache").exists()


def test_a_user_without_a_home_has_no_cache(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("KARENINA_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cli.run([*SELECT, "--out", "run"]) == 0
    assert "note: no cache is used: Could not determine home directory." in capsys.readouterr().err
    assert here.exists()


def test_a_full_disk_stops_with_one_sentence_and_keeps_what_is_done(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted = selected(capsys, "--out", "whole", "--no-cache")
    write, room = os.write, [5]

    def fills_up(file: int, data: bytes) -> int:
        if data.startswith(b'{"key"'):
            room[0] -= 1
            if room[0] < 0:
                raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", fills_up)
    assert cli.run([*SELECT, "--out", "run", "--no-cache"]) == 1
    monkeypatch.undo()
    monkeypatch.chdir(here)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == (
        "error: run/pairs.jsonl can no longer be written (No space left on device): "
        "what was measured before is kept there"
    )
    assert lines(here / "run") == 5
    assert timeless(selected(capsys, "--out", "run", "--no-cache")) == timeless(uninterrupted)
