"""Cases made from other cases, whose answers are bound by a law.

Enters: a `Subject`. Leaves: one whose maximum is the same, four times as large, or no larger, in real arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from fuzz_subjects import Subject

from karenina.domain import Box
from karenina.network import Layer, Network

__all__ = ["halved", "inner", "permuted", "reversed_order", "times_four"]

Array = npt.NDArray[np.float64]


def permuted(subject: Subject) -> Subject:
    """The neurons of every hidden layer in another order."""
    rng = subject.rng()
    return replace(subject, networks=tuple(_permuted(network, rng) for network in subject.networks))


def _permuted(network: Network, rng: np.random.Generator) -> Network:
    layers, order = [], np.arange(network.input_size)
    for k, layer in enumerate(network.layers):
        size = len(layer.bias)
        new = np.arange(size) if k + 1 == len(network.layers) else rng.permutation(size)
        kinds = [activation for activation, count in layer.activations for _ in range(count)]
        weight = layer.weight.numpy()[new][:, order]
        layers.append(Layer.of(weight, layer.bias.numpy()[new], tuple((kinds[i], 1) for i in new)))
        order = new
    return Network(tuple(layers), network.name)


def reversed_order(subject: Subject) -> Subject:
    """The last network first, and what is asked of each as before."""
    ends = np.cumsum([network.output_size for network in subject.networks])[:-1]

    def turned(row: Array) -> Array:
        return np.concatenate(np.split(row, ends)[::-1])

    rows = [turned(row) for row in subject.constraints]
    return replace(
        subject,
        networks=subject.networks[::-1],
        objectives=tuple(map(turned, subject.objectives)),
        constraints=np.array(rows).reshape(subject.constraints.shape),
    )


def times_four(subject: Subject) -> Subject:
    """Four times every output, exactly: in the last layer where that is affine, else in what is asked."""
    goal = replace(subject.goal, tolerance=4 * subject.goal.tolerance, ceiling=4 * subject.goal.ceiling)
    if all(network.layers[-1].is_affine for network in subject.networks):
        networks = tuple(_times_four(network) for network in subject.networks)
        return replace(subject, networks=networks, constraint_offsets=4 * subject.constraint_offsets, goal=goal)
    return replace(subject, objectives=tuple(4 * row for row in subject.objectives), goal=goal)


def _times_four(network: Network) -> Network:
    *hidden, last = network.layers
    return Network((*hidden, Layer(4 * last.weight, 4 * last.bias, last.activations)), network.name)


def inner(subject: Subject) -> Subject:
    """One box inside one of the boxes."""
    rng = subject.rng()
    box = subject.boxes[rng.integers(len(subject.boxes))]
    ends = np.clip(np.sort(rng.uniform(box.lower, box.upper, (2, box.size)), axis=0), box.lower, box.upper)
    return replace(subject, boxes=(Box(*ends),))


def halved(subject: Subject) -> Subject:
    """Every box as its two halves along some side."""
    rng, halves = subject.rng(), []
    for box in subject.boxes:
        axis = int(rng.integers(box.size))
        middle = box.lower[axis] / 2 + box.upper[axis] / 2
        middle = min(max(middle, box.lower[axis]), box.upper[axis])
        below, above = box.upper.copy(), box.lower.copy()
        below[axis] = above[axis] = middle
        halves += [Box(box.lower, below), Box(above, box.upper)]
    return replace(subject, boxes=tuple(halves))
