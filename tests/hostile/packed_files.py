"""Zips, pickles, safetensors and `.nnet` files: payloads, bombs, and sizes that nothing stands behind."""

from __future__ import annotations

import base64
import functools
import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from hostile.case import MARKER, MODEL, POPULATION, STATISTICS, hostile, register

__all__ = ["Payload", "gzip_of_many", "payload", "sb3_zip", "torch_file"]

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
MEGABYTES = 2**20


class Payload:
    """Writes the marker when it is unpickled by somebody careless."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._marker),)


class _System(Payload):
    """The same by a shell."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"mkdir '{self._marker}'",)


class _Evaluated(Payload):
    """The same by Python's own eval."""

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"__import__('os').mkdir({str(self._marker)!r})",)


def payload(folder: Path, kind: type[Payload] = Payload, protocol: int = 2) -> bytes:
    """A pickle that writes the marker beside the folder."""
    return pickle.dumps(kind(folder.parent / MARKER), protocol)


def _zip(members: Mapping[str, bytes], packing: int = STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def torch_file(pickled: bytes, packing: int = STORED, **more: bytes) -> bytes:
    """What torch.save writes, with this pickle."""
    return _zip({"a/data.pkl": pickled, "a/version": b"3\n", "a/data/0": bytes(16), **more}, packing)


def _weights() -> bytes:
    buffer = io.BytesIO()
    hidden = {"mlp_extractor.policy_net.0.weight": torch.ones(3, 2), "mlp_extractor.policy_net.0.bias": torch.ones(3)}
    torch.save({**hidden, "action_net.weight": torch.ones(1, 3), "action_net.bias": torch.ones(1)}, buffer)
    return buffer.getvalue()


def sb3_zip(changes: Mapping[str, Any] | None = None, packing: int = STORED, **members: bytes) -> bytes:
    """A PPO model of Stable-Baselines3, with changes to its settings, and members in place of its own."""
    serialized = base64.b64encode(pickle.dumps(None)).decode()
    space = {":type:": "<class 'gymnasium.spaces.box.Box'>", ":serialized:": serialized, "low": "[-1.]", "high": "[1.]"}
    policy = {"__module__": "stable_baselines3.common.policies", ":serialized:": serialized}
    settings = {"policy_class": policy, "action_space": space, "observation_space": space, **(changes or {})}
    own = {"data": json.dumps(settings).encode(), "policy.pth": _weights()}
    return _zip({**own, **{name.replace("_pth", ".pth"): content for name, content in members.items()}}, packing)


def gzip_of_many(byte: bytes, megabytes: int) -> bytes:
    """One byte many times, as a small gzip file: parts of a megabyte, one after the other."""
    return gzip.compress(byte * MEGABYTES) * megabytes


def _write(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return name


def _payload_in_zip(folder: Path, kind: type[Payload]) -> str:
    return _write(folder, "bad.pt", torch_file(payload(folder, kind)))


for kind in (Payload, _System, _Evaluated):
    register(
        f"pt_with_payload_{kind.__name__.strip('_').lower()}", MODEL, functools.partial(_payload_in_zip, kind=kind)
    )


@hostile(MODEL)
def pt_of_the_old_format_with_payload(folder: Path) -> str:
    parts = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    return _write(folder, "bad.pt", b"".join(parts) + payload(folder) + pickle.dumps([], 2))


@hostile(MODEL)
def bare_pickle_with_payload(folder: Path) -> str:
    return _write(folder, "bad.pkl", payload(folder, protocol=4))


@hostile(MODEL)
def pickled_module(folder: Path) -> str:
    torch.save(torch.nn.Linear(2, 1), folder / "bad.pt")
    return "bad.pt"


@hostile(MODEL)
def sb3_zip_with_payload_for_weights(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip(policy_pth=torch_file(payload(folder))))


@hostile(MODEL)
def sb3_zip_with_payload_in_place_of_a_zip(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip(policy_pth=payload(folder)))


@hostile(MODEL)
def sb3_zip_with_a_policy_of_its_own(folder: Path) -> str:
    """A class from elsewhere, which Stable-Baselines3 would import, and a payload where it would unpickle."""
    serialized = base64.b64encode(payload(folder)).decode()
    policy = {"__module__": "__main__", ":serialized:": serialized}
    return _write(folder, "bad.zip", sb3_zip({"policy_class": policy}))


@hostile(STATISTICS)
def statistics_with_payload(folder: Path) -> str:
    return _write(folder, "bad.pkl", payload(folder))


@hostile(STATISTICS)
def statistics_cut_off(folder: Path) -> str:
    return _write(folder, "bad.pkl", pickle.dumps({"a": [1.0] * 100})[:-20])


@hostile(STATISTICS)
def statistics_with_a_gigantic_memo(folder: Path) -> str:
    return _write(folder, "bad.pkl", b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".")


DEEP_KEY = b"\x80\x02})" + b"\x85" * 10**6 + b"K\x01s."  # a million tuples in each other as a key: hashing recurses


@hostile(STATISTICS)
def statistics_with_a_key_that_overflows_the_stack(folder: Path) -> str:
    return _write(folder, "bad.pkl", DEEP_KEY)


@hostile(MODEL)
def pt_with_a_key_that_overflows_the_stack(folder: Path) -> str:
    return _write(folder, "bad.pt", torch_file(DEEP_KEY, DEFLATED))


@hostile(MODEL)
def pt_that_is_cut_off(folder: Path) -> str:
    return _write(folder, "bad.pt", _weights()[:-200])


@hostile(MODEL)
def pt_with_flipped_bits(folder: Path) -> str:
    content = bytearray(_weights())
    for place in range(100, len(content), 97):
        content[place] ^= 16
    return _write(folder, "bad.pt", bytes(content))


@hostile(MODEL)
def pt_with_a_tensor_larger_than_its_numbers(folder: Path) -> str:
    one = torch.ones(1).expand(2**20, 2**20)  # four bytes, shown 2^40 times
    torch.save({"weight": one}, folder / "bad.pt")
    return "bad.pt"


@hostile(MODEL)
def pt_zip_bomb(folder: Path) -> str:
    return _write(folder, "bad.pt", torch_file(pickle.dumps({}), DEFLATED, **{"a/data/1": bytes(90 * MEGABYTES)}))


@hostile(MODEL)
def sb3_zip_bomb_of_settings(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip(packing=DEFLATED, data=b"[" + b"[]," * (6 * MEGABYTES) + b"[]]"))


@hostile(MODEL)
def sb3_zip_bomb_of_weights(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip(packing=DEFLATED, policy_pth=bytes(90 * MEGABYTES)))


@hostile(MODEL)
def sb3_settings_nested_beyond_measure(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip(data=b"[" * 10**6))


@hostile(POPULATION)
def sb3_zip_packed_with_lzma(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip(packing=zipfile.ZIP_LZMA))


@hostile(MODEL)
def sb3_weights_with_nan(folder: Path) -> str:
    buffer = io.BytesIO()
    torch.save({"action_net.weight": torch.full((1, 2), float("nan")), "action_net.bias": torch.ones(1)}, buffer)
    return _write(folder, "bad.zip", sb3_zip(policy_pth=buffer.getvalue()))


@hostile(MODEL)
def zip_whose_directory_lies(folder: Path) -> str:
    content = bytearray(sb3_zip())
    place = content.rindex(b"PK\x01\x02")
    content[place + 42 : place + 46] = struct.pack("<I", 2**31)  # where the member begins
    return _write(folder, "bad.zip", bytes(content))


@hostile(MODEL)
def zip_of_something_else(folder: Path) -> str:
    return _write(folder, "bad.zip", _zip({"../../evil.py": b"print()", "/etc/passwd": b""}))


@hostile(MODEL)
def zip_that_is_cut_off(folder: Path) -> str:
    return _write(folder, "bad.zip", sb3_zip()[:-30])


@hostile(MODEL)
def gzip_bomb(folder: Path) -> str:
    return _write(folder, "bad.onnx.gz", gzip_of_many(b"\0", 400))


@hostile(MODEL)
def gzip_that_is_cut_off(folder: Path) -> str:
    return _write(folder, "bad.onnx.gz", gzip.compress((folder / "good.onnx").read_bytes())[:-9])


def _safetensors(folder: Path, header: object, length: int | None = None, data: bytes = bytes(16)) -> str:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return _write(folder, "bad.safetensors", struct.pack("<Q", len(text) if length is None else length) + text + data)


WEIGHT = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
for name, header, length in (
    ("gigantic_header", {"weight": WEIGHT}, 2**62),
    ("gigantic_shape", {"weight": {**WEIGHT, "shape": [2**40, 2**40]}}, None),
    ("shape_of_other_size", {"weight": {**WEIGHT, "shape": [3, 2]}}, None),
    ("offsets_beyond_the_end", {"weight": {**WEIGHT, "data_offsets": [0, 2**50]}}, None),
    ("offsets_reversed", {"weight": {**WEIGHT, "data_offsets": [16, 0]}}, None),
    ("unknown_type", {"weight": {**WEIGHT, "dtype": "F33"}}, None),
    ("whole_numbers", {"weight": {**WEIGHT, "dtype": "I32"}}, None),
    ("header_nested_beyond_measure", b'{"a":' + b"[" * 10**5, None),
):
    register(f"safetensors_{name}", MODEL, functools.partial(_safetensors, header=header, length=length))


def _nnet(folder: Path, text: str) -> str:
    return _write(folder, "bad.nnet", text.encode())


for name, text in (
    ("gigantic_counts", "// \n1,1000000000000,1000000000000,1000000000000,\n1000000000000,1000000000000,\n"),
    ("infinite_counts", "1,1e999,1,1,\n"),
    ("nan_counts", "nan,1,1,1,\n"),
    ("negative_counts", "-1,2,1,2,\n"),
    ("words", "// \none,two,\n"),
    ("nothing_but_a_comment", "// a network\n"),
    ("nan_weight", "1,1,1,1,\n1,1,\n0,\n0,\n1,\n0,0,\n1,1,\nnan,\n0,\n"),
    ("zero_range", "1,1,1,1,\n1,1,\n0,\n0,\n1,\n0,0,\n0,1,\n1,\n0,\n"),
    ("lines_left_over", "1,1,1,1,\n1,1,\n0,\n0,\n1,\n0,0,\n1,1,\n1,\n0,\n7,\n"),
    ("one_line_of_a_million_numbers", "1," * 10**6),
):
    register(f"nnet_{name}", MODEL, functools.partial(_nnet, text=text))
