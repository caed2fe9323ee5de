"""Bad and hostile files: one sentence, exit code 2, no code run, no other file read, nothing written, little memory.

Every case of `hostile.CASES` goes through the real command line in a process that is watched (`hostile/watched.py`).
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import TOY, karenina, write_onnx
from hostile import CASES
from hostile.case import MARKER, Case, build, good_files
from hostile.packed_files import payload, sb3_zip, torch_file

from karenina.cli import run

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured through /proc")

MEMORY = 1.5 * 2**30  # bytes that any case may take
SECONDS = 600  # a process that hangs is ended
GOOD = (
    ("pdt", "good.onnx", "other.onnx", "--domain", "domain.toml"),
    ("verify", "good.onnx", "good.vnnlib"),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    result: dict[str, Any]
    bad: str
    before: dict[str, str]
    after: dict[str, str]
    around: Path


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder by a hash, also those that no program should open."""
    files = {}
    for path in sorted(folder.rglob("*")):
        plain = path.is_file() and not path.is_symlink()
        files[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes() if plain else b"").hexdigest()
    return files


def watched(tasks: list[tuple[Path, list[str]]], place: Path) -> list[dict[str, Any]]:
    """Run command lines in one process; the results of all that were done."""
    (place / "tasks").write_text(json.dumps([[str(folder), arguments] for folder, arguments in tasks]))
    command = [sys.executable, str(Path(__file__).parent / "hostile" / "watched.py"), "tasks", "results"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "KARENINA_CACHE": str(place / "cache"), "COLUMNS": "40"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    lines = (place / "results").read_text().splitlines() if (place / "results").exists() else []
    results = [json.loads(line) for line in lines]
    assert len(results) == len(tasks), (
        f"{tasks[len(results)]} ended the process: {done.returncode} {done.stderr[-2000:]}"
    )
    return results


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All outcomes; where several processes share the tests, one of them computes them for all."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return computed(tmp_path_factory.mktemp("hostile"))
    shared = tmp_path_factory.getbasetemp().parent / "hostile.pickle"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            shared.write_bytes(pickle.dumps(computed(tmp_path_factory.mktemp("hostile"))))
    found: dict[str, Outcome] = pickle.loads(shared.read_bytes())
    return found


def computed(place: Path) -> dict[str, Outcome]:
    good_files(place / "good")
    tasks = [(place / "good", list(arguments)) for arguments in GOOD]
    built = [build(case, place / case.name) for case in CASES]
    before = [content(folder) for folder, _, _ in built]
    results = watched([*tasks, *((folder, arguments) for folder, arguments, _ in built)], place)
    for result in results[: len(GOOD)]:
        assert result["code"] == 0, result
    return {
        case.name: Outcome(result, bad, was, content(folder), folder.parent)
        for case, result, (folder, _, bad), was in zip(CASES, results[len(GOOD) :], built, before, strict=True)
    }


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def outcome(request: pytest.FixtureRequest, outcomes: dict[str, Outcome]) -> Outcome:
    case: Case = request.param
    return outcomes[case.name]


def test_there_are_enough() -> None:
    assert len(CASES) >= 60


def test_one_sentence_and_exit_code_2(outcome: Outcome) -> None:
    assert outcome.result["code"] == 2, outcome.result
    assert outcome.result["said"] == ""
    complaint = outcome.result["complained"]
    assert complaint.startswith("error: ")
    assert complaint.endswith("\n")
    assert complaint.count("\n") == 1
    assert "Traceback" not in complaint
    assert complaint[:-1].isprintable(), "a terminal would obey"
    assert len(complaint) < 2000
    assert named(outcome.bad) in complaint


def named(bad: str) -> str:
    """How a message names a file: what does not print is written out."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(bad.split()))
    return escaped[:200]


def test_nothing_is_run_read_or_written(outcome: Outcome) -> None:
    assert not (outcome.around / MARKER).exists()
    assert outcome.result["started"] == []
    assert outcome.result["elsewhere"] == []
    assert outcome.after == outcome.before


def test_memory_is_bounded(outcome: Outcome) -> None:
    assert outcome.result["bytes"] < MEMORY


def test_the_payload_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    pickle.loads(payload(folder))
    assert (tmp_path / MARKER).exists()


HOSTILE_NAMES = (
    b"<script>alert(1)<script>.onnx",
    b"\x1b]0;owned\x07\x1b[31m.onnx",
    b"\"><img src=x onerror='alert(1)'>.onnx",
    b"\xff\xfe.onnx",
    "a\u202eb\n.onnx".encode(),
)


@pytest.fixture
def badly_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Good networks under hostile names, and a domain whose inputs are named like markup."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for k, name in enumerate(HOSTILE_NAMES):
        write_onnx(tmp_path / "models" / os.fsdecode(name), [TOY[0], ([[2, -1]], [k])])
    names = 'names = ["<script>alert(2)</script>", "</script><!--"]\n'
    (tmp_path / "domain.toml").write_text(names + "[[box]]\nlower = [0, 0]\nupper = [1, 2]\n")
    return tmp_path


def test_hostile_names_are_shown_and_not_obeyed(badly_named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["select", "models", "--domain", "domain.toml", "--iterations", "1", "--no-cache", "--out", "run"]
    assert run([*asked, "--report"]) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).replace("\n", "").isprintable()
    assert "\\x1b]0;owned\\x07" in said.out
    page = (badly_named / "run" / "report.html").read_text(encoding="utf-8")
    assert "alert(2)" in page
    for markup in ("<script>alert", "<img", "</script><!--", "\x1b", "\u202e"):
        assert markup not in page


def test_what_a_saved_policy_holds_for_unpickling_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    good_files(folder)
    monkeypatch.chdir(folder)
    serialized = base64.b64encode(payload(folder)).decode()
    held = {":type:": "<class 'gymnasium.spaces.box.Box'>", ":serialized:": serialized, "low": "[-1.]", "high": "[1.]"}
    changes = {"action_space": held, "observation_space": held, "lr_schedule": held, "_last_obs": held}
    content = sb3_zip(changes, pytorch_variables_pth=payload(folder))
    (folder / "policy.zip").write_bytes(content)
    asked = ["pdt", "policy.zip", "policy.zip", "--domain", "domain.toml", "--action", "executed"]
    assert run(asked) == 0
    assert "upper" in capsys.readouterr().out
    assert not (tmp_path / MARKER).exists()


def test_the_installed_command_says_the_same(tmp_path: Path) -> None:
    """In a process of its own, with a name that is no text, on a pipe for a terminal."""
    folder = tmp_path / "here"
    good_files(folder)
    bad = os.fsdecode(b"\x1b[31m\xff.pt")
    (folder / bad).write_bytes(torch_file(payload(folder)))
    done = karenina("pdt", bad, "good.onnx", "--domain", "domain.toml", directory=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: \\x1b[31m\\udcff.pt: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / MARKER).exists()
