"""`karenina check`. Enters: a certificate, or the folder of a run. Leaves: what was proved, or what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from karenina.cli.certify import counting
from karenina.cli.options import CertificatePath, CheckJobs, ModelsFolder, WithoutModels
from karenina.cli.terminal import message, working, write
from karenina.errors import InputError, KareninaError

if TYPE_CHECKING:
    from karenina.checker import Certificate, Distance

__all__ = ["CERTIFICATE", "check"]

CERTIFICATE = "certificate.zip"


def check(
    path: CertificatePath, *, models: ModelsFolder = None, without_models: WithoutModels = False, jobs: CheckJobs = 0
) -> None:
    """Re-derive everything that a certificate claims.

    Nothing of the engine that made it is used or trusted. The exit code is 0 only if everything was proved, for the
    very model files that the certificate names; 1 if anything is refused, with the first thing that fails. For example:

        karenina check karenina-runs/domain-1a2b3c
    """
    from karenina.checker import Refused
    from karenina.checker import check as re_derive

    folder = path if path.is_dir() else None
    place = path / CERTIFICATE if folder else path
    if not place.is_file():
        raise InputError(f"{place} is not there: karenina select --certify and karenina pdt --certify write one")
    try:
        with counting("checking pairs") as count:
            proved = re_derive(place, jobs=jobs or _cores(), on_pair=count)
        with working("comparing"):
            if not without_models:
                _compare_models(proved.certificate, models)
            if folder:
                _compare_run(proved.certificate, folder)
    except Refused as error:
        message("refused", "bold red", str(error))
        raise typer.Exit(1) from error
    write(f"{proved}\n")
    if without_models:
        write("The networks are those in the certificate; they were not compared with model files.\n")


def _cores() -> int:
    from karenina.execution import cores

    return cores()


def _compare_models(certificate: Certificate, folder: Path | None) -> None:
    """That the networks of the certificate are those of the model files."""
    from karenina.certificate import chain_of
    from karenina.checker import Refused
    from karenina.checker.reading import digest
    from karenina.loading import load

    for name, told, network in zip(certificate.names, certificate.files, certificate.networks, strict=True):
        file, beside = (_found(told[key], folder) for key in ("file", "normalisation"))
        if file is None or not file.is_file():
            raise Refused(f"the file of {name}, {told['file']}, is not there: say --models FOLDER or --without-models")
        if hashlib.sha256(file.read_bytes()).hexdigest() != told["sha256"]:
            raise Refused(f"{file} is not the file of {name} that the certificate was made for")
        try:
            action: Literal["raw", "executed"] = "executed" if told["action"] == "executed" else "raw"
            read = load(file, action=action, normalisation=beside, activation=told["activation"])
        except KareninaError as error:
            raise Refused(f"{file}: {error}") from error
        if digest(chain_of(read)) != digest(network):
            raise Refused(f"{file} does not hold the network that the certificate has for {name}")


def _found(place: Any, folder: Path | None) -> Path | None:
    if place is None:
        return None
    return Path(str(place)) if folder is None else folder / Path(str(place)).name


def _plain(distance: Distance) -> tuple[object, ...]:
    return distance.name, [(c.rows.tolist(), c.offsets.tolist()) for c in distance.conditions]


def _compare_run(certificate: Certificate, folder: Path) -> None:
    """That the certificate is about this run, and says what its result says."""
    from karenina.certificate import checked_distance, network_of
    from karenina.checker import Refused
    from karenina.distance import distance
    from karenina.domain_file import domain_from_toml
    from karenina.store import read_configuration, read_result

    recorded, result = read_configuration(folder), read_result(folder)
    networks = {
        name: network_of(each).digest() for name, each in zip(certificate.names, certificate.networks, strict=True)
    }
    if networks != {model.name: model.digest for model in recorded.models}:
        raise Refused("the certificate is about other models than the run")
    domain = domain_from_toml(recorded.domain_text, recorded.domain_file)
    sides = [(box.lower.tolist(), box.upper.tolist()) for box in domain.boxes]
    if sides != [(lower.tolist(), upper.tolist()) for lower, upper in certificate.domain]:
        raise Refused("the certificate is about another domain than the run")
    wanted = checked_distance(distance(recorded.distance, recorded.conditions), certificate.networks[0].outputs)
    if _plain(wanted) != _plain(certificate.distance):
        raise Refused("the certificate is about another distance than the run")
    claimed = certificate.selection or {}
    settings = claimed.get("settings", {})
    if any(recorded.settings[name] != value for name, value in settings.items()):
        raise Refused("the certificate is about other settings than the run")
    for what in ("survivors", "recommended"):
        named = claimed.get(what)
        if result[what] != (named["model"] if isinstance(named, dict) else named):
            raise Refused(f"the certificate and selection.json do not name the same {what}")
