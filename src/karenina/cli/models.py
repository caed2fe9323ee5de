"""Model files of the command line. Enters: paths and how to read them. Leaves: networks, their notes on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from karenina.cli.options import Action, Reading
from karenina.cli.terminal import notes
from karenina.errors import InputError

if TYPE_CHECKING:
    from karenina.network import Network

__all__ = ["load_all", "statistics_for"]


def load_all(files: Sequence[Path], reading: Reading) -> list[Network]:
    """The networks, each with its own normalisation or all with the only one."""
    from karenina.loading import load

    executed = reading.action is Action.EXECUTED
    networks = [
        load(file, action="executed" if executed else "raw", normalisation=given, activation=reading.activation)
        for file, given in zip(files, statistics_for(files, reading), strict=True)
    ]
    notes(note for network in networks for note in network.notes)
    return networks


def statistics_for(files: Sequence[Path], reading: Reading) -> list[Path | None]:
    """For each file its normalisation: its own, or the only one, or none."""
    given: list[Path | None] = [*reading.normalisation] if reading.normalisation else [None]
    if len(given) == 1:
        given *= len(files)
    if len(given) != len(files):
        raise InputError(f"--normalisation is given {len(given)} times for {len(files)} network(s)")
    return given
