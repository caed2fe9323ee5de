"""Groups of ONNX nodes that stand for one activation.

Enters: a graph's nodes. Leaves: the same nodes, with torch's softplus put back together: its newer exporter
writes Where(Greater(s, 20), x, Softplus(s)), or, with beta, s = x * beta and Softplus(s) / beta, because torch
returns x itself where beta x is above a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import NodeProto, helper

from karenina.loading.functions import SOFTPLUS_THRESHOLD
from karenina.loading.onnx_node import Constant

__all__ = ["with_whole_softplus"]

_Constants = Callable[[str], Constant | None]
_Made = Mapping[str, tuple[str, ...]]  # an output's name -> its node's operator and inputs


def with_whole_softplus(nodes: Sequence[NodeProto], constants: _Constants) -> tuple[list[NodeProto], bool]:
    """The nodes with every such Where replaced by its Softplus, and whether there was one."""
    made = {output: (node.op_type, *node.input) for node in nodes for output in node.output}
    result = [
        helper.make_node("Identity", [node.input[2]], list(node.output), name=node.name)
        if _is_softplus((node.op_type, *node.input), made, constants)
        else node
        for node in nodes
    ]
    return result, any(new is not old for new, old in zip(result, nodes, strict=True))


def _is_softplus(node: tuple[str, ...], made: _Made, constants: _Constants) -> bool:
    """Whether a node is Where(s > threshold, x, softplus of x)."""
    match node:
        case "Where", condition, x, softplus:
            pass
        case _:
            return False
    match made.get(condition):
        case "Greater", scaled, threshold if _is_number_from(SOFTPLUS_THRESHOLD, constants(threshold)):
            pass
        case _:
            return False
    if scaled == x:
        return made.get(softplus) == ("Softplus", scaled)
    match made.get(softplus):
        case "Div", inner, beta if _is_number_from(np.finfo(float).tiny, constants(beta)):
            return made.get(inner) == ("Softplus", scaled) and made.get(scaled) == ("Mul", x, beta)
    return False


def _is_number_from(least: float, value: Constant | None) -> bool:
    return value is not None and value.size == 1 and bool((value >= least).all())
