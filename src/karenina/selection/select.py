"""The iterations of the paper's Alg. 2, on intervals.

Enters: networks, a domain, a distance, settings, and who measures pairs. Leaves: a `Selection`.

By default lazily: cheap bounds of all pairs first, then only what leaves the next decision open. With `exact`, all
pairs to the tolerance first. Both remove the same models: where the intervals do not decide, both decide by the same
values (`karenina.selection.known`), and lazily these are measured for all pairs that matter
(`karenina.selection.criteria` has the proof). Pairs that are not known to the tolerance when their time is over are
the exception, and are named.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from karenina.disagreement import DisagreementTable, Measure, check_population, measure_here
from karenina.distance import Distance
from karenina.distance import distance as named_distance
from karenina.domain import Domain
from karenina.network import Network
from karenina.query import Backend
from karenina.selection.criteria import Comparisons, Decision, decide, recommend
from karenina.selection.known import Known, Places, Standing
from karenina.selection.race import Progress, Race, Verdict, score_interval
from karenina.selection.result import Certainty, Guarantee, Interval, Iteration, Removal, Selection, Stop
from karenina.selection.settings import SelectionOptions, SelectionSettings

__all__ = ["Progress", "select"]

FORESIGHT = 12  # iterations
TWO_RULE = (
    "two survivors have equal scores: the one recommended scored lower in the last iteration, among the models "
    "that were left before it"
)
TIE_RULE = (
    "where the intervals did not tell scores apart, the lower ends of the pairs' intervals did; "
    "of equal scores the model later in the list goes first, of equal gaps the higher one counts"
)


def select(
    networks: Sequence[Network],
    domain: Domain,
    distance: str | Distance = "l1",
    *,
    settings: SelectionSettings | None = None,
    names: Sequence[str] | None = None,
    backend: Backend | None = None,
    measure: Measure | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[SelectionOptions],
) -> Selection:
    """The survivors of the networks on the domain.

    Settings come as `settings`, or one by one as keywords (which override it). Pairs are measured by the back end
    here, one after the other, or by `measure`. `names` (the networks' own by default) must be distinct.
    """
    start = time.perf_counter()
    chosen = replace(settings or SelectionSettings(), **options)
    called = tuple(check_population(networks, domain, names))
    metric = named_distance(distance) if isinstance(distance, str) else distance
    known = Known(len(networks), domain.size, networks[0].output_size, chosen.goal)
    race = Race(known, measure or measure_here(networks, domain, metric, backend), on_progress)
    return _Selecting(race, called, chosen, metric.name).run(start)


class _Selecting:
    """One run of Alg. 2."""

    def __init__(self, race: Race, names: tuple[str, ...], settings: SelectionSettings, distance: str) -> None:
        self.race, self.names, self.settings, self.distance = race, names, settings, distance
        self.iterations: list[Iteration] = []
        self.before: list[int] = race.members  # the models of the last iteration

    def run(self, start: float) -> Selection:
        race = self.race
        race.survey(self.settings.exact)
        stop = self._stop()
        while stop is None:
            stop = self._iterate() or self._stop()
        recommended, recommendation = self._recommend()
        standing = race.narrow(race.members)
        known = race.known
        return Selection(
            self.names,
            self._called(race.members),
            self.names[recommended],
            recommendation.certainty,
            self._guarantee(standing),
            tuple(self.iterations),
            self._scores(race.members),
            stop,
            DisagreementTable(self.names, known.results),
            self.distance,
            self.settings,
            known.measurements,
            known.exact_pairs,
            known.results.boxes,
            time.perf_counter() - start,
            self._notes(stop, recommendation),
        )

    def _notes(self, stop: Stop, recommendation: Verdict) -> tuple[str, ...]:
        """The rules that were needed."""
        decisions = [stop.certainty, recommendation.certainty, *(step.certainty for step in self.iterations)]
        certain = all(certainty is Certainty.CERTIFIED for certainty in decisions)
        of_two = len(self.race.members) == 2 and self.iterations
        members = self.race.members
        found = self.race.known.results.notes(members)
        pairs = f"of {len(members) * (len(members) - 1) // 2} pairs of survivors"
        noted = (f"{count} {pairs}: {note}" for note, count in found.items())
        return (*([] if certain else [TIE_RULE]), *([TWO_RULE] if of_two else []), *noted)

    def _stop(self) -> Stop | None:
        """The ends that need no scores."""
        if len(self.race.members) == 2:
            return Stop("two models are left, and their scores are equal", Certainty.CERTIFIED)
        if len(self.iterations) == self.settings.iterations:
            return Stop(f"{self.settings.iterations} iterations are done", Certainty.CERTIFIED)
        return None

    def _iterate(self) -> Stop | None:
        """Remove models, or say why not."""
        race = self.race
        race.iteration += 1

        decision, verdict, standing = race.settle(race.members, self._decide, self._foresee)
        if not decision.count:
            race.iteration -= 1
            return Stop(decision.reason, verdict.certainty, self._pairs(verdict))
        self.before = race.members
        # In the order of the list: their order by score may not be known, and is not needed.
        removed = np.sort(standing.members[standing.order[: decision.count]]).tolist()
        race.members = [member for member in race.members if member not in set(removed)]
        self.iterations.append(self._iteration(decision, verdict, removed))
        return None

    def _decide(self, standing: Standing) -> tuple[Decision, Comparisons]:
        decision = decide(standing, self.settings)
        return decision, decision.claims

    def _foresee(self, standing: Standing) -> Iterator[tuple[Standing, Comparisons]]:
        """The next iterations, if the values of the pairs are right."""
        left = math.inf if self.settings.iterations is None else self.settings.iterations - self.race.iteration
        decision = decide(standing, self.settings)
        for _ in range(int(min(left, FORESIGHT))):
            if not 0 < decision.count < standing.models - 2:
                return
            standing = standing.without(standing.order[: decision.count])
            decision = decide(standing, self.settings)
            yield standing, decision.claims

    def _iteration(self, decision: Decision, verdict: Verdict, removed: list[int]) -> Iteration:
        return Iteration(
            self.race.iteration,
            self._scores(self.before),
            tuple(Removal(self.names[place], decision.reason) for place in removed),
            self._called(self.race.members),
            verdict.certainty,
            decision.numbers,
            self._pairs(verdict),
            "" if verdict.certainty is Certainty.CERTIFIED else TIE_RULE,
        )

    def _recommend(self) -> tuple[int, Verdict]:
        """The survivor of lowest score; two survivors score alike, so those before the last removal count too."""
        race = self.race
        members = self.before if len(race.members) == 2 else race.members
        among: Places = np.flatnonzero(np.isin(members, race.members))
        best, verdict, _ = race.settle(members, lambda standing: recommend(standing, among))
        return members[best], verdict

    def _guarantee(self, standing: Standing) -> Guarantee:
        others = np.triu(np.ones((standing.models, standing.models), dtype=bool), 1)
        among = np.where(others, standing.value[:-1, :-1], -1.0)  # no model is paired with itself
        first, second = np.unravel_index(int(np.argmax(among)), among.shape)
        pair = sorted((int(standing.members[first]), int(standing.members[second])))
        lower, upper = float(standing.value.max()), float(standing.upper.max())
        wide = ~standing.reached & (standing.upper - lower > self.settings.tolerance)
        late = zip(*(standing.members[places].tolist() for places in np.nonzero(np.triu(wide))), strict=True)
        undecided = tuple((self.names[i], self.names[j]) for i, j in late)
        return Guarantee(lower, upper, (self.names[pair[0]], self.names[pair[1]]), self.distance, undecided)

    def _scores(self, members: Sequence[int]) -> dict[str, Interval]:
        results, scores = self.race.known.results, {}
        for member in members:
            others = [other for other in members if other != member]
            scores[self.names[member]] = score_interval(results.lower[member, others], results.upper[member, others])
        return scores

    def _called(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.names[place] for place in places)

    def _pairs(self, verdict: Verdict) -> tuple[tuple[str, str], ...]:
        return tuple((self.names[i], self.names[j]) for i, j in verdict.undecided)
