"""Deeper and smooth trained networks: what is decided, and how narrow the interval is when time is up.

    python benchmarks/deep.py [--limit 20]

Networks are fitted here to smooth functions on [-1, 1]^n, two seeds each, and compared on boxes around 0: ACAS Xu's
shape (5 inputs, 6 hidden layers of 50), three hidden layers on 8 inputs, and Tanh [64, 64] on 8 inputs.
"""

from __future__ import annotations

import argparse
import itertools

import torch

from karenina import Box, Domain, Engine, Goal, Network, Query, from_torch, pairwise_disagreement_threshold

Module = type[torch.nn.Module]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a question")
    limit = parser.parse_args().limit
    print("| networks | question | box | lower | upper | status | boxes | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    acas = pair_of([5, *[50] * 6, 5], torch.nn.ReLU)
    for radius in (0.1, 0.3, 1.0):
        largest_output(acas[0], radius, limit)
    for radius in (0.05, 0.1, 0.2):
        disagreement(acas, radius, limit)
    for radius in (0.1, 0.2):
        disagreement(pair_of([8, 32, 32, 32, 1], torch.nn.ReLU), radius, limit)
    for radius in (0.1, 0.3):
        disagreement(pair_of([8, 64, 64, 2], torch.nn.Tanh), radius, limit)


def largest_output(network: Network, radius: float, limit: float) -> None:
    objective = [1.0] + [0.0] * (network.output_size - 1)
    query = Query.maximise(network, cube(network, radius), [objective])
    answer = Engine("cpu").answer(query, Goal(1e-3, time_limit=limit))
    show(network, "largest output 0", radius, answer.lower, answer.upper, answer.status, answer.boxes, answer.seconds)


def disagreement(pair: tuple[Network, Network], radius: float, limit: float) -> None:
    goal = Goal(1e-3, time_limit=limit)
    found = pairwise_disagreement_threshold(*pair, cube(pair[0], radius), "linf", goal=goal, backend=Engine("cpu"))
    show(pair[0], "linf disagreement", radius, found.lower, found.upper, found.status, found.boxes, found.seconds)


def cube(network: Network, radius: float) -> Domain:
    return Domain(Box([-radius] * network.input_size, [radius] * network.input_size))


def show(
    network: Network,
    question: str,
    radius: float,
    lower: float,
    upper: float,
    status: object,
    boxes: int,
    seconds: float,
) -> None:
    kind = network.layers[0].activations[0][0].name
    print(f"| {network.shape} {kind} | {question} | ±{radius} | {lower:.4f} | {upper:.4f} |", end=" ")
    print(f"{status} | {boxes} | {seconds:.2f} |", flush=True)


def pair_of(sizes: list[int], activation: Module) -> tuple[Network, Network]:
    return fitted(sizes, activation, 1), fitted(sizes, activation, 2)


def fitted(sizes: list[int], activation: Module, seed: int, steps: int = 2000) -> Network:
    """A network fitted to products of sines of neighbouring inputs."""
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(a, b), activation()]
    model = torch.nn.Sequential(*layers[:-1])
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        x = 2 * torch.rand(256, sizes[0]) - 1
        waves = torch.sin(3 * x) * torch.cos(2 * x.roll(1, 1))
        target = torch.stack([waves.roll(k, 1)[:, :3].sum(1) for k in range(sizes[-1])], 1)
        loss = (model(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return from_torch(model, name="x".join(map(str, sizes)))


if __name__ == "__main__":
    main()
