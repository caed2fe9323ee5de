"""What `karenina select` and `karenina resume` share. Enters: a `Plan`. Leaves: the run folder, and the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from karenina import presentation
from karenina.cli.check import CERTIFICATE
from karenina.cli.interruption import interruptible
from karenina.cli.options import Judging, Running
from karenina.cli.population import Member
from karenina.cli.progress import showing
from karenina.cli.report import make_report
from karenina.cli.terminal import notes, write
from karenina.errors import WorkStopped

if TYPE_CHECKING:
    from karenina.disagreement import Measure
    from karenina.distance import Distance
    from karenina.domain import Domain
    from karenina.execution import Work
    from karenina.network import Network
    from karenina.selection import Selection, SelectionSettings
    from karenina.store import Cache, Configuration, Context, Run

__all__ = ["Leaving", "Plan", "carry_out"]


@dataclass(frozen=True, eq=False)
class Plan:
    """A selection, read and checked, that nothing has been written of."""

    members: Sequence[Member]
    domain: Domain
    distance: Distance
    settings: SelectionSettings
    configuration: Configuration
    folder: Path

    @property
    def networks(self) -> list[Network]:
        return [member.network for member in self.members]


@dataclass(frozen=True)
class Leaving:
    """What is left behind beside the record: a page, a certificate; and whether stdout is to be JSON."""

    report: bool = False
    certify: bool = False
    json: bool = False


def carry_out(plan: Plan, running: Running, device: str, leaving: Leaving) -> None:
    """Select, keep the record, print the result; exits with 3 where time or the back end left something open."""
    from karenina.execution import Work
    from karenina.store import canonical_order, open_run

    order = canonical_order(plan.networks)
    ordered = [plan.networks[k] for k in order]
    work = Work.of(ordered, plan.domain, plan.distance, plan.configuration.context.backend, device)
    # The workers first: where there is no cluster, nothing is written.
    with (
        interruptible(plan.folder),
        _enough_memory(),
        _workers(work, running) as workers,
        open_run(plan.folder, plan.configuration, _note) as run,
    ):
        found = _select(plan, workers, order, run, running)
        result = presentation.selection_dictionary(found, plan.configuration, str(plan.folder))
        run.finish(result)
        write(presentation.as_json(result) if leaving.json else f"{found}\n{'run:':<13}{plan.folder}\n")
        proven = _certify(plan, found, running.jobs) if leaving.certify else ""
    page = f"{'report:':<13}{make_report(plan.folder, None, Judging())}\n" if leaving.report else ""
    if not leaving.json:
        write(proven + page)
    raise typer.Exit(0 if found.complete else 3)


def _certify(plan: Plan, found: Selection, jobs: int) -> str:
    """Write a certificate of the whole selection into the run's folder; a line about it."""
    from karenina.certificate import Source, Subject, selection_claims
    from karenina.cli.certify import certify
    from karenina.execution import cores

    options = plan.configuration.options
    sources = [
        Source(model.file.resolve(), options["action"], model.normalisation, options["activation"])
        for model in plan.members
    ]
    subject = Subject(plan.networks, sources, plan.domain, plan.distance, plan.settings.time_limit)
    return certify(plan.folder / CERTIFICATE, subject, found.table.pairs, selection_claims(found), jobs or cores())


@contextmanager
def _enough_memory() -> Iterator[None]:
    """Or one sentence."""
    from karenina.execution import out_of_memory

    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        kept = "what was measured is kept, and the same command goes on when there is more"
        raise WorkStopped(f"there is not enough memory to go on: {kept}") from error


def _note(text: str) -> None:
    notes([text])


def _select(plan: Plan, workers: Measure, order: Sequence[int], run: Run, running: Running) -> Selection:
    """From the record, from the cache, and for the rest by the workers."""
    from karenina.selection import select
    from karenina.selection.plan import ladder
    from karenina.store import recorded, reordered

    context = plan.configuration.context
    digests = [plan.networks[k].digest() for k in order]
    cache = None if running.no_cache else _cache(context)
    known = recorded(workers, digests, context, run.journal, cache, list(ladder(plan.settings.goal).values()))
    with closing(cache) if cache else nullcontext(), showing() as show:
        return select(
            plan.networks,
            plan.domain,
            plan.distance,
            settings=plan.settings,
            measure=reordered(known, order),
            on_progress=show,
        )


def _cache(context: Context) -> Cache | None:
    from karenina.store import Cache, cache_folder

    try:
        return Cache(cache_folder(), context, _note)
    except RuntimeError as error:  # a user without a home directory
        _note(f"no cache is used: {error} Set KARENINA_CACHE to have one.")
        return None


@contextmanager
def _workers(work: Work, running: Running) -> Iterator[Measure]:
    from karenina.execution import cluster, processes

    if running.ray is not None:
        with cluster(work, running.ray, running.ray_gpus) as measure:
            yield measure
    elif running.jobs == 1:
        yield work.here()
    else:
        with processes(work, running.jobs) as measure:
            yield measure
