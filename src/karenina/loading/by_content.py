"""One function for every model file: `load`.

Enters: a path. Leaves: a `Network`. The format is told by the file's content, never by its name: a zip of
Stable-Baselines3 or of torch, safetensors, `.nnet` text, ONNX; gzip around any of them. Files are untrusted:
loading executes nothing from them, and whatever is wrong with one is an `InputError` that names it.
"""

from __future__ import annotations

import enum
from pathlib import Path

import numpy as np

from karenina.errors import InputError, UnsupportedModel
from karenina.loading import nnet, onnx, sb3, torch
from karenina.loading.files import open_zip, read_file
from karenina.loading.normalisation import normalised, read_statistics
from karenina.network import Activation, Network
from karenina.printable import one_line

__all__ = ["load"]

_TORCH_LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"  # how torch.save began before 1.6
_FOREIGN = {
    b"\x80": "is a pickle, which karenina does not run: save a state dict with torch.save, or export to ONNX",
    b"\x89HDF": "is an HDF5 file (Keras?): export the model to ONNX with tf2onnx",
    b"PK": "is a zip of neither Stable-Baselines3 nor torch",
}


class _Kind(enum.Enum):
    ONNX = "an ONNX model"
    NNET = "a .nnet file"
    SB3 = "a Stable-Baselines3 zip"
    TORCH = "a torch state dict"
    SAFETENSORS = "a safetensors state dict"


def load(
    path: str | Path,
    *,
    action: sb3.Action = "raw",
    normalisation: str | Path | None = None,
    activation: str | Activation | None = None,
) -> Network:
    """The network of a model file, named by the file's stem.

    `action` is for Stable-Baselines3 zips: "raw" is the actor's mean (or logits, or Q values), "executed" what
    the environment sees: clipped, or squashed and rescaled. `normalisation` is a file of observation statistics
    (VecNormalize's, or an .npz with mean and var) to fold into the first layer. `activation` is for state
    dicts, which do not hold it: "relu" is assumed, and noted, when it is not given.
    """
    file, beside = Path(path), None if normalisation is None else Path(normalisation)
    if action not in ("raw", "executed"):
        raise InputError(f"action is 'raw' or 'executed', not {action!r}")
    try:
        with np.errstate(all="ignore"):  # overflow becomes infinity, which a layer refuses
            statistics = None if beside is None else read_statistics(beside)
            content = read_file(file)
            kind = _kind(content)
            _check_options(kind, action, activation)
            network = _read(kind, content, file, action, activation, beside is not None)
            return network if statistics is None else normalised(network, statistics)
    except InputError as error:
        named = str(error).startswith((str(file), str(beside)))
        raise type(error)(one_line(str(error) if named else f"{file}: {error}")) from error


def _kind(content: bytes) -> _Kind:
    """The format of a file's content."""
    names = _zip_names(content)
    if {"data", "policy.pth"} <= names:
        return _Kind.SB3
    if any(name.split("/")[-1] == "data.pkl" for name in names) or content.startswith(_TORCH_LEGACY):
        return _Kind.TORCH
    if torch.looks_like_safetensors(content):
        return _Kind.SAFETENSORS
    for start, reason in _FOREIGN.items():
        if content.startswith(start):
            raise UnsupportedModel(reason)
    return _Kind.NNET if nnet.looks_like_nnet(content) else _Kind.ONNX


def _zip_names(content: bytes) -> set[str]:
    if not content.startswith(b"PK"):
        return set()
    with open_zip(content, "is no complete zip") as archive:
        return set(archive.namelist())


def _check_options(kind: _Kind, action: sb3.Action, activation: str | Activation | None) -> None:
    if action == "executed" and kind is not _Kind.SB3:
        raise InputError(f"is {kind.value}, which does not say how an action is executed: load it raw")
    if activation is not None and kind not in (_Kind.TORCH, _Kind.SAFETENSORS):
        raise InputError(f"is {kind.value}, which has its own activations: leave the activation out")


def _read(
    kind: _Kind,
    content: bytes,
    file: Path,
    action: sb3.Action,
    activation: str | Activation | None,
    normalisation_given: bool,
) -> Network:
    name = file.with_suffix("").stem if file.suffix == ".gz" else file.stem
    match kind:
        case _Kind.ONNX:
            return onnx.read(content, file, name)
        case _Kind.NNET:
            return nnet.read(content, file, name)
        case _Kind.SB3:
            return sb3.read(content, file, name, action, normalisation_given=normalisation_given)
        case _Kind.TORCH:
            return torch.read_pt(content, file, name, activation)
        case _Kind.SAFETENSORS:
            return torch.read_safetensors(content, file, name, activation)
