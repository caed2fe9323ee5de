"""From tensors to the plain arrays that compiled code reads: the joint network and what is asked.

Enters: `Joint`, `Cases` and `Rounding`, all on the CPU. Leaves: `Weights` and `Question`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.engine.nodes import flat
from karenina.engine.packed import CLIP, ELU, KINK, SIGMOID, SOFTPLUS, TANH, Question, Weights
from karenina.engine.rounding import LEAST, UNIT, Rounding
from karenina.network import Activation

__all__ = ["kind_of", "pack_question", "pack_weights"]

_SMOOTH = {"tanh": TANH, "sigmoid": SIGMOID, "softplus": SOFTPLUS}
_SLOPES = {"relu": (0.0, 1.0), "identity": (1.0, 1.0), "abs": (-1.0, 1.0)}


@lru_cache(maxsize=16)
def pack_weights(joint: Joint, rounding: Rounding) -> Weights:
    """The joint network as plain arrays, which nobody writes to."""
    sizes = np.array([joint.inputs, *joint.widths, joint.weights[-1].shape[1]])
    return Weights(
        sizes,
        int(sizes.max()),
        *joint.flat(joint.depth + 1),
        flat(rounding.hidden)[0].numpy(),
        np.concatenate([[0], np.cumsum(sizes[:-1] * sizes[1:])]),
        np.concatenate([[0], np.cumsum(sizes[1:])]),
        np.array([kind_of(a) for kind in joint.kinds for a, count in kind.activations for _ in range(count)]),
    )


def kind_of(activation: Activation) -> tuple[float, ...]:
    """Number, two parameters, least and greatest slope."""
    match activation.name:
        case "clip":
            return (CLIP, *activation.parameters, *activation.slopes)
        case "elu":
            return (ELU, activation.parameters[0], 0.0, *activation.slopes)
        case "leaky_relu":
            return (KINK, activation.parameters[0], 1.0, *activation.slopes)
        case "relu" | "identity" | "abs":
            return (KINK, *_SLOPES[activation.name], *activation.slopes)
    return (_SMOOTH[activation.name], 0.0, 0.0, *activation.slopes)


def pack_question(cases: Cases, near: bool) -> Question:
    """The cases as plain arrays."""
    tensors = (
        cases.lower,
        cases.upper,
        cases.objective,
        cases.offset,
        cases.error,
        cases.rows,
        cases.row_offset,
        cases.row_error,
        # A few units in the last place: moving x by that changes no more than rounding does.
        16 * (UNIT * torch.maximum(cases.lower.abs(), cases.upper.abs())).clamp(min=LEAST),
    )
    lower, upper, objective, offset, error, rows, row_offset, row_error, least = (
        t.contiguous().numpy() for t in tensors
    )
    return Question(lower, upper, objective, offset, error, rows, row_offset, row_error, least, near)
