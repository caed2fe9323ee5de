"""Arguments and options, declared once. Enters: nothing. Leaves: annotations for the commands' parameters, and
groups of options that several commands share, as frozen dataclasses (`groups.expanded` shows them to typer).
"""

from __future__ import annotations

import dataclasses
import enum
import math
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Action",
    "Answering",
    "BackendName",
    "CertificateFile",
    "CertificatePath",
    "CertifyFlag",
    "CheckJobs",
    "Comparison",
    "Criterion",
    "Device",
    "DeviceOption",
    "DistanceName",
    "FirstFile",
    "Json",
    "Judging",
    "ModelPaths",
    "ModelsFolder",
    "NetworkFile",
    "OutFolder",
    "PageFile",
    "PairTolerance",
    "Reading",
    "Removing",
    "ReportFlag",
    "RunFolder",
    "Running",
    "SecondFile",
    "SkipUnreadable",
    "SpecificationFile",
    "Timeout",
    "Tolerances",
    "WithoutModels",
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


class Criterion(enum.StrEnum):
    """The criteria of `karenina.selection`."""

    PERCENTILE = "percentile"
    MAX = "max"
    COMBINED = "combined"


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
ModelPaths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Model files, and folders of them (sorted by name).", show_default=False),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="RUN",
        help="The run's folder, new or old; if not given, one of its own under karenina-runs/.",
    ),
]
PageFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The page; if not given, report.html in the run's folder."),
]
ReportFlag = Annotated[
    bool, typer.Option("--report", help="Write report.html into the run's folder, as karenina report does.")
]
CertifyFlag = Annotated[
    bool,
    typer.Option("--certify", help="Write certificate.zip into the run's folder: a proof that karenina check checks."),
]
CertificateFile = Annotated[
    Path | None,
    typer.Option("--certify", metavar="FILE", help="Write a proof of the interval, which karenina check checks."),
]
CertificatePath = Annotated[
    Path, typer.Argument(metavar="PATH", help="A certificate, or a run's folder with one in it.", show_default=False)
]
ModelsFolder = Annotated[
    Path | None,
    typer.Option("--models", metavar="FOLDER", help="Where the model files are, if not where they were."),
]
WithoutModels = Annotated[
    bool, typer.Option("--without-models", help="Do not compare with model files: the networks are in the certificate.")
]
CheckJobs = Annotated[
    int, typer.Option("--jobs", min=0, metavar="N", help="Processes to check with; 0 is one for every core.")
]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="Leave out model files that cannot be read, instead of refusing.")
]
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
_TOLERANCE = typer.Option("--tolerance", min=0, metavar="T", help="A pair is known when upper - lower <= T.")
_RELATIVE = typer.Option("--relative-tolerance", min=0, metavar="R", help="Or when upper - lower <= R * |lower|.")
_BACKEND = typer.Option("--backend", help="Who answers the queries.")
_DEVICE = typer.Option("--device", help="Where our own engine computes.")
_CRITERION = typer.Option(
    "--criterion", help="Remove the top percent, all above the largest gap, or whichever removes more."
)
_PERCENT = typer.Option("--percent", metavar="P", help="Of the models left, removed in an iteration by percentile.")
_ITERATIONS = typer.Option(
    "--iterations", min=0, metavar="N", help="At most; if not given, until a stop rule applies.", show_default=False
)
_SIMILAR = typer.Option("--similar", min=0, metavar="T", help="Stop when all scores are within T of each other.")
_STOP_BELOW = typer.Option(
    "--stop-below", min=0, metavar="S", help="Stop when no score is larger than S.", show_default=False
)
_PAIR_TIMEOUT = typer.Option(
    "--timeout-per-pair", min=0, metavar="S", help="Seconds for a measurement; decisions may then stay uncertified."
)
_EXACT = typer.Option("--exact", help="Measure all pairs to the tolerance, also those that cannot change the result.")
_JOBS = typer.Option("--jobs", min=0, metavar="N", help="Processes to measure with; 0 is one for every core.")
_RAY = typer.Option(
    "--ray",
    metavar="[ADDRESS]",
    help="Measure on a Ray cluster: host:port, or auto for the one here; without an address, one is started.",
    show_default=False,
)
_RAY_GPUS = typer.Option(
    "--ray-gpus", min=0, metavar="F", help="With --ray: the share of a GPU for a batch of pairs; 0 uses none."
)
_NO_CACHE = typer.Option("--no-cache", help="Neither use nor keep results of other runs.")
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


_REWARDS = typer.Option(
    "--rewards",
    metavar="FILE",
    help="What the models earned: CSV with the columns name, reward and perhaps good (yes or no). If not given, what "
    "is recorded beside models of the zoo.",
)
_GOOD_ABOVE = typer.Option(
    "--good-above", metavar="R", help="A reward above R is good, whatever the file says.", show_default=False
)

PairTolerance = Annotated[float, _TOLERANCE]
DeviceOption = Annotated[Device, _DEVICE]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """On which inputs networks are compared, and how."""

    domain: Annotated[Path, _DOMAIN]
    distance: Annotated[DistanceName, _DISTANCE] = DistanceName.L1
    condition: Annotated[list[str] | None, _CONDITION] = None


@dataclasses.dataclass(frozen=True)
class Tolerances:
    """How narrow an interval must be."""

    tolerance: PairTolerance = 1e-3
    relative_tolerance: Annotated[float, _RELATIVE] = 0.0


@dataclasses.dataclass(frozen=True)
class Removing:
    """Which models are removed, and until when."""

    criterion: Annotated[Criterion, _CRITERION] = Criterion.PERCENTILE
    percent: Annotated[float, _PERCENT] = 25.0
    iterations: Annotated[int | None, _ITERATIONS] = None
    similar: Annotated[float, _SIMILAR] = 0.0
    stop_below: Annotated[float | None, _STOP_BELOW] = None
    timeout_per_pair: Annotated[float, _PAIR_TIMEOUT] = math.inf
    exact: Annotated[bool, _EXACT] = False


@dataclasses.dataclass(frozen=True)
class Running:
    """Who measures: nothing here changes the result."""

    jobs: Annotated[int, _JOBS] = 1
    ray: Annotated[str | None, _RAY] = None
    ray_gpus: Annotated[float, _RAY_GPUS] = 0.25
    no_cache: Annotated[bool, _NO_CACHE] = False


@dataclasses.dataclass(frozen=True)
class Answering:
    """Who computes, and where."""

    backend: Annotated[BackendName, _BACKEND] = BackendName.KARENINA
    device: DeviceOption = Device.AUTO


@dataclasses.dataclass(frozen=True)
class Reading:
    """How model files are read."""

    action: Annotated[Action, _ACTION] = Action.RAW
    normalisation: Annotated[list[Path] | None, _NORMALISATION] = None
    activation: Annotated[str | None, _ACTIVATION] = None


@dataclasses.dataclass(frozen=True)
class Judging:
    """What the models earned, which no selection is told."""

    rewards: Annotated[Path | None, _REWARDS] = None
    good_above: Annotated[float | None, _GOOD_ABOVE] = None
