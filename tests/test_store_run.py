"""Run folders: locks, notes on what has changed, folders that are not ours, disks that are full."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measured import DOMAIN, a_disagreement

from karenina.distance import distance
from karenina.errors import InputError, WorkStopped
from karenina.query import Goal
from karenina.store import Configuration, Context, Model, Record, open_run, read_configuration, read_result

CONFIGURATION = Configuration(
    models=(Model("a", "/models/a.onnx", "a" * 64), Model("b", "/models/b.onnx", "b" * 64, "/models/b.npz")),
    domain_file="/domain.toml",
    domain_text=DOMAIN.to_toml(),
    context=Context.of(DOMAIN, distance("l1")),
    distance="l1",
    conditions=(),
    options={"action": "raw", "activation": None},
    settings={"tolerance": 0.1, "time_limit": math.inf, "iterations": None, "exact": False},
)
RECORD = Record(CONFIGURATION.context, "a" * 64, "b" * 64, Goal(), a_disagreement())


def opened(folder: Path, configuration: Configuration = CONFIGURATION) -> list[str]:
    """Open the run and leave a record there; the notes."""
    told: list[str] = []
    with open_run(folder, configuration, told.append) as run:
        run.journal.append(RECORD)
    return told


def test_a_configuration_reads_back(tmp_path: Path) -> None:
    assert opened(tmp_path / "new" / "run") == []
    assert read_configuration(tmp_path / "new" / "run") == CONFIGURATION
    assert opened(tmp_path / "new" / "run") == []


def test_the_hash_is_of_what_bears_on_the_result() -> None:
    same = [
        replace(CONFIGURATION, domain_file="/elsewhere.toml"),
        replace(CONFIGURATION, models=tuple(replace(model, path="/x") for model in CONFIGURATION.models)),
        replace(CONFIGURATION, context=replace(CONFIGURATION.context, version="later")),
    ]
    other = [
        replace(CONFIGURATION, models=CONFIGURATION.models[:1]),
        replace(CONFIGURATION, settings={**CONFIGURATION.settings, "tolerance": 0.2}),
        replace(CONFIGURATION, distance="linf"),
    ]
    assert {configuration.hash for configuration in same} == {CONFIGURATION.hash}
    assert len({configuration.hash for configuration in [CONFIGURATION, *other]}) == 4


CHANGED = replace(CONFIGURATION.models[0], digest="c" * 64)


def changed(**changes: Any) -> Configuration:
    return replace(CONFIGURATION, context=replace(CONFIGURATION.context, **changes))


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            replace(CONFIGURATION, models=(replace(CONFIGURATION.models[0], digest="c" * 64),)),
            "/models/a.onnx has changed",
        ),
        (changed(domain="other"), "the domain is not the one"),
        (changed(distance="linf"), "the distance is not the one"),
        (changed(backend="highs"), "the back end is not the one"),
        (changed(version="later"), "the version of the engine is not the one"),
    ],
)
def test_what_has_changed_is_told(tmp_path: Path, now: Configuration, words: str) -> None:
    opened(tmp_path)
    told = opened(tmp_path, now)
    assert len(told) == 1
    assert words in told[0]
    assert "not used" in told[0]
    assert opened(tmp_path, now) == []


def test_more_and_fewer_models_are_no_change(tmp_path: Path) -> None:
    opened(tmp_path, replace(CONFIGURATION, models=CONFIGURATION.models[:1]))
    assert opened(tmp_path) == []
    assert opened(tmp_path, replace(CONFIGURATION, models=CONFIGURATION.models[1:])) == []


def test_damaged_records_are_told(tmp_path: Path) -> None:
    opened(tmp_path)
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(b"not a record\n" + path.read_bytes())
    assert any("1 damaged record(s) are not used" in note for note in opened(tmp_path))


HOLD = """
import sys
from pathlib import Path
from karenina.store.lock import Lock
lock = Lock.acquire(Path(sys.argv[1]) / "run.lock")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    opened(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = (tmp_path / "run.json").stat().st_mtime_ns
        with pytest.raises(InputError, match=f"is in use by process {holder.pid} on "):
            opened(tmp_path)
        assert (tmp_path / "run.json").stat().st_mtime_ns == before
        holder.kill()
        holder.wait()
        assert opened(tmp_path) == []


def test_the_lock_goes_with_the_run(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_run(tmp_path, CONFIGURATION, print):
        raise KeyError("inside")
    opened(tmp_path)


def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"holds other files and no run.json"):
        opened(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        opened(tmp_path / "thesis.tex")
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        opened(tmp_path / "thesis.tex" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_configuration_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"learning_rate": 0.1}')
    (tmp_path / "weights.bin").write_text("precious")
    with pytest.raises(InputError, match=r"holds other files and no run.json of ours"):
        opened(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "weights.bin"}


def test_a_result_is_not_left_beside_another_configuration(tmp_path: Path) -> None:
    """Or a run that is killed would look finished."""
    with open_run(tmp_path, CONFIGURATION, print) as run:
        run.finish({"survivors": []})
    opened(tmp_path)
    assert (tmp_path / "selection.json").exists()
    opened(tmp_path, replace(CONFIGURATION, models=CONFIGURATION.models[:1]))
    assert not (tmp_path / "selection.json").exists()


def test_a_folder_left_before_its_configuration_was_written_is_ours(tmp_path: Path) -> None:
    (tmp_path / "run.lock").touch()
    (tmp_path / "run.json.draft").write_text('{"half')
    assert opened(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"models": 3}'])
def test_a_damaged_configuration_is_told_with_its_remedy(tmp_path: Path, content: str) -> None:
    opened(tmp_path)
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run.json is damaged: remove it"):
        opened(tmp_path)
    (tmp_path / "run.json").unlink()
    with open_run(tmp_path, CONFIGURATION, print) as run:
        assert len(run.journal) == 1


def test_a_folder_that_is_no_run_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run folder: it has no run.json"):
        read_configuration(tmp_path)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_refused_before_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=f"cannot be written: {os.strerror(number)}; choose another --out"):
        opened(tmp_path)


def test_the_result_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_run(tmp_path, CONFIGURATION, print) as run:
        run.finish({"survivors": ["a"]})
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(WorkStopped, match=r"selection.json cannot be written \(No space left on device\)"):
            run.finish({"survivors": ["b"]})
        monkeypatch.undo()
    assert read_result(tmp_path) == {"survivors": ["a"]}
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "pairs.jsonl", "run.lock", "selection.json"}
