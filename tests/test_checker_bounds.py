"""The checker's bounds, with any hints at all, against exact values of the chain at inputs of the box."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from certificates import KINDS, NEARLY, exact_layers, exact_outputs, fractions, is_no_claim, random_chain, roughly

from karenina.certificate.growth import network_of
from karenina.checker.activations import Kind
from karenina.checker.bounds import Bounder, Boxes, Goal, Hints, Linear
from karenina.checker.chain import IDENTITY, Chain, Layer, beside, exact
from karenina.checker.refusal import Refused
from karenina.checker.tree import cut_off, halved

Array = npt.NDArray[Any]
LINEAR_KINDS = tuple(kind for kind in KINDS if kind.linear)
SILLY = (0.0, 1.0, -1.0, 1e6, -1e6, 1e-300, 5e-324, 1e150, 0.5)


def scaled(rng: np.random.Generator, chain: Chain) -> Chain:
    """Huge and tiny layers side by side, and a bias that cancels: what breaks sums in floating point."""
    layers, power = [], rng.choice([0, 0, 4, 8, 100, 150])
    for k, layer in enumerate(chain.layers):
        factor = 10.0 ** (power if k % 2 else -power)
        bias = layer.bias * factor * rng.choice([1.0, 1e8])
        layers.append(Layer(layer.weight * factor, bias, layer.runs))
    return Chain(tuple(layers))


def random_hints(rng: np.random.Generator, bounder: Bounder, constraints: int) -> Hints:
    """Slopes and coefficients sane, silly or left out; multipliers that are not negative."""
    shape = 1, bounder.neurons

    def some(sane: Array, left_out: float) -> Array:
        values = np.where(rng.random(shape) < 0.15, rng.choice(SILLY, size=shape), sane)
        return np.where(rng.random(shape) < left_out, np.nan, values)

    multipliers = np.abs(rng.normal(size=(1, constraints))) * rng.choice([0.0, 1.0, 1e-9, 1e5])
    return Hints(some(rng.random(shape), 0.3), multipliers, some(rng.normal(size=shape), 0.6))


class Trial:
    """A random chain, box, goal and hints; and inputs of the box with their exact values."""

    def __init__(self, seed: int, kinds: tuple[Kind, ...] = KINDS, *, sided: bool = True) -> None:
        rng = np.random.default_rng(seed)
        inputs, outputs = (int(size) for size in rng.integers(1, 4, size=2))
        chain = random_chain(rng, inputs, outputs, int(rng.integers(1, 5)), kinds)
        self.chain = scaled(rng, chain) if rng.random() < 0.4 else chain
        self.bounder = Bounder(self.chain)
        centre, radius = rng.normal(size=inputs), rng.random(inputs) * rng.choice([1e-7, 0.1, 1.0, 3.0])
        radius *= rng.random(inputs) < 0.9
        self.lower, self.upper = centre - radius, centre + radius
        self.points = self._points(rng)
        self.layers = [list(exact_layers(self.chain, fractions(x))) for x in self.points]
        base = self.layers[0]
        sides = np.zeros((1, self.bounder.neurons), np.int8)
        if sided and rng.random() < 0.6:
            signs = np.array([1 if z >= 0 else -1 for zs, _ in base for z in zs], np.int8)
            sides[0] = np.where(rng.random(len(signs)) < 0.4, signs, 0)
        self.boxes = Boxes(self.lower[None], self.upper[None], sides)
        count = int(rng.integers(0, 3))
        rows = rng.normal(size=(count, outputs))
        room = rng.choice([0.0, 0.1, 1.0], size=count)
        offsets = np.array([room[r] - float(_dot(rows[r], base[-1][1])) for r in range(count)])
        self.goal = Goal(rng.normal(size=outputs), rows, offsets)
        self.hints = random_hints(rng, self.bounder, count)

    def _points(self, rng: np.random.Generator) -> Array:
        corners = np.array(list(itertools.product(*zip(self.lower, self.upper, strict=True))))
        inner = self.lower + rng.random((8, len(self.lower))) * (self.upper - self.lower)
        return np.asarray(np.clip(np.concatenate([inner, corners]), self.lower, self.upper))

    def attained(self, sides: Array) -> list[tuple[Array, Fraction]]:
        """Inputs where the sides and the constraints hold, and their objectives."""
        found = []
        for x, layers in zip(self.points, self.layers, strict=True):
            z, outputs = [value for zs, _ in layers for value in zs], layers[-1][1]
            on_sides = all(side * value >= 0 for side, value in zip(sides.tolist(), z, strict=True))
            rows = zip(self.goal.rows, self.goal.offsets, strict=True)
            if on_sides and all(_dot(row, outputs) + Fraction(offset) >= 0 for row, offset in rows):
                found.append((x, _dot(self.goal.objective, outputs)))
        return found

    def bound(self, boxes: Boxes) -> Linear:
        with np.errstate(all="ignore"):
            return self.bounder.bound(self.goal, boxes, self.hints)


def _dot(row: Array, values: list[Fraction]) -> Fraction:
    return sum((Fraction(float(a)) * b for a, b in zip(row, values, strict=True)), Fraction(0))


def check_linear(trial: Trial, linear: Linear, sides: Array) -> int:
    """Assert that no objective is above the bound; how many were looked at."""
    if is_no_claim(float(linear.most[0])):
        return 0
    attained = trial.attained(sides)
    for x, value in attained:
        assert linear.most[0] != -np.inf, "there is an input, so the box is not empty"
        assert value - NEARLY <= Fraction(float(linear.most[0]))
        if np.isfinite(linear.constant[0]):
            line = _dot(linear.coefficients[0], fractions(x)) + Fraction(float(linear.constant[0]))
            assert value - NEARLY <= line
    return len(attained)


@pytest.mark.parametrize("group", range(6))
def test_no_objective_is_above_the_bound_whatever_the_hints(group: int) -> None:
    looked_at = 0
    for seed in range(60 * group, 60 * group + 60):
        trial = Trial(seed)
        looked_at += check_linear(trial, trial.bound(trial.boxes), trial.boxes.sides[0])
    assert looked_at > 200, "too few bounds say anything"


@pytest.mark.parametrize("group", range(3))
def test_rounded_bounds_are_above_exact_ones(group: int) -> None:
    """And exact arithmetic finds no neuron's bound too narrow."""
    compared = 0
    for seed in range(1000 + 25 * group, 1000 + 25 * group + 25):
        trial = Trial(seed, LINEAR_KINDS if seed % 3 else KINDS)
        linear = trial.bound(trial.boxes)
        if not np.isfinite(linear.most[0]) or not np.isfinite(linear.constant[0]):
            continue
        exactly = trial.bounder.verify(trial.goal, trial.boxes, trial.hints)
        assert exactly.most[0] <= Fraction(float(linear.most[0]))
        for _, value in trial.attained(trial.boxes.sides[0]):
            assert value - NEARLY <= exactly.most[0]
        compared += 1
    assert compared > 5


