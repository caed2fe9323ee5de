"""The rewards of the shipped policies beside a selection among them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karenina.cli import run
from karenina.store.seal import seal
from karenina.zoo import load
from karenina.zoo.rewards_command import fates, rewards_text, table

EARNED = {
    "a": {"in-distribution": {"mean": 500.0, "good": True}, "ood": {"mean": 12.345, "good": False}},
    "b": {"in-distribution": {"mean": 499.0, "good": True}, "ood": {"mean": 300.0, "good": True}},
    "c": {"in-distribution": {"mean": 498.0, "good": True}, "ood": {"mean": 30.0, "good": False}},
}


def finished(folder: Path, removed: list[list[str]], survivors: list[str]) -> Path:
    folder.mkdir()
    iterations = [{"number": 1 + k, "removed": names} for k, names in enumerate(removed)]
    result = {"iterations": iterations, "survivors": survivors, "recommended": survivors[-1]}
    (folder / "selection.json").write_bytes(seal(result))
    return folder


def test_a_table_says_who_went_when(tmp_path: Path) -> None:
    fate = fates(finished(tmp_path / "run", [["c"], []], ["a", "b"]))
    assert fate == {"c": "removed in iteration 1", "a": "survives", "b": "survives, recommended"}
    lines = rewards_text(EARNED, fate, 250.0).splitlines()
    assert lines[0] == "mean reward; * above 250"
    assert lines[1].split() == ["in-distribution", "ood", "selection"]
    assert [line.split()[0] for line in lines[2:]] == ["c", "a", "b"]
    assert lines[3].split() == ["a", "500.00", "*", "12.35", "survives"]
    assert len({line.index("*") for line in lines[2:]}) == 1


def test_without_a_run_all_are_shown_in_order() -> None:
    assert [line.split()[0] for line in rewards_text(EARNED, {}, 250.0).splitlines()[2:]] == ["a", "b", "c"]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table([["", "x"], ["long", "1"]]) == "      x\nlong  1\n"


def test_the_shipped_cartpole_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = list(load("cartpole").networks)
    folder = finished(tmp_path / "run", [names[2:]], names[:2])
    assert run(["zoo", "rewards", "cartpole", "--run", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1].split()[0] == names[1]
    assert "survives, recommended" in said.splitlines()[-1]
    assert run(["zoo", "rewards", "cartpole", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert list(models) == names
    assert all({"in-distribution", "ood"} <= set(own) for own in models.values())
    assert run(["zoo", "rewards", "cartpole", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2 + len(names)


@pytest.mark.parametrize("content", [None, "{}", "no json", '{"iterations": 3, "survivors": [], "recommended": ""}'])
def test_a_folder_that_is_no_finished_run_is_named(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "selection.json").write_text(content)
    assert run(["zoo", "rewards", "cartpole", "--run", str(tmp_path)]) == 2
    assert "selection.json" in capsys.readouterr().err


def test_a_run_of_other_models_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = finished(tmp_path / "run", [["x"]], ["y", "z"])
    assert run(["zoo", "rewards", "cartpole", "--run", str(folder)]) == 2
    assert "other models" in capsys.readouterr().err
