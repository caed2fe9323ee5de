"""`--certify` and `karenina check`: what is proved, what is refused with exit code 1, and what is a mistake with 2."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import made, packed, with_digests
from command_line import ENVIRONMENT, karenina
from measured import a_network

from karenina import cli

pytest.importorskip("numba")
DOMAIN = "[[box]]\nlower = [-1, -1]\nupper = [1, 2]\n"
SEEDS = range(4)
PDT = ["pdt", "models/seed_0.onnx", "models/seed_1.onnx", "--domain", "domain.toml", "--device", "cpu"]
SELECT = ["select", "models", "--domain", "domain.toml", "--device", "cpu", "--jobs", "1", "--out", "run"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, a certificate of two of them, and a run with one of the selection among all."""
    folder, before = tmp_path_factory.mktemp("certified"), Path.cwd()
    (folder / "models").mkdir()
    for seed in SEEDS:
        a_network(seed).to_onnx(folder / "models" / f"seed_{seed}.onnx")
    (folder / "domain.toml").write_text(DOMAIN)
    os.chdir(folder)
    try:
        assert cli.run([*PDT, "--certify", "pair.zip"]) == 0
        assert cli.run([*SELECT, "--no-cache", "--certify"]) == 0
    finally:
        os.chdir(before)
    return folder


def said(capsys: Capture, *arguments: str, code: int) -> str:
    """What the command says on the way out; on stderr one sentence where something is wrong."""
    capsys.readouterr()
    assert cli.run(["check", "--jobs", "1", *arguments]) == code, capsys.readouterr()
    captured = capsys.readouterr()
    if code == 0:
        return captured.out
    assert not captured.out
    lines = [line for line in captured.err.splitlines() if not line.startswith("checking pairs")]
    assert len(lines) == 1, captured.err
    assert "Traceback" not in captured.err
    assert lines[0].startswith("refused: " if code == 1 else "error: ")
    return lines[0]


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The certificate with its text changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = json.loads(members.pop("certificate.json"))
    change(text)
    path.write_bytes(packed(text, members))


# --- What is proved ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_an_interval_is_proved(capsys: Capture) -> None:
    text = said(capsys, "pair.zip", code=0)
    assert text.startswith("proved: the largest l1 distance over all inputs of the domain lies in [")
    assert "exact arithmetic" in text
    assert "float32" in text


@pytest.mark.usefixtures("here")
def test_a_selection_is_proved(capsys: Capture) -> None:
    text = said(capsys, "run", code=0)
    assert text.startswith("proved: 6 intervals")
    assert "Alg. 2" in text
    assert said(capsys, "run/certificate.zip", code=0) == text


@pytest.mark.usefixtures("here")
def test_two_processes_prove_the_same(capsys: Capture) -> None:
    alone = said(capsys, "run", code=0)
    assert cli.run(["check", "run", "--jobs", "2"]) == 0
    assert capsys.readouterr().out == alone


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("backend", ["highs", "gurobi", "marabou"])
def test_what_another_back_end_found_is_proved(backend: str, capsys: Capture) -> None:
    pytest.importorskip({"highs": "highspy", "gurobi": "gurobipy", "marabou": "maraboupy"}[backend])
    assert cli.run([*PDT, "--backend", backend, "--certify", "theirs.zip"]) == 0
    assert "proved" in said(capsys, "theirs.zip", code=0)


