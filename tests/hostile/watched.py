"""Runs command lines and watches them: `python watched.py TASKS RESULTS`.

Enters: a JSON list of [folder, arguments]. Leaves: one line of JSON for each as soon as it is done: exit code, what was
said, which files outside the folder and outside Python's own were opened, which processes and connections were begun,
how much memory it took. One process for all of them, whose address space is limited, so that importing is done once.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

SECONDS = 300  # after which a case that hangs ends the process
ADDRESS_SPACE = 6 * 2**30  # bytes beyond what is mapped once everything is imported
STARTS = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "ctypes.dlopen")

opened: set[str] = set()
started: set[str] = set()


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes):
        opened.add(os.fsdecode(arguments[0]))
    elif event in STARTS:
        started.add(f"{event}{arguments!r}")


def _elsewhere(path: str, folder: Path) -> bool:
    """Whether a file is neither the case's nor Python's nor karenina's own."""
    import karenina

    place = os.path.realpath(folder / path)
    own = [str(folder), sys.prefix, sys.base_prefix, str(Path(karenina.__file__).parent), "/dev/null", "/proc/"]
    return not any(place.startswith(os.path.realpath(prefix)) for prefix in own)


def _peak(reset: bool = False) -> int:
    """The largest resident size since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run(folder: Path, arguments: list[str]) -> dict[str, Any]:
    from karenina.cli import run as karenina

    os.chdir(folder)
    before = _peak(reset=True)
    opened.clear()
    started.clear()
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()) as complained:
        code = karenina(arguments)
    files, begun = sorted(opened), sorted(started)
    return {
        "code": code,
        "said": said.getvalue(),
        "complained": complained.getvalue(),
        "elsewhere": [path for path in files if _elsewhere(path, folder)],
        "started": begun,
        "bytes": _peak() - before,
    }


def main(tasks: Path, results: Path) -> None:
    import karenina.text_file

    karenina.text_file._SILENCE = 0.3  # a pipe that nobody writes to need not take half a minute here
    asked = [(Path(folder), arguments) for folder, arguments in json.loads(tasks.read_text())]
    sys.addaudithook(watch)
    with results.open("w") as file:
        for k, (folder, arguments) in enumerate(asked):
            signal.alarm(SECONDS)
            file.write(json.dumps(run(folder, arguments)) + "\n")
            file.flush()
            if k == 0:  # the first is a good one, after which everything is imported
                mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESS_SPACE, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
