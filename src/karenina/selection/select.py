"""The iterations of the paper's Alg. 2. Enters: networks, a domain, a distance, settings, and who measures pairs.
Leaves: a `Selection`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from karenina.disagreement import Measure
from karenina.distance import Distance
from karenina.domain import Domain
from karenina.network import Network
from karenina.query import Backend
from karenina.selection.result import Selection
from karenina.selection.settings import SelectionOptions, SelectionSettings

__all__ = ["Progress", "select"]


@dataclass(frozen=True)
class Progress:
    """Where a selection stands; reported when a round of measurements starts and after each of them."""

    doing: str  # in words
    iteration: int  # from 1
    models: int  # still in the race
    pairs: int  # of all networks
    exact_pairs: int  # measured to the tolerance
    done: int  # measurements of this round
    planned: int  # measurements of this round
    measurements: int  # in all


def select(
    networks: Sequence[Network],
    domain: Domain,
    distance: str | Distance = "l1",
    *,
    settings: SelectionSettings | None = None,
    names: Sequence[str] | None = None,
    backend: Backend | None = None,
    measure: Measure | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[SelectionOptions],
) -> Selection:
    """The survivors of the networks on the domain.

    Settings come as `settings`, or one by one as keywords (which override it). Pairs are measured by the back end
    here, one after the other, or by `measure`. `names` (the networks' own by default) must be distinct.
    """
    raise NotImplementedError
