"""One Marabou query, in a process of its own that may be killed: `python -m karenina.backends.marabou_worker`.

Enters, as JSON on standard input: input bounds, layers of ReLU and identity neurons, rows that must be
non-negative (rows @ h + offsets >= 0, h being the last layer's values), a time limit. Leaves, as JSON on
standard output: Marabou's word (sat, unsat, TIMEOUT, ...) and, for sat, the input.

Every row is a neuron with a lower bound, so Marabou's own bound propagation reaches it. This module imports
nothing heavy: it starts anew for every query.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any, TextIO

from maraboupy import MarabouCore

__all__ = ["main", "solve"]


class _Builder:
    """Marabou's variables and equations, as they are added."""

    def __init__(self) -> None:
        self.equations: list[Any] = []
        self.lower: dict[int, float] = {}
        self.upper: dict[int, float] = {}
        self.relus: list[tuple[int, int]] = []
        self.variables = 0

    def variable(self) -> int:
        self.variables += 1
        return self.variables - 1

    def affine(self, weights: list[float], inputs: list[int], bias: float) -> int:
        """A new variable, equal to weights @ inputs + bias."""
        result = self.variable()
        equation = MarabouCore.Equation()
        for weight, variable in zip(weights, inputs, strict=True):
            if weight:
                equation.addAddend(weight, variable)
        equation.addAddend(-1.0, result)
        equation.setScalar(-bias)
        self.equations.append(equation)
        return result

    def relu(self, source: int) -> int:
        result = self.variable()
        self.relus.append((source, result))
        self.lower[result] = 0.0
        return result

    def query(self, inputs: list[int], outputs: list[int]) -> Any:
        query = MarabouCore.InputQuery()
        query.setNumberOfVariables(self.variables)
        for index, variable in enumerate(inputs):
            query.markInputVariable(variable, index)
        for index, variable in enumerate(outputs):
            query.markOutputVariable(variable, index)
        for equation in self.equations:
            query.addEquation(equation)
        for source, result in self.relus:
            MarabouCore.addReluConstraint(query, source, result)
        for variable, bound in self.lower.items():
            query.setLowerBound(variable, bound)
        for variable, bound in self.upper.items():
            query.setUpperBound(variable, bound)
        return query


def _build(request: dict[str, Any]) -> tuple[Any, list[int]]:
    """Marabou's query, and the variables of the input."""
    builder = _Builder()
    inputs = [builder.variable() for _ in request["lower"]]
    builder.lower.update(zip(inputs, request["lower"], strict=True))
    builder.upper.update(zip(inputs, request["upper"], strict=True))
    values = inputs
    for layer in request["layers"]:
        before = [builder.affine(w, values, b) for w, b in zip(layer["weight"], layer["bias"], strict=True)]
        values = [builder.relu(z) if relu else z for z, relu in zip(before, layer["relu"], strict=True)]
    outputs = [builder.affine(r, values, o) for r, o in zip(request["rows"], request["offsets"], strict=True)]
    builder.lower.update(dict.fromkeys(outputs, 0.0))
    return builder.query(inputs, outputs), inputs


def solve(request: dict[str, Any]) -> dict[str, Any]:
    """Marabou's answer to the request."""
    query, inputs = _build(request)
    options = MarabouCore.Options()
    options._verbosity = 0
    options._timeoutInSeconds = request["seconds"]
    word, values, _ = MarabouCore.solve(query, options, "")
    return {"word": word, "x": [values[variable] for variable in inputs] if word == "sat" else None}


def _private_output() -> TextIO:
    """Standard output for us alone: what Marabou prints goes nowhere."""
    output = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return output


def main() -> None:
    """Read a request, write the answer."""
    request = json.load(sys.stdin)
    if request["seconds"]:  # should whoever waits for us be gone, we do not run for ever
        limit = request["seconds"] + 10
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    with _private_output() as output:
        json.dump(solve(request), output)


if __name__ == "__main__":
    main()
