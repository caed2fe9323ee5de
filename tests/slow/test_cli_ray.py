"""`karenina select --ray`: on a cluster of several nodes the result is that of one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import strict_json
from measured import a_network
from ray_nodes import nodes

pytest.importorskip("ray")

pytestmark = pytest.mark.slow

PROGRAM = "from karenina.cli import main; main()"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def selected(folder: Path, *arguments: str) -> dict[str, Any]:
    """The result of a selection in a process of its own, without seconds."""
    options = ["--domain", "domain.toml", "--device", "cpu", "--json", "--no-cache", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "select", "models", *options],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("iteration ") for line in done.stderr.splitlines())  # and nothing of Ray's
    found = strict_json(done.stdout)
    pairs = [{key: value for key, value in pair.items() if key != "seconds"} for pair in found["pairs"]]
    return {key: value for key, value in found.items() if key not in ("seconds", "run")} | {"pairs": pairs}


def test_a_cluster_finds_what_one_process_finds(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for seed in range(6):
        a_network(seed).to_onnx(tmp_path / "models" / f"seed_{seed}.onnx")
    (tmp_path / "domain.toml").write_text("[[box]]\nlower = [-1, -1]\nupper = [1, 2]\n")
    with nodes() as cluster:
        there = selected(tmp_path, "--out", "ray", "--ray", cluster.address)
    assert there == selected(tmp_path, "--out", "here")
