"""State dicts in files, against torch itself."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from karenina.errors import InputError, UnsupportedModel
from karenina.loading import load
from karenina.network import Activation, Network


def agrees(module: nn.Module, network: Network, shape: tuple[int, ...], tolerance: float = 1e-12) -> None:
    """The network computes what the module does, in float64 and evaluation mode, for inputs of a shape."""
    training = module.training
    wide = module.double().eval()
    x = torch.randn(16, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    with torch.no_grad():
        expected = wide(x).reshape(16, -1)
    torch.testing.assert_close(network(x.reshape(16, -1)), expected, rtol=tolerance, atol=tolerance)
    module.train(training)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2))


@pytest.mark.parametrize("kind", ["pt", "old pt", "safetensors"])
def test_state_dicts(tmp_path: Path, kind: str) -> None:
    module = mlp()
    path = tmp_path / "policy.pt"
    if kind == "safetensors":
        save_file(module.state_dict(), path)
    else:
        torch.save(module.state_dict(), path, _use_new_zipfile_serialization=kind == "pt")
    network = load(path)
    assert str(network) == "policy (3-8-5-2, relu)"
    assert network.notes == (
        "the file does not say which activation it uses: relu is assumed",
        "the layers are taken in the order 0, 2, 4",
    )
    agrees(module, network, (3,))
    assert load(path, activation="relu").notes == ("the layers are taken in the order 0, 2, 4",)


@pytest.mark.parametrize(
    ("name", "activation"),
    [
        ("tanh", Activation("tanh")),
        ("Tanh", Activation("tanh")),
        ("leaky_relu", Activation("leaky_relu", (float(np.float32(0.01)),))),
        ("LeakyReLU", Activation("leaky_relu", (float(np.float32(0.01)),))),
        ("ELU", Activation("elu", (1.0,))),
        ("ReLU6", Activation("clip", (0.0, 6.0))),
        (Activation("leaky_relu", (0.3,)), Activation("leaky_relu", (0.3,))),
    ],
)
def test_the_activation_can_be_given(tmp_path: Path, name: str | Activation, activation: Activation) -> None:
    path = tmp_path / "policy.pt"
    torch.save(mlp().state_dict(), path)
    assert load(path, activation=name).layers[0].activations == ((activation, 8),)


def test_an_unknown_activation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    torch.save(mlp().state_dict(), path)
    with pytest.raises(UnsupportedModel, match=r"policy.pt: the activation 'gelu' is not one karenina verifies"):
        load(path, activation="gelu")


def test_layers_are_ordered_by_number_not_by_letter(tmp_path: Path) -> None:
    """Twelve square layers, stored in a scrambled order: only the names say how they follow each other."""
    module = nn.Sequential(*(part for _ in range(12) for part in (nn.Linear(3, 3), nn.Tanh())))[:-1]
    path = tmp_path / "deep.safetensors"
    save_file(module.state_dict(), path)
    network = load(path, activation="tanh")
    assert "0, 2, 4, 6, 8, 10, 12, 14" in network.notes[0]
    agrees(module, network, (3,))


def test_layers_in_the_order_they_are_stored(tmp_path: Path) -> None:
    tensors = OrderedDict()
    for name, (before, after) in {"fc1": (3, 6), "fc2": (6, 5), "action": (5, 1)}.items():
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = torch.randn(after, before), torch.randn(after)
    path = tmp_path / "policy.pt"
    torch.save(tensors, path)
    network = load(path, activation="relu")
    assert network.shape == "3-6-5-1"
    assert network.notes == ("the layers are taken in the order fc1, fc2, action",)


def test_an_order_that_is_not_clear_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    torch.save(OrderedDict({"in.weight": torch.eye(2), "hidden.weight": torch.eye(2)}), path)
    with pytest.raises(InputError, match=r"policy.pt: its layers \(in 2->2, hidden 2->2\) are a chain both by name"):
        load(path)
    torch.save({"a.weight": torch.ones(2, 3), "b.weight": torch.ones(2, 3)}, path)
    with pytest.raises(InputError, match="are no chain"):
        load(path)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_checkpoints_of_training_scripts(tmp_path: Path, key: str) -> None:
    module, path = mlp(), tmp_path / "checkpoint.pt"
    torch.save({"epoch": 3, key: module.state_dict(), "optimizer": {"state": {}}}, path)
    agrees(module, load(path), (3,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors, path = mlp().to(dtype).state_dict(), tmp_path / "policy.pt"
    torch.save(tensors, path)
    assert torch.equal(load(path).layers[0].weight, tensors["0.weight"].double())
    save_file(tensors, path)
    assert torch.equal(load(path).layers[0].weight, tensors["0.weight"].double())


def test_a_layer_without_bias_and_a_single_layer(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    torch.save(nn.Linear(2, 3, bias=False).state_dict(), path)
    network = load(path)
    assert network.shape == "2-3"
    assert network.layers[0].bias.tolist() == [0, 0, 0]
    assert network.notes == ()


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"0.weight": torch.ones(1, 1, 3, 3)}, r"'0.weight' has shape \[1, 1, 3, 3\]: not a Linear"),
        (nn.BatchNorm1d(3).state_dict(), "'running_mean' is not of a Linear layer"),
        ({"0.bias": torch.ones(3)}, "'0.bias' is not of a Linear layer"),
        ({"0.weight": torch.ones(2, 3), "0.bias": torch.ones(3)}, r"'0.bias' has shape \[3\] for 2 neurons"),
        ({"0.weight": torch.ones(2, 3, dtype=torch.int64)}, "has the type torch.int64"),
        ({"0.weight": torch.full((2, 3), torch.nan)}, "NaN or infinity"),
        ({"0.weight": torch.ones(1, 1).expand(10**6, 10**6)}, r"claims 1000000000000 numbers but stores fewer"),
        ({"0.weight": torch.eye(3).to_sparse()}, "sparse"),
        ({"0.weight": torch.ones(0, 3)}, r"'0.weight' has shape \[0, 3\]"),
        ({}, "holds no weight"),
        ({"0.weight": 3.0}, "'0.weight' is no tensor"),
        ({1: torch.ones(2, 2)}, "entry 1 is no tensor"),
        (torch.ones(2, 2), "holds a Tensor, not a state dict"),
    ],
)
def test_what_is_no_chain_of_linear_layers_is_refused(tmp_path: Path, tensors: Any, message: str) -> None:
    path = tmp_path / "policy.pt"
    torch.save(tensors, path)
    with pytest.raises(InputError, match=f"policy.pt: .*{message}"):
        load(path)


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("new", [True, False])
def test_pickled_modules_and_code_are_refused_and_not_run(tmp_path: Path, new: bool) -> None:
    path = tmp_path / "policy.pt"
    torch.save(mlp(), path, _use_new_zipfile_serialization=new)
    with pytest.raises(UnsupportedModel, match=r"policy.pt: .*save model.state_dict\(\), or export the model to ONNX"):
        load(path)
    torch.save({"0.weight": Trap(tmp_path / "sprung")}, path, _use_new_zipfile_serialization=new)
    with pytest.raises(UnsupportedModel, match=r"holds more than tensors"):
        load(path)
    path.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(UnsupportedModel, match=r"policy.pt: is a pickle, which karenina does not run"):
        load(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.filterwarnings("ignore")
def test_torchscript_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), path)
    with pytest.raises(UnsupportedModel, match=r"policy.pt: is a TorchScript program"):
        load(path)


def test_a_zip_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    path = tmp_path / "bomb.pt"
    path.write_bytes(buffer.getvalue())
    monkeypatch.setattr("karenina.loading.torch.unpacked_limit", lambda _: 10**5)
    with pytest.raises(InputError, match=r"bomb.pt: unpacks to more than 100000 bytes"):
        load(path)
