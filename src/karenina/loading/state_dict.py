"""Weights without a program: a chain of Linear layers read off the names and shapes of tensors.

Enters: named tensors, as a state dict has them, and the activation between them. Leaves: layers. Tensors that
are not a Linear layer's weight or bias are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any

import numpy as np
import torch

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.functions import SOFTPLUS_NOTE
from karenina.network import IDENTITY, Activation, Layer

__all__ = ["activation_named", "activation_notes", "linear_layers", "linear_of", "tensors_of"]

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# torch's names and ours -> torch's defaults. Parameters are float32, as torch calculates with them.
_ACTIVATIONS = {
    "abs": Activation("abs"),
    "elu": Activation("elu", (1.0,)),
    "hardtanh": Activation("clip", (-1.0, 1.0)),
    "identity": IDENTITY,
    "leakyrelu": Activation("leaky_relu", (float(np.float32(0.01)),)),
    "relu": Activation("relu"),
    "relu6": Activation("clip", (0.0, 6.0)),
    "sigmoid": Activation("sigmoid"),
    "softplus": Activation("softplus"),
    "tanh": Activation("tanh"),
}


def activation_named(name: str) -> Activation:
    """The activation of a name as torch or karenina writes it, with torch's default parameters."""
    found = _ACTIVATIONS.get(name.lower().replace("_", ""))
    if found is None:
        raise UnsupportedModel(f"the activation {name!r} is not one karenina verifies: {', '.join(_ACTIVATIONS)}")
    return found


def activation_notes(activation: Activation) -> tuple[str, ...]:
    """What a user should know of torch's own version of an activation."""
    return (SOFTPLUS_NOTE,) if activation.name == "softplus" else ()


def tensors_of(mapping: Any) -> dict[str, torch.Tensor]:
    """A mapping of names to tensors, each checked to be plain floats that the file really holds."""
    if not isinstance(mapping, Mapping):
        raise UnsupportedModel(f"holds a {type(mapping).__name__}, not a state dict: save model.state_dict()")
    for name, tensor in mapping.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise UnsupportedModel(f"its entry {shortened(name)} is no tensor: save model.state_dict() alone")
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
            raise UnsupportedModel(f"its tensor {name!r} is sparse, quantised or without data")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise InputError(f"its tensor {name!r} claims {tensor.numel()} numbers but stores fewer")
    return dict(mapping)


def linear_of(tensors: Mapping[str, torch.Tensor], prefix: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The weight and bias of the Linear layer of a name; a layer may have no bias."""
    weight = tensors[f"{prefix}weight"]
    bias = tensors.get(f"{prefix}bias")
    if weight.ndim != 2 or not weight.numel():
        raise UnsupportedModel(f"its tensor {prefix + 'weight'!r} has shape {list(weight.shape)}: not a Linear layer's")
    if bias is None:
        bias = torch.zeros(len(weight), dtype=torch.float64)
    if bias.shape != weight.shape[:1]:
        raise InputError(f"its tensor {prefix + 'bias'!r} has shape {list(bias.shape)} for {len(weight)} neurons")
    for kind, tensor in (("weight", weight), ("bias", bias)):
        if tensor.dtype not in _FLOATS:
            raise UnsupportedModel(f"its tensor {prefix + kind!r} has the type {tensor.dtype}, not floats")
    return weight, bias


def linear_layers(
    tensors: Mapping[str, torch.Tensor], activation: Activation, *, stored_in_order: bool
) -> tuple[list[str], tuple[Layer, ...]]:
    """All tensors as one chain, the activation between any two layers; also the layers' names, in order.

    Layers are ordered by name, the numbers in it by size; or, where that fits, as they are stored.
    """
    for name in tensors:
        leaf = name.rpartition(".")[2]
        if leaf not in ("weight", "bias") or f"{name.removesuffix(leaf)}weight" not in tensors:
            raise UnsupportedModel(f"its tensor {name!r} is not of a Linear layer: export the model to ONNX")
    prefixes = [name.removesuffix("weight") for name in tensors if name.rpartition(".")[2] == "weight"]
    if not prefixes:
        raise UnsupportedModel("holds no weight of a Linear layer")
    parts = {prefix: linear_of(tensors, prefix) for prefix in prefixes}
    sizes = {prefix: (weight.shape[1], weight.shape[0]) for prefix, (weight, _) in parts.items()}
    order = _order(prefixes, sizes, stored_in_order=stored_in_order)
    kinds = [activation] * (len(order) - 1) + [IDENTITY]
    layers = tuple(Layer.of(*parts[prefix], kind) for prefix, kind in zip(order, kinds, strict=True))
    return [prefix.removesuffix(".") or "(unnamed)" for prefix in order], layers


def _order(prefixes: Sequence[str], sizes: Mapping[str, tuple[int, int]], *, stored_in_order: bool) -> list[str]:
    """The order in which every layer's outputs fit the next one's inputs."""
    orders = {tuple(sorted(prefixes, key=_natural))}
    if stored_in_order and len({re.sub(r"\d+", "#", prefix) for prefix in prefixes}) > 1:
        orders.add(tuple(prefixes))  # names that differ in more than a number say less
    fitting = [order for order in orders if all(sizes[a][1] == sizes[b][0] for a, b in pairwise(order))]
    listed = ", ".join(f"{prefix.removesuffix('.')} {sizes[prefix][0]}->{sizes[prefix][1]}" for prefix in prefixes)
    if not fitting:
        raise InputError(f"its layers ({listed}) are no chain in the order of their names")
    if len(fitting) > 1:
        raise InputError(f"its layers ({listed}) are a chain both by name and as stored: export the model to ONNX")
    return list(fitting[0])


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts layer 10 after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
