"""`karenina pdt`. Enters: two networks and a domain. Leaves: how far apart they can be, with a witness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from karenina import presentation
from karenina.cli.groups import expanded
from karenina.cli.models import load_all
from karenina.cli.options import (
    Answering,
    CertificateFile,
    Comparison,
    FirstFile,
    Json,
    Reading,
    SecondFile,
    Timeout,
    Tolerances,
)
from karenina.cli.terminal import notes, working, write
from karenina.printable import printable

if TYPE_CHECKING:
    from karenina.disagreement import Disagreement
    from karenina.distance import Distance
    from karenina.domain import Domain
    from karenina.network import Network

__all__ = ["pdt"]


@expanded
def pdt(
    first: FirstFile,
    second: SecondFile,
    *,
    comparison: Comparison,
    tolerances: Tolerances,
    timeout: Timeout = math.inf,
    answering: Answering,
    reading: Reading,
    certify: CertificateFile = None,
    json: Json = False,
) -> None:
    """Measure how far two networks can ever disagree on a domain.

    The answer, the pairwise disagreement threshold, is an interval that holds the largest distance of their outputs
    on any input of the domain, with a witness that attains its lower end. For example:

        karenina pdt a.onnx b.onnx --domain domain.toml
    """
    with working("reading"):
        from karenina.backends import backend
        from karenina.disagreement import pairwise_disagreement_threshold
        from karenina.distance import distance
        from karenina.domain_file import load_domain
        from karenina.query import Goal

        goal = Goal(tolerances.tolerance, tolerances.relative_tolerance, time_limit=timeout)
        measure = distance(comparison.distance, comparison.condition or ())
        inputs = load_domain(comparison.domain)
        notes(inputs.notes)
        a, b = load_all([first, second], reading)
        inputs.require_size(a)
        inputs.require_size(b)
    with working("measuring"):
        who = backend(answering.backend, answering.device)
        found = pairwise_disagreement_threshold(a, b, inputs, measure, goal=goal, backend=who)
    if json:
        settings = {
            "domain": str(comparison.domain),
            "distance": comparison.distance,
            "conditions": comparison.condition or [],
            "tolerance": tolerances.tolerance,
            "relative_tolerance": tolerances.relative_tolerance,
            "timeout": timeout,
            "backend": answering.backend,
            "device": answering.device,
            "action": reading.action,
        }
        write(presentation.disagreement_json(found, inputs.labels, [a, b], settings))
    else:
        write(presentation.disagreement_text(found, inputs.labels, [printable(str(first)), printable(str(second))]))
    if certify is not None:  # the interval stands, whether or not it can be certified
        proven = _certify(certify, [first, second], [a, b], inputs, measure, found, reading, timeout)
        write("" if json else proven)
    raise typer.Exit(0 if found.status.finished else 3)


def _certify(
    place: Path,
    files: Sequence[Path],
    networks: Sequence[Network],
    domain: Domain,
    distance: Distance,
    found: Disagreement,
    reading: Reading,
    seconds: float,
) -> str:
    """Write a certificate of the interval; a line about it."""
    from karenina.certificate import Subject
    from karenina.cli.certify import certify, source_of
    from karenina.cli.models import statistics_for

    beside = statistics_for(files, reading)
    sources = [source_of(file, statistics, reading) for file, statistics in zip(files, beside, strict=True)]
    return certify(place, Subject(networks, sources, domain, distance, seconds), {(0, 1): found}, None, 1)
