"""From activations that read each other freely to the chain of layers that a `Network` is.

Enters: groups of neurons, each with the atoms it reads, and the output. Leaves: layers that compute the output.
A layer holds the groups of one level; identity neurons carry what is read further on, so residual connections
and parallel branches become chains too. No weight is rounded on the way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karenina.loading.affine import LARGEST, Affine, Integers, Rows, check_size
from karenina.network import IDENTITY, Activation, Layer

__all__ = ["Group", "chain", "level_of"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons of one activation: atoms first, first + 1, ... are activation(rows @ atoms + bias)."""

    rows: Rows
    bias: Array  # (neurons,)
    activation: Activation
    level: int
    first: int


def level_of(rows: Rows, levels: Integers) -> int:
    """One more than the highest level the rows read; the network's inputs have level 0."""
    return 1 + int(levels[rows.columns].max(initial=0))


def chain(groups: Sequence[Group], levels: Integers, output: Affine) -> tuple[Layer, ...]:
    """The layers that compute `output`, flattened; `levels` are those of all atoms, inputs first."""
    final = Group(output.rows, output.bias, IDENTITY, level_of(output.rows, levels), len(levels))
    inputs = groups[0].first if groups else len(levels)
    needed = _needed(groups, final.rows, len(levels))
    if not _only_selects(output, levels):
        needed.append(final)
        levels = np.concatenate([levels, np.full(len(final.bias), final.level)])
        return tuple(_assembled(*_with_carried_sums(needed, levels), inputs)[0])
    layers, position = _assembled(*_with_carried_sums(needed, levels), inputs)
    return (*layers[:-1], _chosen(layers[-1], position[output.rows.columns]))


def _only_selects(output: Affine, levels: Integers) -> bool:
    """Whether every output is an atom of the last level, so that the network ends in an activation."""
    read = levels[output.rows.columns]
    return bool(output.is_atoms and (output.rows.lengths == 1).all() and read.min() > 0 and (read == read[0]).all())


def _needed(groups: Sequence[Group], rows: Rows, atoms: int) -> list[Group]:
    """The groups that the rows read, directly or through others, in their order."""
    read = np.zeros(atoms, bool)
    read[rows.columns] = True
    kept = []
    for group in reversed(groups):
        if read[group.first : group.first + len(group.bias)].any():
            read[group.rows.columns] = True
            kept.append(group)
    return kept[::-1]


def _with_carried_sums(groups: list[Group], levels: Integers) -> tuple[list[Group], Integers]:
    """Carry a few sums in place of many atoms.

    Where a group reads values from before the previous layer, these have to be carried to it. If its sums over
    them are fewer than the values, the sums are computed first, by identity neurons.
    """
    groups = list(groups)
    for level in range(max((group.level for group in groups), default=0), 1, -1):
        for k, group in enumerate(groups):
            if group.level != level:
                continue
            early = levels[group.rows.columns] < level - 1
            rows = np.unique(group.rows.row[early])
            if len(rows) < len(np.unique(group.rows.columns[early])):
                groups[k], sums = _split(group, early, rows, levels)
                groups.append(sums)
                levels = np.concatenate([levels, np.full(len(rows), sums.level)])
    return groups, levels


def _split(group: Group, early: npt.NDArray[np.bool_], rows: Integers, levels: Integers) -> tuple[Group, Group]:
    """The group with its early entries replaced by one atom a row, and the identity neurons those atoms are."""
    part = group.rows.kept(early).take(rows)
    sums = Group(part, np.zeros(len(rows)), IDENTITY, level_of(part, levels), len(levels))
    atoms = Rows.of(rows, sums.first + np.arange(len(rows)), np.ones(len(rows)), len(group.rows))
    return replace(group, rows=group.rows.kept(~early).plus(atoms)), sums


def _assembled(groups: list[Group], levels: Integers, inputs: int) -> tuple[list[Layer], Integers]:
    """The layers, and where in the last one every atom is (-1: nowhere)."""
    position = np.full(len(levels), -1)
    position[:inputs] = np.arange(inputs)
    layers: list[Layer] = []
    width = inputs
    for members, carried in _planned(groups, levels, inputs):
        layers.append(_layer(members, carried, position, width))
        atoms = np.concatenate([*(group.first + np.arange(len(group.bias)) for group in members), carried])
        position = np.full(len(levels), -1)
        position[atoms] = np.arange(len(atoms))
        width = len(atoms)
    return layers, position


def _planned(groups: list[Group], levels: Integers, inputs: int) -> list[tuple[list[Group], Integers]]:
    """For every layer its groups and the atoms it carries; refused, before any is built, if they are too large."""
    needed_until = np.zeros(len(levels), np.int64)
    by_level: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        np.maximum.at(needed_until, group.rows.columns, group.level - 1)
        by_level[group.level].append(group)
    plan, width, held, carrying = [], inputs, 0, 0
    for level in range(1, max(by_level, default=0) + 1):
        members = by_level[level]
        carried = np.flatnonzero((levels < level) & (needed_until >= level))
        neurons = sum(len(group.bias) for group in members) + len(carried)
        held, carrying, width = held + width * neurons, carrying + width * len(carried), neurons
        check_size(held // 2)  # of all layers together
        check_size(carrying, most=LARGEST // 2)  # what is carried far is in every one of them, at no cost to the file
        plan.append((members, carried))
    return plan


def _layer(members: list[Group], carried: Integers, position: Integers, width: int) -> Layer:
    """The members' neurons, then identity neurons for the carried atoms."""
    rows = Rows.stack([*(group.rows for group in members), Rows.units(carried)])
    check_size(len(rows), width)
    weight = np.zeros((len(rows), width))
    weight[rows.row, position[rows.columns]] = rows.values
    bias = np.concatenate([*(group.bias for group in members), np.zeros(len(carried))])
    runs = tuple((group.activation, len(group.bias)) for group in members)
    return Layer.of(weight, bias, (*runs, (IDENTITY, len(carried))))


def _chosen(layer: Layer, neurons: Integers) -> Layer:
    """A layer with only these neurons, in this order."""
    if np.array_equal(neurons, np.arange(len(layer.bias))):
        return layer
    kinds = [activation for activation, count in layer.activations for _ in range(count)]
    runs = tuple((kinds[neuron], 1) for neuron in neurons)
    return Layer.of(layer.weight[neurons], layer.bias[neurons], runs)
