"""Arguments and options, declared once. Enters: nothing. Leaves: annotations for the commands' parameters, and
groups of options that several commands share.

A group is a frozen dataclass. A command takes it as one parameter, and `expanded` shows its fields to typer:

    @expanded
    def pdt(first: FirstFile, *, comparison: Comparison, json: Json = False) -> None: ...
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "Action",
    "Answering",
    "BackendName",
    "Comparison",
    "Device",
    "DistanceName",
    "FirstFile",
    "Json",
    "NetworkFile",
    "Reading",
    "SecondFile",
    "SpecificationFile",
    "Timeout",
    "Tolerances",
    "expanded",
]


class DistanceName(enum.StrEnum):
    """The distances of `karenina.distance`."""

    L1 = "l1"
    LINF = "linf"
    C_DISTANCE = "c-distance"
    CLASS = "class"


class BackendName(enum.StrEnum):
    """The back ends of `karenina.backends`."""

    KARENINA = "karenina"
    MARABOU = "marabou"
    HIGHS = "highs"
    GUROBI = "gurobi"


class Device(enum.StrEnum):
    """Where our own engine computes."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Action(enum.StrEnum):
    """What a policy's outputs are taken to be."""

    RAW = "raw"
    EXECUTED = "executed"


_NETWORK_FILE = "ONNX, NNet, safetensors or PyTorch weights, or a Stable-Baselines3 zip."
NetworkFile = Annotated[Path, typer.Argument(metavar="NETWORK", help=_NETWORK_FILE, show_default=False)]
FirstFile = Annotated[Path, typer.Argument(metavar="A", help=_NETWORK_FILE, show_default=False)]
SecondFile = Annotated[Path, typer.Argument(metavar="B", help="The other network.", show_default=False)]
SpecificationFile = Annotated[Path, typer.Argument(metavar="SPEC", help="VNN-LIB 1, plain or .gz.", show_default=False)]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0, metavar="S", help="Seconds to search; what is known by then is the answer.")
]
Json = Annotated[
    bool, typer.Option("--json", help="JSON on stdout; infinities are the strings 'Infinity' and '-Infinity'.")
]

_DOMAIN = typer.Option("--domain", metavar="FILE", help="The inputs to compare on: TOML or VNN-LIB.")
_DISTANCE = typer.Option("--distance", help="How outputs are compared.")
_CONDITION = typer.Option(
    "--condition", metavar="TEXT", help="For c-distance: a condition such as 'y0 >= 0'; repeatable."
)
_TOLERANCE = typer.Option("--tolerance", min=0, metavar="T", help="Stop when upper - lower <= T.")
_RELATIVE = typer.Option("--relative-tolerance", min=0, metavar="R", help="Or when upper - lower <= R * |lower|.")
_BACKEND = typer.Option("--backend", help="Who answers the queries.")
_DEVICE = typer.Option("--device", help="Where our own engine computes.")
_ACTION = typer.Option("--action", help="For a policy: its raw outputs, or the action executed (squashed, rescaled).")
_NORMALISATION = typer.Option(
    "--normalisation",
    metavar="FILE",
    help="VecNormalize statistics of a policy's observations; give it once for every network if they differ.",
)
_ACTIVATION = typer.Option(
    "--activation",
    metavar="NAME",
    help="For a state dict, which does not hold it: relu, tanh, ... (relu if not given).",
)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """On which inputs networks are compared, and how."""

    domain: Annotated[Path, _DOMAIN]
    distance: Annotated[DistanceName, _DISTANCE] = DistanceName.L1
    condition: Annotated[list[str] | None, _CONDITION] = None


@dataclasses.dataclass(frozen=True)
class Tolerances:
    """How narrow an interval must be."""

    tolerance: Annotated[float, _TOLERANCE] = 1e-3
    relative_tolerance: Annotated[float, _RELATIVE] = 0.0


@dataclasses.dataclass(frozen=True)
class Answering:
    """Who computes, and where."""

    backend: Annotated[BackendName, _BACKEND] = BackendName.KARENINA
    device: Annotated[Device, _DEVICE] = Device.AUTO


@dataclasses.dataclass(frozen=True)
class Reading:
    """How model files are read."""

    action: Annotated[Action, _ACTION] = Action.RAW
    normalisation: Annotated[list[Path] | None, _NORMALISATION] = None
    activation: Annotated[str | None, _ACTIVATION] = None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a group of options replaced by the group's fields."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    fields = {name: list(_fields(group)) for name, group in groups.items()}

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields[name]})  # type: ignore[operator]
        command(**given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        keyword = parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += fields.get(name, [keyword])
    del flat.__wrapped__
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name])
