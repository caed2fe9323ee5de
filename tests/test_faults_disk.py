"""Disks that are full, broken or read-only: one sentence, nothing half written that is believed, and the run goes on
when the disk does. Every system call that changes the run's folder fails in turn; then real full disks and real
read-only ones, where this machine lets us mount them."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults import ENVIRONMENT, SELECT, Disk, Ended, ended, keys, make_population

from karenina.cli.terminal import message, remark, write
from karenina.errors import WorkStopped

OUT = [*SELECT, "--no-cache", "--out", "run"]


@pytest.fixture(autouse=True)
def _a_disk_that_is_synced_between_rounds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once a second: then the calls are the same in every run."""
    monkeypatch.setattr("karenina.store.journal._SYNC_SECONDS", 1e9)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_population(tmp_path_factory.mktemp("originals"), 4)


def gone_on(capsys: pytest.CaptureFixture[str], run: Path) -> Ended:
    """The run, after the fault: resumed if it had begun."""
    if (run / "run.json").exists():
        return ended(capsys, ["resume", "run", "--json", "--no-cache", "--device", "cpu"])
    return ended(capsys, OUT)


def failing(capsys: pytest.CaptureFixture[str], disk: Disk, arguments: list[str]) -> Ended:
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        return ended(capsys, arguments)


@pytest.mark.parametrize(("number", "lasts"), [(errno.ENOSPC, False), (errno.EROFS, True)])
def test_every_call_to_the_disk_may_fail(
    here: Path, capsys: pytest.CaptureFixture[str], number: int, lasts: bool
) -> None:
    """Full for a moment; read-only from there on."""
    run, whole = here / "run", Disk(here / "run")
    undisturbed = failing(capsys, whole, OUT).result
    expected, harmless = keys(run), 0
    assert {"open", "write", "fsync", "replace", "ftruncate", "mkdir"} == set(whole.calls)
    for at in range(len(whole.calls)):
        shutil.rmtree(run, ignore_errors=True)
        disk = Disk(run, at, number, lasts)
        found = failing(capsys, disk, OUT)
        if found.code == 0:
            harmless += 1
            assert found.result == undisturbed
        else:
            assert os.strerror(number) in found.one_sentence()
            assert not (run / "selection.json").exists() or disk.calls[at] == "fsync"  # that of the folder
        assert gone_on(capsys, run).result == undisturbed
        assert keys(run) == expected  # nothing lost, nothing measured twice
    assert harmless <= 2  # what the lock says of its holder is for people alone
    print(f"{len(whole.calls)} calls failed, one a run")


def test_every_call_to_the_cache_may_fail(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache, arguments = here / "cache", [*SELECT, "--out", "run"]
    whole = Disk(cache)
    undisturbed = failing(capsys, whole, arguments).result
    for at in range(len(whole.calls)):
        for folder in ("run", "cache"):
            shutil.rmtree(here / folder, ignore_errors=True)
        disk = Disk(cache, at, errno.ENOSPC, lasts=True)
        found = failing(capsys, disk, arguments)
        assert found.result == undisturbed
        told = [line for line in found.err.splitlines() if line.startswith("note: the cache")]
        assert len(told) == 1 or disk.calls[at] in ("ftruncate", "write")  # of the lock
        shutil.rmtree(here / "run")
        assert ended(capsys, arguments).result == undisturbed  # from what is left of the cache


@contextmanager
def files_no_longer_than(count: int) -> Iterator[None]:
    """The kernel writes up to that place and no further."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_files_that_may_not_grow(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel itself refuses, at places all over the files."""
    run = here / "run"
    undisturbed, expected = ended(capsys, OUT).result, keys(run)
    largest = max(path.stat().st_size for path in run.iterdir())
    for count in range(0, largest - 200, largest // 12):
        shutil.rmtree(run)
        with files_no_longer_than(count):
            found = ended(capsys, OUT)
        assert os.strerror(errno.EFBIG) in found.one_sentence()
        assert gone_on(capsys, run).result == undisturbed
        assert keys(run) == expected


# --- Real disks ------------------------------------------------------------------------------------------------------

# In a namespace of its own, so that what is mounted there is there alone and goes with the process.
OWN_DISKS = ["unshare", "--user", "--map-root-user", "--mount"]
TRIAL = [*OWN_DISKS, "mount", "-t", "tmpfs", "none", "/mnt"]
# Everything in one process: the commands are those of the other tests.
SCENARIO = """
import contextlib, io, json, os, shutil, subprocess, sys
from pathlib import Path
from faults import SELECT, timeless
from karenina.cli import run

OUT = [*SELECT, "--no-cache", "--out"]

def command(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()

def mount(*options):
    subprocess.run(["mount", *options], check=True)

def refused(found, code, words):
    assert (found[0], found[1]) == (code, ""), found
    assert found[2].splitlines()[-1].startswith("error: ") and words in found[2].splitlines()[-1], found
    assert "Traceback" not in found[2] and "internal" not in found[2], found
"""
FULL = """
_, out, _ = command(*OUT, "whole")
whole = timeless(json.loads(out))
Path("disk").mkdir()
stopped = set()
for kilobytes in (4, 8, 12, 16, 20, 24):
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "none", "disk")
    found = command(*OUT, "disk/run")
    stopped.add(found[0])
    if found[0]:
        refused(found, found[0], "No space left on device")
    mount("-o", "remount,size=10m", "disk")
    code, out, err = command(*OUT, "disk/run")
    assert code == 0 and timeless(json.loads(out)) == whole, err
    subprocess.run(["umount", "disk"], check=True)
print("ended with", sorted(stopped))
assert {1, 2} <= stopped  # some at the start, some in the middle
"""
READ_ONLY = """
shutil.copytree("whole", "run")
mount("--bind", ".", ".")
mount("-o", "remount,ro,bind", ".")
os.chdir(os.getcwd())  # into what is mounted now
refused(command(*OUT, "run"), 2, "run cannot be written: Read-only file system; choose another --out")
refused(command("resume", "run", "--json"), 2, "Read-only file system")
refused(command(*OUT, "new"), 2, "Read-only file system")
mount("-o", "remount,rw,bind", ".")
code, out, err = command("resume", "run", "--json", "--no-cache", "--device", "cpu")
assert code == 0 and timeless(json.loads(out)) == whole, err
"""


def may_mount() -> bool:
    return (
        shutil.which("unshare") is not None and subprocess.run(TRIAL, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not may_mount(), reason="disks cannot be mounted here")
def test_real_disks_that_are_full_and_that_are_read_only(here: Path) -> None:
    command = [*OWN_DISKS, sys.executable, "-c", SCENARIO + FULL + READ_ONLY]
    done = subprocess.run(command, cwd=here, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- Where messages go -----------------------------------------------------------------------------------------------

SAYING = """
import sys
from karenina.cli.terminal import message, remark, write
remark("iteration 1")
message("note", "yellow", "something")
remark("iteration 2")
write("result\\n")
sys.exit(3)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_messages_to_a_full_disk_stop_nothing() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", SAYING], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert (done.returncode, done.stdout) == (3, b"result\n")
    assert all(map(callable, (message, remark)))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_result_that_cannot_be_printed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(WorkStopped, match=r"the output cannot be written \(No space left on device\)"):
            write("result\n")
