"""Every bit of a certificate, and thousands of other corruptions: refused, or what is still claimed is true."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from certificate_judge import Judge
from certificate_mutations import TEXT, changed_file, changed_nodes, changed_text, other_selection
from certificates import MAKERS, made, packed

pytest.importorskip("numba")
pytestmark = pytest.mark.slow
ROUNDS = 15


@pytest.mark.parametrize("which", MAKERS)
def test_thousands_of_corrupted_certificates(which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge, rng = Judge(tmp_path), random.Random(f"slow {which}")
    for _ in range(ROUNDS):
        for word, change in TEXT.items():
            judge.judge(word, changed_text(made(which), change, rng))
        for word, data in (*changed_nodes(made(which), rng), *changed_file(made(which), rng)):
            judge.judge(word, data)
        if which == "selection":
            judge.judge("selection", changed_text(made(which), other_selection, rng))
    with capsys.disabled():
        print(f"\n    {judge.summary}")
    assert judge.refused.total() > judge.harmless.total()


@pytest.mark.parametrize("deflate", [True, False])
def test_every_bit_of_a_certificate(deflate: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge, good = Judge(tmp_path), made("tanh")
    data = packed(good.text, good.members, deflate=deflate)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        judge.judge("bit flipped", bytes(flipped))
    with capsys.disabled():
        print(f"\n    {judge.summary}")
    assert judge.refused.total() > judge.harmless.total()
