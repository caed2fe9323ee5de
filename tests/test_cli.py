"""The command line as a whole: start-up, mistakes, plug-ins, and when things go wrong."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COMMAND, ENVIRONMENT, PDT, Library, karenina

from karenina import cli
from karenina.backends import BACKENDS
from karenina.cli import options
from karenina.cli.pdt import pdt
from karenina.distance import DISTANCES
from karenina.errors import MissingExtra
from karenina.query import Goal

# --- Start-up -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["pdt", "--help"], ["verify", "-h"], ["--version"]])
def test_help_needs_neither_torch_nor_numpy(arguments: list[str]) -> None:
    program = (
        "import sys; from karenina.cli import run; code = run(sys.argv[1:]); "
        "print([m for m in ('torch', 'numpy', 'onnx', 'rich') if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert "karenina" in done.stdout


def test_the_choices_are_those_of_the_library() -> None:
    assert tuple(options.DistanceName) == DISTANCES
    assert tuple(options.BackendName) == BACKENDS
    goal, tolerances = Goal(), options.Tolerances()
    assert (tolerances.tolerance, tolerances.relative_tolerance) == (goal.tolerance, goal.relative_tolerance)
    assert inspect.signature(pdt).parameters["timeout"].default == goal.time_limit


# --- Mistakes -----------------------------------------------------------------------------------------------------

MISTAKES: list[tuple[list[str], str]] = [
    ([], "no command given"),
    (["fly"], "No such command 'fly'"),
    (["--fly"], "No such option"),
    (["verify"], "Missing argument 'NETWORK'"),
    (["verify", "toy.onnx"], "Missing argument 'SPEC'"),
    (["verify", "toy.onnx", "sat.vnnlib", "more"], "unexpected extra argument"),
    (["verify", "toy.onnx", "sat.vnnlib", "--timeout", "soon"], "--timeout"),
    (["verify", "toy.onnx", "sat.vnnlib", "--timeout", "-1"], "Invalid value for '--timeout'"),
    (["verify", "toy.onnx", "sat.vnnlib", "--timeout", "nan"], "Invalid value for '--timeout'"),
    (["verify", "toy.onnx", "sat.vnnlib", "--backend", "abacus"], "'abacus' is not one of 'karenina', 'marabou'"),
    (["verify", "toy.onnx", "sat.vnnlib", "--device", "tpu"], "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
    (["verify", "no.onnx", "sat.vnnlib"], "no.onnx"),
    (["verify", "folder", "sat.vnnlib"], "folder"),
    (["verify", "nothing", "sat.vnnlib"], "nothing"),
    (["verify", "random.onnx", "sat.vnnlib"], "random.onnx"),
    (["verify", "cut.onnx", "sat.vnnlib"], "cut.onnx"),
    (["verify", "domain.toml", "sat.vnnlib"], "domain.toml"),
    (["verify", "toy.onnx", "no.vnnlib"], "no.vnnlib cannot be read: No such file or directory"),
    (["verify", "toy.onnx", "folder"], "folder cannot be read: Is a directory"),
    (["verify", "toy.onnx", "nothing"], "nothing declares no input X_0"),
    (["verify", "toy.onnx", "toy.onnx"], "toy.onnx"),
    (["verify", "toy.onnx", "domain.toml"], "domain.toml"),
    (["verify", "toy.onnx", "broken.vnnlib"], "broken.vnnlib, line 8: a parenthesis that is never closed"),
    (["verify", "three.onnx", "sat.vnnlib"], "sat.vnnlib declares 2 inputs X and 1 outputs Y"),
    (["verify", "pair.onnx", "sat.vnnlib"], "sat.vnnlib declares 2 inputs X and 1 outputs Y"),
    (["pdt", "toy.onnx", "--domain", "domain.toml"], "Missing argument 'B'"),
    (["pdt", "toy.onnx", "shifted.onnx"], "Missing option '--domain'"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "no.toml"], "no.toml cannot be read"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "folder"], "folder cannot be read: Is a directory"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "nothing"], "nothing: a domain file needs one or more [[box]]"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "toy.onnx"], "toy.onnx"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "broken.toml"], "broken.toml is not a TOML file"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "empty.vnnlib"], "empty.vnnlib holds no input"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "inverted.toml"], "inverted.toml: box 1 of 1: 'b' (input 1) has"),
    (["pdt", "toy.onnx", "shifted.onnx", "--domain", "three.toml"], "three.toml has 3 inputs but"),
    (["pdt", "toy.onnx", "three.onnx", "--domain", "domain.toml"], "domain.toml has 2 inputs but"),
    (["pdt", "toy.onnx", "pair.onnx", "--domain", "domain.toml"], "output"),
    (["pdt", "toy.onnx", "no.onnx", "--domain", "domain.toml"], "no.onnx"),
    ([*PDT, "--distance", "l2"], "'l2' is not one of 'l1', 'linf', 'c-distance', 'class'"),
    ([*PDT, "--tolerance", "-1"], "Invalid value for '--tolerance'"),
    ([*PDT, "--tolerance", "nan"], "Invalid value for '--tolerance'"),
    ([*PDT, "--tolerance"], "--tolerance"),
    ([*PDT, "--relative-tolerance", "-0.5"], "Invalid value for '--relative-tolerance'"),
    ([*PDT, "--timeout", "-3"], "Invalid value for '--timeout'"),
    ([*PDT, "--condition", "y0 >= 0"], "condition"),
    ([*PDT, "--distance", "c-distance", "--condition", "y0 >"], "y0 >"),
    ([*PDT, "--distance", "c-distance", "--condition", "y7 >= 0"], "y7"),
    ([*PDT, "--distance", "class"], "class"),
    ([*PDT, "--action", "dance"], "'dance' is not one of 'raw', 'executed'"),
    ([*PDT, "--action", "executed"], "toy.onnx"),
    ([*PDT, "--activation", "tanh"], "toy.onnx"),
    ([*PDT, "--normalisation", "no.npz"], "no.npz"),
    ([*PDT, *["--normalisation", "no.npz"] * 3], "--normalisation is given 3 times for 2 network(s)"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_answered_in_one_line(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(files)
    code = cli.run(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert message in err


def test_a_mistake_in_a_process_of_its_own(files: Path) -> None:
    done = karenina("pdt", "no.onnx", "toy.onnx", "--domain", "inverted.toml", directory=files)
    message = "inverted.toml: box 1 of 1: 'b' (input 1) has lower bound 3.0 above its upper bound 2.0"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


# --- Commands of other packages ------------------------------------------------------------------------------------


def write_package(folder: Path, commands: dict[str, str], code: str) -> None:
    """An installed distribution with a module `others` and entry points for commands."""
    (folder / "others.py").write_text(code)
    information = folder / "others-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in commands.items())
    (information / "entry_points.txt").write_text(f"[karenina.commands]\n{points}")


OTHERS = """
import typer
app = typer.Typer(help="Others do this.")

