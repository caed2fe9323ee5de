"""Corrupted certificates, hundreds of them: every one is refused, or what it still claims is true."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from certificate_judge import Judge
from certificate_mutations import TEXT, changed_file, changed_nodes, changed_text, other_selection
from certificates import MAKERS, made

pytest.importorskip("numba")
NODES, FILES, SELECTIONS = 2, 6, 60


def say(capsys: pytest.CaptureFixture[str], judge: Judge) -> None:
    with capsys.disabled():
        print(f"\n    {judge.summary}")


@pytest.mark.parametrize("which", MAKERS)
def test_corrupted_certificates_are_refused_or_true(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge, rng = Judge(tmp_path), random.Random(which)
    for word, change in TEXT.items():
        for _ in range(1 if which == "selection" else 3):
            judge.judge(word, changed_text(made(which), change, rng))
    for _ in range(NODES):
        for word, data in changed_nodes(made(which), rng):
            judge.judge(word, data)
    for _ in range(FILES):
        for word, data in changed_file(made(which), rng):
            judge.judge(word, data)
    say(capsys, judge)
    assert judge.refused.total() > 2 * judge.harmless.total()
    for word in ("upper below what is attained", "one weight", "layer dropped", "claimed twice", "nothing claimed"):
        assert not judge.harmless[word], word


def test_corrupted_selections_are_refused_or_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge, rng = Judge(tmp_path), random.Random(1)
    for _ in range(SELECTIONS):
        judge.judge("selection", changed_text(made("selection"), other_selection, rng))
    say(capsys, judge)
    assert judge.refused.total() > judge.harmless.total()
