"""How many threads torch may use. Its own would spend their time waiting for each other on tensors as small as ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_torch_thread"]

_lock = threading.Lock()
_inside = 0  # how many are in the block now
_before = 1  # what torch had before the first of them came


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Torch on one thread, which also keeps the order of its sums; as before when the last has left."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                torch.set_num_threads(_before)
