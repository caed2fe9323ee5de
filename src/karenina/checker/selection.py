"""That a selection follows from proven bounds by the paper's Alg. 2.

Enters: what a certificate claims of a selection, in the form of `karenina.checker.selection_form`, and proven bounds of
all pairs. Leaves: one sentence that says what was proved, or `Refused`.

A decision claimed as certified must be that of every table inside the bounds. Its comparisons are strict, so that ties
cannot touch it (`karenina.checker.scores` has the reasons). Any other decision must be that of some table inside the
bounds (`karenina.checker.rules`), and is named in the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from itertools import combinations
from typing import Any

from karenina.checker.form import check_form, need
from karenina.checker.rules import Rules, sizes
from karenina.checker.scores import Standing, Table, check_bounds
from karenina.checker.selection_form import BELOW, DONE, SIMILAR, TWO, selection_form

__all__ = ["check_selection"]

ANOTHER = "another gap could be the largest"


def check_selection(selection: Mapping[str, Any], names: Sequence[str], lower: Table, upper: Table) -> str:
    """What was proved. The bounds are symmetric with zeros on the diagonal, in the order of the names."""
    need(all(isinstance(name, str) for name in names), "a name of a model is no text")
    need(len(names) == len(set(names)) >= 2, "a selection needs two models or more, with names of their own")
    check_bounds(lower, upper, len(names))
    check_form(selection, selection_form(names), "the selection")
    checking = _Checking(Rules(selection["settings"]), names, Standing(range(len(names)), lower, upper))
    for number, step in enumerate(selection["iterations"], 1):
        checking.remove(step, number)
    checking.end(selection["ending"], len(selection["iterations"]))
    checking.survive(selection["survivors"], selection["recommended"])
    return checking.sentence(selection)


class _Checking:
    """A selection on its way: the models left, those before the last removal, and what was not certain."""

    def __init__(self, rules: Rules, names: Sequence[str], standing: Standing) -> None:
        self.rules, self.place = rules, {name: at for at, name in enumerate(names)}
        self.standing = self.before = standing
        self.uncertain: list[str] = []

    def remove(self, step: Mapping[str, Any], number: int) -> None:
        where, standing, gone = f"iteration {number}", self.standing, {self.place[name] for name in step["removed"]}
        need(number <= self.rules.iterations, f"{where} is one more than the settings allow")
        need(gone and gone <= set(standing.members), f"{where} removes nobody, or a model that had left")
        need(len(gone) <= len(standing.members) - 2, f"{where} leaves fewer than two models")
        self._check_scores(where, step["scores"])
        tables = standing.some_scores(gone)
        self._judge(where, step, self._doubt(gone), (self.rules.removed(score) == gone for score in tables))
        self.before, self.standing = standing, standing.without(gone)

    def end(self, ending: Mapping[str, Any], iterations: int) -> None:
        standing, because = self.standing, ending["because"]
        self._check_scores("the ending", ending["scores"])
        counted = {TWO: len(standing.members) == 2, DONE: iterations == self.rules.iterations}
        if because in counted:
            need(counted[because], f"the ending does not follow: it is not true that {because}")
            return
        limits = self.rules.limits(len(standing.members))
        need(because in limits, "the ending does not follow: the settings have no stop_below")
        limit = limits[because]
        most = {BELOW: max(standing.high.values()), SIMILAR: -min(standing.least.values())}[because]
        doubt = "" if most <= limit else f"it could be wrong that {because}"
        possible = (sizes(score)[because] <= limit for score in standing.some_scores(()))
        self._judge("the ending", ending, doubt, possible)

    def survive(self, survivors: Sequence[str], recommended: Mapping[str, Any]) -> None:
        members, best = self.standing.members, self.place[recommended["model"]]
        need({self.place[name] for name in survivors} == set(members), "the survivors are not the models left")
        need(best in members, "the recommended model is no survivor")
        # Two survivors score alike: the scores before the last removal tell them apart.
        standing = self.before if len(members) == 2 else self.standing
        rest = [model for model in members if model != best]
        doubt = "" if standing.lead(rest, [best]) > 0 else "another survivor could score as low"
        tables = standing.some_scores([model for model in standing.members if model != best])
        lowest = (min(members, key=lambda model: (score[model], model)) for score in tables)
        self._judge("the recommendation", recommended, doubt, (model == best for model in lowest))

    def sentence(self, claims: Mapping[str, Any]) -> str:
        """What is proved now."""
        left, bounds, number = self.standing.members, self.standing.upper, len(claims["iterations"])
        steps = "1 iteration" if number == 1 else f"{number} iterations"
        largest = max(bounds[a][b] for a, b in combinations(left, 2))
        upper = Context(prec=6, rounding=ROUND_CEILING).divide(largest.numerator, largest.denominator)
        exception = f" (but {', '.join(self.uncertain)} only for some such tables)" if self.uncertain else ""
        return (
            f"for every table of disagreements inside the proven bounds{exception} Alg. 2 with criterion "
            f"{self.rules.criterion} leaves {len(left)} of {len(self.place)} models in {steps}, ends "
            f"because {claims['ending']['because']}, and recommends {claims['recommended']['model']!r}; "
            f"no two survivors disagree by more than {upper:g}"
        )

    def _check_scores(self, where: str, scores: Mapping[str, Any]) -> None:
        """That each model's score, its mean over the others left, is where it is claimed to be."""
        standing, others = self.standing, len(self.standing.members) - 1
        claimed = {self.place[name]: ends for name, ends in scores.items()}
        need(set(claimed) == set(standing.members), f"{where} does not give the scores of the models left")
        for model, (low, high) in claimed.items():
            inside = Fraction(low) * others <= standing.low[model]
            inside = inside and (high is None or standing.high[model] <= Fraction(high) * others)
            need(inside, f"{where} claims a narrower score than the bounds prove")

    def _judge(self, where: str, decision: Mapping[str, Any], doubt: str, possible: Iterable[bool]) -> None:
        """Refuse a decision that is not as certain as it claims to be, or happens in no table tried."""
        if decision["certified"]:
            need(not doubt, f"{where} is not certain: {doubt}")
        else:
            need(any(possible), f"{where} was found in no table inside the bounds")
            self.uncertain.append(where)

    def _doubt(self, gone: set[int]) -> str:
        """Why it is not certain that these models go; nothing if it is."""
        standing, models, criterion = self.standing, len(self.standing.members), self.rules.criterion
        surely = {BELOW: max(standing.low.values()), SIMILAR: max(standing.least.values())}
        for because, limit in self.rules.limits(models).items():
            if surely[because] <= limit:
                return f"it could be that {because}"
        gap, count = standing.gap(gone), self.rules.count(models)
        if gap <= 0:
            return "a model that stays could score as high as one that goes"
        if criterion == "max" or (criterion == "combined" and len(gone) > count):
            return ANOTHER if standing.may_gap(gap, set(range(1, models - 1)) - {len(gone)}) else ""
        if len(gone) != count:
            return f"{count} of {models} go by percentile, not {len(gone)}"
        if criterion == "percentile":
            return ""
        # More would go only if the largest gap were further down than some gap that is always there.
        order = sorted(standing.members, key=standing.low.__getitem__, reverse=True)
        gap = max(standing.gap(order[:place]) for place in range(1, count + 1))
        return ANOTHER if standing.may_gap(gap, range(count + 1, models - 1)) else ""
