"""How far two networks can ever disagree: what a claimed interval says, by the definition of each distance.

Enters: two networks, the domain, a distance, a claimed interval with witnesses. Leaves: nothing, if both ends are
proven; else `Refused`.

    l1          sum |N1(x) - N2(x)|
    linf        max |N1(x) - N2(x)|
    c-distance  on each box, the least over the conditions of the largest l1 where both networks' outputs satisfy it
    class       N1_i - N1_j + N2_j - N2_i where N1's top class is i and N2's is j

An upper end holds if no objective below exceeds it; for the c-distance, on each box for one of the conditions. A lower
end above 0 needs an input that attains it; for the c-distance one for every condition, all of one box.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.checker.activations import Kind
from karenina.checker.bounds import Bounder, Goal
from karenina.checker.chain import IDENTITY, Chain, beside, exact, over
from karenina.checker.refusal import Refused
from karenina.checker.tree import Question

__all__ = ["Condition", "Distance", "Domain", "Pair", "Witness"]

Array = npt.NDArray[Any]
Domain = Sequence[tuple[Array, Array]]  # lower and upper sides (inputs,) of boxes
SIGN_PATTERNS = 3  # outputs up to which an l1 norm is a maximum over signs; beyond, a layer of |.|


@dataclass(frozen=True, eq=False)
class Condition:
    """rows @ y + offsets >= 0 for the outputs y of one network."""

    rows: Array  # (inequalities, outputs)
    offsets: Array  # (inequalities,)

    def holds(self, low: Array, high: Array) -> bool:
        """Whether it surely does for all outputs between exact bounds."""
        rows = exact(self.rows)
        least = np.maximum(rows, 0) @ low + np.minimum(rows, 0) @ high + exact(self.offsets)
        return bool((least >= 0).all())


@dataclass(frozen=True)
class Distance:
    """By name; conditions belong to the c-distance."""

    name: str
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in ("l1", "linf", "c-distance", "class"):
            raise Refused(f"there is no distance {self.name!r}")
        if (self.name == "c-distance") != bool(self.conditions):
            raise Refused("the c-distance needs conditions, and no other distance has any")


@dataclass(frozen=True, eq=False)
class Witness:
    """An input of a box of the domain, for one of the conditions, if there are any."""

    box: int
    condition: int
    x: Array


class Pair:
    """Two networks compared by a distance on a domain."""

    def __init__(self, first: Chain, second: Chain, domain: Domain, distance: Distance) -> None:
        self.first, self.second, self.domain, self.distance = first, second, domain, distance
        self.outputs = first.outputs
        if any(len(lower) != first.inputs for lower, _ in domain):
            raise Refused("the domain does not have as many inputs as the networks")
        if distance.name == "class" and self.outputs < 2:
            raise Refused("the class distance needs two outputs")
        for condition in distance.conditions:
            if condition.rows.shape != (len(condition.offsets), self.outputs):
                raise Refused("a condition does not have as many outputs as the networks, or offsets as rows")
        self._summed = distance.name in ("l1", "c-distance") and self.outputs > SIGN_PATTERNS
        self.bounder = Bounder(self._chain())

    def _chain(self) -> Chain:
        """Both networks side by side; with many outputs to be summed up, the |differences| after them."""
        both, one = beside(self.first, self.second), np.eye(self.outputs)
        if not self._summed:
            return both
        weight = np.vstack([np.eye(2 * self.outputs), np.hstack([one, -one])])
        return over(both, weight, [(IDENTITY, 2 * self.outputs), (Kind("abs"), self.outputs)])

    def questions(self, claim: float, choices: Sequence[int]) -> Iterator[Question]:
        """What must all be proven for an upper end; `choices` name a condition for each box."""
        if len(choices) != len(self.domain):
            raise Refused("there is not one proof for each box of the domain")
        if not claim >= 0:
            raise Refused(f"no disagreement is below 0, but at most {claim} is claimed")
        for (lower, upper), choice in zip(self.domain, choices, strict=True):
            if not 0 <= choice < max(1, len(self.distance.conditions)):
                raise Refused(f"there is no condition {choice}")
            for goal in self._goals(choice):
                yield Question(self.bounder, goal, lower, upper, claim)

    def _goals(self, choice: int) -> Iterator[Goal]:
        n, one = self.outputs, np.eye(self.outputs)
        size = self.bounder.chain.outputs
        rows, offsets = np.zeros((0, size)), np.zeros(0)
        match self.distance.name:
            case "class":
                yield from self._classes()
            case "linf":
                for row in (*one, *-one):
                    yield Goal(np.concatenate([row, -row]), rows, offsets)
            case _:
                if self.distance.conditions:
                    rows, offsets = self._both(self.distance.conditions[choice], size)
                if self._summed:
                    yield Goal(np.concatenate([np.zeros(2 * n), np.ones(n)]), rows, offsets)
                else:
                    for signs in map(np.array, itertools.product((1.0, -1.0), repeat=n)):
                        yield Goal(np.concatenate([signs, -signs]), rows, offsets)

    def _both(self, condition: Condition, size: int) -> tuple[Array, Array]:
        """The condition on each of the two networks' outputs."""
        count, n = len(condition.offsets), self.outputs
        rows = np.zeros((2 * count, size))
        rows[:count, :n], rows[count:, n : 2 * n] = condition.rows, condition.rows
        return rows, np.concatenate([condition.offsets] * 2)

    def _classes(self) -> Iterator[Goal]:
        n, one = self.outputs, np.eye(self.outputs)
        nothing = np.zeros(n)
        for i, j in itertools.permutations(range(n), 2):
            rows = [np.concatenate([one[i] - one[k], nothing]) for k in range(n) if k != i]
            rows += [np.concatenate([nothing, one[j] - one[k]]) for k in range(n) if k != j]
            objective = np.concatenate([one[i] - one[j], one[j] - one[i]])
            yield Goal(objective, np.array(rows), np.zeros(len(rows)))

    def check_lower(self, claim: float, witnesses: Sequence[Witness]) -> None:
        """That the witnesses attain the claim: exactly, for the real-valued networks."""
        if claim <= 0:  # a distance is never below 0
            return
        if not witnesses:
            raise Refused(f"no witness attains {claim}")
        if self.distance.conditions:
            wanted = [(witnesses[0].box, c) for c in range(len(self.distance.conditions))]
            if [(w.box, w.condition) for w in witnesses] != wanted:
                raise Refused("the c-distance needs a witness for every condition, all of one box")
        for witness in witnesses:
            attained = self.attained(witness)
            if attained < Fraction(claim):
                raise Refused(f"a witness attains {float(attained)}, not {claim}")

    def attained(self, witness: Witness) -> Fraction:
        """At least how far the networks are apart at a witness, if it is one."""
        if not 0 <= witness.box < len(self.domain):
            raise Refused(f"there is no box {witness.box}")
        lower, upper = self.domain[witness.box]
        if not ((lower <= witness.x) & (witness.x <= upper)).all():
            raise Refused("a witness is not in the domain")
        a, b = (network.values(exact(witness.x)) for network in (self.first, self.second))
        if self.distance.conditions:
            condition = self.distance.conditions[witness.condition]
            if not (condition.holds(*a) and condition.holds(*b)):
                raise Refused("a witness does not satisfy its condition")
        attained = self._classes_apart(a, b) if self.distance.name == "class" else self._apart(a, b)
        if attained is None:
            raise Refused("the networks do not surely choose different classes at a witness")
        return attained

    def _apart(self, a: tuple[Array, Array], b: tuple[Array, Array]) -> Fraction:
        """At least how far the outputs are apart."""
        gaps = np.maximum(np.maximum(a[0] - b[1], b[0] - a[1]), 0)
        return Fraction(gaps.max() if self.distance.name == "linf" else gaps.sum())

    def _classes_apart(self, a: tuple[Array, Array], b: tuple[Array, Array]) -> Fraction | None:
        """At least how clearly the networks choose different classes, if they surely do."""
        tops = [[i for i in range(self.outputs) if _is_top(each, i)] for each in (a, b)]
        chosen = [a[0][i] - a[1][j] + b[0][j] - b[1][i] for i, j in itertools.product(*tops) if i != j]
        return max(chosen, default=None)


def _is_top(outputs: tuple[Array, Array], i: int) -> bool:
    low, high = outputs
    return all(low[i] >= high[k] for k in range(len(low)) if k != i)
