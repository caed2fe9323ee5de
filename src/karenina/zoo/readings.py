"""What trainings with other settings than the shipped ones lead to: the evidence behind a choice the paper leaves open.

Enters: training folders of one benchmark, with their checkpoints. Leaves: a JSON of mean rewards, which
`karenina.zoo.tables` prints. Each policy is evaluated in the environment it was trained in, and in its
out-of-distribution counterpart.

    python -m karenina.zoo.readings docs/zoo/mountaincar_readings.json one/mountaincar two/mountaincar --last
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from karenina.errors import InputError, KareninaError
from karenina.loading import load
from karenina.zoo.evaluation import evaluate
from karenina.zoo.recipes import recipe
from karenina.zoo.train_command import seed_list
from karenina.zoo.training_folder import seed_name, write_atomically

__all__ = ["differences", "main", "measured"]

_CHECKPOINT = re.compile(r"(seed_\d+)_(\d+)")
_PRESETS = ("in-distribution", "ood")


def differences(training: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a training has otherwise than the shipped policies': of the environment, of the hyperparameters."""
    shipped = recipe(training["benchmark"]).described()
    parts = ("environment", "hyperparameters")
    return {part: {k: v for k, v in training[part].items() if v != shipped[part].get(k)} for part in parts}


def measured(folder: Path, seeds: Sequence[int], episodes: int, last: bool) -> dict[str, Any]:
    """Mean rewards of a folder's checkpoints: number -> policy -> preset -> mean."""
    training = _training(folder)
    other = differences(training)
    wanted = {seed_name(seed) for seed in seeds}
    found: dict[int, dict[str, Path]] = {}
    for path in sorted((folder / "checkpoints").glob("seed_*.onnx")):
        match = _CHECKPOINT.fullmatch(path.stem)
        if match and (not wanted or match[1] in wanted):
            found.setdefault(int(match[2]), {})[match[1]] = path
    numbers = sorted(found)[-1:] if last else sorted(found)
    means = {}
    for number in numbers:
        networks = {name: load(path) for name, path in found[number].items()}
        earned = evaluate(
            networks, training["benchmark"], _PRESETS, episodes=episodes, changes=other["environment"]
        ).models
        means[str(number)] = {
            name: {preset: float(f"{own.mean:.6g}") for preset, own in rewards.items()}
            for name, rewards in earned.items()
        }
    return {"benchmark": training["benchmark"], **other, "episodes": episodes, "checkpoints": means}


def _training(folder: Path) -> dict[str, Any]:
    stories = sorted(folder.glob("seed_*.json"))
    if not stories:
        raise InputError(f"{folder} holds no trained policies: seed_*.json are missing")
    try:
        training: dict[str, Any] = json.loads(stories[0].read_text())["training"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{stories[0]} is not a provenance file ({error!r})") from None
    return training


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m karenina.zoo.readings", description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="the JSON to write")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of trainings, such as trained/mountaincar")
    parser.add_argument("--seeds", default="", help="some only, such as 1-4")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--last", action="store_true", help="the last checkpoint only")
    given = parser.parse_args(arguments)
    try:
        seeds = seed_list(given.seeds) if given.seeds else []
        rows = [measured(folder, seeds, given.episodes, given.last) for folder in given.folders]
    except (OSError, KareninaError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_atomically(given.out, lambda path: path.write_text(json.dumps(rows, indent=1) + "\n"))
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
