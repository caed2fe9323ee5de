"""Linear relaxations of activations: for z in [l, u], two lines that enclose the activation.

Enters: an activation and bounds of its pre-activations. Leaves: `Lines`, for each neuron an upper
and a lower line

    value + slope * (z - point),   slope anywhere in [low, high].

Every slope in the range is sound. A kink has a free slope on one side (the line turns about the
kink, and the search optimises it). Smooth activations have one slope for both sides, to begin with
the chord's; each line touches the curve, or an end of it, where activation(z) - slope * z is
extreme. `turned` gives them another slope, which is as sound, and `envelope_slopes` are the best at
a given z.

Rounding of the lines themselves is part of the error that `rounding` adds to every bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from karenina.network import Activation, Layer

__all__ = ["Lines", "Side", "envelope_slopes", "relax", "turned"]

Tensor = torch.Tensor
_TINY = 2.0**-1074  # keeps 0 / 0 at 0, and is no more than what underflow is allowed


class Side(NamedTuple):
    """One line a neuron, all of shape (..., neurons)."""

    low: Tensor
    high: Tensor
    point: Tensor
    value: Tensor


class Lines(NamedTuple):
    """An upper and a lower line for each neuron, and the slope to start from on a side that is free."""

    upper: Side
    lower: Side
    start: Tensor

    def fixed(self, side: Side) -> tuple[Tensor, Tensor]:
        """Slope and intercept of a side at the starting slope."""
        slope = torch.maximum(torch.minimum(self.start, side.high), side.low)
        return slope, side.value - slope * side.point


def relax(layer: Layer, lo: Tensor, hi: Tensor) -> Lines:
    """The lines of all neurons of a layer whose pre-activations lie in [lo, hi] (shape (..., neurons))."""
    return _joined([_lines(activation, low, high) for activation, low, high in _groups(layer, lo, hi)])


def turned(layer: Layer, lines: Lines, lo: Tensor, hi: Tensor, slopes: Tensor) -> Lines:
    """The lines with other slopes where the activation is smooth."""
    if all(activation.piecewise_linear for activation, _ in layer.activations):
        return lines
    return _joined(
        [
            _lines(activation, low, high) if activation.piecewise_linear else _touching(activation, low, high, slope)
            for activation, low, high, slope in _groups(layer, lo, hi, slopes)
        ]
    )


def envelope_slopes(layer: Layer, lines: Lines, lo: Tensor, hi: Tensor, z: Tensor, above: Tensor) -> Tensor:
    """Slopes at z of the concave functions closest above smooth activations, or of the convex ones closest below.

    Roughly: any slope is sound, and lines of these are the best at z.
    """
    groups = _groups(layer, lines.start, lo, hi, z, above)
    return torch.cat([each[1] if each[0].piecewise_linear else _envelope(*each) for each in groups], -1)


def _groups(layer: Layer, *tensors: Tensor) -> Iterator[tuple[Any, ...]]:
    """Each activation of the layer with its neurons' part of the tensors."""
    sizes = [count for _, count in layer.activations]
    parts = zip(*(torch.split(t, sizes, -1) for t in tensors), strict=True)
    for (activation, _), part in zip(layer.activations, parts, strict=True):
        yield activation, *part


def _joined(parts: Sequence[Lines]) -> Lines:
    """Lines of one layer from those of its groups."""
    if len(parts) == 1:
        return parts[0]
    upper, lower = (
        Side(*(torch.cat(t, -1) for t in zip(*side, strict=True))) for side in zip(*(p[:2] for p in parts), strict=True)
    )
    return Lines(upper, lower, torch.cat([p.start for p in parts], -1))


def _lines(activation: Activation, lo: Tensor, hi: Tensor) -> Lines:
    match activation.name:
        case "relu":
            return _kink(0.0, 1.0, lo, hi)
        case "identity":
            return _kink(1.0, 1.0, lo, hi)
        case "abs":
            return _kink(-1.0, 1.0, lo, hi)
        case "leaky_relu":
            return _kink(activation.parameters[0], 1.0, lo, hi)
        case "clip":
            return _clip(activation, lo, hi)
    return _smooth(activation, lo, hi)


def _kink(left: float, right: float, lo: Tensor, hi: Tensor) -> Lines:
    """Slope `left` below 0 and `right` above: left * z + (right - left) * relu(z)."""
    below, above = lo.clamp(max=0), hi.clamp(min=0)
    share = above / (above - below + _TINY)  # the chord of relu: 0 when inactive, 1 when active
    bend, zero = right - left, torch.zeros_like(lo)
    slope = left + bend * share if (left, bend) != (0.0, 1.0) else share
    chord = Side(slope, slope, zero, -bend * share * below)
    slope_right = torch.full_like(lo, right)  # a tensor: torch.where of two numbers would be float32
    at_left = torch.where(lo >= 0, slope_right, left)
    at_right = torch.where(hi <= 0, left, slope_right)
    turning = Side(torch.minimum(at_left, at_right), torch.maximum(at_left, at_right), zero, zero)
    start = torch.where(above > -below, slope_right, left)
    return Lines(chord, turning, start) if bend >= 0 else Lines(turning, chord, start)


