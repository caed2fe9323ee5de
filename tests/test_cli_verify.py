"""`karenina verify`: what it prints, and with which exit code."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from command_line import Library, karenina, strict_json

from karenina import cli
from karenina.query import Answer, Status, Verdict
from karenina.vnnlib import Verification


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
