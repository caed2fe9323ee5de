"""How many threads torch may use. Its own would spend their time waiting for each other on tensors as small as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_torch_thread"]


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Torch on one thread, which also keeps the order of its sums; afterwards as before. The count is the thread's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
