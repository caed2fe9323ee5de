"""The fuzzer of the engine: a short run finds nothing, a planted bug is found and made small, kept cases pass.

`make fuzz` runs it until stopped; what it finds is kept in tests/regressions/ and replayed here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from engine import Fuzzer, main
from fuzz_checks import CHECKS
from fuzz_holds import Wrong, check_answer
from fuzz_laws import halved, inner, permuted, reversed_order, times_four
from fuzz_random import KINDS, random_subject
from fuzz_subjects import Subject, from_json, to_json

from karenina.engine import relaxation
from karenina.engine.relaxation import Lines, Side
from karenina.query import Answer, Status

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
BY_NAME = {name: check for checks in CHECKS.values() for name, check in checks.items()}


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_failed_once_does_not_fail_again(path: Path) -> None:
    check, subject = from_json(path.read_text())
    BY_NAME[check](subject)


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    fuzzer = Fuzzer(seed=1, log=tmp_path / "seeds.log")
    assert [failure.said for failure in fuzzer.run(8.0)] == []
    assert fuzzer.cases.total() == len((tmp_path / "seeds.log").read_text().splitlines()) > 0
    assert fuzzer.checks.total() >= fuzzer.cases.total()


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_case_again_and_it_survives_its_file(kind: str) -> None:
    for seed in range(20):
        (_, one), (_, two) = (random_subject(seed, {kind: 1.0}) for _ in range(2))
        text = to_json(one, "holds", "nothing")
        assert text == to_json(two, "holds", "nothing")
        assert to_json(from_json(text)[1], "holds", "nothing") == text


def _flat_chord(left: float, right: float, lo: torch.Tensor, hi: torch.Tensor) -> Lines:
    """The lines of a kink with a chord that starts a tenth too low."""
    lines = _RIGHT(left, right, lo, hi)
    low, high, point, value = lines.upper
    return Lines(Side(low, high, point, value - 0.1 * (hi - lo)), lines.lower, lines.start)


_RIGHT = relaxation._kink


def test_a_planted_bug_is_found_made_small_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(relaxation, "_kink", _flat_chord)
    fuzzer = Fuzzer(seed=3, kinds={"query": 1.0}, shrinking=20.0)
    failure = next(fuzzer.run(120.0))
    assert failure.said.startswith("Wrong")
    _, before = random_subject(failure.seed, {"query": 1.0})
    assert _size(failure.subject) <= 6 < _size(before)
    check, again = from_json(failure.write(tmp_path).read_text())
    with pytest.raises(Wrong):
        BY_NAME[check](again)
    monkeypatch.undo()
    BY_NAME[check](again)


def _size(subject: Subject) -> int:
    return sum(len(layer.bias) for network in subject.networks for layer in network.layers)


def test_the_command_line_says_what_was_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = next(s for s in range(100) if random_subject(s)[0] == "hostile")
    arguments = ["--case", str(seed), "--out", str(tmp_path), "--log", str(tmp_path / "log"), "--seed", "7"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 cases (hostile 1), 3 checks, 0 failures")
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("seed", range(12))
def test_the_laws_hold_of_the_networks_themselves(seed: int) -> None:
    """At one point, without any engine: what the laws claim of a maximum, they claim of every value."""
    _, subject = random_subject(seed, {"query": 1.0})
    query, x = subject.query, subject.boxes[0].lower
    value = query.cases[0].value(query.outputs(x))
    for other, factor in ((permuted(subject), 1.0), (reversed_order(subject), 1.0), (times_four(subject), 4.0)):
        again = other.query.cases[0].value(other.query.outputs(x))
        assert again == pytest.approx(factor * value, rel=1e-9, abs=1e-9 * factor)
    assert all(subject.domain.contains(end) for end in (inner(subject).boxes[0].lower, inner(subject).boxes[0].upper))
    parts = halved(subject)
    assert len(parts.boxes) == 2 * len(subject.boxes)
    assert parts.domain.contains(x)


def claims(change: str) -> tuple[Subject, Answer]:
    """An answer that is right but for one thing."""
    _, subject = random_subject(
        next(s for s in range(100) if _fine(random_subject(s, {"query": 1.0})[1])), {"query": 1.0}
    )
    answer = subject.engine().answer(subject.query, subject.goal)
    assert answer.witness is not None
    width = answer.upper - answer.lower
    changes: dict[str, dict[str, object]] = {
        "nothing": {},
        "lower": {"lower": answer.lower + 1e-6, "upper": answer.upper + 1e-6},
        "upper": {"lower": answer.lower - 2.0, "upper": answer.upper - width - 1e-6},
        "witness": {"witness": answer.witness + 1e6},
        "infeasible": {"status": Status.INFEASIBLE},
        "exact": {"status": Status.EXACT, "upper": answer.upper + 10.0},
        "overflow": {"status": Status.OVERFLOW},
    }
    return subject, dataclasses.replace(answer, **changes[change])  # type: ignore[arg-type]


def _fine(subject: Subject) -> bool:
    answer = subject.engine().answer(subject.query, subject.goal)
    return answer.status is Status.EXACT and not len(subject.constraint_offsets) and abs(answer.lower) < 1e3


def test_a_right_answer_passes() -> None:
    subject, answer = claims("nothing")
    check_answer(subject.query, answer, subject.goal, np.random.default_rng(0))


@pytest.mark.parametrize("change", ["lower", "upper", "witness", "infeasible", "exact", "overflow"])
def test_a_wrong_answer_is_refused(change: str) -> None:
    subject, answer = claims(change)
    with pytest.raises(Wrong):
        check_answer(subject.query, answer, subject.goal, np.random.default_rng(0))
