"""Failing cases made small: fewer networks, layers, neurons, inputs, boxes, rows, and rounder numbers.

Enters: a `Subject` and a test that it fails. Leaves: a smaller one that fails it too; greedily, within a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from fuzz_subjects import Subject, to_json

from karenina.domain import Box
from karenina.engine import Settings
from karenina.errors import KareninaError
from karenina.network import Layer, Network

__all__ = ["shrink"]

Item = TypeVar("Item")


def shrink(subject: Subject, fails: Callable[[Subject], bool], seconds: float) -> Subject:
    """The smallest case found in that time."""
    deadline, going = time.monotonic() + seconds, True
    while going:
        going = False
        for smaller in _smaller(subject):
            if time.monotonic() > deadline:
                return subject
            if to_json(smaller, "", "") != to_json(subject, "", "") and fails(smaller):
                subject, going = smaller, True
                break
    return subject


def _smaller(subject: Subject) -> Iterator[Subject]:
    """Cases with one thing less, the largest steps first; those that make no sense are left out."""
    for make in (_fewer_rows, _fewer_networks, _fewer_layers, _fewer_inputs, _fewer_neurons, _simpler, _rounder):
        steps = make(subject)
        while True:
            try:
                yield next(steps)
            except StopIteration:
                break
            except (KareninaError, ValueError, IndexError):
                break


def _fewer_rows(subject: Subject) -> Iterator[Subject]:
    if len(subject.boxes) > 1:
        for i in range(len(subject.boxes)):
            yield replace(subject, boxes=_without(subject.boxes, i))
    if len(subject.objectives) > 1:
        for i in range(len(subject.objectives)):
            yield replace(subject, objectives=_without(subject.objectives, i))
    for i in range(len(subject.constraint_offsets)):
        rows, offsets = (np.delete(a, i, 0) for a in (subject.constraints, subject.constraint_offsets))
        yield replace(subject, constraints=rows, constraint_offsets=offsets)


def _without(items: tuple[Item, ...], place: int) -> tuple[Item, ...]:
    return items[:place] + items[place + 1 :]


def _fewer_networks(subject: Subject) -> Iterator[Subject]:
    start = 0
    for i, network in enumerate(subject.networks):
        own = np.arange(start, start + network.output_size)
        start += network.output_size
        if len(subject.networks) > 1:
            yield replace(
                subject,
                networks=_without(subject.networks, i),
                objectives=tuple(np.delete(row, own) for row in subject.objectives),
                constraints=np.delete(subject.constraints, own, 1) if subject.constraints.size else subject.constraints,
            )


def _fewer_layers(subject: Subject) -> Iterator[Subject]:
    """Without a hidden layer, in all networks that have it, or in one."""
    deepest = max(len(network.layers) for network in subject.networks)
    for k in range(deepest - 1):
        yield _changed(subject, partial(_without_layer, k=k))
        for i in range(len(subject.networks)):
            yield _changed(subject, partial(_without_layer, k=k), i)


def _changed(subject: Subject, change: Callable[[Network], Network], only: int | None = None) -> Subject:
    networks = (change(n) if only in (None, i) else n for i, n in enumerate(subject.networks))
    return replace(subject, networks=tuple(networks))


def _without_layer(network: Network, k: int) -> Network:
    """What the layer above reads is cut, or filled with zeros, to what the layer below gives."""
    if k + 1 >= len(network.layers):
        return network
    layers = list(network.layers)
    gone, above = layers.pop(k), layers[k]
    size = gone.weight.shape[1]
    weight = np.zeros((len(above.bias), size))
    kept = min(size, above.weight.shape[1])
    weight[:, :kept] = above.weight.numpy()[:, :kept]
    layers[k] = Layer.of(weight, above.bias, above.activations)
    return Network(tuple(layers), network.name)


def _fewer_inputs(subject: Subject) -> Iterator[Subject]:
    size = subject.boxes[0].size
    for i in range(size if size > 1 else 0):
        boxes = tuple(Box(np.delete(box.lower, i), np.delete(box.upper, i)) for box in subject.boxes)
        yield replace(_changed(subject, partial(_without_input, i=i)), boxes=boxes)


def _without_input(network: Network, i: int) -> Network:
    first = network.layers[0]
    layer = Layer.of(np.delete(first.weight.numpy(), i, 1), first.bias, first.activations)
    return Network((layer, *network.layers[1:]), network.name)


def _fewer_neurons(subject: Subject) -> Iterator[Subject]:
    """Half of a hidden layer, then single neurons; in all networks, or in one."""
    for k in range(max(len(network.layers) for network in subject.networks) - 1):
        widths = [len(network.layers[k].bias) for network in subject.networks if k + 1 < len(network.layers)]
        for gone in (list(range(max(widths) // 2)), *([m] for m in range(max(widths)))):
            if gone:
                yield _changed(subject, partial(_without_neurons, k=k, gone=gone))
                if len(subject.networks) > 1:
                    for i in range(len(subject.networks)):
                        yield _changed(subject, partial(_without_neurons, k=k, gone=gone), i)


def _without_neurons(network: Network, k: int, gone: list[int]) -> Network:
    if k + 1 >= len(network.layers):
        return network
    layers = list(network.layers)
    layer, above = layers[k], layers[k + 1]
    kept = [m for m in range(len(layer.bias)) if m not in gone]
    if not kept:
        return network
    kinds = [activation for activation, count in layer.activations for _ in range(count)]
    layers[k] = Layer.of(layer.weight.numpy()[kept], layer.bias.numpy()[kept], tuple((kinds[m], 1) for m in kept))
    layers[k + 1] = Layer.of(above.weight.numpy()[:, kept], above.bias, above.activations)
    return Network(tuple(layers), network.name)


def _simpler(subject: Subject) -> Iterator[Subject]:
    """Ordinary settings, and no width where none is needed."""
    plain = Settings(threads=subject.settings.threads)
    if subject.settings != plain:
        yield replace(subject, settings=plain)
    for place, box in enumerate(subject.boxes):
        for i in np.flatnonzero(box.upper > box.lower):
            upper = box.upper.copy()
            upper[i] = box.lower[i]
            boxes = list(subject.boxes)
            boxes[place] = Box(box.lower, upper)
            yield replace(subject, boxes=tuple(boxes))


def _rounder(subject: Subject) -> Iterator[Subject]:
    """Numbers with few digits."""
    for digits in (0, 1, 3):
        yield _changed(subject, partial(_rounded, digits=digits))
        boxes = tuple(Box(np.round(box.lower, digits), np.round(box.upper, digits)) for box in subject.boxes)
        objectives = tuple(np.round(row, digits) for row in subject.objectives)
        yield from (replace(subject, boxes=boxes), replace(subject, objectives=objectives))


def _rounded(network: Network, digits: int) -> Network:
    layers = (
        Layer(w.weight.round(decimals=digits), w.bias.round(decimals=digits), w.activations) for w in network.layers
    )
    return Network(tuple(layers), network.name)
