"""What the tests of faults share: a small population, results that compare, disks that fail, processes to be killed."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from measured import a_network

from karenina import cli

SELECT = ["select", "models", "--domain", "domain.toml", "--device", "cpu", "--json"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def make_population(folder: Path, count: int = 6) -> Path:
    """Small networks, and a domain."""
    (folder / "models").mkdir()
    for seed in range(count):
        a_network(seed).to_onnx(folder / "models" / f"seed_{seed}.onnx")
    (folder / "domain.toml").write_text("[[box]]\nlower = [-1, -1]\nupper = [1, 2]\n")
    return folder


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """A result without what may differ between equal runs."""
    pairs = [{key: value for key, value in pair.items() if key != "seconds"} for pair in found["pairs"]]
    return {key: value for key, value in found.items() if key not in ("seconds", "run", "checksum")} | {"pairs": pairs}


def decisions(found: dict[str, Any]) -> object:
    """Who went when and why, who is left, and how sure that is: all of a result but its intervals and its cost."""
    steps = [(step["removed"], step["certainty"]) for step in found["iterations"]]
    return steps, found["survivors"], found["recommended"], found["stop"]["reason"], found["guarantee"]


@dataclass(frozen=True)
class Ended:
    """How a command in this process ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return timeless(json.loads(self.out))

    def one_sentence(self) -> str:
        """The error: the last line and the only one, nothing on stdout, no traceback."""
        assert (self.code in (1, 2), self.out) == (True, ""), (self.code, self.out)
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert self.err.splitlines()[-1:] == errors, self.err
        assert "Traceback" not in self.err
        assert "internal error" not in self.err
        return errors[0]


def ended(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> Ended:
    capsys.readouterr()
    code = cli.run(arguments)
    return Ended(code, *capsys.readouterr())


def keys(run: Path) -> list[str]:
    """The questions that a run has on record, in order."""
    lines = (run / "pairs.jsonl").read_bytes().splitlines(keepends=True)
    return [json.loads(line)["key"] for line in lines if line.endswith(b"\n")]


def flipped(data: bytes, at: int, bit: int) -> bytes:
    """The data with one bit turned over."""
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


# --- Disks -----------------------------------------------------------------------------------------------------------

CHANGING = ("open", "write", "fsync", "replace", "ftruncate", "mkdir")


@dataclass
class Disk:
    """The system calls that change a folder, counted; the one at `fail_at` fails, and the later ones with it if it
    lasts. A write that fails has written half. Calls elsewhere are as ever."""

    folder: Path
    fail_at: int | None = None
    number: int = errno.ENOSPC
    lasts: bool = False
    calls: list[str] = field(default_factory=list)
    _files: set[int] = field(default_factory=set)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in CHANGING:
            patch.setattr(os, name, self._counted(name, getattr(os, name)))
        if self.number == errno.EROFS:  # on a full disk files can be removed
            patch.setattr(os, "unlink", self._counted("unlink", os.unlink))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self._here(name, arguments):
                self.calls.append(name)
                if self._fails():
                    if name == "write":
                        real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                    raise OSError(self.number, os.strerror(self.number))
            found = real(*arguments, **options)
            if name == "open":
                (self._files.add if self._inside(arguments[0]) else self._files.discard)(found)
            return found

        return call

    def _fails(self) -> bool:
        at = len(self.calls) - 1
        return self.fail_at is not None and (at == self.fail_at or (self.lasts and at > self.fail_at))

    def _here(self, name: str, arguments: Sequence[Any]) -> bool:
        if name == "open":
            return self._inside(arguments[0]) and bool(arguments[1] & (os.O_WRONLY | os.O_RDWR))
        if name in ("write", "fsync", "ftruncate"):
            return arguments[0] in self._files
        return self._inside(arguments[0])

    def _inside(self, path: Any) -> bool:
        place = Path(os.fsdecode(path)).absolute()
        return place == self.folder or self.folder in place.parents


# --- Processes -------------------------------------------------------------------------------------------------------


def started(
    arguments: Sequence[str], mark: str = "", stdout: int = subprocess.PIPE, **options: Any
) -> subprocess.Popen[str]:
    """The command in a process of its own; it and all that it starts carry the mark."""
    return subprocess.Popen(
        [sys.executable, "-c", "from karenina.cli import main; main()", *arguments],
        env={**ENVIRONMENT, "KARENINA_MARK": mark},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def carrying(mark: str) -> list[int]:
    """The living processes that carry the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"KARENINA_MARK={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it ended, or is not ours
            continue
    return found


NURSERY = """
import json, os, sys, time
from karenina.cli import run
from karenina.store import Journal

WARM = json.loads(sys.argv[1])  # what every command needs is imported and compiled once, here
null = os.open(os.devnull, os.O_WRONLY)
out = os.dup(1)
os.dup2(null, 1)
assert run(WARM) == 0
os.dup2(out, 1)
append = Journal.append

def slowly(self, record):  # so that there is time to hit a run in the middle
    append(self, record)
    time.sleep(0.01)

Journal.append = slowly
print("ready", flush=True)
for line in sys.stdin:
    arguments, to = json.loads(line)
    child = os.fork()
    if child == 0:
        file = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(null, 1)
        os.dup2(file, 2)
        code = run(arguments)
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Nursery:
    """Commands as processes that start at once: forked from one that has everything imported."""

    def __init__(self, folder: Path, warm: Sequence[str]) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY, json.dumps(list(warm))],
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, arguments: Sequence[str], to: str = "stderr.txt") -> int:
        """Start a command; the number of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([list(arguments), to]) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def code(self) -> int:
        """Wait for the command; its exit code, or minus the signal that ended it."""
        return int(self._line())

    def stop(self) -> None:
        self._process.communicate()  # its input ends, and so does it


def killed_at_random(nursery: Nursery, select: Sequence[str], kills: int, rng: random.Random) -> Iterator[Path]:
    """Runs that were killed at random moments until there were so many kills; each is given when it is finished."""
    begun = time.monotonic()
    nursery.start([*select, "timed"])
    assert nursery.code() == 0
    whole, done, runs = time.monotonic() - begun, 0, 0
    while done < kills:
        runs += 1
        run, code = nursery.folder / f"killed_{runs}", -1
        while code:
            again = ["resume", run.name, "--no-cache"] if rng.random() < 0.5 else [*select, run.name]
            process = nursery.start(again if (run / "run.json").exists() else [*select, run.name])
            if done < kills:
                time.sleep(rng.random() * whole)
                send(process, signal.SIGKILL)
            code = nursery.code()
            assert code in (0, -signal.SIGKILL), (nursery.folder / "stderr.txt").read_text()
            done += code != 0
        yield run
    print(f"{done} kills in {runs} runs")


def send(process: int, number: signal.Signals) -> None:
    """Send a signal to a process, if it is still there."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
