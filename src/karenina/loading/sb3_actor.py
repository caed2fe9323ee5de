"""The layers of a Stable-Baselines3 actor, from the tensors' names and the text of its settings.

Enters: the policy's tensors and the JSON object saved beside them. Leaves: an `Actor`. Which algorithm saved the
file shows in the names; a features extractor with weights, recurrent and shared layers are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.sb3_spaces import class_name
from karenina.loading.state_dict import activation_named, linear_of
from karenina.network import IDENTITY, Activation, Layer

__all__ = ["Actor", "actor_of"]

_TORCH_ACTIVATION = re.compile(r"<class 'torch\.nn\.modules\.(?:activation|linear)\.(\w+)'>")

# Tensors that do not take part in choosing a deterministic action.
_IGNORED = re.compile(
    r"(critic|critic_target|actor_target|q_net_target|value_net|mlp_extractor\.value_net|vf_features_extractor)\."
    r"|(actor\.)?log_std($|\.)"
)


@dataclass(frozen=True, eq=False)
class Actor:
    """An observation's raw action, and what is done with it."""

    layers: tuple[Layer, ...]
    squashed: bool  # by tanh, then rescaled to the action space; otherwise clipped to it
    discrete: bool  # logits or Q values
    notes: tuple[str, ...] = ()


def actor_of(tensors: Mapping[str, torch.Tensor], data: Mapping[str, Any]) -> Actor:
    """The actor of PPO and A2C, SAC, TD3 and DDPG, or DQN, by its tensors' names."""
    own = {name: tensor for name, tensor in tensors.items() if not _IGNORED.match(name)}
    settings = _settings(data)
    if any(name.startswith("action_net.") for name in own):
        return _on_policy(own, data, settings)
    if any(name.startswith("q_net.") for name in own):
        layers = _chain(own, "q_net.q_net.", "", _activation(settings, "relu"))
        return Actor(layers, squashed=False, discrete=True)
    if any(name.startswith("actor.log_std") for name in tensors):
        return _sac(own, settings)
    if any(name.startswith("actor.mu.") for name in own):
        return Actor(_chain(own, "actor.mu.", "", _activation(settings, "relu")), squashed=True, discrete=False)
    names = ", ".join(list(own)[:5]) or "none"
    raise UnsupportedModel(f"its tensors ({names}, ...) are of no actor of PPO, A2C, SAC, TD3, DDPG or DQN")


def _on_policy(own: Mapping[str, torch.Tensor], data: Mapping[str, Any], settings: Mapping[str, Any]) -> Actor:
    layers = _chain(own, "mlp_extractor.policy_net.", "action_net.", _activation(settings, "tanh"))
    space = class_name(data.get("action_space"))
    notes: tuple[str, ...] = ()
    if space in ("MultiDiscrete", "MultiBinary"):
        notes = (f"the action space is {space}: the outputs are the logits of all its parts, one after the other",)
    return Actor(layers, bool(settings.get("squash_output", False)), space != "Box", notes)


def _sac(own: Mapping[str, torch.Tensor], settings: Mapping[str, Any]) -> Actor:
    gsde = any(name.startswith("actor.mu.0.") for name in own)
    layers = _chain(own, "actor.latent_pi.", "actor.mu.0." if gsde else "actor.mu.", _activation(settings, "relu"))
    if gsde:  # Stable-Baselines3 then wraps the mean in a Hardtanh
        bound = settings.get("clip_mean", 2.0)
        if not isinstance(bound, int | float) or not bound > 0:
            raise InputError(f"its setting clip_mean is {bound!r}, not a positive number")
        clip = Activation("clip", (-float(bound), float(bound)))
        layers = (*layers[:-1], Layer.of(layers[-1].weight, layers[-1].bias, clip))
    return Actor(layers, squashed=True, discrete=False)


def _settings(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The policy's keyword arguments, as text; those that would change the network in ways unknown are refused."""
    settings = data.get("policy_kwargs") or {}
    if not isinstance(settings, dict):
        raise InputError("its policy_kwargs are not a JSON object")
    extractor = str(settings.get("features_extractor_class", "FlattenExtractor"))
    if "stable_baselines3.common.torch_layers.FlattenExtractor" not in extractor and extractor != "FlattenExtractor":
        raise UnsupportedModel(f"its features extractor is {extractor}, and only flattening ones are read")
    return settings


def _activation(settings: Mapping[str, Any], default: str) -> Activation:
    """The activation between layers: torch's class, by its text."""
    text = settings.get("activation_fn")
    if text is None:
        return activation_named(default)
    match = _TORCH_ACTIVATION.fullmatch(str(text))
    if match is None:
        raise UnsupportedModel(f"its activation_fn is {text!r}, not one of torch's activations")
    return activation_named(match[1])


def _chain(own: Mapping[str, torch.Tensor], hidden: str, head: str, activation: Activation) -> tuple[Layer, ...]:
    """Linear layers hidden0, hidden2, ... and then the head, if it has a name of its own; nothing else."""
    numbers = sorted({int(match[1]) for name in own if (match := re.match(rf"{re.escape(hidden)}(\d+)\.", name))})
    prefixes = [f"{hidden}{number}." for number in numbers] + ([head] if head else [])
    for name in own:
        if name not in {f"{prefix}{kind}" for prefix in prefixes for kind in ("weight", "bias")}:
            raise UnsupportedModel(
                f"its tensor {name!r} belongs to no MLP policy: features extractors with weights, shared and recurrent "
                "layers are not read"
            )
    if numbers != list(range(0, 2 * len(numbers), 2)):
        raise UnsupportedModel(f"its layers {hidden}{numbers} are not Linear ones with an activation between any two")
    for prefix in prefixes:
        if f"{prefix}weight" not in own:
            raise InputError(f"its tensor {prefix + 'weight'!r} is missing")
    if not prefixes:
        raise InputError(f"its tensors {hidden}* are missing")
    kinds = [activation] * (len(prefixes) - 1) + [IDENTITY]
    return tuple(Layer.of(*linear_of(own, prefix), kind) for prefix, kind in zip(prefixes, kinds, strict=True))
