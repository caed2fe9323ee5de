"""What is fuzzed: every reader of bytes or text that karenina did not write.

Enters: bytes, any. Leaves: nothing, or karenina's own `KareninaError`; anything else that is raised is a finding. Each
target goes through the function that users call, on a real file where that function reads files. Nothing here needs
atheris: the tests replay findings through `replay`.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import graph_from_bytes
import numpy as np
import parser_seeds as seeds

from karenina.distance import Condition
from karenina.domain import Domain
from karenina.domain_data import domain_from_data, read_observations
from karenina.domain_file import domain_from_toml, load_domain
from karenina.errors import KareninaError
from karenina.loading import load
from karenina.network import Network
from karenina.query import Goal
from karenina.report import read_rewards, read_run
from karenina.store import read_configuration
from karenina.store.journal import Journal
from karenina.store.records import Record, key_of_line
from karenina.vnnlib import parse_specification

__all__ = ["TARGETS", "Target", "replay"]


@dataclass(frozen=True)
class Target:
    """One reader: how to feed it, what to start from, and words that its language knows."""

    name: str
    run: Callable[[bytes, Path], None]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes] = ()


def replay(target: Target, data: bytes) -> str:
    """Feed one input; how it ended: "read", or the refusal. Anything but a refusal comes out as it was raised."""
    folder = Path(tempfile.mkdtemp(prefix="karenina-fuzz-", dir=_memory()))
    try:
        target.run(data, folder)
    except KareninaError as error:
        return str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return "read"


def _memory() -> str | None:
    """A file system in memory, where there is one: a file is written for every input."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _check_network(network: Network) -> None:
    if network.input_size > 10_000:
        return
    with np.errstate(all="ignore"):
        outputs = network(np.zeros(network.input_size))
    assert outputs.shape == (network.output_size,)
    assert all(bool(layer.weight.isfinite().all()) for layer in network.layers)


def _check_domain(domain: Domain) -> None:
    assert all(np.isfinite(box.lower).all() and (box.lower <= box.upper).all() for box in domain.boxes)
    again = domain_from_toml(domain.to_toml())
    assert all((a.lower == b.lower).all() for a, b in zip(domain.boxes, again.boxes, strict=True))


def _model(data: bytes, folder: Path) -> None:
    file = folder / "model"
    file.write_bytes(data)
    _check_network(load(file))


def _graph(data: bytes, folder: Path) -> None:
    _model(graph_from_bytes.model(data), folder)


def _state_dict(data: bytes, folder: Path) -> None:
    """The bytes are the pickle of a torch file; the tensors beside it are whole."""
    _model(seeds.torch_zip(data), folder)


def _sb3(data: bytes, folder: Path) -> None:
    """The bytes are the settings of a Stable-Baselines3 zip, or, after a zero byte, the pickle of its weights."""
    settings, _, pickled = data.partition(b"\0")
    settings = seeds.edited(seeds.sb3_settings()[0], settings)
    weights = seeds.torch_zip(pickled) if pickled else seeds.sb3_weights()
    file = folder / "model.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data", settings)
        archive.writestr("policy.pth", weights)
    for action in ("raw", "executed"):
        try:
            _check_network(load(file, action=action))
        except KareninaError:
            continue


def _statistics(data: bytes, folder: Path) -> None:
    model, beside = folder / "model.pt", folder / "statistics"
    model.write_bytes(seeds.state_dict())
    beside.write_bytes(data)
    _check_network(load(model, normalisation=beside))


def _domain(data: bytes, folder: Path) -> None:
    file = folder / "domain.toml"
    file.write_bytes(data)
    _check_domain(load_domain(file))


def _specification(data: bytes, folder: Path) -> None:
    del folder
    parse_specification(data.decode("utf-8", "replace"))


def _condition(data: bytes, folder: Path) -> None:
    del folder
    condition = Condition.parse(data.decode("utf-8", "replace"), 3)
    assert np.isfinite(condition.rows).all()
    assert np.isfinite(condition.offsets).all()


