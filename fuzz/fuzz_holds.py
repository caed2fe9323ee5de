"""What every answer must satisfy, found out by evaluating networks alone: samples, gradient ascent, exact arithmetic.

Enters: a query, or a pair with a distance, and the answer. Leaves: nothing, or `Wrong` with a sentence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import torch
from fuzz_exact import doubt, exact_feasible, exact_outputs, exact_value, exceeds

from karenina.disagreement import Disagreement
from karenina.distance import CDistance, Condition, Distance
from karenina.domain import Box, Domain
from karenina.network import Network
from karenina.query import Answer, Case, Goal, Query, Status

__all__ = ["Wrong", "check_answer", "check_disagreement", "require_overlap", "sample"]

Array = npt.NDArray[np.float64]
SAMPLES = 1500
TOP = 2  # sampled points a case that are evaluated exactly


class Wrong(Exception):
    """A claim that does not hold."""


def sample(box: Box, rng: np.random.Generator, count: int = SAMPLES) -> Array:
    """Uniform points, corners, and points on some sides."""
    uniform = np.clip(rng.uniform(box.lower, box.upper, (count, box.size)), box.lower, box.upper)
    if box.size <= 6:
        corners = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
    else:
        corners = np.where(rng.random((64, box.size)) < 0.5, box.lower, box.upper)
    side = rng.random((count // 4, box.size))
    mixed = np.where(side < 0.3, box.lower, np.where(side > 0.7, box.upper, uniform[: len(side)]))
    return np.concatenate([uniform, corners, mixed])


def _values(query: Query, case: Case, x: Array) -> Array:
    """The case's values, minus infinity where a constraint is violated or float64 has no number."""
    y = query.outputs(x)
    with np.errstate(all="ignore"):
        values = y @ case.objective + case.offset
        if len(case.constraint_offsets):
            values = np.where((y @ case.constraints.T + case.constraint_offsets >= 0).all(1), values, -np.inf)
    found: Array = np.where(np.isnan(values), -np.inf, values)
    return found


def _climbed(query: Query, case: Case, starts: Array, steps: int = 12) -> Array:
    """Where gradient ascent by autograd leads, outside the constraints towards them."""
    lower, upper = torch.as_tensor(case.box.lower), torch.as_tensor(case.box.upper)
    x, path = torch.as_tensor(starts), [starts]
    rows, offsets = torch.as_tensor(case.constraints), torch.as_tensor(case.constraint_offsets)
    for k in range(steps):
        x = x.detach().requires_grad_(True)
        y = torch.cat([network(x) for network in query.networks], -1)
        value = (y @ torch.as_tensor(case.objective)).sum()
        if len(offsets):
            value = value + 10 * (y @ rows.T + offsets).clamp(max=0).sum()
        (gradient,) = torch.autograd.grad(value, x)
        step = torch.nan_to_num(gradient.sign()) * (upper - lower) * (0.3 * 0.75**k)
        x = torch.minimum(torch.maximum(x.detach() + step, lower), upper)
        path.append(x.numpy())
    return np.concatenate(path)


def _best_points(query: Query, case: Case, rng: np.random.Generator) -> Iterator[list[float]]:
    """The sampled points of highest value, those of the ascent among them."""
    x = sample(case.box, rng)
    order = np.argsort(-_values(query, case, x))
    x = np.concatenate([x, _climbed(query, case, x[np.concatenate([order[:6], rng.integers(len(x), size=2)])])])
    values = _values(query, case, x)
    for place in np.argsort(-values, kind="stable")[:TOP]:
        if values[place] > -np.inf:
            yield x[place].tolist()


def check_answer(query: Query, answer: Answer, goal: Goal, rng: np.random.Generator) -> None:
    """The witness attains `lower`, no point attains more than `upper`, and the status says what the interval shows."""
    _check_witness(query, answer)
    _check_status(query, answer, goal)
    for number, case in enumerate(query.cases):
        for x in _best_points(query, case, rng):
            if answer.status is Status.INFEASIBLE:
                if exact_feasible(query, case, x):
                    raise Wrong(f"said to be infeasible, but case {number} allows {x}")
            elif exceeds(query, case, x, answer.upper):
                value = float(exact_value(query, case, x))
                raise Wrong(f"case {number} attains {value!r} at {x}, more than upper = {answer.upper!r}")


def _check_witness(query: Query, answer: Answer) -> None:
    if answer.witness is None:
        if answer.lower != query.floor:
            raise Wrong(f"lower = {answer.lower} without a witness, floor {query.floor}")
        return
    assert answer.case is not None
    case, x = query.cases[answer.case], answer.witness.tolist()
    if not case.box.contains(x):
        raise Wrong(f"the witness {x} is outside its box")
    if not exact_feasible(query, case, x):
        raise Wrong(f"the witness {x} violates a constraint")
    if answer.lower != query.floor and exact_value(query, case, x) < Fraction(answer.lower) - doubt(
        query, case.objective, x
    ):
        value = float(exact_value(query, case, x))
        raise Wrong(f"the witness {x} attains {value!r}, less than lower = {answer.lower!r}")


