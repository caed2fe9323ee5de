"""The command line: what it prints, where, and with which exit code. Most tests run the command itself."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from karenina import cli
from karenina.backends import BACKENDS
from karenina.disagreement import Disagreement
from karenina.distance import DISTANCES, distance
from karenina.errors import MissingExtra
from karenina.network import Layer, Network
from karenina.query import Answer, Goal, Status, Verdict
from karenina.vnnlib import Verification

COMMAND = [sys.executable, "-c", "from karenina.cli import main; main()"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "40"}


def karenina(*arguments: object, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        cwd=directory,
        timeout=120,
        check=False,
    )


Weights = list[tuple[list[list[float]], list[float]]]
TOY: Weights = [([[1, 4], [-3, 2]], [1, -2]), ([[2, -1]], [0])]  # the paper's toy network, Fig. 1
SHIFTED: Weights = [TOY[0], ([[2, -1]], [3])]  # always 3 more
PAIR: Weights = [TOY[0], ([[2, -1], [-1, 0]], [0, 1])]  # two outputs


def write_onnx(path: Path, weights: Weights) -> Path:
    """Gemm and Relu, without karenina's own writer."""
    nodes, constants, tensor = [], [], "x"
    for k, (weight, bias) in enumerate(weights):
        constants.append(numpy_helper.from_array(np.array(weight, dtype=np.float32), f"w{k}"))
        constants.append(numpy_helper.from_array(np.array(bias, dtype=np.float32), f"b{k}"))
        nodes.append(helper.make_node("Gemm", [tensor, f"w{k}", f"b{k}"], [f"z{k}"], transB=1))
        tensor = f"z{k}"
        if k + 1 < len(weights):
            nodes.append(helper.make_node("Relu", [tensor], [f"h{k}"]))
            tensor = f"h{k}"
    inputs = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, len(weights[0][0][0])])
    outputs = helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [1, len(weights[-1][1])])
    graph = helper.make_graph(nodes, "toy", [inputs], [outputs], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


BOX = "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n" + "".join(
    f"(assert (>= X_{i} 0.0))\n(assert (<= X_{i} 100.0))\n" for i in range(2)
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with networks, specifications and domains, good and bad."""
    folder = tmp_path_factory.mktemp("files")
    write_onnx(folder / "toy.onnx", TOY)
    write_onnx(folder / "shifted.onnx", SHIFTED)
    write_onnx(folder / "pair.onnx", PAIR)
    write_onnx(folder / "three.onnx", [([[1, 2, 3]], [0])])
    (folder / "sat.vnnlib").write_text(BOX + "(assert (>= Y_0 25.0))\n")
    (folder / "unsat.vnnlib").write_text(BOX + "(assert (<= Y_0 1.9))\n")
    (folder / "sat.vnnlib.gz").write_bytes(gzip.compress((folder / "sat.vnnlib").read_bytes()))
    (folder / "empty.vnnlib").write_text(BOX + "(assert (>= X_0 101))\n")
    (folder / "domain.toml").write_text('names = ["left", "right side"]\n[[box]]\nlower = [0, 0]\nupper = [1, 2]\n')
    (folder / "plain.toml").write_text("[[box]]\nlower = [0, 0]\nupper = [1, 2]\n")
    (folder / "three.toml").write_text("[[box]]\nlower = [0, 0, 0]\nupper = [1, 2, 3]\n")
    (folder / "inverted.toml").write_text('names = ["a", "b"]\n[[box]]\nlower = [0, 3]\nupper = [1, 2]\n')
    (folder / "broken.toml").write_text("[[box\n")
    (folder / "broken.vnnlib").write_text(BOX + "(assert (>= Y_0 25.0)\n")
    (folder / "nothing").write_bytes(b"")
    (folder / "random.onnx").write_bytes(bytes(range(256)) * 10)
    (folder / "cut.onnx").write_bytes((folder / "toy.onnx").read_bytes()[:-20])
    (folder / "folder").mkdir()
    return folder


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
    assert tuple(cli.DistanceName) == DISTANCES
    assert tuple(cli.BackendName) == BACKENDS
    goal = Goal()
    defaults = cli.pdt.__kwdefaults__
    assert defaults is not None
    assert (defaults["tolerance"], defaults["relative_tolerance"]) == (goal.tolerance, goal.relative_tolerance)
    assert defaults["timeout"] == goal.time_limit


# --- verify -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("specification", ["sat.vnnlib", "sat.vnnlib.gz"])
def test_sat_with_a_counterexample_as_vnncomp_writes_it(files: Path, specification: str) -> None:
    done = karenina("verify", "toy.onnx", specification, directory=files)
    assert (done.returncode, done.stderr) == (0, "")
    verdict, *lines = done.stdout.splitlines()
    assert verdict == "sat"
    values = [float(line.strip(" ()").split()[1]) for line in lines]
    assert lines == [f"((X_0  {values[0]!r})", f" (X_1  {values[1]!r})", f" (Y_0  {values[2]!r}))"]
    x = np.array(values[:2])
    assert ((x >= 0) & (x <= 100)).all()
    y = np.array([[2, -1]]) @ np.maximum(np.array([[1, 4], [-3, 2]]) @ x + [1, -2], 0)
    assert y[0] == pytest.approx(values[2], abs=1e-9)
    assert values[2] >= 25


@pytest.mark.parametrize("specification", ["unsat.vnnlib", "empty.vnnlib"])
def test_unsat_is_one_word(files: Path, specification: str) -> None:
    done = karenina("verify", "toy.onnx", specification, directory=files)
    assert (done.returncode, done.stdout) == (0, "unsat\n")


def test_verify_in_json(files: Path) -> None:
    done = karenina("verify", "toy.onnx", "sat.vnnlib", "--json", "--timeout", "60", "--device", "cpu", directory=files)
    assert (done.returncode, done.stderr) == (0, "")
    result = strict_json(done.stdout)
    assert result["verdict"] == "sat"
    assert len(result["witness"]) == 2
    assert result["outputs"][0] >= 25
    assert result["networks"][0]["shape"] == "2-2-1"
    assert (result["timeout"], result["device"], result["specification"]) == (60, "cpu", "sat.vnnlib")


# --- pdt ----------------------------------------------------------------------------------------------------------


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


# --- Mistakes -----------------------------------------------------------------------------------------------------

PDT = ["pdt", "toy.onnx", "shifted.onnx", "--domain", "domain.toml"]
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


# --- What the library answers, as the command line prints it ---------------------------------------------------------


@dataclass
class Library:
    """Stands in for what computes, and remembers how it was called."""

    disagreement: Disagreement
    verification: Verification
    notes: tuple[str, ...] = ()
    error: BaseException | None = None
    calls: dict[str, Any] = field(default_factory=dict)

    def load(self, path: Path, **options: object) -> Network:
        self.calls.setdefault("load", []).append((path, options))
        return Network((Layer.of([[1.0, 1.0]], [0.0]),), str(path), self.notes)

    def backend(self, name: str, device: str = "auto") -> str:
        return f"{name} on {device}"

    def pdt(self, *arguments: Any, **options: Any) -> Disagreement:
        self.calls["pdt"] = arguments, options
        if self.error:
            raise self.error
        return self.disagreement

    def verify(self, *arguments: Any, **options: Any) -> Verification:
        self.calls["verify"] = arguments, options
        if self.error:
            raise self.error
        return self.verification


def a_disagreement(**changes: Any) -> Disagreement:
    facts: dict[str, Any] = {
        "lower": 1.25,
        "upper": 1.5,
        "witness": np.array([0.5, -2.0]),
        "outputs": (np.array([1.0]), np.array([-0.25])),
        "status": Status.EXACT,
        "boxes": 12,
        "seconds": 0.125,
        "note": "",
    }
    return Disagreement(**(facts | changes))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, files: Path) -> Library:
    answer = Answer(-math.inf, 0.5, Status.TIME_LIMIT)
    stand_in = Library(a_disagreement(), Verification(Verdict.TIMEOUT, answer))
    monkeypatch.chdir(files)
    monkeypatch.setattr("karenina.loading.load", stand_in.load)
    monkeypatch.setattr("karenina.backends.backend", stand_in.backend)
    monkeypatch.setattr("karenina.disagreement.pairwise_disagreement_threshold", stand_in.pdt)
    monkeypatch.setattr("karenina.vnnlib.verify", stand_in.verify)
    return stand_in


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


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.TIMEOUT, 3), (Verdict.UNKNOWN, 3), (Verdict.UNSAT, 0), (Verdict.SAT, 0)]
)
def test_the_verdict_decides_the_exit_code(
    library: Library, capsys: pytest.CaptureFixture[str], verdict: Verdict, code: int
) -> None:
    answer = Answer(-math.inf, 0.5, Status.TIME_LIMIT, note="say this")
    x, y = (np.array([0.5, 1e-9]), np.array([3.0])) if verdict is Verdict.SAT else (None, None)
    library.verification = Verification(verdict, answer, x, y)
    assert cli.run(["verify", "toy.onnx", "sat.vnnlib", "--timeout", "5"]) == code
    out, err = capsys.readouterr()
    assert out == str(verdict) + ("\n((X_0  0.5)\n (X_1  1e-09)\n (Y_0  3.0))\n" if x is not None else "\n")
    assert err == "note: say this\n"
    assert library.calls["verify"][1] == {"time_limit": 5}
    assert cli.run(["verify", "toy.onnx", "sat.vnnlib", "--json"]) == code
    result = strict_json(capsys.readouterr().out)
    assert (result["verdict"], result["lower"], result["upper"]) == (str(verdict), "-Infinity", 0.5)
    assert result["witness"] == ([0.5, 1e-9] if x is not None else None)


def test_notes_go_to_stderr_once_each_unwrapped(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    library.notes = ("a warning " * 30 + "[bold]as it is[/bold]",)  # longer than any terminal, and no markup
    assert cli.run(PDT) == 0
    out, err = capsys.readouterr()
    assert err == f"note: {library.notes[0]}\n"
    assert "warning" not in out


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
    assert done.stderr.startswith("internal error: OSError: ")
    assert done.stderr.count("\n") == 1


def strict_json(text: str) -> dict[str, Any]:
    """JSON as the standard has it: without NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    result = json.loads(text, parse_constant=refuse)
    assert isinstance(result, dict)
    return result
