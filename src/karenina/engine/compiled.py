"""The hot loop, compiled: bounds of one layer's pre-activations by back-substitution, a box at a time.

Enters and leaves: what `bounds.backward_bounds` does, on the CPU. A row stays in cache from the first
layer to the last; inactive neurons are skipped, and so are rows that need no bound. Needs numba
(extra `fast`); without it the same work is done by torch.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch

from karenina.engine.joint import Joint

__all__ = ["available", "backward_bounds", "in_threads"]

Tensor = torch.Tensor


@cache
def available() -> bool:
    """Whether numba is there, and has a place to keep what it compiles."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        importlib.import_module("karenina.engine.kernel")
    except (ImportError, RuntimeError):
        return False
    return True


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="karenina")


def in_threads(count: int, tasks: int, function: Callable[..., None], *arguments: object) -> None:
    """function(first, last, *arguments) over all tasks, shared among threads."""
    count = min(count, tasks)
    if count == 1:
        function(0, tasks, *arguments)
        return
    edges = [tasks * i // count for i in range(count + 1)]
    jobs = [_threads(count).submit(function, a, b, *arguments) for a, b in pairwise(edges)]
    for job in jobs:
        job.result()


def backward_bounds(
    joint: Joint,
    fixed: Sequence[tuple[Tensor, ...]],
    k: int,
    centre: Tensor,
    radius: Tensor,
    needed: Tensor,
    threads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """What `bounds.backward_bounds` returns; rows that are not needed are 0, with infinite bounds."""
    from karenina.engine.kernel import bound_rows

    shape = (2, joint.stack, len(centre), joint.widths[k])
    rows, constants, bounds = np.zeros((*shape, joint.inputs)), np.zeros(shape), np.full(shape, np.inf)
    slopes, intercepts = (
        torch.cat([torch.stack([lines[i], lines[i + 2]], -1) for lines in fixed], 2).numpy() for i in (0, 1)
    )
    sizes = np.array([joint.inputs, *joint.widths[: k + 1]])
    weights, biases = joint.flat(k + 1)
    read = (sizes, weights, biases, slopes, intercepts, centre.contiguous().numpy(), radius.contiguous().numpy())
    tasks = joint.stack * len(centre)
    in_threads(threads, tasks, bound_rows, *read, needed.contiguous().numpy(), rows, constants, bounds)
    return torch.from_numpy(rows), torch.from_numpy(constants), torch.from_numpy(bounds)
