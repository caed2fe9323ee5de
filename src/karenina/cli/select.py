"""`karenina select`. Enters: models and a domain. Leaves: the survivors, certified, and the folder of the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer.core

from karenina.cli.groups import expanded
from karenina.cli.options import (
    Answering,
    CertifyFlag,
    Comparison,
    Json,
    ModelPaths,
    OutFolder,
    PairTolerance,
    Reading,
    Removing,
    ReportFlag,
    Running,
    SkipUnreadable,
)
from karenina.cli.population import Member, population
from karenina.cli.selecting import Leaving, Plan, carry_out
from karenina.cli.terminal import notes, working
from karenina.errors import InputError

if TYPE_CHECKING:
    from karenina.distance import Distance
    from karenina.domain import Domain
    from karenina.selection import SelectionSettings
    from karenina.store import Configuration, Model

__all__ = ["RayCommand", "select", "with_ray_address"]

_ADDRESS = re.compile(r"auto|local|ray://\S+|[\w.\-\[\]]+:\d+")


def with_ray_address(arguments: Sequence[str]) -> list[str]:
    """The arguments with an address after every --ray: the one that follows, if it is one, or this machine."""
    result = []
    for k, argument in enumerate(arguments):
        result.append(argument)
        following = arguments[k + 1] if k + 1 < len(arguments) else ""
        if argument == "--ray" and not _ADDRESS.fullmatch(following):
            result.append("local")
    return result


class RayCommand(typer.core.TyperCommand):
    """A command whose option --ray may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_ray_address(args))


@expanded
def select(
    paths: ModelPaths,
    *,
    comparison: Comparison,
    removing: Removing,
    tolerance: PairTolerance = 1e-3,
    running: Running,
    answering: Answering,
    reading: Reading,
    skip_unreadable: SkipUnreadable = False,
    out: OutFolder = None,
    report: ReportFlag = False,
    certify: CertifyFlag = False,
    json: Json = False,
) -> None:
    """Select the models that agree with each other on a domain.

    Models that disagree with the others are removed, iteration by iteration; every removal says whether it is
    certified. All that is measured is kept in the run's folder: the same command again, or karenina resume,
    continues a run that was stopped. For example:

        karenina select policies/ --domain domain.toml --report
    """
    with working("reading"):
        from karenina.backends import backend
        from karenina.disagreement import check_population
        from karenina.distance import distance
        from karenina.domain_file import load_domain

        settings = _settings(removing, tolerance)
        measured_by = distance(comparison.distance, comparison.condition or ())
        domain = load_domain(comparison.domain)
        members = population(paths, reading, skip_unreadable=skip_unreadable)
        check_population([member.network for member in members], domain)
        measured_by.queries(members[0].network, members[1].network, domain)  # refuses conditions that do not fit
        backend(answering.backend, answering.device if running.ray is None else "cpu")  # or a device that is not there
        notes(domain.notes)
        configuration = _configuration(members, comparison, domain, measured_by, settings, answering, reading)
    folder = out or Path("karenina-runs") / f"{comparison.domain.stem}-{configuration.hash}"
    plan = Plan(members, domain, measured_by, settings, configuration, folder)
    carry_out(plan, running, answering.device, Leaving(report, certify, json))


def _settings(removing: Removing, tolerance: float) -> SelectionSettings:
    from karenina.selection import SelectionSettings

    try:
        return SelectionSettings(
            criterion=removing.criterion.value,
            percent=removing.percent,
            iterations=removing.iterations,
            similar=removing.similar,
            stop_below=removing.stop_below,
            tolerance=tolerance,
            time_limit=removing.timeout_per_pair,
            exact=removing.exact,
        )
    except InputError as error:
        text = str(error).replace("time_limit", "--timeout-per-pair").replace("stop_below", "--stop-below")
        raise InputError(text) from error


def _configuration(
    members: Sequence[Member],
    comparison: Comparison,
    domain: Domain,
    distance: Distance,
    settings: SelectionSettings,
    answering: Answering,
    reading: Reading,
) -> Configuration:
    from karenina.store import Configuration, Context

    return Configuration(
        models=tuple(map(_model, members)),
        domain_file=_place(comparison.domain),
        domain_text=domain.to_toml(),
        context=Context.of(domain, distance, answering.backend.value),
        distance=comparison.distance.value,
        conditions=tuple(comparison.condition or ()),
        options={"action": reading.action.value, "activation": reading.activation},
        settings=settings.to_dict(),
    )


def _model(member: Member) -> Model:
    from karenina.store import Model

    beside = None if member.normalisation is None else _place(member.normalisation)
    return Model(member.name, _place(member.file), member.network.digest(), beside)


def _place(file: Path) -> str:
    return str(file.resolve())