@pytest.mark.usefixtures("here")
def test_a_proof_has_a_time_limit(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr("karenina.certificate.growth.time.perf_counter", lambda: float(next(clock)))
    assert cli.run([*PDT, "--timeout", "900", "--certify", "late.zip"]) == 1
    assert "in the time" in capsys.readouterr().err
    assert not Path("late.zip").exists()


def test_the_models_may_have_moved(here: Path, capsys: Capture) -> None:
    (here / "models").rename(here / "elsewhere")
    rewritten(
        here / "pair.zip", lambda text: [n.update(file=f"/gone/{Path(n['file']).name}") for n in text["networks"]]
    )
    assert "--models" in said(capsys, "pair.zip", code=1)
    assert "proved" in said(capsys, "pair.zip", "--models", "elsewhere", code=0)
    assert "not compared" in said(capsys, "pair.zip", "--without-models", code=0)


def test_a_run_gone_on_with_has_a_certificate_too(here: Path, capsys: Capture) -> None:
    (here / "run" / "certificate.zip").unlink()
    assert "is not there" in said(capsys, "run", code=2)
    assert cli.run(["resume", "run", "--jobs", "1", "--device", "cpu", "--certify"]) == 0
    assert "Alg. 2" in said(capsys, "run", code=0)


# --- What is refused --------------------------------------------------------------------------------------------------


def test_another_model_file_is_refused(here: Path, capsys: Capture) -> None:
    shutil.copy(here / "models" / "seed_2.onnx", here / "models" / "seed_1.onnx")
    assert "is not the file" in said(capsys, "pair.zip", "--models", "models", code=1)
    (here / "models" / "seed_1.onnx").unlink()
    assert "is not there" in said(capsys, "pair.zip", "--models", "models", code=1)
    assert "is not there" in said(capsys, "pair.zip", "--models", "no such folder", code=1)


def test_weights_that_are_not_in_the_file_are_refused(here: Path, capsys: Capture) -> None:
    """A certificate of other networks, true of them, that names the files of these."""
    other = made("l1")
    names = [str(here / "models" / f"seed_{seed}.onnx") for seed in (0, 1)]
    with zipfile.ZipFile(here / "pair.zip") as archive:
        hashes = [n["sha256"] for n in json.loads(archive.read("certificate.json"))["networks"]]
    text = other.text
    for network, name, sha in zip(text["networks"], names, hashes, strict=True):
        network.update(file=name, sha256=sha)
    (here / "other.zip").write_bytes(packed(text, other.members))
    assert "does not hold the network" in said(capsys, "other.zip", code=1)
    assert "proved" in said(capsys, "other.zip", "--without-models", code=0)


def test_a_certificate_of_other_models_than_the_runs_is_refused(here: Path, capsys: Capture) -> None:
    def swap(text: dict[str, Any]) -> None:
        text["networks"][0]["name"], text["networks"][1]["name"] = (text["networks"][k]["name"] for k in (1, 0))
        text["selection"] = None

    rewritten(here / "run" / "certificate.zip", swap)
    assert "other models than the run" in said(capsys, "run", code=1)
    shutil.copy(here / "pair.zip", here / "run" / "certificate.zip")
    assert "other models than the run" in said(capsys, "run", code=1)


def test_a_certificate_of_another_domain_than_the_runs_is_refused(here: Path, capsys: Capture) -> None:
    """A smaller domain, on which everything that was proven still holds."""
    Path("smaller.toml").write_text(DOMAIN.replace("upper = [1, 2]", "upper = [1, 1]"))
    smaller = ["select", "models", "--domain", "smaller.toml", "--device", "cpu", "--jobs", "1", "--out", "smaller"]
    assert cli.run([*smaller, "--no-cache", "--certify"]) == 0
    shutil.copy(here / "smaller" / "certificate.zip", here / "run" / "certificate.zip")
    assert "another domain than the run" in said(capsys, "run", code=1)


def test_a_certificate_of_another_distance_than_the_runs_is_refused(here: Path, capsys: Capture) -> None:
    """With one output linf is l1, and every node proves the same."""
    rewritten(here / "run" / "certificate.zip", lambda text: text["distance"].update(name="linf"))
    assert "another distance than the run" in said(capsys, "run", code=1)


def test_a_certificate_of_other_settings_than_the_runs_is_refused(here: Path, capsys: Capture) -> None:
    assert cli.run([*SELECT[:-1], "other", "--percent", "30", "--certify"]) == 0
    (here / "other" / "certificate.zip").replace(here / "run" / "certificate.zip")
    assert "other settings" in said(capsys, "run", code=1)


def test_a_certificate_without_the_runs_selection_is_refused(here: Path, capsys: Capture) -> None:
    rewritten(here / "run" / "certificate.zip", lambda text: text.update(selection=None))
    assert "do not name the same survivors" in said(capsys, "run", code=1)


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "upper": lambda text: text["pairs"][0].update(upper=text["pairs"][0]["lower"]),
    "lower": lambda text: text["pairs"][0].update(lower=text["pairs"][0]["upper"]),
    "domain": lambda text: text["domain"][0].update(upper=[1.5, 2.0]),
    "digest": lambda text: text["networks"][0].update(digest="0" * 64),
    "without a file": lambda text: text["networks"][0].pop("file"),
    "file of another kind": lambda text: text["networks"][0].update(file=["a", "b"]),
    "no file": lambda text: text["networks"][0].update(file=None),
    "sha of nothing": lambda text: text["networks"][0].update(sha256=None),
    "terminal escapes": lambda text: (
        text["networks"][0].update(name="\x1b[31mred\x07\nproved: all"),
        text["pairs"][0].update(lower=0.0, upper=0.0),
    ),
    "a huge number": lambda text: text["pairs"][0].update(upper=10**400),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_does_not_follow_is_refused_in_one_sentence(what: str, here: Path, capsys: Capture) -> None:
    rewritten(here / "pair.zip", BROKEN[what])
    assert "\x1b" not in said(capsys, "pair.zip", code=1)


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no certificate at all", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" * 99]
)
def test_what_is_no_certificate_is_refused(content: bytes, here: Path, capsys: Capture) -> None:
    (here / "file.zip").write_bytes(content)
    said(capsys, "file.zip", code=1)


