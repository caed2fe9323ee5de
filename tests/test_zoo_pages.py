"""What the zoo's pages say is what its scripts print from committed results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from karenina.errors import InputError
from karenina.network import Activation, Layer, Network
from karenina.zoo import readings, states, tables
from karenina.zoo.population import load, shipped
from karenina.zoo.recipes import recipe
from karenina.zoo.training_folder import Progress, TrainingFolder

PAGES = Path(__file__).parents[1] / "docs" / "zoo"


def page_of(benchmark: str) -> str:
    return (PAGES / f"{benchmark.removesuffix('_short').removesuffix('_long')}.md").read_text()


@pytest.mark.parametrize("benchmark", shipped())
def test_pages_have_the_printed_table(benchmark: str) -> None:
    text = page_of(benchmark)
    for line in tables.population_table(load(benchmark, everything=True)):
        assert line in text


@pytest.mark.parametrize("path", sorted(PAGES.glob("*_readings.json")), ids=lambda path: path.stem)
def test_pages_have_the_readings(path: Path) -> None:
    rows = json.loads(path.read_text())
    text = page_of(rows[0]["benchmark"])
    for line in tables.readings_table(rows):
        assert line in text


def test_tables_are_counted_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main([]) == 0
    population = load("mountaincar", everything=True)
    means = [own["ood"]["mean"] for own in population.rewards.values()]
    good = sum(mean > 90 for mean in means)
    said = capsys.readouterr().out
    assert f"| all that pass | {good} of {len(means)} |" in said
    assert f"{min(means):.1f} to {max(means):.1f} |" in said
    assert tables.main(["missing.json"]) == 2
    assert "missing.json" in capsys.readouterr().err


def constant(push: float) -> Network:
    """A policy of Mountain Car that always pushes alike."""
    hidden = Layer.of(np.zeros((3, 2)), np.zeros(3), Activation("relu"))
    return Network((hidden, Layer.of(np.zeros((1, 3)), [push])), "constant")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A training with a steeper valley: one policy, first pushing left, then right."""
    steep = recipe("mountaincar", {"checkpoints": 2}, {"height_scale": 0.5})
    made = TrainingFolder(tmp_path / "mountaincar", {**steep.described(), "trainer": "sb3"})
    for number, push in ((1, -3.0), (2, 3.0)):
        made.checkpoint(4, Progress(number, 1.0, [number], [0.0]), constant(push), {})
    made.finish(4, Progress(2, 1.0, [1, 2], [0.0, 0.0]), constant(3.0), {"action": "", "device": "cpu"})
    return made.path


def test_readings_measure_every_checkpoint_where_it_was_trained(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "readings.json"
    assert readings.main([str(out), str(folder), "--episodes", "20"]) == 0
    (row,) = json.loads(out.read_text())
    assert row["environment"] == {"height_scale": 0.5}
    assert row["hyperparameters"] == {}
    left, right = (row["checkpoints"][number]["seed_004"]["in-distribution"] for number in "12")
    assert left == pytest.approx(-30, abs=1)  # pushes at full force for all 300 steps and arrives nowhere
    assert right > 90  # the flatter hill is climbed at once
    assert readings.main([str(out), str(folder), "--episodes", "20", "--last"]) == 0
    (last,) = json.loads(out.read_text())
    assert list(last["checkpoints"]) == ["2"]
    printed = tables.readings_table([last])
    assert printed[2].startswith("| height_scale 0.5 | 2 | 1 |")
    assert readings.main([str(out), str(tmp_path)]) == 2


def test_readings_may_be_of_some_seeds(folder: Path) -> None:
    assert readings.measured(folder, [5], 2, last=False)["checkpoints"] == {}
    with pytest.raises(InputError, match="holds no trained"):
        readings.measured(folder / "state", [], 2, last=False)


def test_states_are_those_that_are_acted_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A car pushed to the left: it starts where the preset says and comes to rest at the wall."""
    found = states.states([constant(-9.0)], "mountaincar", "in-distribution", 5)
    assert len(found) == 5 * 300
    assert found[:, 0].min() == -1.2
    assert -0.9 <= found[:5, 0].min() <= found[:5, 0].max() <= -0.6
    assert states.main(["mountaincar", "--episodes", "1"]) == 0
    assert "100.0%" in capsys.readouterr().out
    assert states.main(["pong"]) == 2
