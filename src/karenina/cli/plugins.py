"""Commands of other packages. Enters: the entry points of the group `karenina.commands`, each a typer application.
Leaves: one command for each, beside karenina's own.

Entry points are looked up only when a name is not karenina's own or when all commands are listed, so that the
usual commands do not pay for it. One that cannot be imported is a note, not an end.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core

from karenina.cli.terminal import notes

__all__ = ["GROUP", "Commands"]

GROUP = "karenina.commands"


class Commands(typer.core.TyperGroup):
    """karenina's own commands, and those of the entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *sorted({point.name for point in entry_points(group=GROUP)} - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        return own if own is not None else _plugin(cmd_name)


@functools.cache
def _plugin(name: str) -> Any:
    """The command of an entry point; None when there is none, or when it is broken."""
    for point in entry_points(group=GROUP, name=name):
        try:
            return _command(point)
        except Exception as error:
            notes([f"the command {name!r} ({point.value}) is left out: {type(error).__name__}: {error}"])
    return None


def _command(point: EntryPoint) -> Any:
    application = point.load()
    if not isinstance(application, typer.Typer):
        raise TypeError(f"it is a {type(application).__name__}, not a typer application")
    command = typer.main.get_command(application)
    command.name = point.name
    return command
