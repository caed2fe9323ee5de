"""What the tests of the store and of execution share: small networks, and measures that tell what they were asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from karenina.disagreement import Disagreement, PairTask
from karenina.domain import Box, Domain
from karenina.network import RELU, Layer, Network
from karenina.query import Goal, Status

DOMAIN = Domain(Box([-1, -1], [1, 1]))


def a_network(seed: int, *, inputs: int = 2, outputs: int = 1) -> Network:
    rng = np.random.default_rng(seed)
    hidden = Layer.of(rng.normal(size=(5, inputs)), rng.normal(size=5), RELU)
    return Network((hidden, Layer.of(rng.normal(size=(outputs, 5)), rng.normal(size=outputs))), f"seed_{seed}")


def a_disagreement(**changes: Any) -> Disagreement:
    facts: dict[str, Any] = {
        "lower": 0.1,
        "upper": 1 / 3,
        "status": Status.EXACT,
        "witness": np.array([0.5, -2.0]),
        "outputs": (np.array([1.0]), np.array([-0.25])),
        "boxes": 12,
        "seconds": 0.125,
        "note": "",
    }
    return Disagreement(**(facts | changes))


def facts(found: Disagreement) -> tuple[object, ...]:
    """All of an answer, in values that compare; bits, not approximations. Not the seconds."""
    witness = None if found.witness is None else found.witness.tobytes()
    outputs = None if found.outputs is None else tuple(output.tobytes() for output in found.outputs)
    return found.lower.hex(), found.upper.hex(), found.status, witness, outputs, found.boxes, found.note


def all_pairs(count: int, goal: Goal | None = None) -> list[PairTask]:
    return [PairTask(i, j, goal or Goal()) for i in range(count) for j in range(i + 1, count)]


class Scripted:
    """A measure whose answers tell the pair: lower = first + second / 100. `asked` holds its tasks."""

    def __init__(self, status: Status = Status.EXACT, fail_at: int | None = None) -> None:
        self.asked: list[PairTask] = []
        self.status, self.fail_at = status, fail_at

    def __call__(self, tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        for task in reversed(tasks):  # any order will do
            if len(self.asked) == self.fail_at:
                raise KeyboardInterrupt
            self.asked.append(task)
            lower = task.first + task.second / 100
            outputs = np.array([float(task.first)]), np.array([float(task.second)])
            yield task, a_disagreement(lower=lower, upper=math.inf, status=self.status, outputs=outputs)
