"""Stable-Baselines3 `.zip` files into networks: the deterministic actor of an MLP policy.

Enters: the bytes of what `model.save` wrote by PPO, A2C, SAC, TD3, DDPG or DQN. Leaves: a `Network` from
observations to the raw action (the mean before any squashing or clipping; logits; Q values) or to the executed
one (clipped, or squashed and rescaled, to the action space). Only the JSON text and the tensors are read, never
the pickles beside them, so Stable-Baselines3 need not be installed and nothing is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.files import member, open_zip, unpacked_limit
from karenina.loading.sb3_actor import Actor, actor_of
from karenina.loading.sb3_spaces import ActionBox, action_box, class_name, observation_note
from karenina.loading.state_dict import activation_notes, tensors_of
from karenina.loading.torch import tensors_from
from karenina.network import IDENTITY, Activation, Layer, Network

__all__ = ["Action", "read"]

Action = Literal["raw", "executed"]

_LARGEST_DATA = 2**24  # bytes of JSON, which takes twenty times as many once read


def read(content: bytes, path: Path, name: str, action: Action, *, normalisation_given: bool) -> Network:
    """The actor of a saved model."""
    data, tensors = _members(content, path)
    _check_policy_class(data)
    actor = actor_of(tensors, data)
    notes = [*actor.notes, *observation_note(data), *activation_notes(actor.layers[0].activations[0][0])]
    if data.get("_last_original_obs") is not None and not normalisation_given:
        notes.append(
            "the model was trained behind VecNormalize and no statistics were given: its inputs are taken as "
            "already normalised (give the VecNormalize file as the normalisation)"
        )
    layers = actor.layers if action == "raw" else _executed(actor, data, notes)
    return Network(layers, name, tuple(notes))


def _members(content: bytes, path: Path) -> tuple[Mapping[str, Any], dict[str, torch.Tensor]]:
    """The JSON and the policy's tensors."""
    with open_zip(content, "is no complete zip") as archive:
        text = member(archive, "data", _LARGEST_DATA, path)
        weights = member(archive, "policy.pth", unpacked_limit(len(content)), path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: its member 'data' is no complete JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: its member 'data' is not a JSON object")
    return data, tensors_of(tensors_from(weights, f"{path}: its member 'policy.pth'"))


def _check_policy_class(data: Mapping[str, Any]) -> None:
    policy = data.get("policy_class")
    module = policy.get("__module__") if isinstance(policy, dict) else None
    if not isinstance(module, str) or not module.startswith("stable_baselines3."):
        raise UnsupportedModel(f"its policy class is from {module!r}, not one of Stable-Baselines3's own")


def _executed(actor: Actor, data: Mapping[str, Any], notes: list[str]) -> tuple[Layer, ...]:
    """The actor with what turns its output into the action that the environment sees."""
    if actor.discrete:
        space = class_name(data.get("action_space"))
        if space != "Discrete":
            raise UnsupportedModel(f"its action space is {space}: only the raw action of such a policy can be loaded")
        notes.append("the executed action is the argmax of the outputs, which the distance `class` compares")
        return actor.layers
    box = action_box(data, len(actor.layers[-1].bias))
    notes.extend(box.notes)
    return _squashed(actor.layers, box) if actor.squashed else _clipped(actor.layers, box)


def _clipped(layers: tuple[Layer, ...], box: ActionBox) -> tuple[Layer, ...]:
    """The last layer's neurons clipped to the action space."""
    runs = []
    for low, high in zip(box.low, box.high, strict=True):
        finite = [bound for bound in (low, high) if abs(bound) != float("inf")]
        if len(finite) == 1:
            raise UnsupportedModel("its action space is bounded on one side only: load the raw action")
        runs.append((Activation("clip", (low, high)) if finite else IDENTITY, 1))
    last = layers[-1]
    return (*layers[:-1], Layer.of(last.weight, last.bias, tuple(runs)))


def _squashed(layers: tuple[Layer, ...], box: ActionBox) -> tuple[Layer, ...]:
    """low + (tanh + 1) / 2 * (high - low)."""
    low, high = torch.tensor(box.low, dtype=torch.float64), torch.tensor(box.high, dtype=torch.float64)
    last, tanh, size = layers[-1], Activation("tanh"), len(low)
    if last.is_affine:
        squashed = (*layers[:-1], Layer.of(last.weight, last.bias, tanh))
    else:  # gSDE clips the mean first
        squashed = (*layers, Layer.of(torch.eye(size), torch.zeros(size), tanh))
    return (*squashed, Layer.of(torch.diag((high - low) / 2), (high + low) / 2))
