"""`karenina report`. Enters: a run's folder. Leaves: one HTML page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karenina.cli.groups import expanded
from karenina.cli.options import Judging, PageFile, RunFolder
from karenina.cli.terminal import notes, working, write

if TYPE_CHECKING:
    from karenina.report import FinishedRun, Rewards

__all__ = ["REPORT", "make_report", "report", "rewards_of"]

REPORT = "report.html"


@expanded
def report(run: RunFolder, *, out: PageFile = None, judging: Judging) -> None:
    """Show a finished run as one HTML page.

    The page needs nothing else, no network either: the verdict, the iterations, the table of all pairs, and for every
    pair where the two models differ most. For example:

        karenina report karenina-runs/domain-1a2b3c --rewards rewards.csv
    """
    write(f"report:      {make_report(run, out, judging)}\n")


def make_report(folder: Path, out: Path | None, judging: Judging) -> Path:
    """Write the page of a run; where it is."""
    with working("drawing"):
        from karenina.report import read_run, write_report

        found = read_run(folder)
        place = out or folder / REPORT
        write_report(place, found, rewards_of(found, judging, REPORT))
    notes(found.notes)
    return place


def rewards_of(run: FinishedRun, judging: Judging, what: str) -> Rewards | None:
    """The rewards that were given, or those that came with the models."""
    from karenina.errors import InputError
    from karenina.report import read_rewards, rewards_for

    if judging.rewards is not None:
        given = read_rewards(judging.rewards, judging.good_above)
        return given.among(run.selection.names, str(judging.rewards))
    found = rewards_for(run.files or {}, judging.good_above)
    if found is None and judging.good_above is not None:
        raise InputError(f"--good-above needs rewards: give --rewards, or leave it out of the {what}")
    return found
