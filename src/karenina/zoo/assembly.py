"""Makes a population's folder from a training and its evaluation.

Enters: the folder of a training, the JSON that `karenina zoo evaluate --json` printed for its policies, and the least
in-distribution reward that passes. Leaves: a folder for `karenina.zoo.population`.

    python -m karenina.zoo.assembly trained/cartpole evaluation.json --least 450 --out population/cartpole

The named set is fixed here, before any selection: the first 16 that pass, the paper's seeds first, in the paper's
order, then ascending. Only the in-distribution reward decides who passes. A policy that was trained with other
versions than the first one has its own in its entry.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from karenina.errors import InputError, KareninaError
from karenina.zoo.population import MEASURES
from karenina.zoo.training_folder import seed_name, write_atomically

__all__ = ["NAMED", "PAPER_SEEDS", "assemble", "main"]

NAMED = 16
CURVE_POINTS = 100  # at most, of a shipped learning curve
_AURORA = (4, 52, 105, 666, 850, 854, 857, 858, 885, 897, 901, 906, 907, 929, 944, 945)
PAPER_SEEDS: dict[str, tuple[int, ...]] = {
    "cartpole": tuple(range(1, 17)),
    "mountaincar": tuple(range(1, 17)),
    "aurora_short": _AURORA,
    "aurora_long": _AURORA,
}
_OWN = ("seed", "seconds", "digest")  # of the provenance, what belongs to one policy


def assemble(
    training: Path, evaluation: Mapping[str, Any], least: float, out: Path, reason: str = ""
) -> dict[str, Any]:
    """Copy the policies that pass, write the manifest; returned as well. `reason` says why `least` is what it is."""
    stories = _stories(training)
    benchmark = _shared(stories, training)["benchmark"]
    rewards = {seed: _rewards(evaluation, seed) for seed in stories}
    passing = [seed for seed in _ordered(stories, benchmark) if rewards[seed]["in-distribution"]["mean"] >= least]
    if len(passing) < NAMED:
        raise InputError(f"{training}: {len(passing)} of {len(stories)} policies pass, but a named set has {NAMED}")
    policies = {}
    for place, seed in enumerate(passing):
        file = Path(seed_name(seed) + ".onnx") if place < NAMED else Path("rest", seed_name(seed) + ".onnx")
        _copy(training / file.name, out / file)
        policies[seed_name(seed)] = _entry(stories[seed], str(file.as_posix()), rewards[seed])
        if stories[seed]["versions"] != stories[passing[0]]["versions"]:
            policies[seed_name(seed)]["versions"] = stories[seed]["versions"]
    manifest = {
        "benchmark": benchmark,
        "training": _shared(stories, training),
        "action": stories[passing[0]]["action"],
        "versions": stories[passing[0]]["versions"],
        "evaluation": {key: value for key, value in evaluation.items() if key != "models"},
        "filter": {"preset": "in-distribution", "least": least, "reason": reason},
        "trained": len(stories),
        "passed": len(passing),
        "failed": {seed_name(seed): rewards[seed] for seed in _ordered(stories, benchmark) if seed not in passing},
        "chosen": [seed_name(seed) for seed in passing[:NAMED]],
        "policies": policies,
    }
    write_atomically(out / "manifest.json", lambda path: path.write_text(_text(manifest)))
    for old in {*out.glob("seed_*.onnx"), *out.glob("rest/seed_*.onnx")} - {
        out / own["file"] for own in policies.values()
    }:
        old.unlink()  # of an earlier assembly: whoever is given the folder means the named set
    return manifest


def _text(manifest: Mapping[str, Any]) -> str:
    """JSON with a line for every fact and every policy, so that two manifests can be compared line by line."""
    policies = ",\n".join(f"  {json.dumps(name)}: {json.dumps(own)}" for name, own in manifest["policies"].items())
    facts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in manifest.items() if key != "policies"]
    return ",\n".join(["{\n" + facts[0], *facts[1:], ' "policies": {\n' + policies + "\n }\n}\n"])


def _stories(training: Path) -> dict[int, dict[str, Any]]:
    """The provenance of every finished seed."""
    found: dict[int, dict[str, Any]] = {}
    for path in sorted(training.glob("seed_*.json")):
        try:
            story = json.loads(path.read_text())
            found[int(story["seed"])] = story
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a provenance file ({error!r})") from None
    if not found:
        raise InputError(f"{training} holds no trained policies: seed_*.json are missing")
    return found


def _shared(stories: Mapping[int, Mapping[str, Any]], training: Path) -> dict[str, Any]:
    """How all were trained: there must be one way."""
    first: dict[str, Any] = next(iter(stories.values()))["training"]
    for seed, story in stories.items():
        if story["training"] != first:
            raise InputError(
                f"{training}: {seed_name(seed)} was trained otherwise than {seed_name(next(iter(stories)))}"
            )
    if first["benchmark"] not in MEASURES:
        raise InputError(f"{training}: unknown benchmark {first['benchmark']!r}")
    return first


def _ordered(seeds: Mapping[int, Any], benchmark: str) -> list[int]:
    """The paper's seeds in its order, then the others ascending."""
    known = PAPER_SEEDS.get(benchmark, ())  # gymnasium's tasks are not the paper's
    return [seed for seed in known if seed in seeds] + sorted(seed for seed in seeds if seed not in known)


def _rewards(evaluation: Mapping[str, Any], seed: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = evaluation["models"][seed_name(seed)]
        float(found["in-distribution"]["mean"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"the evaluation has no in-distribution reward of {seed_name(seed)}") from None
    return found


def _entry(story: Mapping[str, Any], file: str, rewards: dict[str, Any]) -> dict[str, Any]:
    steps, reward = story["curve"]["steps"], story["curve"]["reward"]
    stride = -(-len(steps) // CURVE_POINTS) or 1
    keep = range(len(steps) - 1, -1, -stride)[::-1]
    curve = {"steps": [steps[k] for k in keep], "reward": [float(f"{reward[k]:.4g}") for k in keep]}
    return {"file": file, **{key: story[key] for key in _OWN}, "rewards": rewards, "curve": curve}


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise InputError(f"{source} is missing, although its provenance is there")
    write_atomically(target, lambda path: shutil.copyfile(source, path))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m karenina.zoo.assembly", description=__doc__.split("\n")[0])
    parser.add_argument("training", type=Path, help="the folder of a training, such as trained/cartpole")
    parser.add_argument("evaluation", type=Path, help="what `karenina zoo evaluate --json` printed")
    parser.add_argument("--least", type=float, required=True, help="the least in-distribution reward that passes")
    parser.add_argument("--reason", default="", help="why that; kept in the manifest")
    parser.add_argument("--out", type=Path, required=True, help="the population's folder")
    given = parser.parse_args(arguments)
    try:
        evaluation = json.loads(given.evaluation.read_text())
        made = assemble(given.training, evaluation, given.least, given.out, given.reason)
    except (OSError, ValueError) as error:
        print(f"error: {given.evaluation}: {error}", file=sys.stderr)
        return 2
    except KareninaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{made['benchmark']}: {made['passed']} of {made['trained']} pass; named: {', '.join(made['chosen'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
