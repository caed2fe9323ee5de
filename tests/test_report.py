"""What a report is made of: runs read back, rewards, orders, figures' data, and what is packed for the page."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import strict_json
from measured import a_network
from reports import groups, make_run, planted_run, planted_selection, some_rewards

from karenina.disagreement import Disagreement, DisagreementTable, PairTask
from karenina.distance import L1, CDistance, ClassDistance, Linf
from karenina.domain import Box, Domain
from karenina.errors import InputError
from karenina.loading import load
from karenina.network import RELU, Layer, Network
from karenina.query import Status
from karenina.report import FinishedRun, read_rewards, read_run, report_html, rewards_for
from karenina.report.camp_views import camp_views
from karenina.report.content import page_data
from karenina.report.details import details, pack_lines, pack_plane, pairs_by_interest, surroundings
from karenina.report.figures import heatmap_data, ratio_data, remaining, rewards_data, scores_data
from karenina.report.finished import selection_from_dictionary
from karenina.report.ordering import orders
from karenina.report.slices import box_of, lines_through, plane_through, pointwise
from karenina.selection import select
from karenina.store import read_result
from karenina.store.seal import seal


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("report"))


def unpacked(text: Any, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.dtype(kind).newbyteorder("<"))


# --- A run, read back ------------------------------------------------------------------------------------------------


def test_a_selection_reads_back_as_it_was_written(run: Path) -> None:
    written = strict_json((run / "selection.json").read_text())
    found = selection_from_dictionary(written)
    assert found.to_dict() == {key: written[key] for key in found.to_dict()}


def test_infinities_read_back() -> None:
    values = groups([4])
    found = planted_selection(values)
    lost = {**found.to_dict(), "scores": {name: [0.5, "Infinity"] for name in found.scores}}
    assert set(selection_from_dictionary(lost).scores.values()) == {(0.5, math.inf)}


def test_a_run_comes_with_its_networks_and_its_domain(run: Path) -> None:
    found = read_run(run)
    assert found.notes == ()
    assert found.domain.names == ("left", "right side")
    for name, network in found.networks.items():
        assert network.digest() == load(run.parent / "models" / f"{name}.onnx").digest()
    assert list(found.networks) == list(found.selection.names)
    assert found.title == "run"


def test_models_that_are_gone_or_changed_are_left_out_with_a_note(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (tmp_path / "models" / "seed_2.onnx").unlink()
    (tmp_path / "models" / "seed_3.onnx").write_bytes((tmp_path / "models" / "seed_4.onnx").read_bytes())
    found = read_run(folder)
    assert set(found.networks) == {"seed_0", "seed_1", "seed_4", "seed_5"}
    assert len(found.notes) == 2
    assert "seed_3.onnx has changed" in found.notes[1]
    views = details(found)
    for pair, view in zip(views.pairs, views.views, strict=True):
        assert (view is None) == bool({2, 3} & set(pair))


def test_what_is_not_a_finished_run_is_refused(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    result = (folder / "selection.json").read_text()
    renamed = seal(json.loads(json.dumps(read_result(folder)).replace("seed_0", "zero"))).decode()
    for text, message in [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        (result.replace("seed_0", "zero"), "is damaged"),
        (seal({"names": 3}).decode(), "is damaged"),
        (renamed, "is not the result"),
    ]:
        (folder / "selection.json").write_text(text)
        with pytest.raises(InputError, match=message):
            read_run(folder)
    (folder / "selection.json").unlink()
    with pytest.raises(InputError, match="no finished selection"):
        read_run(folder)
    with pytest.raises(InputError, match="not a run folder"):
        read_run(tmp_path)


# --- Rewards ---------------------------------------------------------------------------------------------------------


def test_rewards_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "rewards.csv"
    path.write_text("name, reward, seed, good\na, 1.5, 7, yes\nb, -2, 8, No\n\n")
    found = read_rewards(path)
    assert found.earned == {"a": 1.5, "b": -2.0}
    assert found.good == {"a": True, "b": False}
    above = read_rewards(path, good_above=2.0)
    assert above.good == {"a": False, "b": False}
    assert above.threshold == 2.0
    assert found.among(["b", "c"], "rewards.csv").earned == {"b": -2.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a table of rewards"),
        ("a,b\n1,2\n", "not a table of rewards"),
        ("name,reward\n", "holds no rewards"),
        ("name,reward\na,fast\n", "line 2: the reward 'fast' is not a finite number"),
        ("name,reward\na,inf\n", "is not a finite number"),
        ("name,reward\na,1\na,2\n", "line 3 names 'a' a second time"),
        ("name,reward\na,1,2\n", "line 2 has 3 cells"),
        ("name,reward,good\na,1,perhaps\n", "good must be yes or no"),
        ('{"policies": {}}', "neither a table of rewards"),
        ("{", "neither a table of rewards"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rewards.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_rewards(path)


def test_a_table_of_other_models_is_refused() -> None:
    with pytest.raises(InputError, match="has no reward of any model of this run, such as 'x'"):
        some_rewards(["a", "b"], 1).among(["x"], "rewards.csv")


def test_the_zoos_rewards_are_found_beside_its_policies(tmp_path: Path) -> None:
    from karenina.zoo import load as load_population

    population = load_population("cartpole")
    files = {name: str(population.directory / f"{name}.onnx") for name in population.networks}
    found = rewards_for(files)
    assert found is not None
    assert found.earned == {name: own["ood"]["mean"] for name, own in population.rewards.items()}
    assert found.good == {name: own["ood"]["good"] for name, own in population.rewards.items()}
    assert rewards_for({"seed_001": str(tmp_path / "seed_001.onnx")}) is None


# --- Orders and figures ----------------------------------------------------------------------------------------------


def test_orders_are_permutations_that_say_what_they_mean() -> None:
    found = planted_selection(groups([6, 4]))
    made = orders(found)
    assert all(sorted(order) == list(range(10)) for order in made.values())
    gone = {removal.name: step.number for step in found.iterations for removal in step.removed}
    numbers = [gone.get(found.names[k], 99) for k in made["removal"]]
    assert numbers == sorted(numbers, reverse=True)
    assert found.names[made["removal"][0]] == found.recommended
    sides = [k < 6 for k in made["clustering"]]
    assert sides in (sorted(sides), sorted(sides, reverse=True))


def test_the_figures_of_the_paper() -> None:
    found = planted_selection(groups([6, 4]))
    earned = some_rewards(found.names, 6)
    left = ratio_data(found, earned)
    assert [step.good + step.bad for step in left] == [len(names) for names in remaining(found)]
    assert (left[0].good, left[0].bad, left[0].ratio) == (6, 4, 0.6)
    assert left[-1].good == sum(earned.good[name] for name in found.survivors)
    statistics = rewards_data(found, earned)
    assert (statistics[0].least, statistics[0].median, statistics[0].largest) == (-9.0, 95.5, 100.0)
    last = [earned.earned[name] for name in found.survivors]
    assert (statistics[-1].least, statistics[-1].largest) == (min(last), max(last))


def test_without_verdicts_there_is_no_ratio() -> None:
    found = planted_selection(groups([4]))
    earned = some_rewards(found.names, 2)
    with pytest.raises(InputError, match="--good-above"):
        ratio_data(found, type(earned)(earned.earned, {}))


def test_scores_and_heat_map() -> None:
    found = planted_selection(groups([6, 4]), iterations=2)
    scores = scores_data(found)
    assert [s.name for s in scores if s.removed] == list(found.removed)
    assert {s.iteration for s in scores} == {1, 2, 3}
    assert {s.name for s in scores if s.iteration == 3} == set(found.survivors)
    drawn = heatmap_data(found, "clustering")
    for i, first in enumerate(drawn.names):
        for j, second in enumerate(drawn.names):
            if i != j:
                assert drawn.lower[i, j] == found.table.disagreement(first, second).lower


# --- Around a witness ------------------------------------------------------------------------------------------------

# x0 and relu(x1) - x0: all is known by hand.
FIRST = Network((Layer.of([[1.0, 0.0]], [0.0]),), "first")
SECOND = Network(
    (Layer.of([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], [0.0] * 3, RELU), Layer.of([[1.0, -1.0, 1.0]], [0.0])), "second"
)
SQUARE = Box([-1.0, -2.0], [1.0, 2.0])


def test_lines_move_one_input_and_pass_through_the_witness() -> None:
    witness = np.array([0.3, 0.7])
    lines = lines_through((FIRST, SECOND), SQUARE, witness, [0, 1], [0], 9)
    assert lines.values.shape == (1, 2, 2, 9)
    assert 0.3 in lines.grids[0]
    assert 0.7 in lines.grids[1]
    assert (lines.grids[1][0], lines.grids[1][-1]) == (-2.0, 2.0)
    assert lines.values[0, 0, 0] == pytest.approx(lines.grids[0])
    assert lines.values[0, 0, 1] == pytest.approx(0.7 - lines.grids[0])
    assert lines.values[0, 1, 0] == pytest.approx(np.full(9, 0.3))
    assert lines.values[0, 1, 1] == pytest.approx(np.maximum(lines.grids[1], 0) - 0.3)


def test_the_plane_is_the_distance_at_the_middles_of_its_cells() -> None:
    plane = plane_through((FIRST, SECOND), SQUARE, np.array([0.3, 0.7]), (0, 1), 4, L1())
    across, up = np.array([-0.75, -0.25, 0.25, 0.75]), np.array([-1.5, -0.5, 0.5, 1.5])
    expected = np.abs(across[None, :] - (np.maximum(up, 0)[:, None] - across[None, :]))
    assert plane.values == pytest.approx(expected)


def test_pointwise_distances_are_those_of_the_library() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    for distance in (L1(), Linf(), ClassDistance()):
        expected = [distance(a, b) for a, b in zip(first, second, strict=True)]
        assert pointwise(distance, first, second) == pytest.approx(expected)
    counted = pointwise(CDistance(("y0 >= 0", "y1 >= 0 and y2 <= 0")), first, second)
    for a, b, value in zip(first, second, counted, strict=True):
        both = [min(a[0], b[0]) >= 0, min(a[1], b[1]) >= 0 and max(a[2], b[2]) <= 0]
        assert np.isnan(value) == (not any(both))
        assert np.isnan(value) or value == pytest.approx(np.abs(a - b).sum())


def test_inputs_that_cannot_move_have_no_line_and_many_are_cut_to_those_that_matter() -> None:
    weight = np.zeros((1, 100))
    weight[0, [3, 50, 77]] = 1.0, 5.0, 3.0
    first, second = Network((Layer.of(weight, [0.0]),), "a"), Network((Layer.of(-weight, [1.0]),), "b")
    box = Box(np.full(100, -1.0), np.where(np.arange(100) == 77, -1.0, 1.0))
    lines, plane = surroundings((first, second), box, np.full(100, -1.0), L1())
    assert len(lines.inputs) == 32
    assert {3, 50} <= set(lines.inputs)
    assert 77 not in lines.inputs
    assert plane is not None
    assert plane.inputs == (3, 50)
    lines, plane = surroundings((first, second), Box(box.lower, box.lower), box.lower, L1())
    assert (lines.inputs, plane) == ((), None)


def test_networks_that_overflow_can_still_be_shown() -> None:
    first, second = (
        Network((Layer.of([[sign * 1e200, 0.0]], [0.0]), Layer.of([[1e200]], [0.0])), "x") for sign in (1, -1)
    )
    lines, plane = surroundings((first, second), SQUARE, np.array([0.3, 0.7]), L1())
    assert plane is not None
    json.dumps(pack_lines(lines) | pack_plane(plane), allow_nan=False)
    assert unpacked(pack_plane(plane)["plane"], "u1").max() == 254


def test_the_box_of_a_witness() -> None:
    domain = Domain([Box([0.0], [1.0]), Box([2.0], [3.0])])
    assert [box_of(domain, np.array([x])) for x in (0.5, 2.5, 3.0 + 1e-12, 1.0)] == [0, 1, 1, 0]


# --- The data of the page --------------------------------------------------------------------------------------------


def test_everything_of_a_small_run_is_on_the_page(run: Path) -> None:
    found = read_run(run)
    data: Any = json.loads(json.dumps(page_data(found), allow_nan=False))
    number = len(found.selection.names)
    lower, upper = unpacked(data["table"]["lower"], "f4"), unpacked(data["table"]["upper"], "f4")
    pairs = [(i, j) for i in range(number) for j in range(i + 1, number)]
    for k, pair in enumerate(pairs):
        known = found.selection.table.pairs[pair]
        assert lower[k] <= known.lower == pytest.approx(lower[k], rel=1e-6)
        assert upper[k] >= known.upper == pytest.approx(upper[k], rel=1e-6)
    shown = unpacked(data["details"]["pairs"], "u2").reshape(-1, 2)
    assert sorted(map(tuple, shown.tolist())) == pairs
    assert len(data["details"]["views"]) == len(pairs)
    witnesses = unpacked(data["details"]["witnesses"], "f4").reshape(-1, 2)
    for places, view, witness in zip(shown.tolist(), data["details"]["views"], witnesses, strict=True):
        known = found.selection.table.pairs[places[0], places[1]]
        assert known.witness == pytest.approx(witness, rel=1e-6)
        check_view(found, places, view, known)


def check_view(found: Any, pair: list[int], view: Any, known: Disagreement) -> None:
    """What a browser would draw is what the networks say."""
    (low, high), points = view["range"][0], view["points"]
    lines = low + unpacked(view["lines"], "u2").reshape(1, 2, 2, points) / 65535 * (high - low)
    assert known.witness is not None
    for n, input_ in enumerate(view["inputs"]):
        box = found.domain.boxes[0]
        grid = np.sort([*np.linspace(box.lower[input_], box.upper[input_], points - 1), known.witness[input_]])
        for side, model in enumerate(pair):
            for x, drawn in zip(grid, lines[0, n, side], strict=True):
                place = known.witness.copy()
                place[input_] = x
                said = found.networks[found.selection.names[model]](place)[0]
                assert drawn == pytest.approx(said, abs=(high - low) / 60000)
    plane = unpacked(view["plane"], "u1")
    assert plane.max() == 254
    assert view["largest"] <= known.upper


def test_bounds_beyond_float32_stay_bounds() -> None:
    table = {(0, 1): Disagreement(1e-60, 1e300, Status.TIME_LIMIT, None, None, 1, 0.0)}
    found = planted_run(groups([2]))
    selection = type(found.selection)(
        **{**vars(found.selection), "table": DisagreementTable(found.selection.names, table)}
    )
    data: Any = page_data(type(found)(selection, found.domain, found.networks))
    assert unpacked(data["table"]["upper"], "f4")[0] == np.inf
    assert 0 <= unpacked(data["table"]["lower"], "f4")[0] <= 1e-60


def test_the_pairs_of_survivors_come_first_and_room_is_limited() -> None:
    found = planted_run(groups([6, 4]))
    order = list(pairs_by_interest(found))
    place = {name: k for k, name in enumerate(found.selection.names)}
    survivors = {place[name] for name in found.selection.survivors}
    count = len(survivors) * (len(survivors) - 1) // 2
    assert all(set(pair) <= survivors for pair in order[:count])
    assert sorted(order) == sorted(found.selection.table.pairs)
    few = details(found, line_bytes=1, witness_bytes=160)
    assert len(few.views) == 1
    assert few.pairs == order[: len(few.pairs)]
    assert len(few.pairs) == 10  # one input and two outputs are 16 characters a pair


def test_camps_are_shown_on_the_witness_where_they_are_farthest_apart() -> None:
    found = planted_run(groups([5, 4]))  # networks x, x + 1, ..., x + 8
    (view,) = camp_views(found)
    assert view.camps == (0, 1)
    assert view.answers[0].ravel() - view.witness[0] == pytest.approx([0, 1, 2, 3, 4])
    assert view.answers[1].ravel() - view.witness[0] == pytest.approx([5, 6, 7, 8])
    assert camp_views(planted_run(groups([6]))) == []


@pytest.mark.parametrize(("inputs", "outputs"), [(30, 1), (30, 6), (1000, 2)])
def test_a_page_of_16_models_stays_under_2_megabytes(inputs: int, outputs: int) -> None:
    networks = [a_network(seed, inputs=inputs, outputs=outputs) for seed in range(16)]
    domain = Domain(Box(np.full(inputs, -1.0), np.ones(inputs)))

    def measure(tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        for task in tasks:
            witness = np.random.default_rng([task.first, task.second]).uniform(-1, 1, inputs)
            both = networks[task.first](witness), networks[task.second](witness)
            value = float(np.abs(both[0] - both[1]).sum())
            yield task, Disagreement(value, value, Status.EXACT, witness, both, 1, 0.0)

    found = select(networks, domain, measure=measure)
    page = report_html(FinishedRun(found, domain, {network.name: network for network in networks}))
    assert 200_000 < len(page.encode()) < 2_000_000
