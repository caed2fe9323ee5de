"""`karenina pdt`: what it prints, what reaches the library, and with which exit code."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from command_line import PDT, Library, a_disagreement, karenina, strict_json

from karenina import cli
from karenina.distance import distance
from karenina.query import Goal, Status

LABELS = ["lower", "upper", "status", "witness", "", "outputs", "", "cost"]


def test_pdt_prints_the_interval_and_the_witness_by_name(files: Path) -> None:
    done = karenina("pdt", "toy.onnx", "shifted.onnx", "--domain", "domain.toml", directory=files)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line[:9].rstrip() for line in lines[:8]] == LABELS
    assert 2.999 <= float(lines[0][9:]) <= 3.000001
    assert 2.999999 <= float(lines[1][9:]) <= 3.001
    assert lines[2] == "status   exact to tolerance"
    assert lines[3].startswith("witness  left        ")
    assert lines[4].startswith("         right side  ")
    first, second = (float(line.split()[-1]) for line in lines[5:7])
    assert second - first == pytest.approx(3)


def test_pdt_in_json(files: Path) -> None:
    arguments = [
        "pair.onnx",
        "pair.onnx",
        "--domain",
        "plain.toml",
        "--distance",
        "linf",
        "--tolerance",
        "0.5",
        "--json",
    ]
    done = karenina("pdt", *arguments, directory=files)
    assert (done.returncode, done.stderr) == (0, "")
    result = strict_json(done.stdout)
    assert 0 <= result["lower"] <= 0.5
    assert result["lower"] <= result["upper"] <= 0.5
    assert (result["status"], result["finished"]) == ("exact to tolerance", True)
    assert result["names"] == ["x0", "x1"]
    assert (result["distance"], result["tolerance"], result["timeout"]) == ("linf", 0.5, "Infinity")
    assert len(result["networks"]) == 2
    assert {"witness", "outputs", "seconds", "boxes", "version"} <= result.keys()
    if result["witness"] is not None:
        assert len(result["witness"]) == 2
        assert [len(output) for output in result["outputs"]] == [2, 2]


def test_a_specification_serves_as_a_domain_with_a_note(files: Path) -> None:
    done = karenina("pdt", "toy.onnx", "shifted.onnx", "--domain", "sat.vnnlib", "--tolerance", "9", directory=files)
    assert done.returncode == 0
    assert done.stderr == "note: sat.vnnlib: only the input boxes are used, not the constraints on outputs\n"
    assert "\n         X_1  " in done.stdout


@pytest.mark.parametrize("arguments", [["--distance", "c-distance"], ["--distance", "class"], ["--distance", "l1"]])
def test_every_distance_can_be_asked_for(files: Path, arguments: list[str]) -> None:
    done = karenina("pdt", "pair.onnx", "pair.onnx", "--domain", "plain.toml", *arguments, directory=files)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_text_of_a_disagreement(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.disagreement = a_disagreement(note="what to know")
    assert cli.run(PDT) == 0
    assert capsys.readouterr().out == (
        "lower    1.25\n"
        "upper    1.5\n"
        "status   exact to tolerance\n"
        "witness  left         0.5\n"
        "         right side  -2.0\n"
        "outputs  toy.onnx       1.0\n"
        "         shifted.onnx  -0.25\n"
        "cost     12 boxes, 0.125 s\n"
        "note     what to know\n"
    )


def test_options_reach_the_library(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--distance c-distance --tolerance 0.5 --relative-tolerance 0.01 --timeout 9 --backend highs --device cpu"
    arguments = [*PDT, *options.split(), "--action", "executed", "--condition", "y0 >= 0", "--normalisation", "n.npz"]
    arguments += ["--activation", "tanh"]
    assert cli.run(arguments) == 0
    assert capsys.readouterr().err == ""
    (first, second, domain, measure), given = library.calls["pdt"]
    assert (first.name, second.name, domain.name) == ("toy.onnx", "shifted.onnx", "domain.toml")
    assert type(measure) is type(distance("c-distance", ["y0 >= 0"]))
    assert given["goal"] == Goal(tolerance=0.5, relative_tolerance=0.01, time_limit=9)
    assert given["backend"] == "highs on cpu"
    read = {"action": "executed", "normalisation": Path("n.npz"), "activation": "tanh"}
    assert library.calls["load"] == [(Path("toy.onnx"), read), (Path("shifted.onnx"), read)]


def test_each_network_may_have_its_own_normalisation(library: Library) -> None:
    assert cli.run([*PDT, "--normalisation", "1.npz", "--normalisation", "2.npz"]) == 0
    assert [options["normalisation"] for _, options in library.calls["load"]] == [Path("1.npz"), Path("2.npz")]


def test_stopped_early_is_exit_code_3(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.disagreement = a_disagreement(
        lower=0.0, upper=math.inf, status=Status.TIME_LIMIT, witness=None, outputs=None
    )
    assert cli.run([*PDT, "--json"]) == 3
    result = strict_json(capsys.readouterr().out)
    assert (result["lower"], result["upper"], result["witness"], result["outputs"]) == (0, "Infinity", None, None)
    assert (result["status"], result["finished"]) == ("stopped at time limit", False)
    assert cli.run(PDT) == 3
    assert capsys.readouterr().out.splitlines() == [
        "lower    0.0",
        "upper    inf",
        "status   stopped at time limit",
        "cost     12 boxes, 0.125 s",
    ]


def test_notes_go_to_stderr_once_each_unwrapped(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.notes = ("a warning " * 30 + "[bold]as it is[/bold]",)  # longer than any terminal, and no markup
    assert cli.run(PDT) == 0
    out, err = capsys.readouterr()
    assert err == f"note: {library.notes[0]}\n"
    assert "warning" not in out
