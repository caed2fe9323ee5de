"""Where the fuzzing of the parsers starts: small valid files of every kind. Enters: nothing. Leaves: bytes."""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import io
import json
import pickle
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch

from karenina.loading import load
from karenina.network import RELU, Activation, Layer, Network
from karenina.store.seal import CHECKSUM, seal

__all__ = [
    "arrays",
    "conditions",
    "domain_files",
    "edited",
    "graph_bytes",
    "journals",
    "nnet_files",
    "npy",
    "observation_files",
    "onnx_models",
    "pickles",
    "reward_files",
    "run_folders",
    "safetensors_files",
    "sb3_settings",
    "sb3_weights",
    "sealed",
    "selection_json",
    "specifications",
    "state_dict",
    "statistics_files",
    "torch_files",
    "torch_zip",
    "with_checksums",
]

_DOMAIN = b'names = ["a", "b"]\n\n[[box]]\nlower = [0.0, -1.0]\nupper = [1.0, 2.0]\n'
_SPACE = {":type:": "<class 'gymnasium.spaces.box.Box'>", "dtype": "float32", "low": "[-2. -1.]", "high": "[2. 3.]"}


def _tensors(prefix: str = "") -> OrderedDict[str, torch.Tensor]:
    return OrderedDict(
        {
            f"{prefix}0.weight": torch.eye(3, 2),
            f"{prefix}0.bias": torch.ones(3),
            f"{prefix}2.weight": torch.ones(2, 3),
            f"{prefix}2.bias": torch.zeros(2),
        }
    )


