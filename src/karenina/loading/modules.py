"""PyTorch modules in memory into networks.

Enters: an `nn.Module` whose forward is a chain, or an acyclic graph, of affine layers and activations. Leaves:
a `Network` of the module in evaluation mode. An `nn.Sequential` is walked; another forward is traced with
torch.fx. A module or function karenina does not verify is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import fx, nn

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import Affine
from karenina.loading.functions import FUNCTIONS, METHODS, Arithmetic
from karenina.loading.graph import Graph
from karenina.loading.products import Window, average_pool, batch_normalise, convolve, linear
from karenina.network import Network

__all__ = ["from_torch"]

Array = npt.NDArray[np.float64]
_T = TypeVar("_T")


def from_torch(module: nn.Module, *, input_shape: Sequence[int] | None = None, name: str | None = None) -> Network:
    """The network of a module; `input_shape` is one input's, without the batch, where no Linear layer tells it."""
    name = name or type(module).__name__
    shape = (1, *(_input_shape(module, name) if input_shape is None else map(int, input_shape)))
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    arithmetic = Arithmetic(Graph(shape), dtype)
    try:
        with np.errstate(all="ignore"):
            output = _applied(arithmetic, module, arithmetic.graph.input, "")
            return arithmetic.graph.network(output, name, _notes(module))
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error


def _input_shape(module: nn.Module, name: str) -> tuple[int, ...]:
    for part in module.modules():
        if isinstance(part, nn.Linear):
            return (part.in_features,)
        if next(part.parameters(recurse=False), None) is not None:
            break
    raise InputError(f"{name}: its first layer does not tell the size of its input: give input_shape")


def _notes(module: nn.Module) -> tuple[str, ...]:
    different = any(isinstance(part, nn.Dropout | nn.modules.batchnorm._BatchNorm) for part in module.modules())
    if not (different and module.training):
        return ()
    return ("the module is in training mode: it was read as in evaluation mode",)


def _array(tensor: torch.Tensor) -> Array:
    if not tensor.is_floating_point():
        raise UnsupportedModel(f"has weights of the type {tensor.dtype}, not floats")
    return tensor.detach().to("cpu", torch.float64).numpy()


