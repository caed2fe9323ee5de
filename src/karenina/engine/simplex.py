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
    """
    tableau = _Tableau(a, lower, upper, rows, offsets)
    proof: Tensor | float = 0.0
    for _ in range(rounds):
        worst, leave, helps = tableau.most_violated()
        enter, possible = tableau.entering(leave, helps)
        active = (worst > EPSILON) & possible
        if not active.any():
            proof = tableau.infeasibility(leave, helps, torch.where(worst > 1e-7, drop / worst.clamp(min=1e-7), 0.0))
            break
        tableau.pivot(leave, enter, active)
    multipliers, point = tableau.read()
    return multipliers + proof, point


class _Tableau:
    """Basic variables expressed by the others: basic = constant + body @ nonbasic, a problem a batch entry.

    Variables 0 .. n-1 are x, n .. n+m-1 the rows' values. The n nonbasic variables sit at one of their bounds: the
    upper one where their cost is >= 0 (a row's value at 0, its only bound).
    """

    def __init__(self, a: Tensor, lower: Tensor, upper: Tensor, rows: Tensor, offsets: Tensor) -> None:
        count, m, self.n = rows.shape
        unbounded = a.new_full((count, m), torch.inf)
        self.low = torch.cat([lower, torch.zeros_like(unbounded)], 1)
        self.high = torch.cat([upper, unbounded], 1)
        self.body, self.constant, self.cost = rows.clone(), offsets.clone(), a.clone()
        self.nonbasic = torch.arange(self.n, device=a.device).repeat(count, 1)
        self.basic = torch.arange(self.n, self.n + m, device=a.device).repeat(count, 1)
        self.every = torch.arange(count, device=a.device)

    def values(self) -> tuple[Tensor, Tensor]:
        """What the nonbasic variables and the basic ones are now."""
        low, high = self.low.gather(1, self.nonbasic), self.high.gather(1, self.nonbasic)
        at = torch.where((self.cost >= 0) & torch.isfinite(high), high, low)
        return at, self.constant + (self.body @ at[..., None]).squeeze(-1)

    def most_violated(self) -> tuple[Tensor, Tensor, Tensor]:
        """By how much, which basic variable, and how much each nonbasic one would help by rising."""
        value = self.values()[1]
        below, above = self.low.gather(1, self.basic) - value, value - self.high.gather(1, self.basic)
        worst, leave = torch.maximum(below, above).max(1)
        row = self.body[self.every, leave]
        return worst, leave, torch.where((below[self.every, leave] > 0)[:, None], row, -row)

    def entering(self, leave: Tensor, helps: Tensor) -> tuple[Tensor, Tensor]:
        """The nonbasic variable that may move and keeps all costs' signs, and whether there is one."""
        movable = self.high.gather(1, self.nonbasic) > self.low.gather(1, self.nonbasic)
        # At its upper bound (cost >= 0) a variable can only fall, at its lower bound only rise.
        free = movable & torch.where(self.cost >= 0, helps < -EPSILON, helps > EPSILON)
        ratio = torch.where(free, self.cost.abs() / self.body[self.every, leave].abs().clamp(min=EPSILON), torch.inf)
        least, enter = ratio.min(1)
        return enter, torch.isfinite(least)

    def infeasibility(self, leave: Tensor, helps: Tensor, weight: Tensor) -> Tensor:
        """Multipliers of the rows that prove a violation none can mend, times `weight` (problems,)."""
        proof = torch.zeros_like(self.low).scatter(1, self.nonbasic, -helps * weight[:, None])
        proof = proof.scatter(1, self.basic[self.every, leave][:, None], weight[:, None])
        return proof[:, self.n :].clamp(min=0)

    def pivot(self, leave: Tensor, enter: Tensor, active: Tensor) -> None:
        """Exchange a basic and a nonbasic variable in the active problems."""
        every, keep = self.every, active[:, None]
        row, column, price = self.body[every, leave], self.body[every, :, enter], self.cost[every, enter]
        pivot = torch.where(active, row[every, enter], 1.0)
        solved = -row / pivot[:, None]  # the entering variable by the others, and by the leaving one
        solved[every, enter] = 1.0 / pivot
        shift = -self.constant[every, leave] / pivot
        body = self.body + column[..., None] * solved[:, None]
        body[every, :, enter] = column * solved[every, enter][:, None]
        body[every, leave] = solved
        constant = self.constant + column * shift[:, None]
        constant[every, leave] = shift
        cost = self.cost + price[:, None] * solved
        cost[every, enter] = price * solved[every, enter]
        self.body = torch.where(keep[..., None], body, self.body)
        self.constant, self.cost = torch.where(keep, constant, self.constant), torch.where(keep, cost, self.cost)
        entering, leaving = self.nonbasic[every, enter], self.basic[every, leave]
        self.nonbasic[every, enter] = torch.where(active, leaving, entering)
        self.basic[every, leave] = torch.where(active, entering, leaving)

    def read(self) -> tuple[Tensor, Tensor]:
        """Multipliers from the costs of rows that are nonbasic; the point from the values of x."""
        at, value = self.values()
        everything = torch.zeros_like(self.low).scatter(1, self.nonbasic, at).scatter(1, self.basic, value)
        prices = torch.zeros_like(self.low).scatter(1, self.nonbasic, -self.cost)
        x = everything[:, : self.n].clamp(self.low[:, : self.n], self.high[:, : self.n])
        return prices[:, self.n :].clamp(min=0), x
