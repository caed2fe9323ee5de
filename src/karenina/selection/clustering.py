"""Average-linkage clustering of a table of disagreements. Enters: (models, models) disagreements. Leaves: every cut of
the tree, from all models alone to all in one group, and an order of the models in which groups stand together.

Two groups are as far apart as their members on average; the two nearest are joined, again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Groups", "average_linkage", "silhouettes"]

Array = npt.NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]


def average_linkage(disagreement: Array) -> list[Groups]:
    """The groups after 0, 1, ..., n - 1 joins; a group's members stand so that neighbours are alike."""
    far = disagreement.astype(np.float64)  # (models, models); infinite for groups that are no more
    np.fill_diagonal(far, np.inf)
    number = len(far)
    groups: dict[int, tuple[int, ...]] = {k: (k,) for k in range(number)}
    cuts = [tuple(groups.values())]
    for _ in range(number - 1):
        first, second = sorted(divmod(int(np.argmin(far)), number))
        sizes = len(groups[first]), len(groups[second])
        joined = (sizes[0] * far[first] + sizes[1] * far[second]) / sum(sizes)
        joined[[first, second]] = np.inf
        far[second] = far[:, second] = np.inf
        far[first] = far[:, first] = joined
        groups[first] = _side_by_side(groups[first], groups.pop(second), disagreement)
        cuts.append(tuple(groups.values()))
    return cuts


def _side_by_side(first: tuple[int, ...], second: tuple[int, ...], disagreement: Array) -> tuple[int, ...]:
    """Both, each turned so that the members that meet are the ones most alike."""
    turns = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    best = min(turns, key=lambda turn: disagreement[turn[0][-1], turn[1][0]])
    return best[0] + best[1]


def silhouettes(disagreement: Array, groups: Sequence[Sequence[int]]) -> Array:
    """(models,): 1 - own / other, where `own` is a model's mean disagreement with its group and `other` with the
    nearest other group (other / own - 1 if that group is nearer); 0 for a model alone in its group."""
    number = len(disagreement)
    member = np.zeros((number, len(groups)))  # (models, groups)
    for k, group in enumerate(groups):
        member[list(group), k] = 1.0
    sizes = member.sum(axis=0)
    total = disagreement @ member  # (models, groups)
    own_size = member @ sizes
    own = (total * member).sum(axis=1) / np.maximum(own_size - 1, 1)
    other = np.where(member > 0, np.inf, total / sizes).min(axis=1)
    largest = np.maximum(own, other)
    apart = (own_size > 1) & np.isfinite(largest) & (largest > 0)
    return np.where(apart, (other - own) / np.where(apart, largest, 1.0), 0.0)
