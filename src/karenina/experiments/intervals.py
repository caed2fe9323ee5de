"""How sure an average over resampled populations is. Enters: which models each draw held, and its outcomes. Leaves:
the mean and an interval of 95 %.

Draws of 16 from one pool share its models, so the spread of their mean over more and more draws says nothing about
another pool. The infinitesimal jackknife does (Wager, Hastie and Efron 2014, corrected for draws without replacement):
how an outcome goes with each model being drawn gives the variance that a pool of other models would cause.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from karenina.experiments.populations import Array, Flags

__all__ = ["Interval", "interval"]

_NORMAL = 1.96  # 95 %


@dataclass(frozen=True)
class Interval:
    """A mean, and where it lies with a confidence of 95 %."""

    mean: float
    lower: float
    upper: float


def interval(drawn: Flags, outcome: Array, least: float = -math.inf, most: float = math.inf) -> Interval:
    """drawn: (draws, pool); outcome: (draws,), whose mean cannot lie outside [least, most]."""
    draws, pool = drawn.shape
    mean, size = float(outcome.mean()), int(drawn[0].sum())
    centred = outcome - mean
    share = size / pool
    covariance = (drawn - share).T @ centred / draws  # (pool,)
    noise = pool * share * (1 - share) * float(centred @ centred) / draws**2
    correction = pool * (pool - 1) / (pool - size) ** 2
    variance = correction * max(0.0, float(covariance @ covariance) - noise)
    simulation = float(outcome.var(ddof=1)) / draws
    error = _NORMAL * float(np.sqrt(variance + simulation))
    return Interval(mean, max(least, mean - error), min(most, mean + error))
