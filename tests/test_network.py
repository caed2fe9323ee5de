"""Networks: activations against torch, evaluation, joining, hashing, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from karenina.errors import InputError
from karenina.network import ACTIVATIONS, IDENTITY, RELU, Activation, Layer, Network, append, concatenate

POINTS = torch.cat(
    [torch.linspace(-30, 30, 2001, dtype=torch.float64), torch.tensor([0.0, -1e-300, 1e-12, 800.0, -800.0])]
)

TORCH: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    Activation("identity"): lambda z: z,
    Activation("relu"): functional.relu,
    Activation("leaky_relu", (0.1,)): lambda z: functional.leaky_relu(z, 0.1),
    Activation("leaky_relu", (-0.5,)): lambda z: functional.leaky_relu(z, -0.5),
    Activation("leaky_relu", (3.0,)): lambda z: functional.leaky_relu(z, 3.0),
    Activation("abs"): torch.abs,
    Activation("clip", (-0.5, 2.0)): lambda z: functional.hardtanh(z, -0.5, 2.0),
    Activation("elu", (1.5,)): lambda z: functional.elu(z, 1.5),
    Activation("elu", (0.0,)): functional.relu,
    Activation("tanh"): torch.tanh,
    Activation("sigmoid"): torch.sigmoid,
    Activation("softplus"): lambda z: torch.logaddexp(z, torch.zeros_like(z)),
}
# Where an activation bends: there, either one-sided derivative will do.
KINKS = {"relu": (0.0,), "leaky_relu": (0.0,), "abs": (0.0,), "clip": (-0.5, 2.0), "elu": (0.0,)}


def random_network(sizes: list[int], activations: list[Activation], seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    pairs = zip(sizes[:-1], sizes[1:], activations, strict=True)
    return Network(tuple(Layer.of(rng.normal(size=(b, a)), rng.normal(size=b), kind) for a, b, kind in pairs))


def test_every_activation_is_compared() -> None:
    assert {activation.name for activation in TORCH} == set(ACTIVATIONS)


@pytest.mark.parametrize("activation", TORCH, ids=str)
def test_activations_compute_what_torch_does(activation: Activation) -> None:
    torch.testing.assert_close(activation(POINTS), TORCH[activation](POINTS), rtol=1e-14, atol=0)


@pytest.mark.parametrize("activation", TORCH, ids=str)
def test_derivatives_are_torchs(activation: Activation) -> None:
    smooth = POINTS[~torch.isin(POINTS, torch.tensor(KINKS.get(activation.name, ()), dtype=torch.float64))]
    z = smooth.clone().requires_grad_()
    (expected,) = torch.autograd.grad(TORCH[activation](z).sum(), z)
    # 1 - tanh^2 and torch's own formula both lose digits where tanh is nearly 1
    torch.testing.assert_close(activation.derivative(smooth), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("activation", TORCH, ids=str)
def test_slopes_enclose_every_chord_and_derivative(activation: Activation) -> None:
    low, high = activation.slopes
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(rng.normal(size=10_000) * 4) for _ in range(2))
    chords = (activation(a) - activation(b)) / (a - b)
    assert chords.min() >= low - 1e-9
    assert chords.max() <= high + 1e-9
    derivatives = activation.derivative(POINTS)
    assert derivatives.min() >= low - 1e-12
    assert derivatives.max() <= high + 1e-12
    assert activation.lipschitz == max(abs(low), abs(high))


@pytest.mark.parametrize("activation", [a for a in TORCH if a != Activation("elu", (0.0,))], ids=str)
def test_piecewise_linear_means_second_differences_vanish(activation: Activation) -> None:
    z = torch.linspace(-5, 5, 101, dtype=torch.float64)
    bent = (activation(z + 1e-3) - 2 * activation(z) + activation(z - 1e-3)).abs() > 1e-9
    assert activation.piecewise_linear == (int(bent.sum()) <= 2)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gelu", ()),
        ("relu", (1.0,)),
        ("leaky_relu", ()),
        ("leaky_relu", (float("nan"),)),
        ("clip", (0.0, float("inf"))),
        ("clip", (1.0, 1.0)),
        ("clip", (1.0, 0.0)),
        ("elu", (-1.0,)),
    ],
)
def test_activations_that_make_no_sense_are_refused(name: str, parameters: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=f"activation .?{name}"):
        Activation(name, parameters)


def test_a_network_computes_what_torch_does() -> None:
    module = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    linear = [part for part in module if isinstance(part, nn.Linear)]
    kinds = [Activation("tanh"), RELU, IDENTITY]
    layers = tuple(Layer.of(part.weight, part.bias, kind) for part, kind in zip(linear, kinds, strict=True))
    network = Network(layers)
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    torch.testing.assert_close(network(x), module(x), rtol=1e-12, atol=1e-12)
    assert network(x.numpy()).shape == (4, 6, 2)
    np.testing.assert_allclose(network(x[0, 0].tolist()), network(x[0, 0]).detach().numpy())
    assert not network(x).requires_grad, "weights are constants, not parameters"


def test_a_layer_of_mixed_activations() -> None:
    layer = Layer.of(np.eye(4), np.zeros(4), ((RELU, 1), (IDENTITY, 2), (Activation("abs"), 1)))
    z = torch.tensor([[-1.0, -2.0, 3.0, -4.0]], dtype=torch.float64)
    assert layer(z).tolist() == [[0.0, -2.0, 3.0, 4.0]]
    assert layer.derivative(z).tolist() == [[0.0, 1.0, 1.0, -1.0]]
    assert not layer.is_affine


def test_runs_of_one_activation_are_joined() -> None:
    layer = Layer.of(np.eye(4), np.zeros(4), ((RELU, 1), (RELU, 2), (IDENTITY, 0), (RELU, 1)))
    assert layer.activations == ((RELU, 4),)


def test_a_networks_description() -> None:
    network = random_network([30, 32, 16, 1], [RELU, Activation("tanh"), IDENTITY]).named("aurora")
    assert (network.input_size, network.output_size) == (30, 1)
    assert str(network) == "aurora (30-32-16-1, relu, tanh)"
    assert not network.piecewise_linear
    assert str(random_network([2, 1], [IDENTITY])) == "network (2-1, affine)"
    assert random_network([2, 3, 1], [RELU, Activation("clip", (0.0, 1.0))]).piecewise_linear


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"weight is \(out, in\)"):
        Layer.of([1.0, 2.0], [0.0])
    with pytest.raises(InputError, match="NaN or infinity"):
        Layer.of([[float("nan")]], [0.0])
    with pytest.raises(InputError, match="NaN or infinity"):
        Layer.of([[1.0]], [float("inf")])
    with pytest.raises(InputError, match="a layer of 2 neurons has activations for 1"):
        Layer.of(np.eye(2), np.zeros(2), ((RELU, 1),))
    with pytest.raises(InputError, match="at least one layer"):
        Network(())
    with pytest.raises(InputError, match="layer 0 has 2 outputs but layer 1 takes 3 inputs"):
        Network((Layer.of(np.eye(2), np.zeros(2)), Layer.of(np.eye(3), np.zeros(3))))
    with pytest.raises(InputError, match="takes 2 inputs, not 3"):
        random_network([2, 1], [IDENTITY])([1.0, 2.0, 3.0])


_KINDS = st.sampled_from([RELU, Activation("tanh"), Activation("abs"), IDENTITY])


@st.composite
def networks(draw: st.DrawFn, inputs: int) -> Network:
    hidden = draw(st.lists(st.integers(1, 5), max_size=4))
    kinds = draw(st.lists(_KINDS, min_size=len(hidden) + 1, max_size=len(hidden) + 1))
    sizes = [inputs, *hidden, draw(st.integers(1, 3))]
    return random_network(sizes, kinds, draw(st.integers(0, 1000)))


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 4))
def test_concatenation_computes_both(data: st.DataObject, inputs: int) -> None:
    first, second = data.draw(networks(inputs)), data.draw(networks(inputs))
    both = concatenate(first, second)
    x = np.random.default_rng(0).normal(size=(20, inputs))
    np.testing.assert_allclose(both(x), np.concatenate([first(x), second(x)], axis=1), rtol=1e-12, atol=1e-12)
    assert len(both.layers) == max(len(first.layers), len(second.layers))


def test_concatenation_needs_one_input() -> None:
    first, second = random_network([2, 1], [IDENTITY]), random_network([3, 1], [IDENTITY])
    with pytest.raises(InputError, match="cannot share an input"):
        concatenate(first, second)


def test_concatenation_keeps_names_and_notes() -> None:
    layer = (Layer.of(np.eye(2), np.zeros(2)),)
    both = concatenate(Network(layer, "a", ("one",)), Network(layer, "b", ("two",)))
    assert both.name == "[a; b]"
    assert both.notes == ("one", "two")
    assert concatenate(Network(layer), Network(layer), "pair").name == "pair"


@settings(deadline=None, max_examples=40)
@given(networks(3))
def test_simplified_is_the_same_function_without_affine_layers_inside(network: Network) -> None:
    simplified = network.simplified()
    x = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(simplified(x), network(x), rtol=1e-9, atol=1e-9)
    assert not any(layer.is_affine for layer in simplified.layers[:-1])


def test_the_digest_is_of_the_function_not_of_the_name() -> None:
    network = random_network([2, 3, 1], [RELU, IDENTITY])
    assert network.named("other").digest() == network.digest()
    assert random_network([2, 3, 1], [RELU, IDENTITY]).digest() == network.digest()
    assert random_network([2, 3, 1], [Activation("tanh"), IDENTITY]).digest() != network.digest()
    assert random_network([2, 3, 1], [RELU, IDENTITY], seed=1).digest() != network.digest()


def test_the_digest_does_not_tell_zeros_apart() -> None:
    plus, minus = (Network((Layer.of([[1.0, zero]], [zero]),)) for zero in (0.0, -0.0))
    assert plus.digest() == minus.digest()


def test_append_and_to() -> None:
    network = random_network([2, 3, 1], [RELU, IDENTITY])
    longer = append(network, [Layer.of([[2.0]], [1.0])], "longer")
    x = np.ones(2)
    np.testing.assert_allclose(longer(x), 2 * network(x) + 1)
    assert longer.name == "longer"
    assert network.to("cpu").digest() == network.digest()