def _check_status(query: Query, answer: Answer, goal: Goal) -> None:
    width = answer.upper - answer.lower
    if answer.status is Status.EXACT and not width <= goal.gap(answer.lower) * (1 + 1e-9):
        raise Wrong(f"said to be exact, but [{answer.lower!r}, {answer.upper!r}] is {width} wide")
    if answer.status is Status.OVERFLOW and answer.upper != math.inf:
        raise Wrong(f"overflow, but upper = {answer.upper}")
    if answer.status is Status.DECIDED:
        below = goal.threshold is not None and answer.upper < goal.threshold
        least = min(goal.ceiling, math.inf if goal.threshold is None else goal.threshold)
        if not below and not answer.lower >= least:
            raise Wrong(f"said to be decided, but {least} lies inside [{answer.lower}, {answer.upper}]")
    if answer.status is Status.INFEASIBLE and not any(len(case.constraint_offsets) for case in query.cases):
        raise Wrong("said to be infeasible without any constraint")


def require_overlap(a: Answer | Disagreement, b: Answer | Disagreement, what: str, slack: float = 0.0) -> None:
    """Two intervals that hold one number have a number in common; where nothing is feasible, nobody has a witness."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Answer) and one.status is Status.INFEASIBLE:
            if other.witness is not None:
                raise Wrong(f"{what}: one is infeasible, the other has a witness")
            return
    if a.lower > b.upper + slack or b.lower > a.upper + slack:
        raise Wrong(f"{what}: [{a.lower!r}, {a.upper!r}] and [{b.lower!r}, {b.upper!r}] have no number in common")


def check_disagreement(
    first: Network, second: Network, domain: Domain, metric: Distance, found: Disagreement, rng: np.random.Generator
) -> None:
    """No sampled input is further apart than `upper`, and the witness is `lower` apart."""
    if found.witness is not None:
        if not domain.contains(found.witness):
            raise Wrong(f"the witness {found.witness.tolist()} is outside the domain")
        apart = _apart(first, second, metric.name, found.witness.tolist())
        if not first.piecewise_linear or not second.piecewise_linear:
            apart += abs(apart) / 10**40 + Fraction(1, 10**300)
        if apart < Fraction(found.lower):
            raise Wrong(f"the witness is {float(apart)!r} apart, less than lower = {found.lower!r}")
    elif found.lower != 0.0 and found.status is not Status.OVERFLOW:
        raise Wrong(f"lower = {found.lower} without a witness")
    largest = _sampled_threshold(first, second, domain, metric, rng)
    if found.upper < math.inf and largest * (1 - Fraction(1, 10**40)) > Fraction(found.upper):
        raise Wrong(f"sampled inputs show a threshold of {float(largest)!r}, more than upper = {found.upper!r}")


def _apart(first: Network, second: Network, metric: str, x: list[float]) -> Fraction:
    """The exact distance at x; for classes, the largest of those that exact arithmetic allows."""
    a, b = exact_outputs(first, x), exact_outputs(second, x)
    differences = [abs(p - q) for p, q in zip(a, b, strict=True)]
    if metric == "linf":
        return max(differences)
    if metric != "class":
        return sum(differences, Fraction(0))
    tops = ([i for i, v in enumerate(y) if v == max(y)] for y in (a, b))
    return max(a[i] - a[j] + b[j] - b[i] for i, j in itertools.product(*tops))


def _sampled_threshold(
    first: Network, second: Network, domain: Domain, metric: Distance, rng: np.random.Generator
) -> Fraction:
    """A lower bound of the threshold, from samples."""
    best = Fraction(0)
    for box in domain.boxes:
        x = sample(box, rng, 600)
        a, b = first(x), second(x)
        if isinstance(metric, CDistance):
            conditions = [Condition.parse(text, first.output_size) for text in metric.conditions]
            best = max(best, min(_under(first, second, c, x, a, b) for c in conditions))
            continue
        scores = np.nan_to_num([metric(p, q) for p, q in zip(a, b, strict=True)], nan=-1.0)
        for place in np.argsort(-scores)[:TOP]:
            best = max(best, _apart(first, second, metric.name, x[place].tolist()))
    return best


def _under(first: Network, second: Network, condition: Condition, x: Array, a: Array, b: Array) -> Fraction:
    """The largest l1 distance of a sampled input where both outputs surely satisfy the condition; 0 where none does."""
    inside = np.array([condition.holds(p) and condition.holds(q) for p, q in zip(a, b, strict=True)])
    scores = np.where(inside, np.abs(a - b).sum(1), -1.0)
    for place in np.argsort(-scores)[:TOP]:
        point = x[place].tolist()
        if scores[place] >= 0 and all(_holds(condition, exact_outputs(n, point)) for n in (first, second)):
            return _apart(first, second, "l1", point)
    return Fraction(0)


def _holds(condition: Condition, y: Sequence[Fraction]) -> bool:
    slack = Fraction(1, 10**30)  # more than decimals may be off
    rows = zip(condition.rows.tolist(), condition.offsets.tolist(), strict=True)
    return all(Fraction(h) + sum(Fraction(c) * v for c, v in zip(row, y, strict=True)) >= slack for row, h in rows)