# --- Mistakes ---------------------------------------------------------------------------------------------------------


def test_a_path_without_a_certificate_is_a_mistake(here: Path, capsys: Capture) -> None:
    assert "--certify" in said(capsys, "nowhere.zip", code=2)
    (here / "empty").mkdir()
    assert "--certify" in said(capsys, "empty", code=2)


def test_an_interval_is_told_even_where_no_certificate_can_be_written(here: Path, capsys: Capture) -> None:
    (here / "folder").mkdir()
    for place in ("no/such/folder/pair.zip", "folder"):
        assert cli.run([*PDT, "--certify", place]) == 1
        captured = capsys.readouterr()
        assert "cannot be written" in captured.err
        assert "upper" in captured.out
        assert not any(path.name.startswith(".") for path in (*here.iterdir(), *(here / "folder").iterdir()))


# --- Hostile files ----------------------------------------------------------------------------------------------------


def bomb(name: str, size: int, byte: bytes) -> bytes:
    """A good certificate but for one member that unpacks to a great deal."""
    good, file = made("l1"), io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for member, data in {**good.members, "certificate.json": json.dumps(good.text).encode()}.items():
            if member != name:
                archive.writestr(member, data)
        with archive.open(name, "w", force_zip64=True) as member_file:
            for _ in range(size >> 20):
                member_file.write(byte * (1 << 20))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "byte"), [("certificate.json", b" "), ("networks/0", b"\0"), ("pairs/0-1", b"\0"), ("pairs/0-1", b"\2")]
)
def test_a_bomb_is_refused_in_bounded_memory(name: str, byte: bytes, here: Path, capsys: Capture) -> None:
    data = bomb(name, 200 << 20, byte)
    assert len(data) < 2 << 20
    (here / "bomb.zip").write_bytes(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said(capsys, "bomb.zip", "--without-models", code=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # kilobytes


def test_declared_sizes_are_refused_before_they_are_made(here: Path, capsys: Capture) -> None:
    def huge(text: dict[str, Any]) -> None:
        text["networks"][0]["layers"][0].update(neurons=1 << 20, inputs=1 << 20)

    rewritten(here / "pair.zip", huge)
    assert "declares more than" in said(capsys, "pair.zip", code=1)


# --- Killed -----------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_certificate
from karenina.certificate import write_certificate
folder = Path({folder!r})
subject, pairs = test_certificate.subject_in(folder)
write_certificate(folder / "certificate.zip", subject, pairs, on_pair=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_killed_writer_leaves_no_half_certificate(tmp_path: Path) -> None:
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not (tmp_path / "certificate.zip").exists()


def test_the_command_itself_exits_with_one(here: Path) -> None:
    rewritten(here / "pair.zip", BROKEN["upper"])
    ended = karenina("check", "pair.zip", "--jobs", "1", directory=here)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "refused: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_hostile_arithmetic_says_one_sentence(here: Path, capsys: Capture) -> None:
    """Weights so large that everything overflows: no warnings of numpy, no NaN taken for a proof."""
    good = made("l1")
    text, members = good.text, good.members
    members["networks/0"] = (np.frombuffer(members["networks/0"], "<f8") * 1e300).tobytes()
    (here / "huge.zip").write_bytes(packed(with_digests(text, members), members))
    said(capsys, "huge.zip", "--without-models", code=1)
