"""The models of a selection. Enters: files and folders. Leaves: networks with distinct names, and their files.

In a folder every file that can be read as a model is one; other files (a domain, a description) are passed over,
except those that have a model's extension, which somebody meant to be read.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from karenina.cli.models import statistics_for
from karenina.cli.options import Action, Reading
from karenina.cli.terminal import notes
from karenina.errors import InputError, KareninaError
from karenina.printable import printable

if TYPE_CHECKING:
    from karenina.network import Network

__all__ = ["Member", "distinct_names", "population"]

EXTENSIONS = {".onnx", ".nnet", ".pt", ".pth", ".safetensors", ".zip"}


@dataclass(frozen=True, eq=False)
class Member:
    """A model of the population."""

    name: str
    file: Path
    normalisation: Path | None
    network: Network


def population(paths: Sequence[Path], reading: Reading, *, skip_unreadable: bool = False) -> list[Member]:
    """All models of the paths, in the order given, those of a folder by name."""
    if len(reading.normalisation or []) > 1 and any(_is_folder(path) for path in paths):
        raise InputError("a --normalisation for every network needs the model files one by one, not a folder")
    files = list(_files(paths))
    read = []
    for (file, asked_for), statistics in zip(files, statistics_for([f for f, _ in files], reading), strict=True):
        network = _read(file, statistics, reading, asked_for, skip_unreadable)
        if network is not None:
            read.append((file, statistics, network))
    _refuse_empty_folders(paths, [file for file, _, _ in read], skip_unreadable)
    notes(note for _, _, network in read for note in network.notes)
    names = distinct_names([file for file, _, _ in read])
    return [Member(name, *facts[:2], facts[2].named(name)) for name, facts in zip(names, read, strict=True)]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Every file once, and whether it is surely meant to be a model."""
    seen: dict[Path, Path] = {}
    for path in paths:
        for file in _inside(path) if _is_folder(path) else [path]:
            place = _place(file)
            if place not in seen:
                seen[place] = file
                yield file, not _is_folder(path) or _extension(file) in EXTENSIONS
            elif seen[place].name != file.name:  # and not just a file given beside its folder
                notes([f"{file} and {seen[place]} are one and the same file: it is counted once"])


def _place(file: Path) -> Path:
    try:
        return file.resolve()
    except (OSError, RuntimeError):  # links in a circle, a name too long: whoever reads it says so
        return file


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from error


def _extension(file: Path) -> str:
    return (file.with_suffix("") if file.suffix == ".gz" else file).suffix.lower()


def _read(file: Path, statistics: Path | None, reading: Reading, asked_for: bool, skip: bool) -> Network | None:
    from karenina.loading import load

    action: Literal["raw", "executed"] = "executed" if reading.action is Action.EXECUTED else "raw"
    try:
        return load(file, action=action, normalisation=statistics, activation=reading.activation)
    except KareninaError as error:
        if not asked_for:
            return None
        if not skip:
            raise
        notes([f"left out: {error}"])
        return None


def _refuse_empty_folders(paths: Sequence[Path], read: Sequence[Path], skip: bool) -> None:
    present = {file.resolve() for file in read}
    for path in paths:
        if _is_folder(path) and not skip and not {file.resolve() for file in _inside(path)} & present:
            raise InputError(f"{path} holds no model file")


def distinct_names(files: Sequence[Path]) -> list[str]:
    """The files' stems; where two are equal, with as much of the path in front as tells them apart."""
    alike = defaultdict(list)
    for file in files:
        alike[_labels(file)[0]].append(file)
    names = {}
    for same in alike.values():
        ladders = [_labels(file) for file in same]
        rung = next(k for k in range(max(map(len, ladders)) + 1) if _tells_apart(ladders, k))
        names.update({file: ladder[min(rung, len(ladder) - 1)] for file, ladder in zip(same, ladders, strict=True)})
    return [names[file] for file in files]


def _tells_apart(ladders: Sequence[Sequence[str]], rung: int) -> bool:
    labels = [ladder[min(rung, len(ladder) - 1)] for ladder in ladders]
    return len(set(labels)) == len(labels) or rung >= max(map(len, ladders))


def _labels(file: Path) -> list[str]:
    """What a file may be called, the shortest first: seed_1, seed_1.onnx, runs/seed_1, runs/seed_1.onnx, ..."""
    whole = Path(os.path.normpath(file.absolute()))  # by its own name, also where it is a link
    bare = whole.with_suffix("")
    bare = bare.with_suffix("") if whole.suffix == ".gz" else bare
    depths = range(1, len(whole.parts))
    return [printable(str(Path(*path.parts[-depth:]))) for depth in depths for path in (bare, whole)]
