"""Runs that are stopped: killed at any moment, interrupted, started twice. The end is that of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import strict_json
from measured import a_network

from karenina import cli

SEEDS = range(7)
SELECT = ["select", "models", "--domain", "domain.toml", "--device", "cpu", "--json", "--no-cache"]

# Every query takes a little longer, so that there is time to stop the process at a chosen place.
SLOW = """
import sys, time
import karenina.backends
from karenina.cli import main

make = karenina.backends.backend

class Slow:
    def __init__(self, *names):
        self.fast = make(*names)

    def answer(self, query, goal):
        time.sleep(SECONDS)
        return self.fast.answer(query, goal)

karenina.backends.backend = Slow
main()
"""


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    (folder / "models").mkdir()
    for seed in SEEDS:
        a_network(seed).to_onnx(folder / "models" / f"seed_{seed}.onnx")
    (folder / "domain.toml").write_text("[[box]]\nlower = [-1, -1]\nupper = [1, 2]\n")
    return folder


def result(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], code: int = 0) -> dict[str, Any]:
    assert cli.run(arguments) == code, capsys.readouterr().err
    return timeless(strict_json(capsys.readouterr().out))


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    pairs = [{key: value for key, value in pair.items() if key != "seconds"} for pair in found["pairs"]]
    return {key: value for key, value in found.items() if key not in ("seconds", "run")} | {"pairs": pairs}


def started(arguments: Sequence[str], seconds: float = 0.02) -> subprocess.Popen[str]:
    """The command in a process of its own, slowed down."""
    program = SLOW.replace("SECONDS", str(seconds))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def records(run: Path) -> int:
    try:
        return (run / "pairs.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def stopped_at(process: subprocess.Popen[str], run: Path, count: int, number: signal.Signals) -> tuple[str, str]:
    """Send the signal when the run has that many records; what the process printed."""
    while records(run) < count and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(number)
    return process.communicate(timeout=60)


def test_a_run_killed_again_and_again_ends_as_if_nothing_had_happened(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = result(capsys, [*SELECT, "--out", "undisturbed"])
    total, run, rng = records(here / "undisturbed"), here / "run", random.Random(4)
    for arguments in ([*SELECT, "--out", "run"], ["resume", "run", "--no-cache"], [*SELECT, "--out", "run"]):
        before = records(run)
        with started(arguments) as process:
            time.sleep(rng.random() * 0.02)
            stopped_at(process, run, before + rng.randint(1, 7), signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert before < records(run) < total
        assert not (run / "selection.json").exists()
    assert result(capsys, ["resume", "run", "--json", "--no-cache", "--device", "cpu"]) == undisturbed
    assert records(run) == total  # nothing was measured twice
    assert result(capsys, [*SELECT, "--out", "run"]) == undisturbed


def test_a_run_killed_before_it_began_leaves_a_folder_that_can_be_used(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run").mkdir()
    (here / "run" / "run.lock").touch()
    (here / "run" / "pairs.jsonl").write_text('{"key":"half a rec')
    assert result(capsys, [*SELECT, "--out", "run"]) == result(capsys, [*SELECT, "--out", "undisturbed"])


def test_ctrl_c_stops_at_once_and_keeps_the_record(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with started([*SELECT, "--out", "run"]) as process:
        out, err = stopped_at(process, here / "run", 5, signal.SIGINT)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1].endswith(
        "what was measured is kept; to go on, the same command, or karenina resume run"
    )
    assert records(here / "run") >= 5
    assert result(capsys, ["resume", "run", "--json", "--no-cache"]) == result(
        capsys, [*SELECT, "--out", "undisturbed"]
    )


def test_a_second_process_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with started([*SELECT, "--out", "run"], seconds=0.2) as process:
        while records(here / "run") < 1:
            time.sleep(0.005)
        for arguments in ([*SELECT, "--out", "run"], ["resume", "run"]):
            assert cli.run(arguments) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith(f"error: run is in use by process {process.pid} on ")
            assert err.count("\n") == 1
        process.kill()
    result(capsys, ["resume", "run", "--json", "--no-cache"])


def test_many_processes_find_what_one_finds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = result(capsys, [*SELECT, "--out", "one"])
    for jobs in ("2", "3"):
        assert result(capsys, [*SELECT, "--out", f"jobs_{jobs}", "--jobs", jobs]) == one
    assert here.exists()


def test_a_run_killed_with_many_processes_is_resumed_with_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    undisturbed = result(capsys, [*SELECT, "--out", "undisturbed"])
    with started([*SELECT, "--out", "run", "--jobs", "2"]) as process:
        stopped_at(process, here / "run", 4, signal.SIGKILL)
    assert result(capsys, ["resume", "run", "--json", "--no-cache", "--jobs", "1"]) == undisturbed


def test_resuming_reads_the_models_from_where_they_were(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> None:
    first = result(capsys, [*SELECT, "--out", "run", "--distance", "linf", "--criterion", "max"])
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert result(capsys, ["resume", str(here / "run"), "--json"]) == first


def test_resuming_on_a_device_that_is_not_there_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result(capsys, [*SELECT, "--out", "run"])
    assert cli.run(["resume", "run", "--device", "cuda"]) == 2
    assert "torch finds no GPU" in capsys.readouterr().err
    assert cli.run([*SELECT, "--device", "cuda", "--out", "other"]) == 2
    assert not (here / "other").exists()


def test_resuming_with_a_changed_model_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(capsys, [*SELECT, "--out", "run"])
    a_network(55).to_onnx(here / "models" / "seed_3.onnx")
    assert cli.run(["resume", "run"]) == 2
    assert "models/seed_3.onnx has changed since the run was recorded" in capsys.readouterr().err
    (here / "models" / "seed_3.onnx").unlink()
    assert cli.run(["resume", "run"]) == 2
    assert "models/seed_3.onnx: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("now", ["[[box]]\nlower = [-1, -1]\nupper = [1, 3]\n", None])
def test_resuming_goes_on_with_the_domain_on_record(
    here: Path, capsys: pytest.CaptureFixture[str], now: str | None
) -> None:
    first = result(capsys, [*SELECT, "--out", "run"])
    if now is None:
        (here / "domain.toml").unlink()
    else:
        (here / "domain.toml").write_text(now)
    assert cli.run(["resume", "run", "--json", "--no-cache"]) == 0
    out, err = capsys.readouterr()
    assert timeless(strict_json(out)) == first
    assert f"note: {here}/domain.toml is not what it was: the run goes on with the domain on record" in err
