"""Observation statistics into a network's first layer.

Enters: an `.npz` with `mean` and `var` (and perhaps `epsilon` and `clip_obs`), or the pickle that
Stable-Baselines3's VecNormalize saves. Leaves: the network on raw observations: its first layer reads
(x - mean) / sqrt(var + epsilon), in float64. VecNormalize also clips to +-clip_obs: that becomes a note.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from karenina.array_file import read_array
from karenina.errors import InputError, UnsupportedModel
from karenina.loading.files import member, open_zip, read_file
from karenina.loading.inert_pickle import Inert, InertArray, inert
from karenina.network import Layer, Network

__all__ = ["Statistics", "normalised", "read_statistics"]

Array = npt.NDArray[np.float64]

_LARGEST_ARRAY = 2**26  # bytes: statistics are a few numbers an input
_ARRAYS = ("mean", "var", "epsilon", "clip_obs")
_EPSILON = 1e-8  # VecNormalize's default


@dataclass(frozen=True, eq=False)
class Statistics:
    """What VecNormalize does to an observation."""

    mean: Array  # (inputs,)
    var: Array  # (inputs,)
    epsilon: float
    clip: float | None
    source: Path


def read_statistics(path: Path) -> Statistics | None:
    """The statistics of a file; None if it says that observations are not normalised."""
    content = read_file(path)
    if content.startswith(b"PK"):
        return _from_npz(content, path)
    if content.startswith(b"\x80"):
        return _from_pickle(content, path)
    raise InputError(f"{path}: is neither an .npz with mean and var nor a VecNormalize pickle")


def _checked(mean: Array, var: Array, epsilon: float, clip: float | None, path: Path) -> Statistics:
    mean, var = mean.reshape(-1).astype(np.float64), var.reshape(-1).astype(np.float64)
    if mean.shape != var.shape:
        raise InputError(f"{path}: its mean has {len(mean)} numbers and its var {len(var)}")
    if not (np.isfinite(mean).all() and np.isfinite(var + epsilon).all() and (var + epsilon > 0).all()):
        raise InputError(f"{path}: its mean and var are not all finite, or var + epsilon is not positive")
    if clip is not None and not clip > 0:
        raise InputError(f"{path}: its clip_obs is {clip}, not a positive number")
    return Statistics(mean, var, epsilon, clip, path)


def _from_npz(content: bytes, path: Path) -> Statistics:
    with open_zip(content, f"{path}: is no complete .npz") as archive:
        there = archive.namelist()
        if "mean.npy" not in there or "var.npy" not in there:
            raise InputError(f"{path}: needs the arrays mean and var, and has {', '.join(there[:5]) or 'none'}")
        arrays = {name: _array(archive, f"{name}.npy", path) for name in _ARRAYS if f"{name}.npy" in there}
    epsilon, clip = (_number(arrays.get(name), path) for name in ("epsilon", "clip_obs"))
    return _checked(arrays["mean"], arrays["var"], _EPSILON if epsilon is None else epsilon, clip, path)


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> Array:
    content = member(archive, name, _LARGEST_ARRAY, path)
    try:
        return read_array(io.BytesIO(content), len(content)).astype(np.float64)
    except ValueError as error:
        raise InputError(f"{path}: its array {name!r} is damaged: {error}") from error


def _number(array: Array | None, path: Path) -> float | None:
    if array is None:
        return None
    if array.size != 1:
        raise InputError(f"{path}: epsilon and clip_obs are single numbers")
    return float(array.reshape(-1)[0])


def _from_pickle(content: bytes, path: Path) -> Statistics | None:
    state = inert(content, path)
    if not isinstance(state, Inert) or state.name != "VecNormalize":
        raise UnsupportedModel(f"{path}: is a pickle, but not of a VecNormalize")
    if state.state.get("norm_obs") is False:
        return None
    rms = state.state.get("obs_rms")
    if not isinstance(rms, Inert):
        raise UnsupportedModel(f"{path}: its statistics are not those of one array of observations")
    mean, var = rms.state.get("mean"), rms.state.get("var")
    if not isinstance(mean, InertArray) or not isinstance(var, InertArray):
        raise InputError(f"{path}: its statistics hold no mean and var")
    epsilon, clip = state.state.get("epsilon", _EPSILON), state.state.get("clip_obs")
    if not isinstance(epsilon, float | int) or not isinstance(clip, float | int | None):
        raise InputError(f"{path}: its epsilon and clip_obs are not numbers")
    return _checked(mean.array(path), var.array(path), float(epsilon), None if clip is None else float(clip), path)


def normalised(network: Network, statistics: Statistics) -> Network:
    """The network that normalises its input first, folded into the first layer."""
    if len(statistics.mean) != network.input_size:
        raise InputError(
            f"{statistics.source}: has statistics of {len(statistics.mean)} inputs, "
            f"but {network.name} takes {network.input_size}"
        )
    spread = np.sqrt(statistics.var + statistics.epsilon)
    first = network.layers[0]
    weight = first.weight / torch.as_tensor(spread)
    bias = first.bias - weight @ torch.as_tensor(statistics.mean)
    layers = (Layer(weight, bias, first.activations), *network.layers[1:])
    notes = [f"the observation statistics of {statistics.source.name} are folded into the first layer"]
    if statistics.clip is not None:
        low, high = (statistics.mean + sign * statistics.clip * spread for sign in (-1, 1))
        bounds = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
        notes.append(
            f"clip_obs = {statistics.clip:g} is not applied: this is the policy where its inputs lie in {bounds}"
        )
    return Network(layers, network.name, (*network.notes, *notes))
