"""Tightening one box's bound, compiled: what `tighten` does for a batch, by the same steps.

Enters: a box whose lines are written, and slopes and multipliers to start from. Leaves: the best bound found (`Steps`),
and what made it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karenina.engine.box import descend
from karenina.engine.lines import compiled, dot, envelope_slope, turn
from karenina.engine.near import APART, FIRST
from karenina.engine.packed import CLIP, Array, Question, Weights
from karenina.engine.room import Room

__all__ = ["Steps", "evaluate", "keep", "new_steps", "tighten"]


class Steps(NamedTuple):
    """What moves, and the best so far."""

    slopes: Array  # (neurons,)
    multipliers: Array  # (constraints,)
    gradient: Array  # (neurons,)
    squares: Array
    momentum: Array
    z: Array  # (neurons,) pre-activations at the corner, through the lines
    h: Array  # (S, widest) outputs of a layer, through the lines
    y: Array  # (S * outputs,)
    slack: Array  # (constraints,)
    best_slopes: Array
    best_multipliers: Array
    best_total: Array  # (inputs,)
    best_corner: Array
    best_reach: Array  # (neurons,)


@compiled
def new_steps(net: Weights, ask: Question) -> Steps:
    """Room for the steps of one box."""
    neurons, constraints, inputs = len(net.errors), ask.rows.shape[1], net.sizes[0]
    return Steps(
        np.empty(neurons),
        np.empty(constraints),
        np.empty(neurons),
        np.empty(neurons),
        np.empty(neurons),
        np.empty(neurons),
        np.empty((len(net.weights), net.widest)),
        np.empty(ask.objective.shape[1]),
        np.empty(constraints),
        np.empty(neurons),
        np.empty(constraints),
        np.empty(inputs),
        np.empty(inputs),
        np.empty(neurons),
    )


@compiled
def evaluate(
    net: Weights, ask: Question, case: int, room: Room, slopes: Array, multipliers: Array, near: bool
) -> float:
    """The bound that these slopes and multipliers give, rounding included; infinite where it overflows."""
    outputs, constant = net.sizes[-1], ask.offset[case] + ask.error[case]
    _turn_all(net, room, slopes)
    for s in range(len(net.weights)):
        for m in range(outputs):
            c = ask.objective[case, s * outputs + m]
            for r in range(len(multipliers)):
                c += multipliers[r] * ask.rows[case, r, s * outputs + m]
            room.above[s, m] = c
    part = 0.0
    for r in range(len(multipliers)):
        part += multipliers[r] * (ask.row_offset[case, r] + 2 * ask.row_error[case, r])
    bound = descend(net, room, len(net.sizes) - 2, slopes, near) + (constant + part)
    return bound if np.isfinite(bound) else np.inf


@compiled
def _turn_all(net: Weights, room: Room, slopes: Array) -> None:
    """Lines of smooth neurons get the slopes, if they have others."""
    stack, kinds, low, high, lines = len(net.weights), net.kinds, room.low, room.high, room.lines
    for k in range(len(net.sizes) - 2):
        width, place = net.sizes[k + 1], net.bias_at[k]
        for m in range(width):
            if kinds[place + m, 0] > CLIP:
                for n in range(stack * place + m, stack * place + stack * width, width):
                    if slopes[n] != lines[0, n]:
                        turn(kinds, place + m, low[n], high[n], slopes[n], lines, room.curve, n)


@compiled
def tighten(
    net: Weights,
    ask: Question,
    case: int,
    room: Room,
    steps: Steps,
    bound: float,
    aim: float,
    enough: float,
    most: int,
    near: bool,
) -> float:
    """The best bound after so many rounds of steps; `bound` is what steps.slopes and steps.multipliers have given."""
    best = bound
    keep(room, steps)
    for i in range(len(steps.squares)):
        steps.squares[i] = steps.momentum[i] = 0.0
    reach, blocks = 1.0, 2 if len(steps.multipliers) else 1
    for step in range(most * blocks):
        if best <= enough:
            break
        _forward(net, room, steps, near)
        if step % blocks == 0 and blocks == 2:
            _move_multipliers(ask, case, steps, reach * (bound - aim))
        else:
            _move_slopes(net, room, steps, reach * (bound - aim), near)
            _bend_slopes(net, room, steps, 1.0 / (2 + step // blocks))
        bound = evaluate(net, ask, case, room, steps.slopes, steps.multipliers, near)
        if bound < best:
            best = bound
            keep(room, steps)
        else:
            reach *= 0.9  # it overshot: be humbler
    return best


@compiled
def keep(room: Room, steps: Steps) -> None:
    """Let what was just evaluated be the best."""
    for i in range(len(steps.slopes)):
        steps.best_slopes[i], steps.best_reach[i] = steps.slopes[i], room.taken[0, i]
    for r in range(len(steps.multipliers)):
        steps.best_multipliers[r] = steps.multipliers[r]
    for i in range(len(room.total)):
        steps.best_total[i], steps.best_corner[i] = room.total[i], room.corner[i]


@compiled
def _forward(net: Weights, room: Room, steps: Steps, near: bool) -> None:
    """Pre-activations and outputs at the corner, through the lines in use."""
    stack, last = len(net.weights), len(net.sizes) - 2
    z, h, taken = steps.z, steps.h, room.taken
    for k in range(last + 1):
        width, below, place = net.sizes[k + 1], net.sizes[k], net.bias_at[k]
        for s in range(stack):
            source, weights = room.corner if k == 0 else h[s], net.weights[s, net.weight_at[k] :]
            after = steps.y[s * width :] if k == last else z[stack * place + s * width :]
            _affine(weights, net.biases[s, place:], width, below, source, after)
        if k == last:
            break
        for s in range(stack):
            first = stack * place + s * width
            for m in range(width):
                h[s, m] = taken[1, first + m] * z[first + m] + taken[2, first + m]
        if near:
            for m in range(width):
                if room.way[place + m] != APART:
                    one, two = 2 * place + m, 2 * place + width + m
                    base, other, sign, n = (0, 1, 1.0, two) if room.way[place + m] == FIRST else (1, 0, -1.0, one)
                    h[other, m] = h[base, m] + sign * (taken[1, n] * (z[two] - z[one]) + taken[2, n])


@compiled
def _affine(weights: Array, biases: Array, width: int, below: int, x: Array, z: Array) -> None:
    for m in range(width):
        z[m] = dot(weights[m * below :], x, below) + biases[m]


@compiled
def _move_slopes(net: Weights, room: Room, steps: Steps, excess: float, near: bool) -> None:
    """Polyak's step in coordinates scaled by the derivatives seen so far, with momentum."""
    stack, length, lines, taken = len(net.weights), 0.0, room.lines, room.taken
    gradient, squares, momentum, slopes = steps.gradient, steps.squares, steps.momentum, steps.slopes
    for n in range(len(gradient)):
        side = 0 if taken[0, n] >= 0 else 4
        free = lines[side + 1, n] > lines[side, n]
        gradient[n] = taken[0, n] * (steps.z[n] - lines[side + 2, n]) if free else 0.0
    if near:
        for k in range(len(net.sizes) - 2):
            for m in range(net.sizes[k + 1]):
                way, first = room.way[net.bias_at[k] + m], stack * net.bias_at[k] + m
                if way != APART:  # taken as a difference: no slope of its own
                    gradient[first + (net.sizes[k + 1] if way == FIRST else 0)] = 0.0
    for n in range(len(gradient)):
        if gradient[n] != 0.0:
            squares[n] += gradient[n] * gradient[n]
            length += gradient[n] * gradient[n] / (np.sqrt(squares[n]) + 1e-290)
    length = excess / max(length, 1e-290)
    if not np.isfinite(length):
        length = 0.0
    for n in range(len(gradient)):
        momentum[n] *= 0.5
        if gradient[n] != 0.0:
            momentum[n] += gradient[n] / (np.sqrt(squares[n]) + 1e-290)
            side = 0 if taken[0, n] >= 0 else 4
            moved = min(max(slopes[n], lines[side, n]), lines[side + 1, n]) - length * momentum[n]
            slopes[n] = min(max(moved, lines[side, n]), lines[side + 1, n])


