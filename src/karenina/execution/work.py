"""All that measuring pairs takes, in one object that can be sent to another process.

Enters: networks, a domain, a distance, and how to make a back end. Leaves: a `Measure` in the process it is used in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from karenina.backends import backend
from karenina.disagreement import Measure, measure_here
from karenina.distance import Distance
from karenina.domain import Domain
from karenina.network import Network
from karenina.query import Backend

__all__ = ["Work"]


@dataclass(frozen=True, eq=False)
class Work:
    """Networks to compare on a domain, and who answers: a back end itself may not fit into a message."""

    networks: tuple[Network, ...]
    domain: Domain
    distance: Distance
    make_backend: Callable[[str], Backend]  # from a device
    device: str = "auto"

    @classmethod
    def of(
        cls,
        networks: Sequence[Network],
        domain: Domain,
        distance: Distance,
        backend_name: str = "karenina",
        device: str = "auto",
    ) -> Work:
        """With a back end by its name."""
        return cls(tuple(networks), domain, distance, functools.partial(backend, backend_name), device)

    def here(self, device: str | None = None) -> Measure:
        """A measure in this process."""
        return measure_here(self.networks, self.domain, self.distance, self.make_backend(device or self.device))

    def pair(self, first: int, second: int) -> str:
        """What messages call a pair."""
        return f"{self.networks[first].name} and {self.networks[second].name}"
