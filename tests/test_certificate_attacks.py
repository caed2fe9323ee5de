"""Certificates built by hand to be accepted although they are false: by what a reader may read in two ways, by numbers
that are none, by shapes that do not fit, and by trees that only look as if they covered the box."""

from __future__ import annotations

import io
import itertools
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import made, packed, with_digests

from karenina.checker import Refused, check, read_certificate
from karenina.checker import check as checking
from karenina.checker.check import _check_there
from karenina.checker.tree import CUT, FINE, LEAF, SPLIT

pytest.importorskip("numba")
Text = dict[str, Any]
Members = dict[str, bytes]


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(Refused) as caught:
        check(path)
    return str(caught.value)


def false_claim(text: Text) -> Text:
    """An interval below what the witness attains."""
    text["pairs"][0].update(lower=0.0, upper=text["pairs"][0]["lower"] / 2, witnesses=[])
    return text


# --- Two readings of one file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["certificate.json", "networks/0", "pairs/0-1"])
@pytest.mark.parametrize("good_first", [True, False])
def test_a_member_that_is_there_twice_is_refused(name: str, good_first: bool, tmp_path: Path) -> None:
    good, file = made("l1"), io.BytesIO()
    members = {**good.members, "certificate.json": json.dumps(good.text).encode()}
    bad = json.dumps(false_claim(good.text)).encode() if name == "certificate.json" else members[name][:-8] + bytes(8)
    twice = [members[name], bad] if good_first else [bad, members[name]]
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for member, data in members.items():
            for each in twice if member == name else [data]:
                archive.writestr(member, each)
    assert "2 members of the name" in refused(tmp_path / "twice.zip", file.getvalue())


@pytest.mark.parametrize("key", ["upper", "lower", "format", "name", "domain"])
def test_a_key_that_is_there_twice_is_refused(key: str, tmp_path: Path) -> None:
    good = made("l1")
    text = json.dumps(good.text)
    start = text.index(f'"{key}": ')
    doubled = text[:start] + f'"{key}": 1e9, ' + text[start:]
    assert "twice" in refused(tmp_path / "twice.zip", packed(doubled, good.members))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int, tmp_path: Path) -> None:
    good, file = made("l1"), io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for member, data in {**good.members, "certificate.json": json.dumps(good.text).encode()}.items():
            archive.writestr(member, data)
    assert "compressed" in refused(tmp_path / "other.zip", file.getvalue())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_other_encodings_change_nothing(encoding: str, tmp_path: Path) -> None:
    """JSON may come in UTF-16; what is read is checked all the same."""
    good = made("l1")
    text = json.dumps(false_claim(good.text)).replace("model 0", "m\xf6del")
    refused(tmp_path / "encoded.zip", packed(text.encode(encoding), good.members))


# --- Numbers that are none, shapes that do not fit --------------------------------------------------------------------

NUMBERS: tuple[Any, ...] = (
    True,
    False,
    None,
    "1",
    "inf",
    "nan",
    [],
    {},
    float("nan"),
    float("inf"),
    -float("inf"),
    10**400,
    1e999,
)
PLACES: dict[str, Callable[[Text, Any], object]] = {
    "lower": lambda text, value: text["pairs"][0].update(lower=value),
    "upper": lambda text, value: text["pairs"][0].update(upper=value),
    "choice": lambda text, value: text["pairs"][0].update(choices=[value]),
    "first": lambda text, value: text["pairs"][0].update(first=value),
    "second": lambda text, value: text["pairs"][0].update(second=value),
    "witness": lambda text, value: text["pairs"][0]["witnesses"][0]["x"].__setitem__(0, value),
    "box of a witness": lambda text, value: text["pairs"][0]["witnesses"][0].update(box=value),
    "side": lambda text, value: text["domain"][0]["upper"].__setitem__(0, value),
    "neurons": lambda text, value: text["networks"][0]["layers"][0].update(neurons=value),
    "end of a run": lambda text, value: text["networks"][0]["layers"][0]["activations"][0].update(end=value),
}


@pytest.mark.parametrize("place", PLACES)
def test_only_finite_numbers_are_numbers(place: str, tmp_path: Path) -> None:
    good = made("l1")
    for value in NUMBERS:
        text = good.text
        PLACES[place](text, value)
        assert refused(tmp_path / "number.zip", packed(text, good.members))


SHAPES: dict[str, Callable[[Text], object]] = {
    "a side for all inputs": lambda text: text["domain"][0].update(upper=[1.0]),
    "more sides than inputs": lambda text: text["domain"][0].update(lower=[-1.0] * 3, upper=[1.0] * 3),
    "no sides": lambda text: text["domain"][0].update(lower=[], upper=[]),
    "sides in a table": lambda text: text["domain"][0].update(lower=[[-1.0, -1.0]], upper=[[1.0, 1.0]]),
    "an inverted box": lambda text: text["domain"][0].update(lower=[2.0, -1.0]),
    "a witness of one number": lambda text: text["pairs"][0]["witnesses"][0].update(x=[0.0]),
    "a witness of no number": lambda text: text["pairs"][0]["witnesses"][0].update(x=[]),
    "a witness of a table": lambda text: text["pairs"][0]["witnesses"][0].update(x=[[0.0, 0.0]]),
    "no layers": lambda text: text["networks"][0].update(layers=[]),
    "overlapping activations": lambda text: text["networks"][0]["layers"][0].update(
        activations=[
            {"name": "relu", "parameters": [], "first": 0, "end": 6},
            {"name": "abs", "parameters": [], "first": 3, "end": 6},
        ]
    ),
    "activations that end before they begin": lambda text: text["networks"][0]["layers"][0].update(
        activations=[
            {"name": "relu", "parameters": [], "first": 0, "end": 7},
            {"name": "abs", "parameters": [], "first": 7, "end": 6},
        ]
    ),
    "a third network of other inputs": lambda text: text["networks"].append(text["networks"][0] | {"layers": []}),
    "a network and itself": lambda text: text["pairs"][0].update(second=0),
    "many layers": lambda text: text["networks"][0].update(layers=[text["networks"][0]["layers"][0]] * 300),
    "many outputs": lambda text: text["networks"][0]["layers"][-1].update(neurons=100_000),
    "a list": lambda text: text.update(networks={"0": text["networks"][0]}),
    "nested deeply": lambda text: text.update(selection=_deep(3000)),
}


