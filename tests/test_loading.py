"""`load` tells formats apart by content, and whatever is wrong with a file is an InputError that names it."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import nn

from karenina.errors import InputError, MissingExtra, UnsupportedModel
from karenina.loading import load
from karenina.loading.normalisation import read_statistics
from karenina.network import RELU, Layer, Network

KINDS = ("onnx", "nnet", "pt", "old pt", "safetensors", "zip")


def network() -> Network:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=size).astype(np.float32).astype(float) for size in ((3, 2), (3,), (1, 3), (1,))]
    return Network((Layer.of(weights[0], weights[1], RELU), Layer.of(weights[2], weights[3])))


def _sb3_zip(tensors: bytes) -> bytes:
    """What Stable-Baselines3 saves, as little of it as is read."""
    data = '{"policy_class": {"__module__": "stable_baselines3.common.policies"}, "policy_kwargs": {"activation_fn": '
    data += "\"<class 'torch.nn.modules.activation.ReLU'>\"}}"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data", data)
        archive.writestr("policy.pth", tensors)
    return buffer.getvalue()


def _torch_bytes(tensors: dict[str, torch.Tensor], *, new: bool = True) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensors, buffer, _use_new_zipfile_serialization=new)
    return buffer.getvalue()


def _nnet_text(made: Network) -> str:
    lines = ["// comment", "2,2,1,3,", "2,3,1,", "0,", "-1,-1,", "1,1,", "0,0,0,", "1,1,1,"]
    for layer in made.layers:
        lines += [",".join(map(repr, row)) for row in layer.weight.tolist()]
        lines += [f"{value!r}," for value in layer.bias.tolist()]
    return "\n".join(lines)


@pytest.fixture(scope="session")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The same small network in every format."""
    made = network()
    path = tmp_path_factory.mktemp("contents") / "network.onnx"
    made.to_onnx(path)
    (w0, b0), (w1, b1) = ((layer.weight.float(), layer.bias.float()) for layer in made.layers)
    tensors = {"0.weight": w0, "0.bias": b0, "2.weight": w1, "2.bias": b1}
    prefix = "mlp_extractor.policy_net"
    policy = {f"{prefix}.0.weight": w0, f"{prefix}.0.bias": b0, "action_net.weight": w1, "action_net.bias": b1}
    return {
        "onnx": path.read_bytes(),
        "nnet": _nnet_text(made).encode(),
        "pt": _torch_bytes(tensors),
        "old pt": _torch_bytes(tensors, new=False),
        "safetensors": save(tensors),
        "zip": _sb3_zip(_torch_bytes(policy)),
    }


# --- told by content


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plain", "m.onnx", "m.zip", "m.pt", "m.nnet", "m.tar.gz", "a.b.c"])
def test_the_name_does_not_matter(tmp_path: Path, contents: dict[str, bytes], kind: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(contents[kind])
    loaded = load(path)
    assert loaded.digest() == network().digest()
    assert loaded.name == {"a.b.c": "a.b"}.get(name, name.split(".")[0])
    path.write_bytes(gzip.compress(contents[kind], mtime=0))
    assert load(str(path)).digest() == network().digest()


def test_options_that_a_format_has_no_use_for_are_refused(tmp_path: Path, contents: dict[str, bytes]) -> None:
    path = tmp_path / "model"
    for kind in ("onnx", "nnet", "zip"):
        path.write_bytes(contents[kind])
        with pytest.raises(InputError, match=r"model: is an? .*, which has its own activations"):
            load(path, activation="tanh")
    for kind in ("onnx", "nnet", "pt", "old pt", "safetensors"):
        path.write_bytes(contents[kind])
        with pytest.raises(InputError, match=r"model: is an? .*, which does not say how an action is executed"):
            load(path, action="executed")
    action: Any = "squashed"
    with pytest.raises(InputError, match="action is 'raw' or 'executed', not 'squashed'"):
        load(path, action=action)


# --- files that are no models


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.onnx: no such file"):
        load(tmp_path / "missing.onnx")
    with pytest.raises(InputError, match="is a directory, not a model file"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"no such file|cannot be read"):
        load(tmp_path / "model\0.onnx")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is not a regular file"):
        load(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="loop: "):
        load(tmp_path / "loop")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty once decompressed"),
        (gzip.compress(b"// hello", mtime=0)[:-3], "is no|is not a complete gzip file"),
        (b"\x1f\x8b nonsense", "is not a complete gzip file"),
        (b"hello, I am a network", "none of the formats karenina reads"),
        (b"<html>Not Found</html>", "none of the formats karenina reads"),
        (b"version https://git-lfs.github.com/spec/v1", "none of the formats karenina reads"),
        (bytes(1000), "none of the formats karenina reads"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), r"is an HDF5 file \(Keras\?\)"),
        (pickle.dumps({"weights": [1, 2]}), "is a pickle, which karenina does not run"),
        (b"PK\x03\x04" + bytes(50), "is no complete zip"),
        (b"// only a comment", "line 1: "),
        ((2**60).to_bytes(8, "little") + b"{}", "none of the formats karenina reads"),
        ((2).to_bytes(8, "little") + b"{}", "holds no weight"),
        ((9).to_bytes(8, "little") + b'{"a": 12}', "is no complete safetensors file"),
    ],
)
def test_contents_that_are_no_models(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"model\.onnx: .*({message})"):
        load(path)


