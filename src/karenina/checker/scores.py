"""What bounds of pairs say of scores, in exact fractions.

Enters: the models left in a selection and bounds of their pairs. Leaves: what is certain of their scores: true in
every table inside the bounds. All scores are means over as many others, so sums are compared instead.

- In score a - score b the pair of a and b cancels and no other pair is in both. So the least difference over all tables
  is least(a, b), the sum over the other models k of lower(a, k) - upper(b, k).
- If least(a, b) >= g > 0 for all a in A and b not in A, the models A are always the highest, and g above the others.
- A gap of g or more below the j highest needs j models A with a - b >= g for all a in A, b not in A. If a can never be
  g above b, that is -least(b, a) < g, such an A has b if it has a. No j models closed under this: no such gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations

from karenina.checker.form import need

__all__ = ["Scores", "Standing", "Table", "check_bounds"]

Table = Sequence[Sequence[Fraction]]
Scores = Mapping[int, Fraction]  # of models by place, as sums
MOST_SETS = 1 << 12  # closed sets that are looked at before a gap counts as possible
SHARES = (Fraction(0), Fraction(1, 1 << 20), Fraction(1, 2), Fraction(1))  # of the way from lower to upper


def check_bounds(lower: Table, upper: Table, models: int) -> None:
    """Refuse what are not symmetric intervals of fractions with zeros on the diagonal."""
    for table in (lower, upper):
        rows = [row for row in table if isinstance(row, Sequence) and len(row) == models]
        need(len(rows) == len(table) == models, "the bounds are not one for every two models")
        need(all(isinstance(value, Fraction) for row in rows for value in row), "a bound is not a fraction")
        need(all(table[k][k] == 0 for k in range(models)), "the bounds of a model and itself are not zero")
    for i, j in permutations(range(models), 2):
        need(0 <= lower[i][j] == lower[j][i] <= upper[i][j] == upper[j][i], "the bounds are not symmetric intervals")


class Standing:
    """The models left; `low` and `high` bound the sum of a model's pairs."""

    def __init__(self, members: Sequence[int], lower: Table, upper: Table) -> None:
        self.members, self.lower, self.upper = list(members), lower, upper
        self.low = {a: sum((lower[a][k] for k in members), Fraction(0)) for a in members}
        self.high = {a: sum((upper[a][k] for k in members), Fraction(0)) for a in members}
        pairs = permutations(members, 2)
        self.least = {(a, b): self.low[a] - lower[a][b] - self.high[b] + upper[a][b] for a, b in pairs}

    def without(self, gone: Collection[int]) -> Standing:
        """The standing of those that stay."""
        return Standing([model for model in self.members if model not in gone], self.lower, self.upper)

    def lead(self, above: Collection[int], below: Collection[int]) -> Fraction:
        """By how much all of the one always score higher than all of the other."""
        return min(self.least[a, b] for a in above for b in below)

    def gap(self, above: Collection[int]) -> Fraction:
        """By how much these models always score higher than all others."""
        return self.lead(above, [model for model in self.members if model not in above])

    def may_gap(self, gap: Fraction, places: Collection[int]) -> bool:
        """Whether below as many of the highest as `places` says there could be a gap of this size or more."""
        if not places:
            return False
        closed = {frozenset[int]()}  # unions of closures, which is all closed sets there are
        for model in self.members:
            closure = self._closure(model, gap)
            closed |= {found | closure for found in closed}
            if len(closed) > MOST_SETS or any(len(found) in places for found in closed):
                return True
        return False

    def _closure(self, model: int, gap: Fraction) -> set[int]:
        closure, new = {model}, {model}
        while new:
            new = {b for b in self.members for a in new if b not in closure and -self.least[b, a] < gap}
            closure |= new
        return closure

    def some_scores(self, raised: Collection[int]) -> Iterator[dict[int, Fraction]]:
        """The sums in some tables inside the bounds: the lower ends first, then some that favour the raised models."""
        for share in SHARES:
            for enough in (2, 1):  # raised models that lift their pair off its lower end
                yield {a: self.low[a] + share * self._room(a, raised, enough) for a in self.members}

    def _room(self, a: int, raised: Collection[int], enough: int) -> Fraction:
        lifted = (k for k in self.members if (a in raised) + (k in raised) >= enough)
        return sum((self.upper[a][k] - self.lower[a][k] for k in lifted), Fraction(0))
