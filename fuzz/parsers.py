"""Coverage-guided fuzzing of every parser, with atheris: `make fuzz-parsers SECONDS=3600`.

Enters: how long, and which targets (all of `parser_targets`, the time shared equally). Leaves: a folder with every
finding as a file, named by what was raised and where, and `summary.json`: executions, coverage, findings.

The property: an input is either read, and what was read is a valid object, or refused by one of karenina's own errors.
Any other exception (a warning is one here), more than 256 MiB for one input, or more than 20 s of processor time for
one input is a finding. A finding does not end the run.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import re
import resource
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parser_targets import Target

__all__ = ["main"]

_NAMES = (
    "onnx",
    "onnx-graph",
    "state-dict",
    "torch-file",
    "sb3",
    "safetensors",
    "nnet",
    "statistics",
    "domain",
    "vnn-lib",
    "condition",
    "observations",
    "npz",
    "rewards",
    "journal",
    "run",
)
_INSTRUMENTED = ["karenina", "tomllib", "zipfile", "pickletools", "fractions"]
_GROWTH = 256 * 2**20  # bytes that one input may add to the largest size the process ever had
_PROCESSOR_SECONDS = 20.0
_ADDRESS_SPACE = 6 * 2**30  # bytes beyond what is mapped at the start: beyond that, allocation fails


class _Findings:
    """Everything that went wrong, one file for each kind."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = folder / "findings"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._target = target
        self._seen: dict[str, int] = {}

    def keep(self, kind: str, data: bytes, told: str) -> None:
        """Keep the smallest input of a kind."""
        if len(data) >= self._seen.get(kind, sys.maxsize):
            return
        self._seen[kind] = len(data)
        name = f"{self._target.name}-{re.sub(r'[^A-Za-z0-9.]+', '_', kind)}"[:120]
        (self._folder / name).write_bytes(data)
        (self._folder / f"{name}.txt").write_text(told, encoding="utf-8", errors="backslashreplace")


def _place(error: BaseException) -> str:
    """What was raised, and the innermost line of karenina (or of the harness) it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "karenina" in frame.filename or "fuzz" in frame.filename]
    last = ours[-1] if ours else frames[-1]
    return f"{type(error).__name__}-{Path(last.filename).name}-{last.lineno}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _fuzz(name: str, seconds: int, out: Path) -> None:
    """One target in this process, which libFuzzer ends."""
    import atheris
    import torch
    from torch._weights_only_unpickler import Unpickler

    importlib.import_module("onnx")  # imported before, as torch is, and so not instrumented: they are large
    Unpickler.load = atheris.instrument_func(Unpickler.load)  # type: ignore[method-assign]
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(__file__).parent))
    with atheris.instrument_imports(include=_INSTRUMENTED):
        import parser_targets
    (target,) = (target for target in parser_targets.TARGETS if target.name == name)
    findings = _Findings(out, target)
    corpus = out / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    words = out / f"{name}.words"
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words))
    _limit_memory()
    warnings.simplefilter("error")

    def one(data: bytes) -> None:
        peak, started = _peak(), time.process_time()
        try:
            parser_targets.replay(target, data)
        except Exception as error:
            findings.keep(_place(error), data, "".join(traceback.format_exception(error)))
        if _peak() - peak > _GROWTH:
            findings.keep("memory", data, f"{_peak() - peak} bytes more")
        if time.process_time() - started > _PROCESSOR_SECONDS:
            findings.keep("time", data, f"{time.process_time() - started} s")

    options = [f"-max_total_time={seconds}", "-timeout=120", "-rss_limit_mb=8000", "-max_len=6000"]
    options += [f"-dict={words}"] if target.words else []
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={out}/findings/{name}-died-", str(corpus)], one)
    atheris.Fuzz()


def _limit_memory() -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + _ADDRESS_SPACE, resource.RLIM_INFINITY))


def _summary(name: str, log: str, seconds: float, out: Path) -> dict[str, object]:
    runs = [int(n) for n in re.findall(r"^Done (\d+) runs", log, re.MULTILINE)]
    covered = [int(n) for n in re.findall(r"cov: (\d+)", log)]
    found = sorted(file.name for file in (out / "findings").glob(f"{name}-*") if file.suffix != ".txt")
    return {
        "target": name,
        "executions": sum(runs),
        "edges": max(covered, default=0),
        "corpus": len(list((out / "corpus" / name).iterdir())),
        "processor_seconds": round(seconds, 1),
        "findings": found,
    }


def _run(name: str, seconds: int, out: Path) -> dict[str, object]:
    """One target in a process of its own, anew when it dies, until its time is over."""
    used, log = 0.0, ""
    while used < seconds - 5:  # libFuzzer counts the time on the wall
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, __file__, "--target", name, "--seconds", str(int(seconds - used) + 1)]
        done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, errors="replace")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used += max(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 5.0)
        log += done.stdout + done.stderr
    (out / f"{name}.log").write_text(log)
    return _summary(name, log, used, out)


def main() -> None:
    """Fuzz one target here, or all of them one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz-parsers"))
    parser.add_argument("--target", choices=_NAMES, help="fuzz one target in this process, until libFuzzer ends it")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(_NAMES)}; all of them if none is given")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.target:
        _fuzz(asked.target, asked.seconds, asked.out)
        return
    told, names = [], asked.targets or _NAMES
    for name in names:
        told.append(_run(name, asked.seconds // len(names), asked.out))
        print(json.dumps(told[-1]), flush=True)
        (asked.out / "summary.json").write_text(json.dumps(told, indent=1) + "\n")
    sys.exit(1 if any(target["findings"] for target in told) else 0)


if __name__ == "__main__":
    main()
