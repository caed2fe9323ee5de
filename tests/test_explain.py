"""`karenina explain`: the witness with names, what both models do there, and what moves them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import strict_json
from reports import groups, make_run, planted_run

from karenina import cli
from karenina.domain import Box, Domain
from karenina.errors import InputError
from karenina.loading import load
from karenina.network import RELU, Layer, Network
from karenina.report import FinishedRun, read_run
from karenina.report.explanation import explain, explanation_text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("explain"))


def test_the_answer_is_that_of_the_networks(run: Path) -> None:
    found = read_run(run)
    for first, second in (("seed_1", "seed_4"), ("seed_4", "seed_1")):
        told = explain(found, first, second)
        assert told.found.outputs is not None
        assert told.found.witness is not None
        for name, output in zip(told.names, told.found.outputs, strict=True):
            network = load(run.parent / "models" / f"{name}.onnx")
            assert network(told.found.witness) == pytest.approx(output, abs=1e-9)
        assert {move.label for move in told.moves} == {"left", "right side"}
        changes = [move.change for move in told.moves]
        assert changes == sorted(changes, reverse=True)


def test_moves_by_hand() -> None:
    """x0 and relu(x1) around (0.5, 0.5) in [-1, 1] x [-1, 2]."""
    first = Network((Layer.of([[1.0, 0.0]], [0.0]),), "m0")
    second = Network((Layer.of([[0.0, 1.0]], [0.0], RELU), Layer.of([[1.0]], [0.0])), "m1")
    planted = planted_run(groups([2]))
    table = planted.selection.table
    known = table.pairs[0, 1]
    seen = type(known)(1.0, 1.5, known.status, np.array([0.5, 0.5]), (np.array([0.5]), np.array([0.5])), 1, 0.0)
    selection = type(planted.selection)(
        **{**vars(planted.selection), "table": type(table)(table.names, {(0, 1): seen})}
    )
    run = FinishedRun(selection, Domain(Box([-1.0, -1.0], [1.0, 2.0]), ["a", "b"]), {"m0": first, "m1": second})
    told = explain(run, "m0", "m1")
    moves = {move.label: move for move in told.moves}
    assert moves["a"].first == (-1.0, 1.0)
    assert moves["a"].second == (0.5, 0.5)
    assert moves["b"].first == (0.5, 0.5)
    assert moves["b"].second == (0.0, 2.0)


def test_the_text_fits_and_names_everything(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", str(run), "seed_1", "seed_4"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith("A  seed_1 (")
    for words in ("They disagree by at least", "left", "right side", "There they say:", "When one input moves"):
        assert words in out


def test_json_has_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", str(run), "seed_4", "seed_1", "--json"]) == 0
    told = strict_json(capsys.readouterr().out)
    known = read_run(run).selection.table.disagreement("seed_4", "seed_1")
    assert (told["a"], told["b"], told["lower"], told["upper"]) == ("seed_4", "seed_1", known.lower, known.upper)
    assert known.witness is not None
    assert told["witness"] == known.witness.tolist()
    assert told["names"] == ["left", "right side"]


def test_mistakes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        ([str(run), "seed_1", "nobody"], "there is no network 'nobody'"),
        ([str(run), "seed_1", "seed_1"], "compared with itself"),
        ([str(tmp_path), "seed_1", "seed_2"], "is not a run folder"),
        ([str(run), "seed_1"], "Missing argument 'B'"),
    ]:
        assert cli.run(["explain", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert message in err
        assert err.count("\n") == 1


def test_a_pair_without_a_witness_says_so() -> None:
    run = planted_run(groups([3]))
    table = run.selection.table
    known = table.pairs[0, 1]
    bare = type(known)(0.0, 0.5, known.status, None, None, 1, 0.0, "no condition holds")
    selection = type(run.selection)(**{**vars(run.selection), "table": type(table)(table.names, {(0, 1): bare})})
    text = explanation_text(explain(FinishedRun(selection, run.domain, run.networks), "m0", "m1"))
    assert "No input is on record" in text
    assert "Note: no condition holds." in text
    with pytest.raises(InputError, match="were not measured"):
        explain(FinishedRun(selection, run.domain, run.networks), "m0", "m2")


def test_names_cannot_command_the_terminal() -> None:
    run = planted_run(groups([3]), ["\x1b[31mred", "plain", "other"])
    assert "\x1b" not in explanation_text(explain(run, "\x1b[31mred", "plain"))
