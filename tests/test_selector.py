"""The scikit-learn-style selector: parameters in, attributes out, the same survivors as `select`."""

from __future__ import annotations

import pytest
from planted_tables import DOMAIN, Planted, dummies

from karenina import Selector, select
from karenina.errors import InputError

TABLE = [[abs(i**1.5 - j**1.5) for j in range(6)] for i in range(6)]


def test_fit_gives_what_select_gives() -> None:
    networks = dummies(6)
    selector = Selector(DOMAIN, criterion="max", iterations=2).fit(networks, measure=Planted(TABLE))
    found = select(networks, DOMAIN, criterion="max", iterations=2, measure=Planted(TABLE))
    assert selector.survivors_ == list(found.survivors)
    assert selector.recommended_ == found.recommended
    assert selector.n_iter_ == 2
    assert selector.selection_.removed == found.removed
    assert list(selector.scores_) == list(found.names)
    last = found.iterations[0].scores[found.removed[0]]
    assert selector.scores_[found.removed[0]] == last


def test_parameters_go_in_and_out() -> None:
    selector = Selector(DOMAIN, percent=40)
    assert selector.get_params()["percent"] == 40
    assert Selector(**selector.get_params()).get_params() == selector.get_params()
    assert selector.set_params(percent=10, exact=True) is selector
    assert (selector.percent, selector.exact) == (10, True)
    with pytest.raises(InputError, match="no parameter 'precent'"):
        selector.set_params(precent=1)


def test_wrong_parameters_are_refused_at_fit() -> None:
    with pytest.raises(InputError, match="unknown criterion"):
        Selector(DOMAIN, criterion="mean").fit(dummies(2))
