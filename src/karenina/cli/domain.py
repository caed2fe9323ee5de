"""`karenina domain`. Enters: recorded observations. Leaves: a domain file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karenina.cli.terminal import notes, write
from karenina.errors import InputError

__all__ = ["app", "from_data"]

app = typer.Typer(
    name="domain",
    help="Make a domain: the inputs to compare models on.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _domain(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise InputError("no command given: say karenina domain from-data FILE, or see karenina domain --help")


@app.command("from-data")
def from_data(
    observations: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Recorded inputs: .npy or .npz of (observations, inputs), or CSV; a first line of CSV may name them.",
            show_default=False,
        ),
    ],
    margin: Annotated[
        float, typer.Option("--margin", min=0, metavar="M", help="Widen every side by M times the interval's width.")
    ] = 0.0,
    absolute_margin: Annotated[
        float, typer.Option("--absolute-margin", min=0, metavar="A", help="And by A, in the input's own unit.")
    ] = 0.0,
    leave_out: Annotated[
        float,
        typer.Option("--leave-out", min=0, metavar="Q", help="The share of outliers to leave out on either side."),
    ] = 0.0,
    names: Annotated[
        str | None, typer.Option("--names", metavar="A,B,...", help="Names of the inputs.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="NAME", help="The array of an .npz file.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The domain file; if not given, stdout.")
    ] = None,
) -> None:
    """Make a domain of the box around recorded inputs.

    With a margin it reaches beyond what was seen, where models may differ. For example:

        karenina domain from-data seen.npy --margin 0.5 --out domain.toml
    """
    from karenina.domain_data import domain_from_data, read_observations

    array, found = read_observations(observations, key)
    called = tuple(name.strip() for name in names.split(",")) if names is not None else found
    domain = domain_from_data(
        array,
        margin=margin,
        absolute_margin=absolute_margin,
        leave_out=leave_out,
        names=called,
        name=str(observations),
    )
    notes(domain.notes)
    if out is None:
        write(domain.to_toml())
        return
    try:
        out.write_text(domain.to_toml(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}") from error