def test_zips_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    np.savez(path.with_suffix(".npz"), mean=np.zeros(2))
    path.with_suffix(".npz").rename(path)
    with pytest.raises(UnsupportedModel, match=r"model\.zip: is a zip of neither Stable-Baselines3 nor torch"):
        load(path)


def test_gzip_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina.loading.files.LARGEST_FILE", 10**6)
    path = tmp_path / "bomb.onnx.gz"
    path.write_bytes(gzip.compress(bytes(2 * 10**6), mtime=0))
    with pytest.raises(InputError, match=r"bomb\.onnx\.gz: decompresses to more than 1000000 bytes"):
        load(path)
    path.write_bytes(bytes(2 * 10**6))
    with pytest.raises(InputError, match="has more than 1000000 bytes"):
        load(path)


def test_zip_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina.loading.sb3._LARGEST_DATA", 1000)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", " " * 10**6)
        archive.writestr("policy.pth", "")
    with pytest.raises(InputError, match=r"bomb\.zip: its member 'data' has more than 1000 bytes"):
        load(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [("{", "no complete JSON"), ("[" * 10**5, "no complete JSON"), ("[]", "not a JSON object"), ("{}", "policy")],
)
def test_zips_with_damaged_settings(tmp_path: Path, data: str, message: str) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", data)
        archive.writestr("policy.pth", _torch_bytes(nn.Linear(1, 1).state_dict()))
    with pytest.raises(InputError, match=rf"model\.zip: .*{message}"):
        load(path)


def test_a_missing_library_is_named(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(contents["safetensors"])
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtra, match=r"karenina\[safetensors\]"):
        load(path)


# --- damaged files: a network or an InputError, nothing else


def refusal(path: Path, content: bytes) -> str | None:
    """The message with which a file of this content is refused, if it is; any other exception fails the test."""
    path.write_bytes(content)
    try:
        assert load(path).input_size > 0
    except InputError as error:
        return str(error)
    return None


def loads_or_refuses(path: Path, content: bytes) -> None:
    message = refusal(path, content)
    assert message is None or (path.name in message and message.isprintable()), message


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_files(tmp_path: Path, contents: dict[str, bytes], kind: str) -> None:
    content = contents[kind]
    lengths = range(0, len(content), max(1, len(content) // 150))
    for length in [*lengths, len(content) - 1]:
        loads_or_refuses(tmp_path / "truncated", content[:length])


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_files(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes], kind: str, data: st.DataObject
) -> None:
    content = bytearray(contents[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    loads_or_refuses(tmp_path_factory.getbasetemp() / "damaged", bytes(content))


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200), st.sampled_from([b"", b"PK\x03\x04", b"\x80\x04", b"//", b"\x08\x08", b"\x1f\x8b"]))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes, start: bytes) -> None:
    loads_or_refuses(tmp_path_factory.getbasetemp() / "random", start + content)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damaged_statistics(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, mean=np.zeros(3), var=np.ones(3), epsilon=1e-8)
    pickled = pickle.dumps([np.ones(3), {"mean": np.zeros(3)}], protocol=4)
    content = bytearray(data.draw(st.sampled_from([buffer.getvalue(), pickled])))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged statistics"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with contextlib.suppress(InputError):
        read_statistics(path)