def _applied(arithmetic: Arithmetic, module: nn.Module, x: Affine, path: str) -> Affine:
    """The module's output for the tensor x; `path` is the module's name inside its parents."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise UnsupportedModel(f"{_label(module, path)} has forward hooks, which karenina does not follow")
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        for key, part in module.named_children():
            x = _applied(arithmetic, part, x, f"{path}.{key}" if path else key)
        return x
    for kind, layer in _LAYERS.items():
        if isinstance(module, kind) and type(module).forward is kind.forward:
            return _explained(partial(layer, arithmetic, module, x), _label(module, path))
    if type(module).__module__.startswith("torch.nn."):
        raise UnsupportedModel(f"{_label(module, path)} is not a layer that karenina verifies")
    return _traced(arithmetic, module, x, path)


def _label(module: nn.Module, path: str) -> str:
    return f"module {path!r} ({type(module).__name__})" if path else f"module {type(module).__name__}"


def _explained(compute: Callable[[], _T], where: str) -> _T:
    """The result, or an error that says where it arose."""
    try:
        return compute()
    except InputError as error:
        raise type(error)(f"{where} {error}") from error
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise UnsupportedModel(f"{where} is used in a way karenina does not read: {error}") from error


# --- layers


def _linear(arithmetic: Arithmetic, module: Any, x: Affine) -> Affine:
    bias = None if module.bias is None else _array(module.bias)
    return linear(arithmetic.graph, x, _array(module.weight), bias)


def _conv(arithmetic: Arithmetic, module: Any, x: Affine) -> Affine:
    if module.padding_mode != "zeros":
        raise UnsupportedModel(f"pads with {module.padding_mode!r}, not with zeros")
    window = Window.of(module.kernel_size, module.stride, module.dilation)
    if module.padding == "same":
        window = window.same(x.shape[2:], upper=True)
    elif module.padding != "valid":
        window = Window.of(module.kernel_size, module.stride, module.dilation, [(p, p) for p in module.padding])
    bias = None if module.bias is None else _array(module.bias)
    return convolve(arithmetic.graph, x, _array(module.weight), bias, window, module.groups)


def _average_pool(arithmetic: Arithmetic, module: Any, x: Affine) -> Affine:
    if getattr(module, "divisor_override", None) is not None:
        raise UnsupportedModel("overrides the divisor of its mean")
    axes = len(x.shape) - 2
    kernel, stride, padding = (
        [n] * axes if isinstance(n, int) else list(n) for n in (module.kernel_size, module.stride, module.padding)
    )
    window = Window.of(kernel, stride, pads=[(p, p) for p in padding], ceil_mode=module.ceil_mode)
    return average_pool(arithmetic.graph, x, window, count_padding=module.count_include_pad)


def _batch_norm(arithmetic: Arithmetic, module: Any, x: Affine) -> Affine:
    if module.running_mean is None or module.running_var is None:
        raise UnsupportedModel("has no running statistics, so it depends on the batch")
    shape = (-1,) + (1,) * (len(x.shape) - 2)
    mean, variance = _array(module.running_mean).reshape(shape), _array(module.running_var).reshape(shape)
    scale = np.ones_like(mean) if module.weight is None else _array(module.weight).reshape(shape)
    shift = np.zeros_like(mean) if module.bias is None else _array(module.bias).reshape(shape)
    return batch_normalise(arithmetic.graph, x, mean, variance, scale, shift, module.eps)


_Layer = Callable[[Arithmetic, Any, Affine], Affine]
_LAYERS: dict[type[nn.Module], _Layer] = {
    nn.Linear: _linear,
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.AvgPool1d: _average_pool,
    nn.AvgPool2d: _average_pool,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.ELU: lambda a, m, x: a.elu(x, m.alpha),
    nn.Flatten: lambda a, m, x: a.flatten(x, m.start_dim, m.end_dim),
    nn.ReLU6: lambda a, m, x: a.hardtanh(x, m.min_val, m.max_val),
    nn.Hardtanh: lambda a, m, x: a.hardtanh(x, m.min_val, m.max_val),
    nn.LeakyReLU: lambda a, m, x: a.leaky_relu(x, m.negative_slope),
    nn.ReLU: lambda a, _, x: a.relu(x),
    nn.Sigmoid: lambda a, _, x: a.sigmoid(x),
    nn.Softplus: lambda a, m, x: a.softplus(x, m.beta, m.threshold),
    nn.Tanh: lambda a, _, x: a.tanh(x),
    nn.Identity: lambda _a, _m, x: x,
    nn.Dropout: lambda _a, _m, x: x,
}


# --- a forward of the user's own


def _traced(arithmetic: Arithmetic, module: nn.Module, x: Affine, path: str) -> Affine:
    """The output of a module whose forward torch.fx can trace."""
    where = _label(module, path)
    try:
        graph = fx.Tracer().trace(module)
    except Exception as error:  # the user's forward ran on symbols: it may raise anything
        raise UnsupportedModel(f"{where} has a forward that cannot be traced: {error}") from error
    values: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        if node.op == "output":
            output = fx.node.map_arg(node.args[0], values.__getitem__)
            break
        if node.op == "placeholder":
            values[node] = _argument(node, x, values, where)
        else:
            values[node] = _node_value(arithmetic, module, node, values, path)
    if not isinstance(output, Affine):
        raise UnsupportedModel(f"{where} returns {type(output).__name__}, not one tensor")
    return output


def _argument(node: fx.Node, x: Affine, values: Mapping[fx.Node, Any], where: str) -> Any:
    """The first argument of forward is the input; the others keep their defaults."""
    if not values:
        return x
    if not node.args:
        raise UnsupportedModel(f"{where} has a forward of more than one argument")
    return node.args[0]


def _node_value(arithmetic: Arithmetic, root: nn.Module, node: fx.Node, values: dict[fx.Node, Any], path: str) -> Any:
    args: Any = fx.node.map_arg(node.args, values.__getitem__)
    kwargs: Any = fx.node.map_arg(node.kwargs, values.__getitem__)
    target = node.target
    if node.op == "get_attr":
        return _array(attrgetter(str(target))(root))
    if node.op == "call_module":
        part = root.get_submodule(str(target))
        if len(args) != 1 or kwargs or not isinstance(args[0], Affine):
            raise UnsupportedModel(f"{_label(part, str(target))} is called with more than one tensor")
        return _applied(arithmetic, part, args[0], f"{path}.{target}" if path else str(target))
    function = METHODS.get(str(target)) if node.op == "call_method" else FUNCTIONS.get(target)
    where = f"function {getattr(target, '__name__', target)!r}, called by {_label(root, path)},"
    if function is None:
        raise UnsupportedModel(f"{where} is not one that karenina verifies")
    settings = {key: value for key, value in kwargs.items() if key != "inplace"}
    return _explained(partial(function, arithmetic, *args, **settings), where)