@pytest.mark.parametrize("group", range(3))
def test_what_is_cut_off_never_exceeds_the_claim(group: int) -> None:
    cuts = 0
    for seed in range(2000 + 80 * group, 2000 + 80 * group + 80):
        trial = Trial(seed, sided=False)
        linear, attained = trial.bound(trial.boxes), trial.attained(trial.boxes.sides[0])
        if not attained:
            continue
        values = sorted(value for _, value in attained)
        for claim in (float(values[0]), float(values[-1]), float(values[len(values) // 2]), -1e-300, 0.0):
            with np.errstate(all="ignore"):
                cut = cut_off(linear, trial.boxes, claim)
            assert (cut.lower <= cut.upper).all()
            cuts += int((cut.lower > trial.boxes.lower).any() or (cut.upper < trial.boxes.upper).any())
            for x, value in attained:
                kept = bool(((cut.lower[0] <= x) & (x <= cut.upper[0])).all())
                assert kept or value - NEARLY <= Fraction(claim)
    assert cuts > 20


def test_a_cut_keeps_the_last_denormal() -> None:
    """Moves smaller than floats can tell are rounded so as to keep more."""
    tiny = 5e-324
    boxes = Boxes(np.array([[-1e-310]]), np.array([[0.0]]), np.zeros((1, 1), np.int8))
    for slope, claim in itertools.product((1.0, 3.0, 1e10, 7e-5), (-tiny, -3 * tiny, 0.0, -1e-312)):
        linear = Linear(np.array([[slope]]), np.array([0.0]), np.array([0.0]))
        cut = cut_off(linear, boxes, claim)
        for k in range(200):
            x = -k * tiny
            if Fraction(slope) * Fraction(x) > Fraction(claim):
                assert cut.lower[0, 0] <= x <= cut.upper[0, 0]


def test_a_cut_is_rounded_so_as_to_keep_more() -> None:
    """What lies beyond each new side is at most the claim, exactly, reals between floats among it."""
    rng, cuts = np.random.default_rng(0), 0
    for _ in range(2000):
        lower, upper = np.sort(rng.normal(size=2) * 10.0 ** rng.integers(-3, 4))
        slope, constant = float(rng.normal()), float(rng.normal())
        exactly = max(Fraction(slope) * Fraction(x) for x in (lower, upper)) + Fraction(constant)
        most = float(exactly) if Fraction(float(exactly)) >= exactly else float(np.nextafter(float(exactly), np.inf))
        claim = most - abs(rng.normal()) * 10.0 ** rng.integers(-16, 1)
        linear = Linear(np.array([[slope]]), np.array([constant]), np.array([most]))
        cut = cut_off(linear, Boxes(np.array([[lower]]), np.array([[upper]]), np.zeros((1, 1), np.int8)), claim)
        for old, new in ((lower, cut.lower[0, 0]), (upper, cut.upper[0, 0])):
            if new != old:
                assert Fraction(slope) * Fraction(float(new)) + Fraction(constant) <= Fraction(claim)
                cuts += 1
    assert cuts > 300


@pytest.mark.parametrize("seed", range(40))
def test_halves_cover(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, neurons, count = 3, 4, 30
    lower = rng.normal(size=(count, inputs)) * 10.0 ** rng.integers(-320, 308, size=(count, inputs))
    upper = lower + np.abs(rng.normal(size=lower.shape)) * 10.0 ** rng.integers(-320, 300, size=lower.shape)
    upper = np.where(rng.random(lower.shape) < 0.2, lower, upper)
    sides = rng.integers(-1, 2, size=(count, neurons)).astype(np.int8)
    axes = rng.integers(0, inputs + neurons, size=count)
    halves = halved(Boxes(lower, upper, sides), axes, inputs)
    for k in range(count):
        first, second = halves[2 * k], halves[2 * k + 1]
        same = np.arange(inputs) != axes[k]
        for half in (first, second):
            assert (half.lower <= half.upper).all()
            assert (half.lower[same] == lower[k][same]).all()
            assert (half.upper[same] == upper[k][same]).all()
            known = np.arange(neurons) != axes[k] - inputs
            assert (half.sides[known] == sides[k][known]).all()
        if axes[k] < inputs:
            assert first.lower[axes[k]] == lower[k, axes[k]]
            assert second.upper[axes[k]] == upper[k, axes[k]]
            assert first.upper[axes[k]] == second.lower[axes[k]], "no input is between the halves"
        else:
            assert {int(half.sides[axes[k] - inputs]) for half in (first, second)} == {-1, 1}


def test_there_is_nothing_to_halve_beyond_the_neurons() -> None:
    with pytest.raises(Refused, match="no input or neuron"):
        halved(Boxes(np.zeros((1, 2)), np.ones((1, 2)), np.zeros((1, 3), np.int8)), np.array([5]), 2)


def hostile(weights: list[Any], biases: list[Any], runs: list[Kind]) -> Bounder:
    layers = [
        Layer(np.array(w, dtype=float), np.array(b, dtype=float), ((kind, 0, len(b)),))
        for w, b, kind in zip(weights, biases, runs, strict=True)
    ]
    return Bounder(Chain(tuple(layers)))


RELU, STEEP = Kind("relu"), Kind("leaky_relu", (-1e300,))
HOSTILE = {
    "inputs so large that a coefficient below float64 still counts": (
        hostile([[[1e-250]], [[1e-100]]], [[0], [0]], [RELU, IDENTITY]), 1e300,
    ),
    "an activation so steep that a coefficient below float64 still counts": (
        hostile([[[1.0]], [[1e-200]], [[1e-200]]], [[0], [0], [0]], [STEEP, RELU, IDENTITY]), 1.0,
    ),
    "a neuron below float64 that is made large again": (
        hostile([[[1e-200]], [[1e-200]], [[1e300]]], [[0], [0], [0]], [IDENTITY, IDENTITY, IDENTITY]), 1.0,
    ),
    "a bias that swallows the input": (
        hostile([[[1.0]], [[1.0]], [[1.0]]], [[1e17], [-1e17], [0]], [RELU, RELU, IDENTITY]), 1.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_floats_cannot_hold_is_not_lost(name: str, sign: float) -> None:
    """Where a true maximum above 0 hides below what float64 can multiply, the bound is above it nevertheless."""
    bounder, size = HOSTILE[name]
    goal = Goal(np.array([sign]), np.zeros((0, 1)), np.zeros(0))
    boxes = Boxes(np.array([[-size]]), np.array([[size]]), np.zeros((1, bounder.neurons), np.int8))
    nothing = np.full((1, bounder.neurons), np.nan)
    most = bounder.bound(goal, boxes, Hints(nothing, np.zeros((1, 0)), nothing)).most[0]
    values = [Fraction(sign) * exact_outputs(bounder.chain, [Fraction(x)])[0] for x in (-size, 0.0, size)]
    assert is_no_claim(most) or max(values) <= Fraction(most)


def test_many_constraints_are_summed_with_their_rounding() -> None:
    """Thousands of constraints of one size, whose sum rounds away what each adds: no less than the true bound."""
    count = 1 << 14
    bounder = hostile([[[1.0]]], [[0.0]], [IDENTITY])
    goal = Goal(np.array([1.0]), np.zeros((count, 1)), np.full(count, 2.0**-53))
    boxes = Boxes(np.array([[-1.0]]), np.array([[1.0]]), np.zeros((1, 1), np.int8))
    nothing, ones = np.full((1, 1), np.nan), np.ones((1, count))
    goal.offsets[0] = 1.0
    assert bounder.bound(goal, boxes, Hints(nothing, ones, nothing)).most[0] >= 2.0 + (count - 1) * Fraction(2) ** -53


@pytest.mark.parametrize("seed", range(40))
def test_values_of_a_chain_enclose_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = LINEAR_KINDS if seed % 2 else KINDS
    chain = random_chain(rng, 2, 2, int(rng.integers(1, 5)), kinds)
    chain = scaled(rng, chain) if seed % 3 == 0 else chain
    x = rng.normal(size=2)
    low, high = chain.values(exact(x))
    for k, value in enumerate(exact_outputs(chain, fractions(x))):
        assert low[k] - NEARLY <= value <= high[k] + NEARLY
        if kinds is LINEAR_KINDS:
            assert low[k] == value == high[k]


def single(chain: Chain, x: Array) -> Array:
    """Outputs in float32, each sum in one order or the other."""
    values = torch.tensor(x, dtype=torch.float32)
    for k, layer in enumerate(network_of(chain).layers):
        weight, bias = layer.weight.float(), layer.bias.float()
        order = torch.arange(weight.shape[1]) if k % 2 else torch.arange(weight.shape[1] - 1, -1, -1)
        total = bias.clone() if k % 2 else torch.zeros_like(bias)
        for i in order:
            total = total + weight[:, i] * values[i]
        values = layer.activate(total if k % 2 else total + bias)
    return values.double().numpy()


@pytest.mark.parametrize("seed", range(60))
def test_float32_strays_no_further_than_stated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = random_chain(rng, 3, 2, int(rng.integers(1, 5)))
    scale = 10.0 ** rng.integers(-3, 4)
    lower, upper = -scale * rng.random(3), scale * rng.random(3)
    stray = chain.stray(lower, upper)
    for x in lower + rng.random((20, 3)) * (upper - lower):
        assert np.abs(single(chain, x) - roughly(chain, x[None])[0]).max() <= stray + 1e-12
    assert stray < 1e4 * scale, "it says something"


def test_what_overflows_in_float32_strays_without_limit() -> None:
    chain = hostile([[[1e30]], [[1e30]]], [[0], [0]], [RELU, IDENTITY]).chain
    assert chain.stray(np.zeros(1), np.ones(1)) == np.inf
    assert chain.stray(np.zeros(1), np.full(1, 1e-30)) < np.inf


def test_networks_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(Refused, match="same inputs"):
        beside(random_chain(rng, 2, 1, 2), random_chain(rng, 3, 1, 2))
    with pytest.raises(Refused, match="same inputs"):
        beside(random_chain(rng, 2, 1, 2), random_chain(rng, 2, 2, 2))
    with pytest.raises(Refused, match="fit together"):
        Chain((*random_chain(rng, 2, 1, 1).layers, *random_chain(rng, 2, 1, 1).layers))
    with pytest.raises(Refused, match="fit together"):
        Chain(())
    with pytest.raises(Refused, match="finite"):
        Layer(np.array([[np.nan]]), np.zeros(1), ((RELU, 0, 1),))
    for runs in ((), ((RELU, 0, 1),), ((RELU, 0, 2), (RELU, 1, 2)), ((RELU, 1, 2),), ((RELU, 0, 0), (RELU, 0, 2))):
        with pytest.raises(Refused, match="activations"):
            Layer(np.ones((2, 1)), np.zeros(2), runs)


@pytest.mark.parametrize("seed", range(10))
def test_two_networks_side_by_side_compute_what_each_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (random_chain(rng, 2, 2, int(rng.integers(1, 5))) for _ in range(2))
    x = fractions(rng.normal(size=2))
    assert exact_outputs(beside(first, second), x) == exact_outputs(first, x) + exact_outputs(second, x)
