"""What a gradient attack works on. Enters: a query. Leaves: `Task`s, one for each box and set of constraints, with
values and gradients at many points at once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch

from karenina.network import Network, concatenate
from karenina.query import Case, Query

__all__ = ["SLACK", "Look", "Task", "tasks"]

Tensor = torch.Tensor
SLACK = 1e-9  # as the other back ends: a constraint violated by less holds


@dataclass(frozen=True, eq=False)
class Task:
    """Cases that share box and constraints: maximise the largest of their objectives."""

    joint: Network  # all networks of the query as one
    places: tuple[int, ...]  # of the cases
    case: Case
    objectives: Tensor  # (cases, outputs)
    offsets: Tensor  # (cases,)
    rows: Tensor  # (constraints, outputs)
    row_offsets: Tensor  # (constraints,)
    middle: Tensor  # (inputs,)
    half: Tensor  # (inputs,)
    beside: int  # tasks of the query, this one included

    def point(self, u: Tensor) -> Tensor:
        """Inputs from places in the box, which are in [-1, 1]."""
        return self.middle + self.half * u

    def look(self, u: Tensor) -> Look:
        """The networks at places (points, inputs)."""
        h, slopes = self.point(u), []
        for layer in self.joint.layers:
            z = h @ layer.weight.T + layer.bias
            slopes.append(layer.derivative(z))
            h = layer.activate(z)
        return Look(self, h, slopes)


@dataclass(frozen=True, eq=False)
class Look:
    """Values and gradients at some points."""

    task: Task
    outputs: Tensor  # (points, outputs)
    slopes: list[Tensor]  # of the activations, layer by layer

    @property
    def values(self) -> Tensor:
        """(points,) L(x)."""
        return (self.outputs @ self.task.objectives.T + self.task.offsets).max(1).values

    @property
    def slack(self) -> Tensor:
        """(points, constraints), negative where violated."""
        return self.outputs @ self.task.rows.T + self.task.row_offsets

    @property
    def feasible(self) -> Tensor:
        return (self.slack >= -SLACK).all(1)

    def gradient(self, multipliers: Tensor | None = None) -> Tensor:
        """(points, inputs) of L(x) - sum of multipliers * violation, in half-widths of the box."""
        task = self.task
        best = (self.outputs @ task.objectives.T + task.offsets).argmax(1)
        back = task.objectives[best]
        if multipliers is not None:
            back = back + (multipliers * (self.slack < 0)) @ task.rows
        for layer, slope in zip(reversed(task.joint.layers), reversed(self.slopes), strict=True):
            back = (back * slope) @ layer.weight
        return back * task.half


def tasks(query: Query) -> list[Task]:
    """The cases of a query, those together that share a box and constraints."""
    groups: dict[bytes, list[int]] = {}
    for place, case in enumerate(query.cases):
        parts = (case.box.lower, case.box.upper, case.constraints, case.constraint_offsets)
        groups.setdefault(b"".join(part.tobytes() for part in parts), []).append(place)
    return [_task(query, places, len(groups)) for places in groups.values()]


def _task(query: Query, places: list[int], beside: int) -> Task:
    cases = [query.cases[place] for place in places]
    box, own = cases[0].box, cases[0]
    rows = own.constraints if len(own.constraint_offsets) else np.zeros((0, query.output_size))
    return Task(
        functools.reduce(concatenate, query.networks),
        tuple(places),
        own,
        torch.as_tensor(np.stack([case.objective for case in cases])),
        torch.tensor([case.offset for case in cases], dtype=torch.float64),
        torch.as_tensor(rows),
        torch.as_tensor(own.constraint_offsets),
        torch.as_tensor((box.lower + box.upper) / 2),
        torch.as_tensor((box.upper - box.lower) / 2),
        beside,
    )
