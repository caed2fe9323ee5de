"""Disagreement seen in samples, against plain loops and against what is true."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from random_networks import dense_network
from small_subjects import small_subject

from karenina import Box, Domain
from karenina.distance import distance
from karenina.errors import InputError
from karenina.experiments.populations import Subject, subject
from karenina.experiments.sampling import sampled_tables
from karenina.experiments.tables import UNIT, measure_table


def random_subject(outputs: int, name: str) -> Subject:
    networks = tuple(dense_network(np.random.default_rng(k), (2, 6, outputs)) for k in range(4))
    boxes = [Box([-1.0, -1.0], [0.0, 1.0]), Box([0.5, -1.0], [2.0, 1.0])]
    return replace(small_subject(), networks=networks, names=tuple("abcd"), domain=Domain(boxes), distance=name)


def looped(own: Subject, count: int, seed: int) -> np.ndarray:
    """The same samples, one by one, by the definitions of the distances."""
    rng = np.random.default_rng(seed)
    boxes = [np.random.default_rng(rng.integers(2**63)) for _ in own.domain.boxes]
    metric, size = distance(own.distance), len(own.networks)
    tables = []
    for box, generator in zip(own.domain.boxes, boxes, strict=True):
        points = box.sample(count, generator)
        table = np.zeros((size, size))
        for i, j in itertools.combinations(range(size), 2):
            outputs = [(own.networks[i](x), own.networks[j](x)) for x in points]
            if own.distance == "c-distance":
                signs = [[(a, b) for a, b in outputs if (s * a >= 0).all() and (s * b >= 0).all()] for s in (1, -1)]
                value = min(max((metric(a, b) for a, b in sign), default=0.0) for sign in signs)
            elif own.distance == "class":
                apart = [metric(a, b) for a, b in outputs if a.argmax() != b.argmax()]
                value = max(apart, default=0.0)
            else:
                value = max(metric(a, b) for a, b in outputs)
            table[i, j] = table[j, i] = value
        tables.append(table)
    return np.asarray(np.maximum.reduce(tables))


@pytest.mark.parametrize(
    ("name", "outputs"), [("l1", 1), ("l1", 2), ("linf", 2), ("c-distance", 1), ("c-distance", 2), ("class", 3)]
)
def test_samples_are_counted_as_the_distance_says(name: str, outputs: int) -> None:
    own = random_subject(outputs, name)
    (found,) = sampled_tables(own, [120], seed=3)
    np.testing.assert_allclose(found * UNIT, looped(own, 60, 3), atol=2 * UNIT)


def test_more_samples_see_more() -> None:
    few, some, many = sampled_tables(random_subject(1, "l1"), [10, 100, 1000])
    assert (few <= some).all()
    assert (some <= many).all()
    assert (few < many).any()


def test_samples_see_no_more_than_is_true() -> None:
    own = small_subject()
    (found,) = sampled_tables(own, [1000])
    true = measure_table(own, 1e-4)
    assert (found <= true.upper).all()
    assert (found >= 0.99 * true.lower).all()  # lines are easy


def test_samples_of_shipped_policies_see_no_more_than_is_true() -> None:
    whole = subject("cartpole")
    own = replace(whole, networks=whole.networks[:4], names=whole.names[:4])
    (found,) = sampled_tables(own, [2000])
    true = measure_table(own, 0.1)
    assert (found <= true.upper).all()
    assert found.max() > 0


def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(InputError, match="l2"):
        sampled_tables(replace(small_subject(), distance="l2"), [10])