def _deep(levels: int) -> Any:
    nested: Any = []
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize("what", SHAPES)
def test_shapes_that_do_not_fit_are_refused(what: str, tmp_path: Path) -> None:
    good = made("l1")
    text = good.text
    SHAPES[what](text)
    try:
        data = packed(text, good.members)
    except RecursionError:
        depth = "[" * 100_000 + "]" * 100_000
        data = packed(json.dumps(good.text).replace('"selection": null', f'"selection": {depth}'), good.members)
    assert refused(tmp_path / "shape.zip", data)


def test_two_long_thin_networks_do_not_make_a_huge_matrix(tmp_path: Path) -> None:
    """Each is small, but side by side their blocks would span a square of a million."""
    good = made("l1")
    text, members = good.text, {}
    relu = [{"name": "relu", "parameters": [], "first": 0, "end": 0}]
    for k, widths in enumerate(((2, 300_000, 1, 1), (2, 1, 300_000, 1))):
        layers = [
            {"neurons": n, "inputs": m, "activations": [relu[0] | {"end": n}]} for m, n in itertools.pairwise(widths)
        ]
        text["networks"][k]["layers"] = layers
        members[f"networks/{k}"] = bytes(8 * sum(n * m + n for m, n in itertools.pairwise(widths)))
    members["pairs/0-1"] = bytes([LEAF])
    assert "too large" in refused(tmp_path / "thin.zip", packed(with_digests(text, members), members))


def test_a_weight_changed_by_a_hair_is_not_the_network(tmp_path: Path) -> None:
    """All that is claimed still holds, but of another network than the one named."""
    good = made("l1")
    values = np.frombuffer(good.members["networks/0"], "<f8").copy()
    values[0] = np.nextafter(values[0], 0)
    data = packed(good.text, {**good.members, "networks/0": values.tobytes()})
    assert "not those the certificate was made for" in refused(tmp_path / "hair.zip", data)


@pytest.mark.parametrize("more", [b"\0", b"\2" * 40])
def test_nodes_that_nobody_asked_for_are_refused(more: bytes, tmp_path: Path) -> None:
    good = made("l1")
    data = packed(good.text, {**good.members, "pairs/0-1": good.members["pairs/0-1"] + more})
    assert "more nodes" in refused(tmp_path / "more.zip", data)


# --- Trees that do not cover ------------------------------------------------------------------------------------------


def nodes(*kinds: int, axis: int = 0, coarse: int = 0) -> bytes:
    """Nodes one batch after the other, each alone in its own, as long as the tree goes down one side."""
    return b"".join(
        bytes([kind]) + (np.array([axis], "<u2").tobytes() if kind <= CUT else bytes(coarse)) for kind in kinds
    )


@pytest.mark.parametrize("axis", [2, 3, 20, 65535])
def test_a_neuron_split_that_leaves_out_a_half_is_refused(axis: int, tmp_path: Path) -> None:
    good = made("l1")
    neurons = 26  # of both networks
    fine = np.full(2 * neurons, np.nan).tobytes()
    data = bytes([SPLIT]) + np.array([axis], "<u2").tobytes() + bytes([FINE, FINE]) + fine * 2
    text = false_claim(good.text)
    assert refused(tmp_path / "half.zip", packed(text, {**good.members, "pairs/0-1": data * 2}))


def test_splitting_a_point_for_ever_proves_nothing(tmp_path: Path) -> None:
    good = made("l1")
    data = nodes(*[SPLIT] * 5000)
    assert "too early" in refused(
        tmp_path / "ever.zip", packed(false_claim(good.text), {**good.members, "pairs/0-1": data})
    )


def test_a_cut_with_silly_multipliers_cuts_nothing_off(tmp_path: Path) -> None:
    """Multipliers so large that the bound is no number: the cut leaves the box as it was, and nothing is proven."""
    good = made("class")
    rows, coarse = 8, 12  # constraints of each question; hidden neurons of both networks
    for number in (3e38, np.inf, np.nan, -1.0):
        multipliers = np.full(rows, number, "<f4").tobytes()
        root = bytes([CUT]) + np.array([0], "<u2").tobytes() + bytes(coarse) + multipliers
        leaf = bytes([LEAF, LEAF]) + bytes(2 * coarse) + np.zeros(2 * rows, "<f4").tobytes()
        data = (root + leaf) * 6
        assert refused(tmp_path / "cut.zip", packed(false_claim(good.text), {**good.members, "pairs/0-1": data}))


# --- A file that changes ----------------------------------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_checked_is_refused(tmp_path: Path) -> None:
    """Another process reads it again: it must be the same."""
    path = tmp_path / "certificate.zip"
    path.write_bytes(made("selection").data)
    text = read_certificate(path).text
    assert _check_there((path, text, 0, 1))[0] > 0
    checking.__globals__["_read_once"].cache_clear()
    changed = made("selection").text
    changed["pairs"][0]["lower"] = 0.0
    path.write_bytes(packed(changed, made("selection").members))
    with pytest.raises(Refused, match="changed while"):
        _check_there((path, text, 0, 1))