def _saved(what: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(what, buffer, **options)
    return buffer.getvalue()


@functools.cache
def state_dict() -> bytes:
    """What torch.save writes of a small state dict."""
    return _saved(_tensors())


@functools.cache
def sb3_weights() -> bytes:
    """The weights of a PPO actor with two inputs and two actions."""
    hidden = {f"mlp_extractor.policy_net.0.{kind}": tensor for kind, tensor in _linear(3, 2).items()}
    return _saved({**hidden, **{f"action_net.{kind}": tensor for kind, tensor in _linear(2, 3).items()}})


def _linear(out: int, size: int) -> dict[str, torch.Tensor]:
    return {"weight": torch.ones(out, size), "bias": torch.zeros(out)}


def torch_zip(pickled: bytes) -> bytes:
    """A torch file with this pickle and four tensors' numbers."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/version", "3\n")
        archive.writestr("a/byteorder", "little")
        for k, size in enumerate((6, 3, 6, 2)):  # of the state dicts here
            archive.writestr(f"a/data/{k}", np.ones(size, np.float32).tobytes())
    return buffer.getvalue()


def _pickle_of(file: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


def pickles() -> list[bytes]:
    """The pickles inside torch files."""
    made = [_tensors(), {"state_dict": dict(_tensors())}, {"a": torch.ones(2, 2, dtype=torch.float16)}]
    sparse = {"weight": torch.eye(2).to_sparse(), "bias": torch.nn.Parameter(torch.ones(2))}
    return [_pickle_of(_saved(what)) for what in (*made, sparse)] + [pickle.dumps({"a": 1})]


def torch_files() -> list[bytes]:
    """Whole torch files, new and old."""
    return [state_dict(), _saved(_tensors(), _use_new_zipfile_serialization=False), gzip.compress(state_dict())]


def onnx_models() -> list[bytes]:
    """Chains with several activations."""
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for k, activation in enumerate((RELU, Activation("leaky_relu", (0.1,)), Activation("clip", (-1.0, 1.0)))):
            layers = (Layer.of([[1, 4], [-3, 2]], [1, -2], activation), Layer.of([[2, -1]], [0]))
            Network(layers).to_onnx(Path(folder) / f"{k}.onnx")
            made.append((Path(folder) / f"{k}.onnx").read_bytes())
    return [*made, gzip.compress(made[0])]


def graph_bytes() -> list[bytes]:
    """Bytes that `graph_from_bytes` reads."""
    rng = np.random.default_rng(0)
    return [rng.bytes(size) for size in (8, 20, 40, 60, 90, 120, 160, 200)]


def safetensors_files() -> list[bytes]:
    """A state dict as safetensors."""
    from safetensors.torch import save

    return [save(dict(_tensors())), save({"weight": torch.ones(1, 2, dtype=torch.float64)})]


def nnet_files() -> list[bytes]:
    """A network of two layers."""
    return [
        b"// a comment\n2,2,1,3,\n2,3,1,\n0,\n0,0,\n1,1,\n0,0,0,\n1,1,1,\n1,2,\n3,4,\n5,6,\n1,\n2,\n3,\n1,1,1,\n0,\n"
    ]


def sb3_settings() -> list[bytes]:
    """The JSON of a saved PPO model, and once more with a pickle of weights."""
    policy = {"__module__": "stable_baselines3.common.policies", ":serialized:": "gAU="}
    settings = {"policy_class": policy, "policy_kwargs": {}, "action_space": _SPACE, "observation_space": _SPACE}
    other = {**settings, "policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.ReLU'>"}}
    texts = [json.dumps(data).encode() for data in (settings, other)]
    return [*texts, texts[0] + b"\0" + _pickle_of(sb3_weights()), *_edits(16)]


def npy() -> bytes:
    """Two numbers."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([1.0, 2.0]))
    return buffer.getvalue()


def arrays() -> list[bytes]:
    """Arrays of several types."""
    made = []
    for array in (np.ones((3, 2)), np.ones((4, 2), np.float32, order="F"), np.arange(6).reshape(3, 2)):
        buffer = io.BytesIO()
        np.save(buffer, array)
        made.append(buffer.getvalue())
    return [*made, npy()]


def _npz(**held: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **held)
    return buffer.getvalue()


def statistics_files() -> list[bytes]:
    """Means and variances, as an archive and as the pickle of a VecNormalize."""
    protocols = [_vec_normalize(protocol) for protocol in (2, 4)]
    return [_npz(mean=np.zeros(2), var=np.ones(2), epsilon=np.array(1e-8)), *protocols]


def _vec_normalize(protocol: int) -> bytes:
    """A pickle of objects with the names of Stable-Baselines3, which need not be there."""

    class VecNormalize:
        pass

    class RunningMeanStd:
        pass

    VecNormalize.__module__ = RunningMeanStd.__module__ = "stable_baselines3.common.stand_in"
    VecNormalize.__qualname__, RunningMeanStd.__qualname__ = "VecNormalize", "RunningMeanStd"
    made, statistics = VecNormalize(), RunningMeanStd()
    statistics.__dict__.update(mean=np.zeros(2), var=np.ones(2), count=1.0)
    made.__dict__.update(obs_rms=statistics, norm_obs=True, epsilon=1e-8, clip_obs=10.0)
    return _pickled_by_name(made, protocol)


def _pickled_by_name(made: object, protocol: int) -> bytes:
    """pickle.dumps, without its check that the classes can be imported."""
    import sys
    import types

    module = types.ModuleType("stable_baselines3.common.stand_in")
    for held in (made, *vars(made).values()):
        setattr(module, type(held).__name__, type(held))
    before = sys.modules.get(module.__name__)
    names = ("stable_baselines3", "stable_baselines3.common", module.__name__)
    added = [name for name in names if name not in sys.modules]
    sys.modules.update({name: types.ModuleType(name) for name in added} | {module.__name__: module})
    try:
        return pickle.dumps(made, protocol)
    finally:
        for name in added:
            del sys.modules[name]
        if before is not None:
            sys.modules[module.__name__] = before


def domain_files() -> list[bytes]:
    """Domains of every form."""
    named = b'names = ["a", "b"]\nrepeat = 2\n[[box]]\n[box.bounds]\na = [0, 1]\n"b" = [-1e-3, 2.5]\n'
    several = b"[[box]]\nlower = [0]\nupper = [1]\n[[box]]\nrepeat = 1\nlower = [2]\nupper = [3]\n"
    return [_DOMAIN, named, several, gzip.compress(_DOMAIN), specifications()[0]]


def specifications() -> list[bytes]:
    """VNN-LIB with disjunctions and arithmetic."""
    box = b"(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(declare-const Y_1 Real)\n"
    box += b"(assert (>= X_0 0.0))\n(assert (<= X_0 1))\n"
    plain = b"; comment\n" + box + b"(assert (or (and (>= Y_0 25.0) (<= Y_1 0)) (and (< X_0 0.5) (> Y_1 Y_0))))\n"
    linear = box + b"(assert (<= (+ (* 2.0 Y_0) (- Y_1 3)) 1e-3))\n(assert (= Y_0 Y_1))\n(check-sat)\n"
    return [plain, linear]


def conditions() -> list[bytes]:
    """Conditions of the c-distance."""
    return [b"y0 >= 0", b"2*y0 - y1 <= 3 and y1 >= 0", b"y >= 0", b"y0 + .5e-3 >= -y2, y1 <= 1"]


def observation_files() -> list[bytes]:
    """Recorded inputs: NumPy's formats and CSV."""
    csv = b"a, b\n1.0, 2\n-3e2, 4\n"
    return [*arrays(), _npz(seen=np.ones((3, 2))), csv, b"1,2\n3,4\n", gzip.compress(csv)]


def reward_files() -> list[bytes]:
    """Tables of rewards, and a manifest."""
    rewards = {"ood": {"mean": 1.0, "good": True}}
    manifest = {"policies": {"a": {"rewards": rewards}}, "evaluation": {"threshold": 0.5}}
    return [b"name,reward,good\na,1.5,yes\nb,-2,no\n", b"model,reward\na,1\n", json.dumps(manifest).encode()]


_ODD: tuple[Any, ...] = (None, True, 0, -1, 10**400, 0.5, float("nan"), "", "\x1b[31m", "Infinity", "1e5", [], {}, [[]])


def _edits(count: int) -> list[bytes]:
    """Bytes that `edited` reads: one odd value at each of the first places."""
    return [bytes([255, place, place % len(_ODD)]) for place in range(count)]


def edited(content: bytes, data: bytes) -> bytes:
    """A JSON text with some of its values replaced: after a first byte 255, two bytes say where and by what."""
    if data[:1] != b"\xff":
        return data
    told = json.loads(content)
    for place, odd in zip(data[1::2], data[2::2], strict=False):
        holders = list(_places(told))
        if holders:
            holder, key = holders[place % len(holders)]
            holder[key] = copy.deepcopy(_ODD[odd % len(_ODD)])  # or one edit would nest a list in itself
    return json.dumps(told, separators=(",", ":")).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a tree of lists and dicts that holds a value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


@functools.cache
def _run() -> dict[str, bytes]:
    """The files of a finished run."""
    from karenina.cli import run

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "domain.toml").write_bytes(_DOMAIN)
        for k in range(3):
            network = Network((Layer.of([[1, 4], [-3, 2]], [1, k], RELU), Layer.of([[2, -1]], [0])))
            network.to_onnx(folder / f"{k}.onnx")
            load(folder / f"{k}.onnx")
        asked = ["select", *(f"{folder}/{k}.onnx" for k in range(3)), "--domain", f"{folder}/domain.toml"]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            code = run([*asked, "--no-cache", "--out", f"{folder}/run", "--iterations", "1"])
        if code not in (0, 3):
            raise RuntimeError(said.getvalue())
        return {file.name: file.read_bytes() for file in (folder / "run").iterdir()}


def selection_json() -> bytes:
    """The result of the run."""
    return _run()["selection.json"]


def run_folders() -> list[bytes]:
    """A run's configuration, alone and with its result."""
    run = json.dumps(json.loads(_run()["run.json"])).encode()
    return [run, run + b"\0" + json.dumps(json.loads(selection_json())).encode(), *_edits(64)]


def journals() -> list[bytes]:
    """What the run measured."""
    return [_run()["pairs.jsonl"], _run()["pairs.jsonl"].splitlines(keepends=True)[0], *_edits(32)]


def sealed(content: bytes) -> bytes:
    """A JSON object with the right checksum; anything else as it is."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(told, dict):
        return content
    told.pop(CHECKSUM, None)
    try:
        return seal(told)
    except ValueError:  # NaN, which is no JSON
        return content


def with_checksums(data: bytes) -> Iterator[bytes]:
    """The lines, each ended by the checksum of what it holds."""
    for line in data.splitlines()[:20]:
        body = line.rpartition(b',"checksum":"')[0] or line.removesuffix(b"}")
        checksum = hashlib.blake2b(body, digest_size=8).hexdigest().encode()
        yield body + b',"checksum":"' + checksum + b'"}\n'
