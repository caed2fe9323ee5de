"""Selection in the manner of scikit-learn: settings in the constructor, results with a trailing underscore.

Enters: networks, at `fit`. Leaves: `survivors_`, `scores_`, `recommended_`, `selection_`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from karenina.disagreement import Measure
from karenina.distance import Distance
from karenina.domain import Domain
from karenina.errors import InputError
from karenina.network import Network
from karenina.query import Backend
from karenina.selection.result import Selection
from karenina.selection.select import select
from karenina.selection.settings import SelectionSettings

__all__ = ["Selector"]

_PARAMETERS = (
    "domain",
    "distance",
    "criterion",
    "percent",
    "iterations",
    "similar",
    "stop_below",
    "tolerance",
    "time_limit",
    "exact",
    "backend",
)


class Selector:
    """`Selector(domain, criterion="max").fit(networks).survivors_`."""

    selection_: Selection
    survivors_: list[str]
    recommended_: str
    scores_: Mapping[str, tuple[float, float]]  # of every model in the last iteration it took part in
    n_iter_: int

    def __init__(
        self,
        domain: Domain,
        distance: str | Distance = "l1",
        *,
        criterion: str = "percentile",
        percent: float = 25.0,
        iterations: int | None = None,
        similar: float = 0.0,
        stop_below: float | None = None,
        tolerance: float = 1e-3,
        time_limit: float = float("inf"),
        exact: bool = False,
        backend: Backend | None = None,
    ) -> None:
        self.domain, self.distance = domain, distance
        self.criterion, self.percent, self.iterations = criterion, percent, iterations
        self.similar, self.stop_below = similar, stop_below
        self.tolerance, self.time_limit, self.exact = tolerance, time_limit, exact
        self.backend = backend

    def fit(
        self, networks: Sequence[Network], names: Sequence[str] | None = None, measure: Measure | None = None
    ) -> Selector:
        """Select; the results are in the attributes with a trailing underscore."""
        settings = SelectionSettings(
            self.criterion,
            self.percent,
            self.iterations,
            self.similar,
            self.stop_below,
            self.tolerance,
            self.time_limit,
            self.exact,
        )
        found = select(
            networks,
            self.domain,
            self.distance,
            settings=settings,
            names=names,
            backend=self.backend,
            measure=measure,
        )
        self.selection_, self.survivors_, self.recommended_ = found, list(found.survivors), found.recommended
        scores = {name: score for iteration in found.iterations for name, score in iteration.scores.items()}
        self.scores_ = {name: (scores | dict(found.scores))[name] for name in found.names}
        self.n_iter_ = len(found.iterations)
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  scikit-learn's signature
        """The settings, as the constructor takes them."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **parameters: Any) -> Selector:
        """Change settings; unknown names are refused."""
        for name, value in parameters.items():
            if name not in _PARAMETERS:
                raise InputError(f"a Selector has no parameter {name!r}; it has {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self
