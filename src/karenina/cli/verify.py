"""`karenina verify`. Enters: a network and a VNN-LIB specification. Leaves: sat, unsat, timeout or unknown."""

from __future__ import annotations

import math

import typer

from karenina import presentation
from karenina.cli.groups import expanded
from karenina.cli.models import load_all
from karenina.cli.options import Answering, Json, NetworkFile, Reading, SpecificationFile, Timeout
from karenina.cli.terminal import notes, working, write

__all__ = ["verify"]


@expanded
def verify(
    network: NetworkFile,
    specification: SpecificationFile,
    *,
    timeout: Timeout = math.inf,
    answering: Answering,
    reading: Reading,
    json: Json = False,
) -> None:
    """Decide whether any input satisfies a VNN-LIB specification.

    The first line is sat, unsat, timeout or unknown; for sat, the counterexample follows as VNN-COMP writes it. For
    example:

        karenina verify network.onnx property.vnnlib --timeout 60
    """
    with working("reading"):
        from karenina import vnnlib
        from karenina.backends import backend

        asked = vnnlib.load_specification(specification)
        (model,) = load_all([network], reading)
    with working("verifying"):
        found = vnnlib.verify(model, asked, backend(answering.backend, answering.device), time_limit=timeout)
    notes([found.answer.note])
    settings = {
        "specification": str(specification),
        "timeout": timeout,
        "backend": answering.backend,
        "device": answering.device,
        "action": reading.action,
    }
    write(presentation.verification_json(found, model, settings) if json else presentation.verification_text(found))
    raise typer.Exit(0 if found.decided else 3)
