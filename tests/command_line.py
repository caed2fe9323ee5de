"""What the tests of the command line share: running it, files to run it on, and a stand-in for what computes."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from karenina.disagreement import Disagreement
from karenina.network import Layer, Network
from karenina.query import Answer, Status, Verdict
from karenina.vnnlib import Verification

PDT = ["pdt", "toy.onnx", "shifted.onnx", "--domain", "domain.toml"]
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


def make_files(folder: Path) -> Path:
    """Fill a directory with networks, specifications and domains, good and bad."""
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


def stand_in_library(monkeypatch: pytest.MonkeyPatch, files: Path) -> Library:
    """The library replaced by a stand-in, in the directory of `files`."""
    answer = Answer(-math.inf, 0.5, Status.TIME_LIMIT)
    stand_in = Library(a_disagreement(), Verification(Verdict.TIMEOUT, answer))
    monkeypatch.chdir(files)
    monkeypatch.setattr("karenina.loading.load", stand_in.load)
    monkeypatch.setattr("karenina.backends.backend", stand_in.backend)
    monkeypatch.setattr("karenina.disagreement.pairwise_disagreement_threshold", stand_in.pdt)
    monkeypatch.setattr("karenina.vnnlib.verify", stand_in.verify)
    return stand_in


def strict_json(text: str) -> dict[str, Any]:
    """JSON as the standard has it: without NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    result = json.loads(text, parse_constant=refuse)
    assert isinstance(result, dict)
    return result