@app.command()
def count(upto: int) -> None:
    "Count."
    print(*range(upto))

@app.command()
def fail() -> None:
    "Fail."
    raise ValueError("so it is")
"""


@pytest.fixture
def others(tmp_path: Path) -> dict[str, str]:
    commands = {"others": "others:app", "broken": "others:nothing", "absent": "not_there:app", "odd": "others:OTHER"}
    write_package(tmp_path, commands | {"pdt": "others:app"}, OTHERS + "OTHER = 3\n")
    return {**ENVIRONMENT, "PYTHONPATH": str(tmp_path)}


def with_others(others: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=others, timeout=60, check=False)


def test_a_command_of_another_package_is_attached(others: dict[str, str]) -> None:
    done = with_others(others, "others", "count", "3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 2\n", "")
    done = with_others(others, "others", "fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("internal error: ValueError: so it is")
    assert with_others(others, "others", "count").returncode == 2


def test_a_broken_command_is_a_note(others: dict[str, str]) -> None:
    done = with_others(others, "--help")
    assert done.returncode == 0
    assert re.search(r"  others +Others do this\.", done.stdout)
    assert "verify" in done.stdout
    kinds = {"broken": "AttributeError", "absent": "ModuleNotFoundError", "odd": "TypeError"}
    for name, kind in kinds.items():
        assert f"note: the command '{name}' ({'not_there:app' if name == 'absent' else 'others:'}" in done.stderr
        assert kind in done.stderr
    assert done.stderr.count("\n") == 3
    done = with_others(others, "broken")
    assert done.returncode == 2
    assert "No such command 'broken'" in done.stderr


def test_our_own_commands_stay_ours(others: dict[str, str]) -> None:
    done = with_others(others, "pdt", "--help")
    assert done.stderr == ""
    assert "pairwise disagreement threshold" in done.stdout


# --- When things go wrong ------------------------------------------------------------------------------------------


def test_an_internal_error_is_one_line_and_exit_code_1(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.error = ZeroDivisionError("division\nby zero")
    assert cli.run(PDT) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "internal error: ZeroDivisionError: division by zero "
        "(for the traceback, run karenina --debug with the same arguments)\n"
    )
    assert cli.run(["--debug", *PDT]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" in err
    assert "internal error" in err


def test_a_missing_extra_is_the_users_to_install(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.error = MissingExtra("highspy", "milp")
    assert cli.run(PDT) == 2
    assert capsys.readouterr().err == "error: this needs highspy: pip install 'karenina[milp]'\n"


def test_an_interrupt_is_exit_code_130(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.error = KeyboardInterrupt()
    assert cli.run(PDT) == 130
    assert capsys.readouterr().out == ""


def test_an_interrupted_process_leaves_no_traceback() -> None:
    program = (
        "import time, sys, karenina.vnnlib as v; from karenina.cli import main\n"
        "v.load_specification = lambda _: (print('ready', flush=True), time.sleep(60))\n"
        "sys.argv = ['karenina', 'verify', 'a', 'b']; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def test_a_reader_that_leaves_early_is_no_error(files: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        arguments = [*COMMAND, "verify", "toy.onnx", "unsat.vnnlib"]
        done = subprocess.run(
            arguments, stdout=write, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=files, check=False
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line_and_exit_code_1() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be written (")
    assert done.stderr.count("\n") == 1
