"""The folder of a training: finished policies, checkpoints, and what it takes to go on after an interruption.

Enters: actors as networks, states as arrays, provenance. Leaves: for seed 7 of a benchmark

    BENCH/seed_007.onnx, seed_007.json      the trained actor and where it comes from; the JSON is written last
    BENCH/checkpoints/seed_007_03.onnx      the actor after the third checkpoint
    BENCH/state/seed_007.npz                everything needed to go on; plain arrays

Every file is written under another name and renamed, so that what has its final name is whole.
"""

from __future__ import annotations

import json
import os
import platform
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import karenina
from karenina.errors import InputError
from karenina.network import Network

__all__ = ["CURVE_POINTS", "Progress", "TrainingFolder", "seed_name", "write_atomically"]

CURVE_POINTS = 300  # at most, of a published learning curve
_LIBRARIES = ("numpy", "torch", "numba", "gymnasium", "stable-baselines3")


def seed_name(seed: int) -> str:
    """What a seed's files and network are called."""
    return f"seed_{seed:03d}"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside the path, then give it its name: others see the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")  # the suffix stays: numpy.savez appends its own
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass
class Progress:
    """How far a seed has come, and how its average reward grew on the way."""

    checkpoints: int = 0
    seconds: float = 0.0  # of training, shared out among the seeds trained together
    steps: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # exponentially weighted average of an episode's

    @property
    def average(self) -> float:
        return self.rewards[-1] if self.rewards else float("nan")

    def curve(self) -> dict[str, list[float]]:
        """The learning curve, thinned; its last point is kept."""
        stride = -(-len(self.steps) // CURVE_POINTS) or 1
        chosen = range(len(self.steps) - 1, -1, -stride)[::-1]
        known = [k for k in chosen if np.isfinite(self.rewards[k])]
        return {"steps": [self.steps[k] for k in known], "reward": [float(f"{self.rewards[k]:.6g}") for k in known]}


@dataclass(frozen=True)
class TrainingFolder:
    """Where one benchmark's training is kept, and the recipe that all its seeds share."""

    path: Path
    described: Mapping[str, Any]  # the recipe and the trainer, as JSON

    def policy(self, seed: int) -> Path:
        return self.path / f"{seed_name(seed)}.onnx"

    def provenance(self, seed: int) -> Path:
        return self.path / f"{seed_name(seed)}.json"

    def state(self, seed: int) -> Path:
        return self.path / "state" / f"{seed_name(seed)}.npz"

    def finished(self, seed: int) -> bool:
        """Whether the seed is trained; refuses one that was trained otherwise."""
        path = self.provenance(seed)
        if not path.exists():
            return False
        self._require_same(_json(path).get("training"), path)
        return True

    def begun(self, seeds: Sequence[int]) -> list[int]:
        """The seeds of which there is anything here."""
        return [seed for seed in seeds if self.provenance(seed).exists() or self.state(seed).exists()]

    def checkpoint(self, seed: int, progress: Progress, actor: Network, arrays: Mapping[str, npt.ArrayLike]) -> None:
        """Keep a checkpoint's actor, then the state: from then on the training goes on after this checkpoint."""
        name = f"{seed_name(seed)}_{progress.checkpoints:02d}.onnx"
        write_atomically(self.path / "checkpoints" / name, actor.to_onnx)
        held: dict[str, Any] = {
            "described": json.dumps(self.described, sort_keys=True),
            "checkpoints": progress.checkpoints,
            "seconds": progress.seconds,
            "curve_steps": np.array(progress.steps, np.int64),
            "curve_rewards": np.array(progress.rewards, np.float64),
            **arrays,
        }
        write_atomically(self.state(seed), lambda path: np.savez(path, **held))

    def resume(self, seed: int) -> tuple[Progress, dict[str, npt.NDArray[Any]]]:
        """Progress and arrays of a seed as last kept; nothing if it has not begun."""
        path = self.state(seed)
        if not path.exists():
            return Progress(), {}
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                arrays = dict(content)
            described = json.loads(str(arrays.pop("described")))
            progress = Progress(
                int(arrays.pop("checkpoints")),
                float(arrays.pop("seconds")),
                arrays.pop("curve_steps").tolist(),
                arrays.pop("curve_rewards").tolist(),
            )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not the state of a training ({error}): delete it to begin afresh") from None
        self._require_same(described, path)
        return progress, arrays

    def finish(self, seed: int, progress: Progress, actor: Network, notes: Mapping[str, Any]) -> None:
        """Publish a trained actor with its provenance."""
        write_atomically(self.policy(seed), actor.to_onnx)
        story = {
            "seed": seed,
            "training": self.described,
            **notes,
            "digest": actor.digest(),
            "seconds": round(progress.seconds, 1),
            "versions": _versions(),
            "curve": progress.curve(),
        }
        text = json.dumps(story, indent=1)
        write_atomically(self.provenance(seed), lambda path: path.write_text(text + "\n"))

    def _require_same(self, described: object, path: Path) -> None:
        if described != self.described:
            raise InputError(f"{path} comes from a training with other settings: name another folder, or delete it")


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a provenance file ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a provenance file")
    return content


def _versions() -> dict[str, str]:
    """Versions of what computes; a library that is not installed is left out."""
    found = {"karenina": karenina.__version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
