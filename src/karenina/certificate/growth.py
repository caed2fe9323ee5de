"""A proof's tree, grown by the engine's compiled code: node by node, in memory, in the order it was found.

Enters: a question of the checker's, and networks. Leaves: a `Tree` whose leaves, so the engine says, are all at most
the claim. It is not believed: `proof` lets the checker's own arithmetic look at every node, and has those it refuses
grown further.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from karenina.checker.chain import Chain
from karenina.checker.reading import COARSE, coarse_neurons
from karenina.checker.tree import CUT, FINE, LEAF, SPLIT, Question
from karenina.domain import Box
from karenina.engine.cases import Cases
from karenina.engine.joint import Joint, architecture
from karenina.engine.packed import OPEN, Proving, Record
from karenina.engine.packing import pack_question, pack_weights
from karenina.engine.settings import Settings
from karenina.errors import KareninaError
from karenina.network import Activation, Layer, Network
from karenina.query import Case, Query

__all__ = ["Grower", "NotProven", "Tree", "chain_of", "network_of"]

Array = npt.NDArray[np.float64]
CHUNK = 4096  # nodes that the engine grows between two looks at the clock
MOST_NODES = 1 << 24
EASY = 6  # loose neurons so few that linear programmes always pay
LONG = 1 << 12  # nodes of a tree under constraints from which on linear programmes are worth more of the time
BELOW = 1e-7  # how far below the claim, relative to the interval, the engine aims: the checker rounds differently
CPU = torch.device("cpu")
Waiting = tuple[int, Array, Array, Array | None, Array | None]  # a node, its box, slopes and multipliers to begin with


class NotProven(KareninaError):
    """The interval is right as far as the engine knows, but no proof was found in the time given."""


def chain_of(network: Network) -> Chain:
    """A network as the checker sees it."""
    from karenina.checker.activations import Kind
    from karenina.checker.chain import Layer as CheckedLayer

    layers = []
    for layer in network.layers:
        ends = np.cumsum([count for _, count in layer.activations]).tolist()
        runs = tuple(
            (Kind(a.name, a.parameters), end - count, end)
            for (a, count), end in zip(layer.activations, ends, strict=True)
        )
        layers.append(CheckedLayer(layer.weight.numpy() + 0.0, layer.bias.numpy() + 0.0, runs))
    return Chain(tuple(layers))


def network_of(chain: Chain) -> Network:
    """And back."""
    return Network(
        tuple(
            Layer.of(
                layer.weight,
                layer.bias,
                tuple((Activation(kind.name, kind.parameters), end - start) for kind, start, end in layer.runs),
            )
            for layer in chain.layers
        )
    )


@dataclass
class Tree:
    """Nodes by number; the root is 0. Slopes of coarse nodes are steps of 1/255."""

    kinds: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    coarse: dict[int, tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]] = field(default_factory=dict)
    fine: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict)

    def add(self) -> int:
        """One more node, not looked at yet."""
        for column, value in ((self.kinds, OPEN), (self.axes, 0), (self.children, -1)):
            column.append(value)
        return len(self.kinds) - 1


class Grower:
    """Grows trees for the questions of one pair."""

    def __init__(self, chain: Chain, networks: tuple[Network, Network], deadline: float) -> None:
        self._chain, self._deadline, self._settings = chain, deadline, Settings()
        stacked = [len(layer.bias) for layer in chain.layers] == [
            len(a.bias) + len(b.bias) for a, b in zip(networks[0].layers, networks[1].layers, strict=False)
        ] and architecture(networks[0].layers) == architecture(networks[1].layers)
        self._networks = networks if stacked else (network_of(chain),)
        self._places, self._left, self._right = coarse_neurons(chain)
        self._neurons = sum(len(layer.bias) for layer in chain.layers)

    def prepare(self, question: Question, lower: float) -> None:
        """Take up a question; `lower` is a value that is attained."""
        goal = question.goal
        box = Box(question.lower, question.upper)
        case = Case(box, goal.objective, 0.0, goal.rows, goal.offsets)
        query = Query(self._networks, (case,))
        joint = Joint.plain(query.networks, CPU)
        cases, rounding = Cases.of(query, joint, CPU)
        self._net, self._ask = pack_weights(joint, rounding), pack_question(cases, False)
        margin = max(BELOW * (question.claim - lower), 1e-13 * abs(question.claim))
        self._target = question.claim - margin
        self._aim = (self._target + min(lower, self._target)) / 2
        if goal.rows.shape[0] or not lower > 0:
            self._aim = self._target - max(1e-6 * abs(self._target), margin)

    def grow(self, tree: Tree, seeds: list[tuple[int, Array, Array]]) -> None:
        """Close nodes of the tree, given with their boxes, and all that comes of them."""
        from karenina.engine.record import new_record, record

        waiting: list[Waiting] = [(node, lower, upper, None, None) for node, lower, upper in reversed(seeds)]
        while waiting:
            if time.perf_counter() > self._deadline or len(tree.kinds) > MOST_NODES:
                raise NotProven(f"no proof was found in the time, or of the size, allowed ({len(tree.kinds)} nodes)")
            batch = [waiting.pop() for _ in range(min(len(waiting), CHUNK // 4))]
            rec = new_record(self._net, self._ask, CHUNK)
            for place, (_, lower, upper, slopes, multipliers) in enumerate(batch):
                rec.lower[place], rec.upper[place] = lower, upper
                if slopes is not None:
                    rec.slopes[place], rec.multipliers[place] = slopes, multipliers
            rec.filled[0] = len(batch)
            settings = self._settings
            loose = settings.settled if len(tree.kinds) > LONG and self._ask.rows.shape[1] else EASY
            plan = Proving(self._target, self._aim, settings.steps, loose, settings.programmes)
            if not record(self._net, self._ask, 0, plan, rec):
                raise NotProven("a box can neither be proven nor be halved: its bounds are beyond float64")
            opened = self._take(tree, rec, [node for node, *_ in batch])
            waiting += reversed(opened)

    def _take(self, tree: Tree, rec: Record, known: list[int]) -> list[Waiting]:
        """Copy what was recorded into the tree; the nodes that are still open."""
        numbers = known + [tree.add() for _ in range(len(known), int(rec.filled[0]))]
        opened: list[Waiting] = []
        steps = self._steps(rec.slopes[: len(numbers)])
        for place, number in enumerate(numbers):
            kind = int(rec.kinds[place])
            tree.kinds[number] = kind
            if kind in (SPLIT, CUT):
                tree.axes[number] = int(rec.axes[place])
                tree.children[number] = numbers[rec.children[place]]
            if kind in (CUT, LEAF):
                tree.coarse[number] = steps[place].copy(), rec.multipliers[place].astype(np.float32)
            elif kind == FINE:
                hidden = rec.slopes.shape[1]
                slopes, coefficients = np.full((2, self._neurons), np.nan)
                slopes[:hidden], coefficients[:hidden] = rec.slopes[place], rec.coefficients[place]
                tree.fine[number] = slopes, coefficients, rec.multipliers[place].copy()
            elif kind == OPEN:
                lower, upper = rec.lower[place].copy(), rec.upper[place].copy()
                opened.append((number, lower, upper, rec.slopes[place].copy(), rec.multipliers[place].copy()))
        return opened

    def _steps(self, slopes: Array) -> npt.NDArray[np.uint8]:
        """Slopes (nodes, hidden neurons) as coarse steps (nodes, coarse neurons)."""
        with np.errstate(all="ignore"):
            share = (slopes[:, self._places] - self._left) / (self._right - self._left)
        steps: npt.NDArray[np.uint8] = np.rint(COARSE * np.clip(np.nan_to_num(share), 0.0, 1.0)).astype(np.uint8)
        return steps
