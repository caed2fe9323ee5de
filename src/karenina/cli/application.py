"""The `karenina` command: its subcommands, and what their errors become.

Enters: `sys.argv`. Leaves: results on stdout, messages on stderr, and an exit code: 0 done, 1 work had to
stop (a full disk, lost workers; what is done is kept) or an internal error, 2 bad input or usage, 3 stopped before the
tolerance was reached (or the specification decided, or a removal certified), 130 interrupted.

What computes is imported inside the commands, so that `karenina --help` needs neither torch nor numpy.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from karenina import presentation
from karenina.cli.check import check
from karenina.cli.doctor import doctor
from karenina.cli.domain import app as domain_app
from karenina.cli.explain import explain
from karenina.cli.pdt import pdt
from karenina.cli.plot import plot
from karenina.cli.plugins import Commands
from karenina.cli.report import report
from karenina.cli.resume import resume
from karenina.cli.select import RayCommand, select
from karenina.cli.terminal import message, write
from karenina.cli.verify import verify
from karenina.errors import InputError, KareninaError, WorkStopped

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="karenina",
    cls=Commands,
    help="Which networks generalise? Certified disagreement over whole input domains.",
    epilog="Exit codes: 0 done, 1 work had to stop, 2 bad input or usage, 3 stopped before the answer was reached.",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=RayCommand)(select)
app.command(cls=RayCommand)(resume)
app.command()(report)
app.command()(check)
app.command()(explain)
app.command()(plot)
app.command()(pdt)
app.command()(verify)
app.add_typer(domain_app)
app.command()(doctor)


@app.callback(invoke_without_command=True)
def _karenina(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        write(f"karenina {presentation.version()}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InputError("no command given: say karenina select, or see karenina --help")


def _report(error: Exception) -> int:
    """Say what went wrong, in one line; the exit code."""
    if isinstance(error, KareninaError):
        message("error", "bold red", str(error))
        return 1 if isinstance(error, WorkStopped) else 2
    usage = getattr(error, "format_message", None)  # the argument parser's, whose class every typer keeps elsewhere
    if usage is not None:
        command = getattr(getattr(error, "ctx", None), "command_path", "karenina")
        message("error", "bold red", f"{usage().replace('Value error, ', '')} (see {command} --help)")
        return 2
    trace = "for the traceback, run karenina --debug with the same arguments"
    message("internal error", "bold red", f"{type(error).__name__}: {error} ({trace})")
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
