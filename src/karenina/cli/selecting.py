"""What `karenina select` and `karenina resume` share. Enters: a `Plan`. Leaves: the run folder, and the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from karenina import presentation
from karenina.cli.options import Running
from karenina.cli.population import Member
from karenina.cli.progress import showing
from karenina.cli.terminal import notes, write

if TYPE_CHECKING:
    from karenina.disagreement import Measure
    from karenina.distance import Distance
    from karenina.domain import Domain
    from karenina.execution import Work
    from karenina.query import Goal
    from karenina.selection import Selection, SelectionSettings
    from karenina.store import Configuration, Run

__all__ = ["Plan", "carry_out"]


@dataclass(frozen=True, eq=False)
class Plan:
    """A selection, read and checked, that nothing has been written of."""

    members: Sequence[Member]
    domain: Domain
    distance: Distance
    settings: SelectionSettings
    configuration: Configuration
    folder: Path


def carry_out(plan: Plan, running: Running, device: str, json: bool) -> None:
    """Select, keep the record, print the result; exits with 3 where time limits left a decision uncertified."""
    from karenina.selection import Certainty
    from karenina.store import open_run

    with open_run(plan.folder, plan.configuration, lambda text: notes([text])) as run:
        found = _select(plan, run, running, device)
        result = presentation.selection_dictionary(found, plan.configuration, str(plan.folder))
        run.finish(result)
    write(presentation.as_json(result) if json else f"{found}\n{'run:':<13}{plan.folder}\n")
    decisions = {found.stop.certainty, found.recommendation, *(step.certainty for step in found.iterations)}
    raise typer.Exit(3 if decisions & {Certainty.UNDECIDED, Certainty.UNVERIFIED} else 0)


def _select(plan: Plan, run: Run, running: Running, device: str) -> Selection:
    from karenina.selection import select

    networks = [member.network for member in plan.members]
    with _measure(plan, run, running, device) as measure, showing() as show:
        return select(networks, plan.domain, plan.distance, settings=plan.settings, measure=measure, on_progress=show)


@contextmanager
def _measure(plan: Plan, run: Run, running: Running, device: str) -> Iterator[Measure]:
    """From the record, from the cache, and for the rest whoever is to measure."""
    from karenina.execution import Work
    from karenina.store import Cache, cache_folder, canonical_order, recorded, reordered

    networks = [member.network for member in plan.members]
    order = canonical_order(networks)
    ordered = [networks[k] for k in order]
    context = plan.configuration.context
    work = Work.of(ordered, plan.domain, plan.distance, context.backend, device)
    with ExitStack() as stack:
        workers = stack.enter_context(_workers(work, running))
        cache = None
        if not running.no_cache:
            cache = Cache(cache_folder(), context, lambda text: notes([text]))
            stack.callback(cache.close)
        digests = [network.digest() for network in ordered]
        yield reordered(recorded(workers, digests, context, run.journal, cache, _ladder(plan.settings.goal)), order)


def _ladder(finest: Goal) -> list[Goal]:
    """All goals a selection asks for, the coarsest first."""
    from karenina.selection.plan import COARSEST, RUNGS

    between = [replace(finest, relative_tolerance=rung) for rung in RUNGS]
    return [replace(finest, tolerance=COARSEST), *between, finest]


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
