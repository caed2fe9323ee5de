"""`karenina zoo train`: arguments in, calls out.

Enters: a benchmark, seeds, a folder. Leaves: trained policies in the folder; lines of progress on stderr, the
folder's path on stdout.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from karenina.errors import InputError, MissingExtra

__all__ = ["TrainDevice", "TrainerName", "assignments", "seed_list", "train"]


class TrainerName(enum.StrEnum):
    """The trainers of `karenina.zoo.training`."""

    POPULATION = "population"
    SB3 = "sb3"


class TrainDevice(enum.StrEnum):
    """Where the updates are computed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def seed_list(text: str) -> list[int]:
    """Seeds written as `1-16`, `4,52,105` or both."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"seeds are written like 1-16 or 4,52,105, not {text!r}")
        seeds += range(int(first), int(last if dash else first) + 1)
    return seeds


def assignments(texts: Sequence[str]) -> dict[str, object]:
    """`name=value` texts as a dictionary; a value is JSON, or else the text itself."""
    found: dict[str, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"{text!r} is not of the form name=value")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value.strip()
    return found


def train(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCH", help="Such as cartpole, aurora_short, pendulum; a wrong one lists all.")
    ],
    *,
    seeds: Annotated[str, typer.Option("--seeds", metavar="LIST", help="Such as 1-16 or 4,52,105.")] = "1-16",
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Policies go to FOLDER/BENCH.")] = Path(
        "trained"
    ),
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="Processes at a time.")] = 1,
    device: Annotated[TrainDevice, typer.Option("--device", help="Where updates are computed.")] = TrainDevice.AUTO,
    trainer: Annotated[
        TrainerName, typer.Option("--trainer", help="For PPO: all seeds at once, or Stable-Baselines3.")
    ] = TrainerName.POPULATION,
    hyperparameter: Annotated[
        list[str] | None,
        typer.Option("--hyperparameter", metavar="NAME=VALUE", help="Instead of the recipe's, such as batch=2048."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the environment; repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what FOLDER holds.")] = False,
) -> None:
    """Train policies that differ only in their seed: by the paper's recipe, or gymnasium's own tasks.

    Each is written as ONNX with a JSON of its provenance and learning curve. A training that was interrupted goes
    on with --resume from its last checkpoint, to the same policies.
    """
    chosen = seed_list(seeds)
    try:
        from karenina.zoo.recipes import recipe
        from karenina.zoo.training import train_population
    except ModuleNotFoundError as missing:
        raise MissingExtra(str(missing.name), "zoo") from missing

    made = recipe(benchmark, assignments(hyperparameter or ()), assignments(set_ or ()))
    folder = train_population(made, chosen, out, jobs=jobs, device=device, trainer=trainer, resume=resume)
    typer.echo(folder.path)
