"""Rounding: how far a linear bound computed in float64 may lie from the real-valued one.

Enters: a joint network and the root box. Leaves: `Rounding`, error constants that hold for every
bound on every sub-box, with every slope in its range, in any order of summation, with or without
fused multiply-add. The proof is in docs/soundness.md; in short, a bound's coefficients never exceed
the products of |weights| and Lipschitz constants, so its rounding error is bounded once, at the
root, and costs nothing in the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from karenina.engine.joint import Joint
from karenina.network import Layer

__all__ = ["Rounding"]

Tensor = torch.Tensor
UNIT = 2.0**-53
LEAST = 2.0**-1074
SAFETY = 4.0  # second-order terms, and the rounding of this analysis itself
LINE = 16.0  # units in the last place for a relaxation's lines, elementary functions included
LARGEST = 2.0**1000  # beyond, the width of a range, or twice its middle, may overflow


@lru_cache(maxsize=16)
def _kept(
    joint: Joint, lower: tuple[float, ...], upper: tuple[float, ...], device: torch.device, near: bool
) -> Rounding:
    """One joint network is often asked about on the same box several times in a row."""
    low, high = (torch.tensor(side, dtype=torch.float64, device=device) for side in (lower, upper))
    return Rounding._near(joint, low, high) if near else Rounding._of(joint, low, high, joint.stack)


@dataclass(frozen=True, eq=False)
class Rounding:
    """Error of a bound that starts with coefficient 1 on a pre-activation (S, 1, n) or an output (outputs,)."""

    hidden: tuple[Tensor, ...]
    outputs: Tensor
    magnitude: Tensor  # |output| over the root box, (outputs,)
    underflow: float  # what products too small for float64 may add up to, whatever the coefficients are

    @classmethod
    def of(cls, joint: Joint, lower: Tensor, upper: Tensor, *, near: bool = False) -> Rounding:
        """Constants for every box inside [lower, upper] (inputs,); near: for bounds by differences of neurons."""
        return _kept(joint, tuple(lower.tolist()), tuple(upper.tolist()), lower.device, near)

    @classmethod
    def of_each(cls, joint: Joint, lower: Tensor, upper: Tensor, stack: int) -> Rounding:
        """Of any number of networks, for queries that join `stack` of them."""
        return cls._of(joint, lower, upper, stack)

    @classmethod
    def _near(cls, joint: Joint, lower: Tensor, upper: Tensor) -> Rounding:
        """A difference moves coefficients from one network to the other: at most |c| + 3 |d| in all, times a slope.

        So a network at least as large as both, weight by weight, has coefficients at least as large, but for a factor
        3 a layer; 4 leaves room for the few operations more.
        """
        weights, biases = (
            tuple(t.abs().amax(0, keepdim=True) for t in tensors) for tensors in (joint.weights, joint.biases)
        )
        single = cls._of(Joint(weights, biases, joint.kinds), lower, upper, joint.stack)
        hidden = tuple((4.0**k * error).expand(joint.stack, -1, -1) for k, error in enumerate(single.hidden))
        outputs = 4.0**joint.depth * single.outputs
        magnitude, underflow = single.magnitude.repeat(joint.stack), 4.0**joint.depth * single.underflow
        return cls(hidden, outputs.repeat(joint.stack), magnitude, underflow)

    @classmethod
    def _of(cls, joint: Joint, lower: Tensor, upper: Tensor, stack: int) -> Rounding:
        size = torch.maximum(lower.abs(), upper.abs()).expand(joint.stack, 1, -1)  # |what the layer reads|
        carried = torch.full_like(size, 2 * LEAST)  # error already there (a box's middle), and of the lines
        underflow = torch.zeros_like(size[..., :1])  # a coefficient may be off by the least number there is
        off = SAFETY * (stack * max(weight.shape[2] for weight in joint.weights) + 2 * joint.depth + LINE) * LEAST
        errors = []
        for k, (weight, bias) in enumerate(zip(joint.weights, joint.biases, strict=True)):
            absolute = weight.abs().mT
            gamma = SAFETY * (stack * weight.shape[2] + 2 * joint.depth + LINE) * UNIT
            underflow = underflow + off * (1 + size.sum(-1, keepdim=True) + bias.abs().sum(-1, keepdim=True))
            error = carried @ absolute + gamma * (size @ absolute + bias.abs()) + underflow
            reach = size @ absolute + bias.abs() + error
            error = torch.where((reach <= LARGEST) & (size <= LARGEST).all(), error, torch.inf)
            errors.append(error)
            if k < joint.depth:
                lipschitz, size = _grow(joint.kinds[k], reach)
                carried = lipschitz * error + gamma * (size + lipschitz * reach)
        flat = (errors[-1].squeeze(1).flatten(), reach.squeeze(1).flatten())
        total = stack * float(underflow.max() + off * (1 + reach.sum(-1).max()))
        return cls(tuple(errors[:-1]), *flat, total)

    @property
    def finite(self) -> bool:
        return bool(torch.isfinite(self.outputs).all()) and all(bool(torch.isfinite(e).all()) for e in self.hidden)


def _grow(kind: Layer, reach: Tensor) -> tuple[Tensor, Tensor]:
    """Lipschitz constants of a layer's neurons, and how large |activation| and its lines' points can be."""
    constants, offsets = [], []
    for activation, count in kind.activations:
        at_zero = activation(torch.zeros(1, dtype=torch.float64)).abs().item()
        points = max(map(abs, activation.parameters), default=0.0) if activation.name == "clip" else 0.0
        constants += [activation.lipschitz] * count
        offsets += [at_zero + points] * count
    lipschitz = torch.tensor(constants, dtype=reach.dtype, device=reach.device)
    return lipschitz, lipschitz * reach + torch.tensor(offsets, dtype=reach.dtype, device=reach.device)
