"""What a hostile case is. Enters: functions that write a bad file. Leaves: `CASES`, in the order they were written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from command_line import BOX, SHIFTED, TOY, write_onnx

__all__ = [
    "CASES",
    "CONDITION",
    "DATA",
    "DOMAIN",
    "MARKER",
    "MODEL",
    "POPULATION",
    "REPORT",
    "RESUME",
    "SPECIFICATION",
    "STATISTICS",
    "Case",
    "build",
    "good_files",
    "hostile",
    "register",
]

MARKER = "marker"  # what a payload writes, beside the case's folder, if it is ever run
BAD = "{bad}"

MODEL = ("pdt", BAD, "good.onnx", "--domain", "domain.toml")
POPULATION = ("select", BAD, "good.onnx", "other.onnx", "--domain", "domain.toml", "--no-cache", "--out", "run")
DOMAIN = ("pdt", "good.onnx", "other.onnx", "--domain", BAD)
SPECIFICATION = ("verify", "good.onnx", BAD)
CONDITION = (*DOMAIN[:-1], "domain.toml", "--distance", "c-distance", "--condition", BAD)
DATA = ("domain", "from-data", BAD, "--out", "made.toml")
STATISTICS = (*DOMAIN[:-1], "domain.toml", "--normalisation", BAD)
REPORT = ("report", BAD)
RESUME = ("resume", BAD, "--no-cache")

Build = Callable[[Path], str]  # writes into a folder; what to put in the place of BAD


@dataclass(frozen=True)
class Case:
    """A bad file, and the command that is to refuse it."""

    name: str
    command: tuple[str, ...]
    build: Build


CASES: list[Case] = []


def register(name: str, command: tuple[str, ...], build: Build) -> None:
    """Add a case."""
    assert name not in {case.name for case in CASES}
    CASES.append(Case(name, command, build))


def hostile(command: tuple[str, ...]) -> Callable[[Build], Build]:
    """Make a case of a function, by its name."""

    def add(build: Build) -> Build:
        register(build.__name__, command, build)
        return build

    return add


def good_files(folder: Path) -> None:
    """What is not wrong with the case: two networks and a domain."""
    folder.mkdir(parents=True)
    write_onnx(folder / "good.onnx", TOY)
    write_onnx(folder / "other.onnx", SHIFTED)
    (folder / "domain.toml").write_text("[[box]]\nlower = [0, 0]\nupper = [1, 2]\n")
    (folder / "good.vnnlib").write_text(BOX + "(assert (>= Y_0 25.0))\n")


def build(case: Case, around: Path) -> tuple[Path, list[str], str]:
    """The case's folder, its command line, and what the refusal has to name."""
    folder = around / "here"
    good_files(folder)
    bad = case.build(folder)
    return folder, [bad if argument == BAD else argument for argument in case.command], bad
