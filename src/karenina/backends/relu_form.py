"""A query's networks as one chain of ReLU and identity neurons, which is all the outside solvers see.

Enters: networks on a shared input, all piecewise linear. Leaves: a `ReluForm`, which computes the same
outputs up to float64 rounding. LeakyReLU(z) is slope z + (1 - slope) relu(z), |z| is 2 relu(z) - z, and
clip(z) is low + relu(z - low) - relu(z - high); the weights after the activation take up the factors.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.network import Activation, Layer, Network, concatenate

__all__ = ["ReluForm", "ReluLayer", "relu_form"]

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ReluLayer:
    """h -> relu(weight @ h + bias) where `relu` is set, weight @ h + bias elsewhere."""

    weight: Array  # (out, in)
    bias: Array  # (out,)
    relu: Mask  # (out,)


@dataclass(frozen=True, eq=False)
class ReluForm:
    """Hidden layers, then outputs = weight @ h + bias."""

    layers: tuple[ReluLayer, ...]
    weight: Array  # (outputs, last hidden)
    bias: Array  # (outputs,)

    def __call__(self, x: Array) -> Array:
        h = x
        for layer in self.layers:
            z = h @ layer.weight.T + layer.bias
            h = np.where(layer.relu, np.maximum(z, 0.0), z)
        outputs: Array = h @ self.weight.T + self.bias
        return outputs


@dataclass(frozen=True)
class _Piece:
    """One neuron of the ReLU form: relu(z - shift), or z itself, times `factor` in the activation's value."""

    relu: bool
    factor: float
    shift: float = 0.0


def _pieces(activation: Activation) -> tuple[tuple[_Piece, ...], float]:
    """The activation as a sum of pieces and a constant."""
    match activation.name:
        case "identity":
            return (_Piece(False, 1.0),), 0.0
        case "relu":
            return (_Piece(True, 1.0),), 0.0
        case "leaky_relu":
            slope = activation.parameters[0]
            return (_Piece(False, slope), _Piece(True, 1.0 - slope)), 0.0
        case "abs":
            return (_Piece(False, -1.0), _Piece(True, 2.0)), 0.0
        case "clip":
            low, high = activation.parameters
            return (_Piece(True, 1.0, low), _Piece(True, -1.0, high)), low
    raise InputError(f"the activation {activation} is not piecewise linear")


def _expanded(layer: Layer, weight: Array, bias: Array) -> tuple[ReluLayer, Array, Array]:
    """The layer (with the given weight and bias) in pieces, and how its values are mixed from them."""
    sources: list[int] = []
    chosen: list[_Piece] = []
    constants: list[float] = []
    for activation, count in layer.activations:
        pieces, constant = _pieces(activation)
        for _ in range(count):
            sources += [len(constants)] * len(pieces)
            chosen += pieces
            constants.append(constant)
    shifts = np.array([piece.shift for piece in chosen])
    relu = np.array([piece.relu for piece in chosen])
    mix = np.zeros((len(constants), len(chosen)))  # (neurons, pieces)
    mix[sources, np.arange(len(chosen))] = [piece.factor for piece in chosen]
    return ReluLayer(weight[sources], bias[sources] - shifts, relu), mix, np.array(constants)


def relu_form(networks: Sequence[Network]) -> ReluForm:
    """The networks side by side on their shared input, as ReLU and identity neurons."""
    for network in networks:
        smooth = {str(a) for layer in network.layers for a, _ in layer.activations if not a.piecewise_linear}
        if smooth:
            names = ", ".join(sorted(smooth))
            raise InputError(f"{network.name} has {names}: this back end takes piecewise-linear networks only")
    joined = functools.reduce(concatenate, (network.to("cpu") for network in networks))
    layers: list[ReluLayer] = []
    mix, constant = np.eye(joined.input_size), np.zeros(joined.input_size)
    for layer in joined.layers:
        weight, bias = layer.weight.numpy(), layer.bias.numpy()
        weight, bias = weight @ mix, bias + weight @ constant
        if layer.is_affine:  # goes into the layer after it, or into the outputs
            mix, constant = weight, bias
        else:
            expanded, mix, constant = _expanded(layer, weight, bias)
            layers.append(expanded)
    return ReluForm(tuple(layers), mix, constant)
