"""`karenina plot`: files of the kind asked for, the same for the same data, and mistakes in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from reports import groups, make_run, planted_selection, some_rewards

from karenina import cli
from karenina.errors import InputError, MissingExtra
from karenina.report.drawing import FORMATS, KINDS, draw, draw_heatmap, draw_scores
from karenina.report.figures import heatmap_data, scores_data

pytest.importorskip("matplotlib")

STARTS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_a_file_of_its_kind_and_always_the_same(tmp_path: Path, kind: str, ending: str) -> None:
    found = planted_selection(groups([6, 4]))
    for name in ("first", "second"):
        draw(kind, found, tmp_path / f"{name}.{ending}", some_rewards(found.names, 6))
    drawn = (tmp_path / f"first.{ending}").read_bytes()
    assert drawn.startswith(STARTS[ending])
    assert drawn == (tmp_path / f"second.{ending}").read_bytes()


def test_what_is_drawn_is_the_data() -> None:
    found = planted_selection(groups([6, 4]))
    data = heatmap_data(found)
    figure = draw_heatmap(data)
    shown = np.asarray(figure.axes[0].images[0].get_array().filled(np.nan), dtype=np.float64)
    apart = ~np.eye(len(data.names), dtype=bool)
    assert (shown[apart] == data.lower[apart]).all()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == list(data.names)
    scores = draw_scores(scores_data(found)).axes[0]
    assert sum(len(line.get_xdata()) for line in scores.lines) == len(scores_data(found))


def test_names_are_not_read_as_mathematics(tmp_path: Path) -> None:
    found = planted_selection(groups([4]), [r"$\frac$", "$x", "a_b^c", "<b>"])
    draw("heatmap", found, tmp_path / "table.png")
    assert (tmp_path / "table.png").stat().st_size > 1000


def test_unknown_upper_bounds_can_be_drawn(tmp_path: Path) -> None:
    found = planted_selection(groups([4]))
    scores = [type(s)(s.iteration, s.name, s.lower, np.inf, s.removed) for s in scores_data(found)]
    draw_scores(scores).savefig(tmp_path / "scores.png")


def test_rewards_are_needed_where_a_figure_is_about_them(tmp_path: Path) -> None:
    found = planted_selection(groups([4]))
    with pytest.raises(InputError, match="--rewards"):
        draw("ratio", found, tmp_path / "ratio.pdf")
    with pytest.raises(InputError, match="there is no figure"):
        draw("pie", found, tmp_path / "pie.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        draw("scores", found, tmp_path / "no" / "scores.pdf")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = planted_selection(groups([4]))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"karenina\[plot\]"):
        draw("scores", found, tmp_path / "scores.pdf")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path)
    capsys.readouterr()
    (tmp_path / "rewards.csv").write_text("name,reward,good\n" + "".join(f"seed_{k},{k},yes\n" for k in range(6)))
    assert cli.run(["plot", str(run), "--kind", "scores", "--format", "svg"]) == 0
    assert capsys.readouterr().out == f"{run / 'scores.svg'}\n"
    assert (run / "scores.svg").read_bytes().startswith(b"<?xml")
    rewarded = ["--rewards", str(tmp_path / "rewards.csv")]
    assert cli.run(["plot", str(run), "--kind", "ratio", "--out", str(tmp_path / "a.png"), *rewarded]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    for arguments, message in [
        (["--kind", "ratio"], "about rewards"),
        (["--kind", "scores", "--out", "a.jpg"], "does not end in .pdf, .png, .svg"),
        (["--kind", "scores", "--out", "a.png", "--format", "svg"], "does not end in .svg"),
        (["--kind", "pie"], "is not one of"),
    ]:
        assert cli.run(["plot", str(run), *arguments]) == 2
        assert message in capsys.readouterr().err
