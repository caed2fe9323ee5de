"""Predictive uncertainty (Sec. 4.4): models chosen by the variance of ensembles on out-of-distribution inputs.

Enters: a `Subject`. Leaves: a ranking of models and of ensembles by their variance, and what the lowest keep. The
uncertainty of an ensemble is the variance of its members' outputs, averaged over inputs; that of a model is the mean
over all ensembles (of three, as many as the paper's selection keeps) that it is in. Inputs are drawn uniformly from
the domain, or are the states that the policies meet in simulation out-of-distribution.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from karenina.experiments.algorithm import Sets
from karenina.experiments.populations import OOD, Array, Subject
from karenina.experiments.sampling import outputs
from karenina.experiments.selections import statistics
from karenina.network import Network

__all__ = [
    "MEMBERS",
    "ensemble_variance",
    "least_variance",
    "met_inputs",
    "squared_differences",
    "uncertainty_data",
    "uniform_inputs",
]

MEMBERS = 3
INPUTS = 20_000
_EPISODES = 64  # of each policy


def uncertainty_data(subject: Subject) -> dict[str, Any]:
    """Both kinds of inputs, on the named set."""
    kinds = {"uniform": uniform_inputs(subject), "met": met_inputs(subject)}
    return {kind: _ranking(subject, squared_differences(subject, inputs)) for kind, inputs in kinds.items()}


def uniform_inputs(subject: Subject, count: int = INPUTS, seed: int = 0) -> Array:
    """(count, inputs), the boxes of the domain alike."""
    rng = np.random.default_rng(seed)
    boxes = subject.domain.boxes
    return np.concatenate([box.sample(count // len(boxes), rng) for box in boxes])


def met_inputs(subject: Subject, count: int = INPUTS, seed: int = 0) -> Array:
    """(count, inputs) states that the named policies meet out-of-distribution, as many of each policy's."""
    rng, found = np.random.default_rng(seed), []
    for k in subject.chosen:
        states = _states_met(subject.name, subject.networks[k], seed)
        found.append(states[rng.integers(0, len(states), count // len(subject.chosen))])
    return np.concatenate(found)


def _states_met(benchmark: str, network: Network, seed: int) -> Array:
    """(states, inputs) all that one policy meets in some episodes."""
    from karenina.zoo.environments.benchmark import benchmark_named
    from karenina.zoo.environments.simulator import Simulator
    from karenina.zoo.evaluation import total_rewards

    judged, seen = benchmark_named(benchmark), list[Array]()

    def policy(observations: Array, simulator: Simulator) -> Array:
        seen.append(observations.copy())
        return judged.actions(network(observations), simulator)

    total_rewards(policy, judged.parameters(OOD), _EPISODES, seed)
    return np.concatenate(seen)


def squared_differences(subject: Subject, inputs: Array) -> Array:
    """(models, models) the mean squared difference of two models' outputs."""
    found = outputs(subject, inputs)
    flat = found.reshape(len(found), -1)
    squares = (flat**2).sum(1)
    table: Array = (squares[:, None] + squares[None, :] - 2 * flat @ flat.T) / len(inputs)
    return np.maximum(table, 0.0)


def ensemble_variance(squared: Array, sets: Sets, ensembles: Sets) -> Array:
    """(sets, ensembles) the variance of each ensemble (places in the set) of each set: the sum over its pairs."""
    size = ensembles.shape[1]
    total = np.zeros((len(sets), len(ensembles)))
    for a, b in itertools.combinations(range(size), 2):
        total += squared[sets[:, ensembles[:, a]], sets[:, ensembles[:, b]]]
    return np.asarray(total / size**2)


def least_variance(squared: Array, sets: Sets) -> Sets:
    """(sets, MEMBERS) the models (places in the table) of the ensemble of lowest variance of each set."""
    ensembles = np.array(list(itertools.combinations(range(sets.shape[1]), MEMBERS)), dtype=np.intp)
    best = ensemble_variance(squared, sets, ensembles).argmin(1)
    found: Sets = np.take_along_axis(sets, ensembles[best], 1)
    return found


def _ranking(subject: Subject, squared: Array) -> dict[str, Any]:
    chosen = np.array(subject.chosen, dtype=np.intp)
    ensembles = np.array(list(itertools.combinations(range(len(chosen)), MEMBERS)), dtype=np.intp)
    variance = ensemble_variance(squared, chosen[None, :], ensembles)[0]
    own = [float(variance[(ensembles == k).any(1)].mean()) for k in range(len(chosen))]
    ranked = [subject.names[chosen[k]] for k in np.argsort(own, kind="stable")]
    best = [subject.names[chosen[k]] for k in ensembles[variance.argmin()]]
    return {
        "variance": {subject.names[chosen[k]]: float(f"{own[k]:.4g}") for k in range(len(chosen))},
        "ranking": ranked,
        "good": {subject.names[k]: bool(subject.good[k]) for k in chosen},
        "lowest": statistics(subject, OOD, ranked[:MEMBERS]),
        "ensemble": best,
        "ensemble_statistics": statistics(subject, OOD, best),
    }
