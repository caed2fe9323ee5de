"""`karenina resume`. Enters: a run's folder. Leaves: what `karenina select` would have left, had it not stopped."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from karenina.cli.groups import expanded
from karenina.cli.options import CertifyFlag, Device, DeviceOption, Json, ReportFlag, RunFolder, Running
from karenina.cli.population import Member
from karenina.cli.selecting import Leaving, Plan, carry_out
from karenina.cli.terminal import notes, working
from karenina.errors import InputError

if TYPE_CHECKING:
    from karenina.store import Configuration, Model

__all__ = ["resume"]


@expanded
def resume(
    run: RunFolder,
    *,
    running: Running,
    device: DeviceOption = Device.AUTO,
    report: ReportFlag = False,
    certify: CertifyFlag = False,
    json: Json = False,
) -> None:
    """Continue a run that was stopped, from its folder alone.

    The models are read again from where they were; one that has changed is refused. The domain is the one
    on record. For example:

        karenina resume karenina-runs/domain-1a2b3c --jobs 8
    """
    with working("reading"):
        plan = _plan(run, device if running.ray is None else Device.CPU)
    carry_out(plan, running, device, Leaving(report, certify, json))


def _plan(folder: Path, device: Device) -> Plan:
    from dataclasses import replace

    from karenina.backends import backend
    from karenina.distance import distance
    from karenina.domain_file import domain_from_toml
    from karenina.selection import SelectionSettings
    from karenina.store import Context, read_configuration

    recorded = read_configuration(folder)
    measured_by = distance(recorded.distance, recorded.conditions)
    domain = domain_from_toml(recorded.domain_text, recorded.domain_file)
    _tell_if_changed(recorded)
    members = [_member(model, recorded) for model in recorded.models]
    backend(recorded.context.backend, device)  # refuses a device that is not there
    context = Context.of(domain, measured_by, recorded.context.backend)  # of this version of the engine
    settings = SelectionSettings(**recorded.settings)
    return Plan(members, domain, measured_by, settings, replace(recorded, context=context), folder)


def _member(model: Model, recorded: Configuration) -> Member:
    beside = None if model.normalisation is None else Path(model.normalisation)
    return Member(model.name, Path(model.path), beside, recorded.network(model))


def _tell_if_changed(recorded: Configuration) -> None:
    """The domain's file may have changed or gone; the run goes on with the domain it began with."""
    from karenina.domain_file import load_domain
    from karenina.store import domain_hash

    same = False
    if Path(recorded.domain_file).is_file():  # it may have been a pipe
        with suppress(InputError):
            same = domain_hash(load_domain(recorded.domain_file)) == recorded.context.domain
    if not same:
        notes([f"{recorded.domain_file} is not what it was: the run goes on with the domain on record"])
