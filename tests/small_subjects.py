"""A small made-up population for the tests of the experiments: affine networks, whose disagreement is known by hand."""

from __future__ import annotations

import numpy as np

from karenina.domain import Box, Domain
from karenina.experiments.populations import Subject
from karenina.network import Layer, Network

SLOPES = (1.0, 1.1, 0.9, 1.05, -2.0, 3.0, -4.0, 5.0)


def line(slope: float, offset: float = 0.0, name: str = "line") -> Network:
    """x -> slope * x + offset."""
    return Network((Layer.of(np.array([[slope]]), np.array([offset])),), name)


def small_subject(slopes: tuple[float, ...] = SLOPES, distance: str = "l1") -> Subject:
    """On [-1, 1]; the first four are good and agree."""
    names = tuple(f"seed_{k + 1:03}" for k in range(len(slopes)))
    networks = tuple(line(slope, 0.0, name) for slope, name in zip(slopes, names, strict=True))
    rewards = np.array([10.0 if abs(slope - 1) < 0.5 else 0.0 for slope in slopes])
    inside = np.arange(len(slopes), dtype=np.float64)
    return Subject(
        "made-up",
        names,
        tuple(range(len(slopes))),
        networks,
        Domain(Box([-1.0], [1.0])),
        distance,
        0.5,
        5.0,
        {"in-distribution": inside, "ood": rewards},
        len(slopes),
    )
