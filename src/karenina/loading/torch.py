"""PyTorch `.pt` and `.safetensors` state dicts into networks.

Enters: the bytes of a file that holds tensors by name, and the activation between its Linear layers, which such
a file does not hold. Leaves: a `Network`. Files are read with torch's `weights_only`, which builds tensors and
plain containers and calls nothing else; a pickled module is refused.
"""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch

from karenina.errors import InputError, MissingExtra, UnsupportedModel
from karenina.loading.files import member, open_zip, unpacked_limit
from karenina.loading.inert_pickle import DAMAGED, check_pickles
from karenina.loading.state_dict import activation_named, activation_notes, linear_layers, tensors_of
from karenina.network import Activation, Network

__all__ = ["looks_like_safetensors", "read_pt", "read_safetensors", "tensors_from"]

# Where training scripts put the state dict, when they save more than that.
_STATE_DICT_KEYS = ("state_dict", "model_state_dict", "model")

_LEGACY_PICKLES = 5  # with which torch.save began before 1.6; numbers follow
_LARGEST_PICKLE = 2**24  # bytes: names and shapes; the numbers are stored beside it
_ADVICE = "save model.state_dict(), or export the model to ONNX; karenina runs no code from model files"


def looks_like_safetensors(content: bytes) -> bool:
    """A header's length in eight bytes, then the header, in JSON."""
    return content[8:9] == b"{" and int.from_bytes(content[:8], "little") <= len(content) - 8


def read_pt(content: bytes, path: Path, name: str, activation: str | Activation | None) -> Network:
    """The network of a `.pt` state dict."""
    loaded = tensors_from(content, str(path))
    if isinstance(loaded, dict):
        held = [key for key in _STATE_DICT_KEYS if isinstance(loaded.get(key), dict)]
        loaded = loaded[held[0]] if len(held) == 1 else loaded
    return _network(loaded, name, activation, stored_in_order=True)


def read_safetensors(content: bytes, path: Path, name: str, activation: str | Activation | None) -> Network:
    """The network of a `.safetensors` state dict."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load
    except ImportError as error:
        raise MissingExtra("safetensors", "safetensors") from error
    try:
        loaded = load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"{path}: is no complete safetensors file: {error}") from error
    return _network(loaded, name, activation, stored_in_order=False)


def _network(loaded: Any, name: str, activation: str | Activation | None, *, stored_in_order: bool) -> Network:
    kind = activation if isinstance(activation, Activation) else activation_named(activation or "relu")
    names, layers = linear_layers(tensors_of(loaded), kind, stored_in_order=stored_in_order)
    notes = []
    if activation is None and len(layers) > 1:
        notes.append("the file does not say which activation it uses: relu is assumed")
    if len(layers) > 1:
        notes.append(f"the layers are taken in the order {', '.join(names)}")
        notes.extend(activation_notes(kind))
    return Network(layers, name, tuple(notes))


def tensors_from(content: bytes, what: str) -> Any:
    """What torch.save wrote, if it is tensors in plain containers; `what` begins an error's message."""
    _check_archive(content, what)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of old formats, which it reads nevertheless
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnsupportedModel(f"{what}: holds more than tensors, or is damaged: {_ADVICE}") from error
    except Exception as error:  # torch's reader meets untrusted bytes: whatever it raises, they are damaged
        first = next(iter(str(error).splitlines()), "")
        raise InputError(f"{what}: is no complete torch file: {first}") from error


def _check_archive(content: bytes, what: str) -> None:
    """Refuse programs, and archives that unpack to far more than they are, before torch sees them."""
    if not content.startswith(b"PK"):
        _check_pickles(content, what, _LEGACY_PICKLES)
        return
    with open_zip(content, f"{what}: is no complete torch file") as archive:
        names, size = archive.namelist(), sum(info.file_size for info in archive.infolist())
        if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
            raise UnsupportedModel(f"{what}: is a TorchScript program: {_ADVICE}")
        if size > (limit := unpacked_limit(len(content))):
            raise InputError(f"{what}: unpacks to more than {limit} bytes, the most karenina reads of such a file")
        for name in names:
            if name.rpartition("/")[2] == "data.pkl":
                _check_pickles(member(archive, name, _LARGEST_PICKLE, Path(what)), what)


def _check_pickles(content: bytes, what: str, count: int = 1) -> None:
    try:
        check_pickles(content, count)
    except DAMAGED as error:
        raise InputError(f"{what}: is no complete torch file: {error}") from error
