"""`karenina reproduce`: what it runs, what it writes, and that the page shows what is stored."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_subjects import small_subject

from karenina.cli import run
from karenina.errors import InputError
from karenina.experiments import figures, reproduce
from karenina.experiments.page import filled
from karenina.experiments.paper import ATTACKS, COMBINATIONS, SELECTIONS
from karenina.experiments.populations import PAPER, Subject, subject, subjects, title
from karenina.experiments.results import Results
from karenina.experiments.rows import TABLES, markdown
from karenina.experiments.selections import selection_data
from karenina.experiments.tables import measure_table

DOCS = Path(__file__).parents[1] / "docs"
STORED = Results(DOCS / "results")
POPULATIONS = [name for name in subjects() if STORED.table_path(name).exists()]


def stored_subject(name: str) -> Subject:
    """As many models of a population as its stored table has, the named set first."""
    return subject(name).first(len(STORED.table(name).names))


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One made-up population in place of those that ship."""
    monkeypatch.setattr(reproduce, "subject", lambda _: small_subject())
    monkeypatch.setattr(reproduce, "subjects", lambda: ["made-up"])
    monkeypatch.setattr(figures, "subject", lambda _: small_subject())


@pytest.mark.usefixtures("made_up")
def test_experiments_are_written_and_drawn(tmp_path: Path) -> None:
    told: list[str] = []
    results = reproduce.reproduce(
        ["selections", "combinations", "gradients"], [], tmp_path, reproduce.Work(), told.append
    )
    assert (tmp_path / "tables" / "made-up.json").exists()
    data = results.read("selections")["made-up"]
    assert data["criteria"]["max"]["survivors"]
    assert data["agreement"]["good-good"] < data["agreement"]["good-bad"]
    figures.draw(results)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert {"rewards_made-up.png", "table_made-up.png", "iterations_made-up_ood.png"} <= drawn
    assert "gradients_made-up_restarts-and-momentum.png" in drawn
    assert any("pairs measured" in text for text in told)
    told.clear()
    reproduce.reproduce(["made-up", "selections"], [], tmp_path, reproduce.Work(), told.append)
    assert not any("pairs measured" in text for text in told), "the table was stored"
    reproduce.reproduce(["tables"], [], tmp_path, reproduce.Work(anew=True), told.append)
    assert any("pairs measured" in text for text in told)


@pytest.mark.usefixtures("made_up")
def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'nothing'; known: tables, .*, made-up, all"):
        reproduce.reproduce(["nothing"], [], tmp_path, reproduce.Work())


def test_the_command_refuses_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "nothing", "--out", str(tmp_path)]) == 2
    assert "no experiment and no population 'nothing'" in capsys.readouterr().err


def test_results_of_one_population_leave_the_others(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.record("x", "b", {"k": 1}, ["a", "b"])
    results.record("x", "a", {"k": [1, 2]}, ["a", "b"])
    assert results.read("x") == {"a": {"k": [1, 2]}, "b": {"k": 1}}
    assert list(results.read("x")) == ["a", "b"]
    results.record("x", "b", None, ["a", "b"])
    assert list(results.read("x")) == ["a"]
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InputError, match=r"x\.json"):
        results.read("x")


def test_the_papers_rows_add_up() -> None:
    slips = {("combined", 8)}
    for criterion, rows in COMBINATIONS.items():
        for good, row in rows.items():
            assert (row.all_good + row.some_bad == row.sets) == ((criterion, good) not in slips)
            assert row.naive == pytest.approx(good / (good + 4), abs=1e-4)
    assert all(row.aligned + row.untightened + row.failed == 120 for row in ATTACKS.values())
    assert set(SELECTIONS) == set(PAPER)


def test_a_page_with_an_unknown_table_is_refused() -> None:
    with pytest.raises(InputError, match="'none'"):
        filled("<!-- table: none -->\n<!-- end -->", STORED)


def test_tables_are_markdown() -> None:
    assert markdown(("a", "b"), [(1, "x")]) == "| a | b |\n| --- | --- |\n| 1 | x |\n"
    assert title("aurora_short") == "Aurora (short)"


def test_the_page_shows_what_is_stored() -> None:
    """Every table of the page is what the data say, every table is on it, every figure it shows is there."""
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    assert filled(text, STORED) == text
    assert [name for name in TABLES if f"<!-- table: {name} -->" not in text] == []
    for part in text.split("](")[1:]:
        target = part.split(")")[0]
        assert target.startswith("http") or (DOCS / target.split("#")[0]).exists(), target


def test_the_papers_populations_are_stored() -> None:
    assert set(PAPER) <= set(POPULATIONS)


@pytest.mark.parametrize("name", POPULATIONS)
def test_stored_tables_are_of_the_shipped_policies(name: str) -> None:
    own, table = stored_subject(name), STORED.table(name)
    assert len(table.names) >= len(own.chosen)
    assert list(table.networks.values()) == [network.digest()[:16] for network in own.networks]
    assert table.names == own.names
    assert (table.lower <= table.upper).all()
    assert (table.lower >= 0).all()
    np.testing.assert_array_equal(table.lower, table.lower.T)
    assert table.open_pairs == 0


@pytest.mark.parametrize("name", POPULATIONS)
def test_stored_selections_follow_from_the_stored_tables(name: str) -> None:
    found = selection_data(stored_subject(name), STORED.table(name))
    assert json.loads(json.dumps(found)) == STORED.read("selections")[name]


def test_some_stored_pairs_measured_again() -> None:
    """A few pairs of each population, by the engine as it is now: the intervals must meet."""
    for name in ("cartpole", "mountaincar"):
        own, stored = subject(name), STORED.table(name)
        places = [0, 3, len(own.names) - 1]
        part = replace(own, names=tuple(own.names[k] for k in places), networks=tuple(own.networks[k] for k in places))
        found = measure_table(part, stored.tolerance)
        before = stored.of(places)
        assert (found.lower <= before.upper).all()
        assert (before.lower <= found.upper).all()


def test_the_command_uses_the_stored_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tables").mkdir()
    shutil.copy(STORED.table_path("mountaincar"), tmp_path / "tables")
    command = ["reproduce", "selections", "combinations", "--population", "mountaincar", "--no-figures"]
    assert run([*command, "--out", str(tmp_path)]) == 0
    assert f"results are in {tmp_path}" in capsys.readouterr().out
    for experiment in ("selections", "combinations"):
        assert Results(tmp_path).read(experiment)["mountaincar"] == STORED.read(experiment)["mountaincar"]