def _observations(data: bytes, folder: Path) -> None:
    file = folder / "seen"
    file.write_bytes(data)
    array, names = read_observations(file)
    _check_domain(domain_from_data(array, names=names, name="seen"))


def _npz(data: bytes, folder: Path) -> None:
    """The bytes are one array of an archive whose checksums are right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("mean.npy", data)
        archive.writestr("var.npy", seeds.npy())
    for reader in (_observations, _statistics):
        try:
            reader(buffer.getvalue(), folder)
        except KareninaError:
            continue


def _rewards(data: bytes, folder: Path) -> None:
    file = folder / "rewards.csv"
    file.write_bytes(data)
    read_rewards(file)


def _journal(data: bytes, folder: Path) -> None:
    """Lines whose checksums are made right, so that what is behind them is read too."""
    data = seeds.edited(seeds.journals()[1], data)
    file = folder / "pairs.jsonl"
    file.write_bytes(data)
    Journal(file).close()
    for line in seeds.with_checksums(data):
        if key_of_line(line) is not None:
            with suppress(ValueError):  # what `Journal.find` expects of a forged line
                Record.read(line).answers(Goal())


def _run_folder(data: bytes, folder: Path) -> None:
    """The bytes are run.json, and after a zero byte selection.json; where they are JSON, their checksums are right."""
    run, _, selection = data.partition(b"\0")
    valid = seeds.run_folders()[0]
    result = seeds.selection_json()
    (folder / "run.json").write_bytes(seeds.sealed(seeds.edited(valid, run) or valid))
    (folder / "selection.json").write_bytes(seeds.sealed(seeds.edited(result, selection) or result))
    configuration = read_configuration(folder)
    if not any(Path(model.path).exists() for model in configuration.models):
        read_run(folder)


_TOML = [b"names", b"repeat", b"[[box]]", b"[box.bounds]", b"lower = [", b"upper = [", b"nan", b"inf", b"1e999", b'"""']
_VNNLIB = [b"(declare-const X_0 Real)", b"(assert (", b"(or ", b"(and ", b"<=", b">=", b"Y_0", b"(* ", b"(+ ", b"1e400"]
_JSON = [json.dumps(word).encode() for word in ("policy_class", "__module__", "policy_kwargs", ":type:", "low", "high")]
_PICKLE = [b"cbuiltins\neval\n", b"ctorch\nFloatStorage\n", b"R", b"(", b"t", b"\x85", b"\x8c\x04data", b"\x80\x02"]

TARGETS = (
    Target("onnx", _model, seeds.onnx_models),
    Target("onnx-graph", _graph, seeds.graph_bytes),
    Target("state-dict", _state_dict, seeds.pickles, _PICKLE),
    Target("torch-file", _model, seeds.torch_files),
    Target("sb3", _sb3, seeds.sb3_settings, _JSON),
    Target("safetensors", _model, seeds.safetensors_files, [b'"dtype"', b'"F32"', b'"shape"', b'"data_offsets"']),
    Target("nnet", _model, seeds.nnet_files, [b"//", b"1e999", b"nan", b","]),
    Target("statistics", _statistics, seeds.statistics_files, _PICKLE),
    Target("domain", _domain, seeds.domain_files, _TOML),
    Target("vnn-lib", _specification, seeds.specifications, _VNNLIB),
    Target("condition", _condition, seeds.conditions, [b"y0", b"y", b">=", b"<=", b" and ", b"*", b"1e999"]),
    Target("observations", _observations, seeds.observation_files, [b"'descr'", b"'shape'", b"'<f8'", b"\x93NUMPY"]),
    Target("npz", _npz, seeds.arrays, [b"'descr'", b"'shape'", b"'<f8'", b"\x93NUMPY"]),
    Target("rewards", _rewards, seeds.reward_files, [b"name", b"reward", b"good", b"policies"]),
    Target("journal", _journal, seeds.journals, [b"Infinity", b'"EXACT"', b"null", b"[", b"{"]),
    Target("run", _run_folder, seeds.run_folders, [b"models", b"null", b"Infinity", b"[", b"{"]),
)
