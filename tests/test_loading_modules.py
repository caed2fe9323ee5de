"""Modules in memory, against torch itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from karenina.errors import InputError, UnsupportedModel
from karenina.loading import from_torch
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


ACTIVATIONS = [
    nn.ReLU(),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.ELU(0.5),
    nn.LeakyReLU(0.25),
    nn.Softplus(threshold=100),
    nn.Softplus(beta=2, threshold=100),
    nn.Hardtanh(-0.5, 2.0),
    nn.ReLU6(),
    nn.Identity(),
    nn.Dropout(0.5),
]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_sequential(activation: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(4, 6), activation, nn.Linear(6, 3, bias=False)).eval()
    network = from_torch(module, name="policy")
    assert network.name == "policy"
    agrees(module, network, (4,))


def test_weights_are_taken_exactly() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Sequential(nn.Linear(6, 3), nn.Tanh()))
    network = from_torch(module)
    assert str(network) == "Sequential (4-6-3, tanh)"
    assert network.notes == ()
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    for layer, part in zip(network.layers, linear, strict=True):
        assert torch.equal(layer.weight, part.weight.double())
        assert torch.equal(layer.bias, part.bias.double())
    with torch.no_grad():
        linear[0].weight += 1
    assert not torch.equal(network.layers[0].weight, linear[0].weight.double()), "a copy, not a view"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_parameters_are_in_the_modules_own_precision(dtype: torch.dtype) -> None:
    """torch's float32 LeakyReLU(0.01) has the slope float32(0.01), and so have ONNX files of it."""
    network = from_torch(nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.01)).to(dtype))
    slope = float(torch.tensor(0.01, dtype=dtype))
    assert network.layers[0].activations == ((Activation("leaky_relu", (slope,)), 2),)


def test_modes_of_training_are_noted() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.9), nn.ReLU(), nn.Linear(3, 1))
    assert from_torch(module).notes == ("the module is in training mode: it was read as in evaluation mode",)
    assert from_torch(module.eval()).notes == ()


def test_softplus_says_that_torch_has_a_threshold() -> None:
    network = from_torch(nn.Sequential(nn.Linear(2, 2), nn.Softplus()))
    assert "at most 2.1e-9" in network.notes[0]
    with pytest.raises(UnsupportedModel, match=r"module '1' \(Softplus\) has threshold 1 and beta 1"):
        from_torch(nn.Sequential(nn.Linear(2, 2), nn.Softplus(threshold=1)))


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ([nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 5, 2)], (1, 6, 7)),
        ([nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 2), groups=2), nn.Tanh()], (2, 6, 5)),
        ([nn.Conv2d(1, 2, 3, padding="same", dilation=2), nn.ReLU(), nn.AvgPool2d(2)], (1, 6, 6)),
        ([nn.Conv2d(1, 2, 3, padding="valid", bias=False)], (1, 5, 5)),
        ([nn.AvgPool2d(3, stride=2, padding=1)], (2, 7, 6)),
        ([nn.AvgPool2d((3, 2), stride=2, padding=1, count_include_pad=False)], (1, 7, 6)),
        ([nn.AvgPool2d(3, stride=2, ceil_mode=True)], (1, 8, 6)),
        ([nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True)], (1, 8, 7)),
        ([nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten()], (2, 8)),
        ([nn.Flatten(), nn.Linear(12, 3)], (3, 4)),
        ([nn.Flatten(1, 2), nn.Linear(4, 3)], (3, 2, 4)),
    ],
)
def test_images(layers: list[nn.Module], shape: tuple[int, ...]) -> None:
    module = nn.Sequential(*layers)
    agrees(module, from_torch(module, input_shape=shape), shape)


@pytest.mark.parametrize(("kind", "shape"), [(nn.BatchNorm1d, (5,)), (nn.BatchNorm2d, (5, 3, 2))])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(kind: type[nn.BatchNorm1d | nn.BatchNorm2d], shape: tuple[int, ...], affine: bool) -> None:
    normalising = kind(5, affine=affine)
    module = nn.Sequential(normalising, nn.ReLU())
    for _ in range(3):
        module(torch.randn(8, *shape) * 3 + 1)
    if affine:
        nn.init.normal_(normalising.weight)
    agrees(module, from_torch(module.eval(), input_shape=shape), shape)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: torch.Tensor, gain: float = 0.5) -> torch.Tensor:
        x = x.view(x.size(0), -1)
        h = functional.leaky_relu(self.first(x), negative_slope=0.125, inplace=False)
        h = functional.dropout(h, 0.3, training=self.training)
        h = (h + self.inner(h) - x / 2) * self.scale + gain
        h = torch.cat([h.relu(), torch.abs(-h), functional.elu(h)], dim=1)
        h = torch.flatten(h.reshape(x.shape[0], 3, 4), 1)
        out: torch.Tensor = functional.hardtanh(h, max_val=2.0).clamp(min=-0.5)
        return out


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Residual()
        self.head = nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(torch.sigmoid(self.body(x)).tanh())
        return out


@pytest.mark.parametrize("module", [Residual(), Nested()], ids=["residual", "nested"])
def test_a_forward_of_ones_own_is_traced(module: nn.Module) -> None:
    agrees(module, from_torch(module.eval(), name="n"), (4,))


class Looping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 1:
            x = self.layer(x)
        return x


class Squaring(Looping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.layer(x)
        return h * h


class Sine(Looping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.layer(x))


class Pair(Looping):
    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x), x


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x) + y
        return out


class OddLinear(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.sort(super().forward(input)).values


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.GELU()), r"module '1' \(GELU\) is not a layer that karenina verifies"),
        (nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Softmax(1))), r"module '1\.0' \(Softmax\) is not a layer"),
        (nn.Sequential(nn.LSTM(2, 2)), r"module '0' \(LSTM\) is not"),
        (Looping(), r"module Looping has a forward that cannot be traced"),
        (Squaring(), r"function 'mul', called by module Squaring, multiplies or divides by a value that depends"),
        (Sine(), r"function 'sin', called by module Sine, is not one that karenina verifies"),
        (Pair(), r"module Pair returns tuple, not one tensor"),
        (TwoInputs(), r"module TwoInputs has a forward of more than one argument"),
        (nn.Sequential(OddLinear(2, 2)), r"module '0' \(OddLinear\)|OddLinear"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 1)),
            r"module '1' \(Linear\) multiplies a tensor of shape \[1, 2\]",
        ),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)), "no running statistics"),
    ],
)
def test_what_is_not_verified_is_refused_by_name(module: nn.Module, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_torch(module, input_shape=(2,), name="n")


def test_hooks_are_refused() -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].register_forward_hook(lambda *_: None)
    with pytest.raises(UnsupportedModel, match=r"module '0' \(Linear\) has forward hooks"):
        from_torch(module)


def test_an_unknown_input_size_is_asked_for() -> None:
    with pytest.raises(InputError, match="Sequential: its first layer does not tell the size of its input"):
        from_torch(nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten(), nn.Linear(4, 1)))
    with pytest.raises(InputError, match="give input_shape"):
        from_torch(nn.ReLU())


def test_nan_weights_are_refused() -> None:
    module = nn.Linear(2, 2)
    nn.init.constant_(module.weight, float("nan"))
    with pytest.raises(InputError, match=r"Linear: .*NaN"):
        from_torch(module)
