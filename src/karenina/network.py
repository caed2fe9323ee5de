"""Networks as the engine sees them: a chain of affine maps and elementwise activations, in float64.

Enters: weights, biases and activations, from a loader or by hand. Leaves: a `Network` that can be
evaluated on CPU or GPU, joined with another on a shared input, and written to ONNX.

Neurons of one layer may have different activations. Identity neurons carry a value past a layer,
so every acyclic graph of affine maps and activations has a chain, and so has `[N1; N2]` when N1 is
deeper than N2.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
import torch

from karenina.errors import InputError

__all__ = ["ACTIVATIONS", "IDENTITY", "RELU", "Activation", "Layer", "Network", "append", "concatenate"]

Array = npt.NDArray[np.float64]

# Name -> the parameters it takes, in order.
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "identity": (),
    "relu": (),
    "leaky_relu": ("slope",),
    "abs": (),
    "clip": ("low", "high"),
    "elu": ("alpha",),
    "tanh": (),
    "sigmoid": (),
    "softplus": (),
}
_PIECEWISE_LINEAR = {"identity", "relu", "leaky_relu", "abs", "clip"}


@dataclass(frozen=True)
class Activation:
    """An elementwise function, by name and parameters: `Activation("leaky_relu", (0.01,))`."""

    name: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        expected = ACTIVATIONS.get(self.name)
        if expected is None:
            raise InputError(f"unknown activation {self.name!r}; known: {', '.join(sorted(ACTIVATIONS))}")
        if len(self.parameters) != len(expected) or not all(map(math.isfinite, self.parameters)):
            raise InputError(
                f"activation {self.name} takes {len(expected)} finite parameters {expected}, not {self.parameters}"
            )
        if self.name == "clip" and self.parameters[0] >= self.parameters[1]:
            raise InputError(f"activation clip needs low < high, not {self.parameters}")
        if self.name == "elu" and self.parameters[0] < 0:
            raise InputError(f"activation elu needs alpha >= 0, not {self.parameters[0]}")

    @property
    def piecewise_linear(self) -> bool:
        return self.name in _PIECEWISE_LINEAR

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where the derivative jumps."""
        match self.name:
            case "relu" | "leaky_relu" | "abs" | "elu":
                return (0.0,)
            case "clip":
                return self.parameters
        return ()

    @property
    def slopes(self) -> tuple[float, float]:
        """The smallest and the largest derivative anywhere: every sound relaxation's slope lies between."""
        match self.name:
            case "identity":
                return 1.0, 1.0
            case "leaky_relu":
                return min(1.0, self.parameters[0]), max(1.0, self.parameters[0])
            case "abs":
                return -1.0, 1.0
            case "elu":
                return 0.0, max(1.0, self.parameters[0])
            case "sigmoid":
                return 0.0, 0.25
        return 0.0, 1.0

    @property
    def lipschitz(self) -> float:
        return max(map(abs, self.slopes))

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        match self.name:
            case "relu":
                return z.clamp(min=0)
            case "leaky_relu":
                return torch.where(z >= 0, z, z * self.parameters[0])
            case "abs":
                return z.abs()
            case "clip":
                return z.clamp(*self.parameters)
            case "elu":
                return torch.where(z >= 0, z, self.parameters[0] * torch.expm1(z.clamp(max=0)))
            case "tanh":
                return torch.tanh(z)
            case "sigmoid":
                return torch.sigmoid(z)
            case "softplus":  # without the overflow of log(1 + exp(z)), and exact to rounding for large |z|
                return z.clamp(min=0) + torch.log1p(torch.exp(-z.abs()))
        return z

    def derivative(self, z: torch.Tensor) -> torch.Tensor:
        """The derivative at z; at a kink, one of its one-sided derivatives."""
        match self.name:
            case "relu":
                return (z > 0).to(z.dtype)
            case "leaky_relu":
                return torch.where(z > 0, torch.ones_like(z), self.parameters[0])  # two numbers would be float32
            case "abs":
                return torch.where(z > 0, 1.0, -1.0).to(z.dtype)
            case "clip":
                low, high = self.parameters
                return ((z > low) & (z < high)).to(z.dtype)
            case "elu":
                return torch.where(z > 0, 1.0, self.parameters[0] * torch.exp(z.clamp(max=0)))
            case "tanh":
                return 1 - torch.tanh(z).square()
            case "sigmoid":
                return torch.sigmoid(z) * torch.sigmoid(-z)
            case "softplus":
                return torch.sigmoid(z)
        return torch.ones_like(z)

    def __str__(self) -> str:
        return self.name + (str(self.parameters) if self.parameters else "")


