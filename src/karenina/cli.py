"""The command line: arguments in, calls out; no logic.

Enters: `sys.argv`. Leaves: results on stdout, messages on stderr, and an exit code: 0 done, 1 internal error,
2 bad input or usage, 3 stopped before the tolerance was reached (or the specification decided), 130 interrupted.

What computes is imported inside the commands, so that `karenina --help` needs neither torch nor numpy.
"""

from __future__ import annotations

import enum
import io
import math
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import typer

from karenina import presentation
from karenina.errors import InputError, KareninaError

if TYPE_CHECKING:
    from karenina.network import Network

__all__ = ["Action", "BackendName", "Device", "DistanceName", "app", "main", "pdt", "run", "verify"]

app = typer.Typer(
    name="karenina",
    help="How far can two networks ever disagree? Certified answers over whole input domains.",
    epilog="Exit codes: 0 done, 1 internal error, 2 bad input or usage, 3 stopped before the answer was reached.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
DomainFile = Annotated[
    Path, typer.Option("--domain", metavar="FILE", help="The inputs to compare on: TOML or VNN-LIB.")
]
DistanceOption = Annotated[DistanceName, typer.Option("--distance", help="How outputs are compared.")]
Conditions = Annotated[
    list[str] | None,
    typer.Option("--condition", metavar="TEXT", help="For c-distance: a condition such as 'y0 >= 0'; repeatable."),
]
Tolerance = Annotated[float, typer.Option("--tolerance", min=0, metavar="T", help="Stop when upper - lower <= T.")]
RelativeTolerance = Annotated[
    float, typer.Option("--relative-tolerance", min=0, metavar="R", help="Or when upper - lower <= R * |lower|.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0, metavar="S", help="Seconds to search; what is known by then is the answer.")
]
BackendOption = Annotated[BackendName, typer.Option("--backend", help="Who answers the queries.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where our own engine computes.")]
ActionOption = Annotated[
    Action, typer.Option("--action", help="For a policy: its raw outputs, or the action executed (squashed, rescaled).")
]
Normalisations = Annotated[
    list[Path] | None,
    typer.Option(
        "--normalisation",
        metavar="FILE",
        help="VecNormalize statistics of a policy's observations; give it twice if the two networks' differ.",
    ),
]
ActivationOption = Annotated[
    str | None,
    typer.Option(
        "--activation",
        metavar="NAME",
        help="For a state dict, which does not hold it: relu, tanh, ... (relu if not given).",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="JSON on stdout; infinities are the strings 'Infinity' and '-Infinity'.")
]


@app.callback(invoke_without_command=True)
def _karenina(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        _write(f"karenina {presentation.version()}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InputError("no command given: say verify or pdt, or see karenina --help")


@app.command()
def verify(
    network: NetworkFile,
    specification: SpecificationFile,
    *,
    timeout: Timeout = math.inf,
    backend: BackendOption = BackendName.KARENINA,
    device: DeviceOption = Device.AUTO,
    action: ActionOption = Action.RAW,
    normalisation: Normalisations = None,
    activation: ActivationOption = None,
    json: Json = False,
) -> None:
    """Decide whether any input satisfies a VNN-LIB specification.

    The first line is sat, unsat, timeout or unknown; for sat, the counterexample follows as VNN-COMP writes it.
    """
    with _working("reading"):
        from karenina import vnnlib
        from karenina.backends import backend as named_backend

        asked = vnnlib.load_specification(specification)
        (model,) = _load([network], action, normalisation, activation)
    with _working("verifying"):
        found = vnnlib.verify(model, asked, named_backend(backend, device), time_limit=timeout)
    _notes([found.answer.note])
    settings = {
        "specification": str(specification),
        "timeout": timeout,
        "backend": backend,
        "device": device,
        "action": action,
    }
    _write(presentation.verification_json(found, model, settings) if json else presentation.verification_text(found))
    raise typer.Exit(0 if found.decided else 3)


@app.command()
def pdt(
    first: FirstFile,
    second: SecondFile,
    *,
    domain: DomainFile,
    distance: DistanceOption = DistanceName.L1,
    condition: Conditions = None,
    tolerance: Tolerance = 1e-3,
    relative_tolerance: RelativeTolerance = 0.0,
    timeout: Timeout = math.inf,
    backend: BackendOption = BackendName.KARENINA,
    device: DeviceOption = Device.AUTO,
    action: ActionOption = Action.RAW,
    normalisation: Normalisations = None,
    activation: ActivationOption = None,
    json: Json = False,
) -> None:
    """Measure the pairwise disagreement threshold of two networks over a domain.

    The answer is an interval that holds the largest distance of their outputs on any input of the domain, with
    a witness that attains its lower end.
    """
    with _working("reading"):
        from karenina.backends import backend as named_backend
        from karenina.disagreement import pairwise_disagreement_threshold
        from karenina.distance import distance as named_distance
        from karenina.domain_file import load_domain
        from karenina.query import Goal

        goal = Goal(tolerance=tolerance, relative_tolerance=relative_tolerance, time_limit=timeout)
        measure = named_distance(distance, condition or ())
        inputs = load_domain(domain)
        _notes(inputs.notes)
        models = _load([first, second], action, normalisation, activation)
        for model in models:
            inputs.require_size(model)
    with _working("measuring"):
        found = pairwise_disagreement_threshold(
            models[0], models[1], inputs, measure, goal=goal, backend=named_backend(backend, device)
        )
    if json:
        settings = {
            "domain": str(domain),
            "distance": distance,
            "conditions": condition or [],
            "tolerance": tolerance,
            "relative_tolerance": relative_tolerance,
            "timeout": timeout,
            "backend": backend,
            "device": device,
            "action": action,
        }
        _write(presentation.disagreement_json(found, inputs.labels, models, settings))
    else:
        _write(presentation.disagreement_text(found, inputs.labels, [str(first), str(second)]))
    raise typer.Exit(0 if found.status.finished else 3)


def _load(
    files: Sequence[Path], action: Action, normalisations: Sequence[Path] | None, activation: str | None
) -> list[Network]:
    """The networks, each with its own normalisation or all with the only one."""
    from karenina.loading import load

    statistics: list[Path | None] = [*normalisations] if normalisations else [None]
    if len(statistics) == 1:
        statistics *= len(files)
    if len(statistics) != len(files):
        raise InputError(f"--normalisation is given {len(statistics)} times for {len(files)} network(s)")
    networks = [
        load(
            file,
            action="executed" if action is Action.EXECUTED else "raw",
            normalisation=given,
            activation=activation,
        )
        for file, given in zip(files, statistics, strict=True)
    ]
    _notes(note for network in networks for note in network.notes)
    return networks


def _write(text: str) -> None:
    """Results to stdout. A reader that left early (`| head -1`) has what it wanted: that is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's last flush fails again
        if not isinstance(error, BrokenPipeError):
            raise


def _message(kind: str, style: str, text: str) -> None:
    """One line on stderr."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((f"{kind}: ", style), " ".join(text.split()))
    Console(stderr=True).print(line, soft_wrap=True)


def _notes(notes: Iterable[str]) -> None:
    for note in dict.fromkeys(filter(None, notes)):
        _message("note", "yellow", note)


@contextmanager
def _working(what: str) -> Iterator[None]:
    """A sign of life on a terminal's stderr."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield


@runtime_checkable
class _UsageError(Protocol):
    """The exceptions of the argument parser, which every version of typer keeps in another place."""

    def format_message(self) -> str: ...


def _report(error: Exception) -> int:
    """Say what went wrong, in one line; the exit code."""
    match error:
        case KareninaError():
            _message("error", "bold red", str(error))
            return 2
        case _UsageError():
            _message("error", "bold red", f"{error.format_message()} (see karenina --help)")
            return 2
    trace = "for the traceback, run karenina --debug with the same arguments"
    _message("internal error", "bold red", f"{type(error).__name__}: {error} ({trace})")
    return 1


def run(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    try:
        code = typer.main.get_command(app).main(args=list(arguments), prog_name="karenina", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _report(error)
    return code if isinstance(code, int) else 0


def main() -> None:
    """The `karenina` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no reason to fail
    sys.exit(run(sys.argv[1:]))
