"""Small linear programmes, a batch at a time: the best point of boxes cut by a few half-spaces.

Enters: maximise a @ x over lower <= x <= upper where rows @ x + offsets >= 0. Leaves: the multipliers
of the rows, and the point; where nothing satisfies the rows, multipliers that prove it. The dual
simplex method starts from the box's best corner and brings one violated row (or side) after another
back to its bound; stopped early, its multipliers are still >= 0. They are hints: whatever they are,
the bound computed with them is sound.
"""

from __future__ import annotations

import torch

__all__ = ["maximise"]

Tensor = torch.Tensor
EPSILON = 1e-10


def maximise(
    a: Tensor, lower: Tensor, upper: Tensor, rows: Tensor, offsets: Tensor, drop: Tensor, rounds: int
) -> tuple[Tensor, Tensor]:
    """Multipliers (problems, rows) and points (problems, n), after at most so many pivots.

    Where no point satisfies the rows, the multipliers push the bound down by `drop` (problems,).

    Variables 0 .. n-1 are x, n .. n+m-1 the rows' values. A tableau expresses the m basic variables by the n others,
    each of which sits at one of its bounds.
    """
    count, m, n = rows.shape
    unbounded = a.new_full((count, m), torch.inf)
    low, high = torch.cat([lower, torch.zeros_like(unbounded)], 1), torch.cat([upper, unbounded], 1)
    tableau, constant = rows.clone(), offsets.clone()
    cost = a.clone()  # of the nonbasic variables
    nonbasic = torch.arange(n, device=a.device).expand(count, n).clone()
    basic = torch.arange(n, n + m, device=a.device).expand(count, m).clone()
    every = torch.arange(count, device=a.device)
    proof = torch.zeros_like(low)  # of infeasibility
    for _ in range(rounds):
        at = torch.where(cost >= 0, high.gather(1, nonbasic), low.gather(1, nonbasic))
        at = torch.where(torch.isinf(at), low.gather(1, nonbasic), at)  # a row's value sits at 0
        value = constant + (tableau @ at[..., None]).squeeze(-1)
        below, above = low.gather(1, basic) - value, value - high.gather(1, basic)
        worst, leave = torch.maximum(below, above).max(1)
        row = tableau[every, leave]  # (problems, n)
        up = below[every, leave] > 0  # the leaving variable must grow
        helps = torch.where(up[:, None], row, -row)
        # A variable at its upper bound (cost >= 0) can only fall, one at its lower bound only rise.
        free = torch.where(cost >= 0, helps < -EPSILON, helps > EPSILON) & (
            high.gather(1, nonbasic) > low.gather(1, nonbasic)
        )
        ratio = torch.where(free, cost.abs() / row.abs().clamp(min=EPSILON), torch.inf)
        least, enter = ratio.min(1)
        active = (worst > EPSILON) & torch.isfinite(least)
        if not active.any():
            stuck = torch.where(worst > 1e-7, drop / worst.clamp(min=1e-7), 0.0)[:, None]
            proof = proof.scatter(1, nonbasic, -helps * stuck).scatter(1, basic[every, leave][:, None], stuck)
            break
        pivot = torch.where(active, row[every, enter], 1.0)
        keep = active[:, None]
        # basic = constant + row @ others + pivot * x_enter, solved for x_enter
        solved = -row / pivot[:, None]
        solved[every, enter] = 1.0 / pivot
        shift = -constant[every, leave] / pivot
        column = tableau[every, :, enter]  # (problems, m)
        changed = tableau + column[..., None] * solved[:, None]
        changed[every, :, enter] = column * solved[every, enter][:, None]
        changed[every, leave] = solved
        moved = constant + column * shift[:, None]
        moved[every, leave] = shift
        price = cost[every, enter]
        costs = cost + price[:, None] * solved
        costs[every, enter] = price * solved[every, enter]
        tableau = torch.where(keep[..., None], changed, tableau)
        constant = torch.where(keep, moved, constant)
        cost = torch.where(keep, costs, cost)
        entering, leaving = nonbasic[every, enter], basic[every, leave]
        nonbasic[every, enter] = torch.where(active, leaving, entering)
        basic[every, leave] = torch.where(active, entering, leaving)
    multipliers, point = _read(tableau, constant, cost, nonbasic, basic, low, high, n)
    return multipliers + proof[:, n:].clamp(min=0), point


def _read(
    tableau: Tensor, constant: Tensor, cost: Tensor, nonbasic: Tensor, basic: Tensor, low: Tensor, high: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Multipliers from the costs of rows that are nonbasic; the point from the values of x."""
    at = torch.where(
        (cost >= 0) & torch.isfinite(high.gather(1, nonbasic)), high.gather(1, nonbasic), low.gather(1, nonbasic)
    )
    value = constant + (tableau @ at[..., None]).squeeze(-1)
    everything = torch.zeros_like(low).scatter(1, nonbasic, at).scatter(1, basic, value)
    prices = torch.zeros_like(low).scatter(1, nonbasic, -cost)
    return prices[:, n:].clamp(min=0), everything[:, :n].clamp(low[:, :n], high[:, :n])
