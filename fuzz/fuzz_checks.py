"""The checks that a fuzzed case goes through, by name.

Enters: a `Subject`. Leaves: nothing, or `Wrong`. Each check asks the engine itself, so that a shrunk case can go
through the same check again.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from fuzz_holds import Wrong, check_answer, check_disagreement, require_overlap
from fuzz_laws import halved, inner, permuted, reversed_order, times_four
from fuzz_subjects import Subject

from karenina.backends.milp import Milp
from karenina.disagreement import Disagreement, pairwise_disagreement_threshold
from karenina.engine import Engine
from karenina.query import Answer, Goal, Status
from karenina.selection import Selection, SelectionSettings, select

__all__ = ["ALWAYS", "CHECKS", "check_certificate"]

Check = Callable[[Subject], None]


def _answer(subject: Subject, engine: Engine | None = None) -> Answer:
    return (engine or subject.engine()).answer(subject.query, subject.goal)


def check_holds(subject: Subject) -> None:
    """The answer against samples, gradient ascent and exact arithmetic."""
    check_answer(subject.query, _answer(subject), subject.goal, subject.rng())


def check_other_path(subject: Subject) -> None:
    """Compiled code against torch."""
    other = subject.engine(threads=0 if subject.settings.threads else 1)
    require_overlap(_answer(subject), _answer(subject, other), "compiled code and torch")


def check_device(subject: Subject) -> None:
    """A GPU against the CPU, where there is one."""
    if torch.cuda.is_available():
        there = replace(subject, device="cuda")
        found = _answer(there)
        check_answer(subject.query, found, subject.goal, subject.rng())
        require_overlap(_answer(subject), found, "CPU and GPU")


def check_highs(subject: Subject) -> None:
    """A MILP solver, where the case is small and its numbers are within what such a solver can hold apart."""
    if importlib.util.find_spec("highspy") is None or not _fit_for_highs(subject):
        return
    query, goal = subject.query, Goal(1e-4, time_limit=3.0)
    here, there = subject.engine().answer(query, goal), Milp("highs").answer(query, goal)
    finished = (Status.EXACT, Status.PRECISION, Status.INFEASIBLE)
    if here.status in finished and there.status in finished:
        size = abs(here.upper) if np.isfinite(here.upper) else 0.0
        if (here.status is Status.INFEASIBLE) != (there.status is Status.INFEASIBLE):
            if here.status is Status.INFEASIBLE or here.witness is not None:
                raise Wrong(f"HiGHS says {there.status}, the engine {here.status}")
        else:
            require_overlap(here, there, "HiGHS", 1e-5 * (1 + size))


def _neurons(subject: Subject) -> int:
    return sum(len(layer.bias) for network in subject.networks for layer in network.layers)


def _fit_for_highs(subject: Subject) -> bool:
    weights = np.concatenate([layer.weight.numpy().ravel() for n in subject.networks for layer in n.layers])
    sizes = np.abs(weights[weights != 0])
    widest = max(float(np.abs([box.lower, box.upper]).max()) for box in subject.boxes)
    narrow = min(
        float(np.min(box.upper - box.lower, where=box.upper > box.lower, initial=1.0)) for box in subject.boxes
    )
    tame = sizes.size and sizes.min() > 1e-4 and sizes.max() < 50 and widest < 20 and narrow > 1e-4
    return bool(subject.piecewise_linear and _neurons(subject) <= 30 and tame)


def check_permuted(subject: Subject) -> None:
    """Hidden neurons in another order, networks in another order."""
    found = _answer(subject)
    require_overlap(found, _answer(permuted(subject)), "permuted neurons")
    require_overlap(found, _answer(reversed_order(subject)), "networks in reverse")


def check_scaled(subject: Subject) -> None:
    """Four times the outputs have four times the maximum, exactly."""
    if subject.goal.threshold is None:
        found, larger = _answer(subject), _answer(times_four(subject))
        fourth = replace(larger, lower=larger.lower / 4, upper=larger.upper / 4)
        require_overlap(found, fourth, "four times the outputs")


def check_boxes(subject: Subject) -> None:
    """A box inside has no larger maximum; two halves have that of the whole."""
    whole, part = _answer(subject), _answer(inner(subject))
    if part.lower > whole.upper and whole.status is not Status.INFEASIBLE:
        raise Wrong(f"a box inside attains {part.lower!r}, the whole at most {whole.upper!r}")
    if whole.status is Status.INFEASIBLE and part.witness is not None:
        raise Wrong("a box inside has a witness, the whole is infeasible")
    parts = _answer(halved(subject))
    require_overlap(whole, parts, "halves of the boxes")


def check_paused(subject: Subject) -> None:
    """A coarse goal first, and then a finer one on the same engine: it goes on where it stopped."""
    goal = subject.goal
    if goal.threshold is not None:
        return
    engine, fine = subject.engine(), replace(goal, relative_tolerance=0.0, tolerance=1e-3, closing=1e-3)
    engine.answer(subject.query, replace(fine, tolerance=1.0))
    went_on = engine.answer(subject.query, fine)
    check_answer(subject.query, went_on, fine, subject.rng())
    require_overlap(went_on, subject.engine().answer(subject.query, fine), "gone on and at once")


def check_threshold(subject: Subject) -> None:
    """Thresholds just inside and just outside the interval are decided on the right side."""
    found = subject.engine().answer(subject.query, replace(subject.goal, threshold=None))
    for end, side in ((found.lower, -1.0), (found.upper, 1.0)):
        if not np.isfinite(end):
            continue
        threshold = end + side * (1e-6 + 1e-6 * abs(end))
        goal = Goal(threshold=threshold, time_limit=subject.goal.time_limit)
        answer = subject.engine().answer(subject.query, goal)
        check_answer(subject.query, answer, goal, subject.rng())
        require_overlap(found, answer, "with a threshold and without")


def _disagreement(subject: Subject, engine: Engine | None = None, *, turned: bool = False) -> Disagreement:
    first, second = subject.networks[:2][:: -1 if turned else 1]
    return pairwise_disagreement_threshold(
        first, second, subject.domain, subject.metric, goal=subject.goal, backend=engine or subject.engine()
    )


def check_pair(subject: Subject) -> None:
    """The threshold against samples and exact arithmetic."""
    first, second = subject.networks[:2]
    check_disagreement(first, second, subject.domain, subject.metric, _disagreement(subject), subject.rng())


def check_pair_laws(subject: Subject) -> None:
    """The same for the networks exchanged, by the other path, and over halves of the boxes."""
    found = _disagreement(subject)
    require_overlap(found, _disagreement(subject, turned=True), "networks exchanged")
    other = subject.engine(threads=0 if subject.settings.threads else 1)
    require_overlap(found, _disagreement(subject, other), "compiled code and torch")
    if subject.distance != "c-distance":  # whose least over conditions is taken box by box
        require_overlap(found, _disagreement(halved(subject)), "halves of the boxes")
    if torch.cuda.is_available():
        require_overlap(found, _disagreement(replace(subject, device="cuda")), "CPU and GPU")


def _select(subject: Subject, *, exact: bool) -> Selection:
    criterion = ("percentile", "max", "combined")[subject.seed % 3]
    goal = subject.goal
    settings = SelectionSettings(criterion, tolerance=goal.tolerance, time_limit=goal.time_limit, exact=exact)
    names = [f"model {place}" for place in range(len(subject.networks))]
    return select(
        subject.networks, subject.domain, subject.metric, settings=settings, names=names, backend=subject.engine()
    )


def check_selection(subject: Subject) -> None:
    """Lazy selection removes what full selection removes, and its guarantee holds."""
    lazy, full = _select(subject, exact=False), _select(subject, exact=True)
    if lazy.complete and full.complete:
        for what in ("survivors", "removed", "recommended"):
            if getattr(lazy, what) != getattr(full, what):
                raise Wrong(f"{what}: lazily {getattr(lazy, what)}, fully {getattr(full, what)}")
    rng, places = subject.rng(), [lazy.names.index(name) for name in lazy.survivors]
    for i, j in [(i, j) for i in places for j in places if i < j][:6]:
        found = lazy.table.pairs[i, j]
        check_disagreement(subject.networks[i], subject.networks[j], subject.domain, subject.metric, found, rng)
        if found.upper > lazy.guarantee.upper:
            raise Wrong(f"survivors {i} and {j} may be {found.upper} apart, the guarantee says {lazy.guarantee.upper}")


def check_certificate(subject: Subject) -> None:
    """The certificate of a small pair is accepted by the checker, and what it claims holds; nothing without the two."""
    try:
        writer, checker = (importlib.import_module(f"karenina.{name}") for name in ("certificate", "checker"))
        needed = (
            writer.write_certificate,
            writer.Source,
            writer.Subject,
            writer.NotProven,
            checker.check,
            checker.Refused,
        )
    except (ImportError, AttributeError):
        return
    write, source, certified, not_proven, check, refused = needed
    found = _disagreement(subject)
    if _neurons(subject) > 24 or subject.boxes[0].size > 4 or found.status is not Status.EXACT:
        return
    with TemporaryDirectory() as folder:
        file, path = Path(folder) / "networks", Path(folder) / "certificate"
        file.write_bytes(b"made by the fuzzer")
        about = certified(subject.networks[:2], [source(file)] * 2, subject.domain, subject.metric)
        try:
            write(path, about, {(0, 1): found})
            (claim,) = check(path).certificate.claims
        except not_proven:
            return  # it says so, and nothing is claimed
        except refused as error:
            raise Wrong(f"the checker refuses: {error}") from error
        proven = replace(found, lower=claim.lower, upper=claim.upper)
        first, second = subject.networks[:2]
        check_disagreement(first, second, subject.domain, subject.metric, proven, subject.rng())
        require_overlap(found, proven, "what was found and what was proven")


ALWAYS = {"query": "holds", "hostile": "holds", "pair": "pair", "selection": "selection"}
CHECKS: dict[str, dict[str, Check]] = {
    "query": {
        "holds": check_holds,
        "other path": check_other_path,
        "device": check_device,
        "highs": check_highs,
        "permuted": check_permuted,
        "scaled": check_scaled,
        "boxes": check_boxes,
        "paused": check_paused,
        "threshold": check_threshold,
    },
    "hostile": {
        "holds": check_holds,
        "other path": check_other_path,
        "device": check_device,
        "permuted": check_permuted,
        "boxes": check_boxes,
        "paused": check_paused,
    },
    "pair": {"pair": check_pair, "pair laws": check_pair_laws, "certificate": check_certificate},
    "selection": {"selection": check_selection},
}