@compiled
def _bend_slopes(net: Weights, room: Room, steps: Steps, share: float) -> None:
    """Part of the way to the slopes that are best at the corner: those of the curves' envelopes there."""
    stack, kinds = len(net.weights), net.kinds
    for k in range(len(net.sizes) - 2):
        width, place = net.sizes[k + 1], net.bias_at[k]
        for m in range(width):
            if kinds[place + m, 0] > CLIP:
                for n in range(stack * place + m, stack * place + stack * width, width):
                    above, chord = room.taken[0, n] >= 0, room.start[n]
                    best = envelope_slope(kinds, place + m, room.low[n], room.high[n], steps.z[n], above, chord)
                    steps.slopes[n] += share * (best - steps.slopes[n])


@compiled
def _move_multipliers(ask: Question, case: int, steps: Steps, excess: float) -> None:
    """Polyak's step for the multipliers of the constraints."""
    length = 0.0
    for r in range(len(steps.multipliers)):
        g = ask.row_offset[case, r] + 2 * ask.row_error[case, r]
        for m in range(len(steps.y)):
            g += ask.rows[case, r, m] * steps.y[m]
        if steps.multipliers[r] <= 0 and g > 0:
            g = 0.0
        steps.slack[r] = g
        length += g * g
    length = excess / max(length, 1e-290)
    if not np.isfinite(length):
        length = 0.0
    for r in range(len(steps.multipliers)):
        steps.multipliers[r] = max(0.0, steps.multipliers[r] - length * steps.slack[r])