IDENTITY = Activation("identity")
RELU = Activation("relu")

# Runs of neurons with one activation, in order: ((RELU, 32), (IDENTITY, 2)).
Activations = tuple[tuple[Activation, int], ...]


def _merged(activations: Activations) -> Activations:
    """Neighbouring runs of one activation joined, empty runs dropped."""
    runs: list[tuple[Activation, int]] = []
    for activation, count in activations:
        if runs and runs[-1][0] == activation:
            runs[-1] = (activation, runs[-1][1] + count)
        elif count:
            runs.append((activation, count))
    return tuple(runs)


@dataclass(frozen=True, eq=False)
class Layer:
    """h -> activation(weight @ h + bias)."""

    weight: torch.Tensor  # (out, in)
    bias: torch.Tensor  # (out,)
    activations: Activations

    @classmethod
    def of(
        cls,
        weight: npt.ArrayLike | torch.Tensor,
        bias: npt.ArrayLike | torch.Tensor,
        activation: Activation | Activations = IDENTITY,
    ) -> Layer:
        """A layer from anything array-like; one activation stands for all neurons."""
        w = torch.as_tensor(
            np.asarray(weight, dtype=np.float64) if not isinstance(weight, torch.Tensor) else weight
        ).to(torch.float64)
        b = torch.as_tensor(np.asarray(bias, dtype=np.float64) if not isinstance(bias, torch.Tensor) else bias).to(
            torch.float64
        )
        runs = ((activation, len(b)),) if isinstance(activation, Activation) else activation
        return cls(w.detach().contiguous(), b.detach().contiguous(), _merged(runs))

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1]:
            shapes = f"{tuple(self.weight.shape)} and {tuple(self.bias.shape)}"
            raise InputError(f"a layer's weight is (out, in) and its bias (out,), not {shapes}")
        if sum(count for _, count in self.activations) != len(self.bias):
            raise InputError(
                f"a layer of {len(self.bias)} neurons has activations for {sum(c for _, c in self.activations)}"
            )
        if not (torch.isfinite(self.weight).all() and torch.isfinite(self.bias).all()):
            raise InputError("a layer's weights hold NaN or infinity")

    @property
    def is_affine(self) -> bool:
        return all(activation == IDENTITY for activation, _ in self.activations)

    def activate(self, z: torch.Tensor) -> torch.Tensor:
        """The activations applied to pre-activations z of shape (..., out)."""
        if len(self.activations) == 1:
            return self.activations[0][0](z)
        parts = torch.split(z, [count for _, count in self.activations], dim=-1)
        return torch.cat(
            [activation(part) for (activation, _), part in zip(self.activations, parts, strict=True)], dim=-1
        )

    def derivative(self, z: torch.Tensor) -> torch.Tensor:
        """The activations' derivatives at pre-activations z of shape (..., out)."""
        if len(self.activations) == 1:
            return self.activations[0][0].derivative(z)
        parts = torch.split(z, [count for _, count in self.activations], dim=-1)
        return torch.cat(
            [activation.derivative(part) for (activation, _), part in zip(self.activations, parts, strict=True)], dim=-1
        )

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        return self.activate(h @ self.weight.T + self.bias)


def _then(first: Layer, second: Layer) -> Layer:
    """An affine layer and the one after it, as one layer."""
    return Layer(second.weight @ first.weight, second.weight @ first.bias + second.bias, second.activations)


