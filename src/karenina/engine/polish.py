"""Polishing: from a good point of a piecewise-linear query to an exact local maximum.

Enters: a point. Leaves: a point at least as good, usually a vertex where kinks, constraints and sides
of the box meet; gradient steps only zigzag towards it. Directions are tried along the kinks that hold
the point, and off each of them; a step goes from breakpoint to breakpoint while the objective rises.
Directional derivatives are exact on kinks too. Nothing here needs to be right for soundness: points
are certified when they are offered.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.network import Activation

__all__ = ["MOST_INPUTS", "Polisher"]

Array = npt.NDArray[np.float64]
MOST_INPUTS = 200  # beyond, the directions cost more than they find
NEAR = 1e-9  # a pre-activation this close to a kink is on it


@dataclass(frozen=True, eq=False)
class _Layer:
    """A hidden layer with its segments: slopes[:, i] holds between kinks i - 1 and i."""

    weight: Array  # (S, out, in)
    bias: Array  # (S, out)
    kinks: Array  # (out, 2), infinite where there are fewer
    slopes: Array  # (out, 3)


def _segments(activation: Activation) -> tuple[tuple[float, float], tuple[float, float, float]]:
    match activation.name:
        case "relu":
            return (0.0, np.inf), (0.0, 1.0, 1.0)
        case "leaky_relu":
            return (0.0, np.inf), (activation.parameters[0], 1.0, 1.0)
        case "abs":
            return (0.0, np.inf), (-1.0, 1.0, 1.0)
        case "clip":
            return (activation.parameters[0], activation.parameters[1]), (0.0, 1.0, 0.0)
    return (np.inf, np.inf), (1.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Here:
    """Everything at one point: pre-activations, constraint values, and derivatives along some directions."""

    hidden: list[Array]  # (S, n) a layer
    hidden_rate: list[Array]  # (S, directions, n)
    slack: Array  # (constraints,)
    slack_rate: Array  # (directions, constraints)
    value: float
    rate: Array  # (directions,)


class Polisher:
    """Local search for one case of a query."""

    def __init__(self, joint: Joint, cases: Cases, case: int) -> None:
        self._layers = [self._layer(joint, k) for k in range(joint.depth)]
        self._last = joint.weights[-1].cpu().numpy(), joint.biases[-1][:, 0].cpu().numpy()
        arrays = (cases.lower, cases.upper, cases.objective, cases.rows, cases.row_offset - 2 * cases.row_error)
        self._lower, self._upper, self._objective, self._rows, self._offset = (t[case].cpu().numpy() for t in arrays)
        self._width = np.maximum(self._upper - self._lower, 1e-300)

    @staticmethod
    def _layer(joint: Joint, k: int) -> _Layer:
        segments = [_segments(activation) for activation, count in joint.kinds[k].activations for _ in range(count)]
        kinks, slopes = np.array([s[0] for s in segments]), np.array([s[1] for s in segments])
        return _Layer(joint.weights[k].cpu().numpy(), joint.biases[k][:, 0].cpu().numpy(), kinks, slopes)

    def __call__(self, x: Array, deadline: float, rounds: int = 30) -> Array:
        """The best point reached from x."""
        with np.errstate(all="ignore"):  # what overflows leads nowhere
            return self._polish(x, deadline, rounds)

    def _polish(self, x: Array, deadline: float, rounds: int) -> Array:
        for _ in range(rounds):
            before = x
            directions = self._directions(x)
            if not len(directions) or time.perf_counter() > deadline:
                break
            here = self._at(x, directions)
            rate = np.where(self._feasible(x, here, directions), here.rate, -np.inf)
            best = int(rate.argmax())
            if not rate[best] > 1e-10 * (1 + abs(here.value)):
                break
            x = self._climb(x, directions[best])
            if np.array_equal(x, before):
                break
        return x

    def _at(self, x: Array, directions: Array) -> _Here:
        h, rate = x[None], directions[None]  # (1, inputs), (1, directions, inputs)
        hidden, hidden_rate = [], []
        for layer in self._layers:
            z = np.einsum("soi,si->so", layer.weight, np.broadcast_to(h, (len(layer.weight), h.shape[-1]))) + layer.bias
            dz = rate @ layer.weight.transpose(0, 2, 1)
            hidden.append(z)
            hidden_rate.append(dz)
            h, rate = self._value(layer, z), self._slope(layer, z, dz) * dz
        weight, bias = self._last
        y = (np.einsum("soi,si->so", weight, h) + bias).ravel()
        dy = (rate @ weight.transpose(0, 2, 1)).transpose(1, 0, 2).reshape(len(directions), -1)
        slack, slack_rate = self._rows @ y + self._offset, dy @ self._rows.T
        return _Here(hidden, hidden_rate, slack, slack_rate, float(self._objective @ y), dy @ self._objective)

    @staticmethod
    def _value(layer: _Layer, z: Array) -> Array:
        """The activation at z: slope times length, summed over the segments from the first kink."""
        start = np.where(np.isfinite(layer.kinks[:, 0]), layer.kinks[:, 0], 0.0)
        second = np.where(np.isfinite(layer.kinks[:, 1]), layer.kinks[:, 1], np.inf)
        base = np.where(np.isfinite(layer.kinks[:, 1]), start, 0.0)  # clip(a) = a; the others pass through 0
        below, above = np.minimum(z - start, 0.0), np.maximum(np.minimum(z, second) - start, 0.0)
        value: Array = base + layer.slopes[:, 0] * below + layer.slopes[:, 1] * above
        return value

    @staticmethod
    def _slope(layer: _Layer, z: Array, dz: Array) -> Array:
        """One-sided slopes along each direction, (S, directions, n)."""
        z = z[:, None]
        passed = np.zeros(dz.shape, dtype=np.int64)
        for i in range(2):
            kink = layer.kinks[:, i]
            near = NEAR * (1 + np.where(np.isfinite(kink), np.abs(kink), 0.0))
            passed += (z > kink + near) | ((z >= kink - near) & (dz > 0))
        slope: Array = np.take_along_axis(np.broadcast_to(layer.slopes, (*dz.shape, 3)), passed[..., None], -1)[..., 0]
        return slope

    def _directions(self, x: Array) -> Array:
        """The gradient along what holds the point, and both ways off each thing that holds it; in units of the box."""
        here = self._at(x, np.diag(self._width))
        normals = [here.slack_rate[:, i] for i in range(len(here.slack)) if here.slack[i] <= NEAR]
        for layer, z, dz in zip(self._layers, here.hidden, here.hidden_rate, strict=True):
            on = np.argwhere(np.isclose(z[..., None], layer.kinks, rtol=NEAR, atol=NEAR).any(-1))  # (found, S and n)
            normals += [dz[s, :, n] for s, n in on]
        sides = (x <= self._lower) | (x >= self._upper)
        normals += list(np.eye(len(x))[sides])
        gradient = here.rate
        if not normals:
            return np.atleast_2d(gradient * self._width)
        matrix = np.array(normals)
        try:
            off = np.linalg.pinv(matrix, rcond=1e-10).T  # off[i] leaves what holds i, along the others
        except np.linalg.LinAlgError:
            return np.atleast_2d(gradient * self._width)
        along = gradient - matrix.T @ (off @ gradient)
        units = np.vstack([along, off, -off, gradient])
        length = np.abs(units).max(1, keepdims=True)
        long = length[:, 0] > 1e-9
        directions: Array = units[long] / length[long] * self._width
        return directions

    def _feasible(self, x: Array, here: _Here, directions: Array) -> npt.NDArray[np.bool_]:
        small = 1e-12 * self._width
        inside = ~(((x >= self._upper) & (directions > small)) | ((x <= self._lower) & (directions < -small))).any(1)
        inside &= ~((here.slack <= NEAR) & (here.slack_rate < -1e-12)).any(1)
        feasible: npt.NDArray[np.bool_] = inside
        return feasible

    def _climb(self, x: Array, direction: Array) -> Array:
        """From breakpoint to breakpoint along a direction while the objective rises, or to a wall."""
        for _ in range(64):
            here = self._at(x, direction[None])
            if not here.rate[0] > 0:
                break
            wall, kink = self._wall(x, here, direction), self._kink(here)
            step = min(wall, kink)
            if np.isfinite(step):
                x = np.clip(x + step * direction, self._lower, self._upper)
            if wall <= kink:
                break
        return x

    def _wall(self, x: Array, here: _Here, direction: Array) -> float:
        """How far to the box's side or a constraint."""
        rate, slack = here.slack_rate[0], np.maximum(here.slack, 0.0)
        room = np.where(direction > 0, self._upper - x, x - self._lower)
        to_side = _smallest(room, np.abs(direction))
        return min(to_side, _smallest(slack, np.maximum(-rate, 0.0)))

    def _kink(self, here: _Here) -> float:
        """How far to the next kink of a neuron."""
        nearest = np.inf
        for layer, z, dz in zip(self._layers, here.hidden, here.hidden_rate, strict=True):
            ahead = np.where(np.isfinite(layer.kinks), layer.kinks, 0.0) - z[..., None]
            rate = np.where(np.isfinite(layer.kinks) & (np.abs(ahead) > NEAR), dz[:, 0, :, None], 0.0)
            nearest = min(nearest, _smallest(np.abs(ahead), np.maximum(rate * np.sign(ahead), 0.0)))
        return nearest


def _smallest(distance: Array, speed: Array) -> float:
    """The least time to cover one of the distances, each at its speed."""
    moving = speed > 0
    return float(np.min(distance[moving] / speed[moving], initial=np.inf))
