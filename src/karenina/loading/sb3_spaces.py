"""Observation and action spaces as Stable-Baselines3 writes them: text, beside a pickle that is never read.

Enters: the JSON object of a saved model. Leaves: the name of a space's class, the bounds of an action box, and
what a user should know of the observations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from karenina.errors import InputError, UnsupportedModel

__all__ = ["ActionBox", "action_box", "class_name", "observation_note"]

_CLASS = re.compile(r"<class '(?:gymnasium|gym)\.spaces\.\w+\.(\w+)'>")

# numpy prints at most this many decimals, so a number with as many may have lost some.
_PRINTED_DECIMALS = 8


@dataclass(frozen=True)
class ActionBox:
    """The bounds of every action; infinite where there is none."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    notes: tuple[str, ...]


def class_name(space: Any) -> str:
    """Box, Discrete, ..., or the text that is there instead."""
    text = str(space.get(":type:")) if isinstance(space, dict) else str(space)
    match = _CLASS.fullmatch(text)
    return match[1] if match else text


def action_box(data: Mapping[str, Any], size: int) -> ActionBox:
    """The bounds of the action space, from its text."""
    space = data.get("action_space")
    if not isinstance(space, dict) or class_name(space) != "Box":
        raise UnsupportedModel(f"its action space is {class_name(space)}, not a Box: load the raw action")
    low, high = (_bounds(space, side, size) for side in ("low", "high"))
    if not all(a < b for a, b in zip(low, high, strict=True)):
        raise InputError("its action space has a lower bound that is not below the upper one")
    shortened = any(_is_shortened(str(space.get(side))) for side in ("low", "high"))
    note = f"the action bounds were read from text of {_PRINTED_DECIMALS} decimals"
    return ActionBox(low, high, (note,) if shortened else ())


def _bounds(space: Mapping[str, Any], side: str, size: int) -> tuple[float, ...]:
    text = space.get(side) if isinstance(space.get(side), str) else space.get(f"{side}_repr")
    fields = str(text).replace("[", " ").replace("]", " ").replace(",", " ").split() if text is not None else []
    try:
        values = [float(field) for field in fields]
    except ValueError:
        values = []
    values = values * size if len(values) == 1 else values
    if len(values) != size or any(np.isnan(value) for value in values):
        raise InputError(
            f"its action space's {side} bounds cannot be read without unpickling, which karenina does not do: "
            "load the raw action"
        )
    return tuple(float(np.float32(value)) if space.get("dtype") == "float32" else value for value in values)


def _is_shortened(text: str) -> bool:
    return any(len(decimals) >= _PRINTED_DECIMALS for decimals in re.findall(r"\.(\d+)", text))


def observation_note(data: Mapping[str, Any]) -> tuple[str, ...]:
    """What the network reads, where that is not the observation itself; images and dicts are refused."""
    space = data.get("observation_space")
    kind = class_name(space)
    if kind in ("Dict", "Tuple"):
        raise UnsupportedModel(f"its observations are a {kind}: only policies on one array are read")
    if kind in ("Discrete", "MultiDiscrete"):
        return (f"the observation space is {kind}: the network's inputs are its one-hot encoding",)
    if isinstance(space, dict) and space.get("dtype") == "uint8" and len(space.get("_shape") or ()) == 3:
        raise UnsupportedModel("its observations are images: only policies on vectors are read")
    return ()