@dataclass(frozen=True, eq=False)
class Network:
    """A chain of layers. Call it on an array or a tensor of shape (..., inputs)."""

    layers: tuple[Layer, ...]
    name: str = "network"
    notes: tuple[str, ...] = field(default=())  # what a loader did that a user should know

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"{self.name}: a network needs at least one layer")
        for k, (a, b) in enumerate(zip(self.layers, self.layers[1:], strict=False)):
            if b.weight.shape[1] != len(a.bias):
                sizes = f"layer {k} has {len(a.bias)} outputs but layer {k + 1} takes {b.weight.shape[1]} inputs"
                raise InputError(f"{self.name}: {sizes}")

    @property
    def input_size(self) -> int:
        return self.layers[0].weight.shape[1]

    @property
    def output_size(self) -> int:
        return len(self.layers[-1].bias)

    @property
    def piecewise_linear(self) -> bool:
        return all(activation.piecewise_linear for layer in self.layers for activation, _ in layer.activations)

    @property
    def shape(self) -> str:
        """Sizes as the field writes them: 30-32-16-1."""
        return "-".join(str(n) for n in (self.input_size, *(len(layer.bias) for layer in self.layers)))

    @overload
    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, x: npt.ArrayLike) -> Array: ...
    def __call__(self, x: torch.Tensor | npt.ArrayLike) -> torch.Tensor | Array:
        if not isinstance(x, torch.Tensor):
            h = torch.as_tensor(np.asarray(x, dtype=np.float64), device=self.layers[0].weight.device)
            result: Array = self(h).cpu().numpy()
            return result
        if x.shape[-1] != self.input_size:
            raise InputError(f"{self.name} takes {self.input_size} inputs, not {x.shape[-1]}")
        for layer in self.layers:
            x = layer(x)
        return x

    def to(self, device: str | torch.device) -> Network:
        """The same network with its weights on another device."""
        layers = tuple(
            Layer(layer.weight.to(device), layer.bias.to(device), layer.activations) for layer in self.layers
        )
        return Network(layers, self.name, self.notes)

    def named(self, name: str) -> Network:
        return Network(self.layers, name, self.notes)

    def simplified(self) -> Network:
        """The same function with neighbouring affine layers multiplied together, in float64.

        The product is rounded, so the engine never does this by itself: what it proves is about the
        network it was given.
        """
        layers: list[Layer] = []
        for layer in self.layers:
            if layers and layers[-1].is_affine:
                layer = _then(layers.pop(), layer)
            layers.append(layer)
        return Network(tuple(layers), self.name, self.notes)

    def digest(self) -> str:
        """A hash of what the network computes: weights and activations, not its name or file."""
        sha = hashlib.sha256()
        for layer in self.layers:
            sha.update(repr((tuple(layer.weight.shape), layer.activations)).encode())
            sha.update((layer.weight + 0.0).cpu().numpy().tobytes())  # -0.0 computes what 0.0 does
            sha.update((layer.bias + 0.0).cpu().numpy().tobytes())
        return sha.hexdigest()

    def to_onnx(self, path: str | Path) -> None:
        """Write an ONNX file (float64 where the weights need it, float32 where they fit exactly)."""
        from karenina.onnx_writer import save_onnx

        save_onnx(self, path)

    def __str__(self) -> str:
        kinds = dict.fromkeys(
            activation.name for layer in self.layers for activation, _ in layer.activations if activation != IDENTITY
        )
        return f"{self.name} ({self.shape}, {', '.join(kinds) or 'affine'})"


def _carry(size: int, like: Layer) -> Layer:
    """An identity layer of `size` neurons."""
    return Layer(
        torch.eye(size, dtype=torch.float64, device=like.weight.device),
        torch.zeros(size, dtype=torch.float64, device=like.weight.device),
        ((IDENTITY, size),),
    )


def _block_diagonal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """[[a, 0], [0, b]]."""
    joined = a.new_zeros(a.shape[0] + b.shape[0], a.shape[1] + b.shape[1])
    joined[: a.shape[0], : a.shape[1]] = a
    joined[a.shape[0] :, a.shape[1] :] = b
    return joined


def concatenate(first: Network, second: Network, name: str | None = None) -> Network:
    """The paper's [N1; N2]: one network on a shared input whose outputs are N1's, then N2's.

    The shallower network is carried along by identity neurons at its end.
    """
    if first.input_size != second.input_size:
        sizes = f"{first.name} takes {first.input_size} inputs and {second.name} takes {second.input_size}"
        raise InputError(f"{sizes}: they cannot share an input")
    depth = max(len(first.layers), len(second.layers))
    chains = [[*n.layers, *[_carry(n.output_size, n.layers[0])] * (depth - len(n.layers))] for n in (first, second)]
    layers = []
    for k, (a, b) in enumerate(zip(*chains, strict=True)):
        weight = torch.cat([a.weight, b.weight]) if k == 0 else _block_diagonal(a.weight, b.weight)
        layers.append(Layer(weight, torch.cat([a.bias, b.bias]), _merged(a.activations + b.activations)))
    return Network(tuple(layers), name or f"[{first.name}; {second.name}]", first.notes + second.notes)


def append(network: Network, layers: Sequence[Layer], name: str | None = None) -> Network:
    """The network with more layers at its end."""
    return Network((*network.layers, *layers), name or network.name, network.notes)