def _clip(activation: Activation, lo: Tensor, hi: Tensor) -> Lines:
    """min(max(z, a), b): past b the upper line turns about (b, b), past a the lower line about (a, a)."""
    a, b = activation.parameters
    at_l, at_u = activation(lo), activation(hi)
    chord = (at_u - at_l) / (hi - lo + _TINY)
    past_b, past_a = hi > b, lo < a
    upper_high = torch.where(past_b, (b - at_l) / ((b - lo).clamp(min=0) + _TINY), chord)
    lower_high = torch.where(past_a, (at_u - a) / ((hi - a).clamp(min=0) + _TINY), chord)
    upper = Side(
        torch.where(past_b, 0.0, chord),
        upper_high.clamp(max=1),
        torch.where(past_b, b, lo),
        torch.where(past_b, b, at_l),
    )
    lower = Side(
        torch.where(past_a, 0.0, chord),
        lower_high.clamp(max=1),
        torch.where(past_a, a, lo),
        torch.where(past_a, a, at_l),
    )
    return Lines(upper, lower, chord)


def _smooth(activation: Activation, lo: Tensor, hi: Tensor) -> Lines:
    """One slope for both sides, the chord's; intercepts at the extremes of activation(z) - slope * z."""
    low, high = activation.slopes
    width = hi - lo
    chord = (activation(hi) - activation(lo)) / (width + _TINY)
    middle = activation.derivative(lo + width / 2)
    slope = torch.where(width > 1e-6, chord, middle).clamp(low, high)  # a narrow chord is all rounding
    return _touching(activation, lo, hi, slope)


def _touching(activation: Activation, lo: Tensor, hi: Tensor, wished: Tensor) -> Lines:
    """Lines of the slopes wished for, or of the closest that the curve has in its range: others are of no use."""
    least, most = _slopes_within(activation, lo, hi)
    slope = torch.minimum(torch.maximum(wished, least), most)
    stationary = [torch.maximum(torch.minimum(z, hi), lo) for z in _STATIONARY[activation.name](activation, slope)]
    points = torch.stack([lo, hi, *stationary])
    values = activation(points)
    intercepts = values - slope * points
    sides = []
    for place in (intercepts.argmax(0, keepdim=True), intercepts.argmin(0, keepdim=True)):
        sides.append(Side(slope, slope, points.gather(0, place)[0], values.gather(0, place)[0]))
    return Lines(sides[0], sides[1], slope)


def _slopes_within(activation: Activation, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the greatest slope of a smooth activation in [lo, hi]."""
    left, right = activation.derivative(lo), activation.derivative(hi)
    least, most = torch.minimum(left, right), torch.maximum(left, right)
    around, (low, high) = (lo <= 0) & (hi >= 0), activation.slopes
    if activation.name in ("tanh", "sigmoid"):
        most = torch.where(around, high, most)
    elif activation.name == "elu":
        alpha = activation.parameters[0]
        least, most = (
            torch.where(around, least.clamp(max=alpha), least),
            torch.where(around, most.clamp(min=alpha), most),
        )
    return least.clamp(min=low), most.clamp(max=high)


def _envelope(activation: Activation, chord: Tensor, lo: Tensor, hi: Tensor, z: Tensor, above: Tensor) -> Tensor:
    """One activation's part of `envelope_slopes`."""
    if activation.name not in ("tanh", "sigmoid"):  # convex
        return torch.where(above, chord, activation.derivative(torch.minimum(torch.maximum(z, lo), hi)))
    scale = 1.0 if activation.name == "tanh" else 0.5
    left, right = scale * torch.where(above, lo, -hi), scale * torch.where(above, hi, -lo)  # below: from the other end
    at = torch.minimum(torch.maximum(scale * torch.where(above, z, -z), left), right)
    touch = torch.minimum(-0.5 * left, 0.5 * torch.log(2 - 2 * left))  # of a line from the left end, and a Newton step
    t = torch.tanh(touch)
    rise = (1 - t * t) * (touch - left)
    touch = touch - (t - torch.tanh(left) - rise) / (2 * t * rise)
    straight = at < -0.5 * left
    t = torch.tanh(torch.where(straight, torch.maximum(at, touch), at))
    return torch.where(straight & ~(touch < right), chord, scale * scale * (1 - t * t))


def _tanh_stationary(_: Activation, slope: Tensor) -> tuple[Tensor, ...]:
    z = torch.atanh((1 - slope).clamp(0, 1).sqrt())
    return z, -z


def _sigmoid_stationary(_: Activation, slope: Tensor) -> tuple[Tensor, ...]:
    z = 2 * torch.atanh((1 - 4 * slope).clamp(0, 1).sqrt())
    return z, -z


def _softplus_stationary(_: Activation, slope: Tensor) -> tuple[Tensor, ...]:
    return (torch.logit(slope.clamp(0, 1)),)


def _elu_stationary(activation: Activation, slope: Tensor) -> tuple[Tensor, ...]:
    alpha = activation.parameters[0]
    return torch.zeros_like(slope), torch.log(slope / alpha if alpha else slope).clamp(max=0)


# The points where activation(z) - slope * z can have an extreme inside an interval.
_STATIONARY: dict[str, Callable[[Activation, Tensor], tuple[Tensor, ...]]] = {
    "tanh": _tanh_stationary,
    "sigmoid": _sigmoid_stationary,
    "softplus": _softplus_stationary,
    "elu": _elu_stationary,
}
