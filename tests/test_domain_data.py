"""Domains from recorded inputs: they hold what was seen, with the margin asked for; and files of several kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from karenina import cli
from karenina.domain_data import domain_from_data, read_observations
from karenina.domain_file import load_domain
from karenina.errors import DomainError, InputError

SEEN = np.array([[0.0, 10.0], [1.0, 30.0], [0.5, 20.0]])


@given(
    arrays.arrays(
        np.float64, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, allow_nan=False)
    ),
    st.floats(0, 3),
)
def test_the_domain_holds_every_observation(observations: np.ndarray, margin: float) -> None:
    domain = domain_from_data(observations, margin=margin)
    assert all(domain.contains(point) for point in observations)


def test_margins_by_hand() -> None:
    box = domain_from_data(SEEN).boxes[0]
    assert (box.lower.tolist(), box.upper.tolist()) == ([0, 10], [1, 30])
    box = domain_from_data(SEEN, margin=0.5, absolute_margin=1.0).boxes[0]
    assert (box.lower.tolist(), box.upper.tolist()) == ([-1.5, -1], [2.5, 41])


def test_outliers_are_left_out_on_either_side() -> None:
    values = np.arange(100.0)[:, None]
    box = domain_from_data(values, leave_out=0.05).boxes[0]
    assert (box.lower[0], box.upper[0]) == (5, 94)


def test_rollouts_of_several_environments_are_one_set() -> None:
    box = domain_from_data(np.stack([SEEN, SEEN + 1])).boxes[0]
    assert (box.lower.tolist(), box.upper.tolist()) == ([0, 10], [2, 31])


def test_a_flat_input_is_told() -> None:
    domain = domain_from_data([[1.0, 2.0], [1.0, 3.0]], names=["still", "moving"], name="seen.npy")
    assert domain.notes == ("seen.npy: 'still' is always 1, so the domain is flat there",)
    assert domain_from_data([[1.0], [1.0]], absolute_margin=0.1).notes == ()


@pytest.mark.parametrize(
    ("observations", "options", "message"),
    [
        ([1.0, 2.0], {}, "a column for every input, not 2"),
        (np.zeros((0, 3)), {}, "not 0x3"),
        ([[np.nan, 1.0]], {}, "observation 0, input 0 is nan"),
        ([["a", "b"]], {}, "does not hold numbers"),
        (SEEN, {"margin": -1.0}, "a margin must be a number >= 0, not -1"),
        (SEEN, {"absolute_margin": np.inf}, "a margin must be"),
        (SEEN, {"leave_out": 0.5}, "less than 0.5"),
        (SEEN, {"names": ["one"]}, "has 1 names"),
    ],
)
def test_what_makes_no_domain_is_refused(observations: object, options: dict[str, float], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        domain_from_data(observations, **options)  # type: ignore[arg-type]


def test_files_of_all_kinds_hold_the_same(tmp_path: Path) -> None:
    np.save(tmp_path / "seen.npy", SEEN.astype(np.float32))
    np.savez(tmp_path / "one.npz", SEEN)
    np.savez(tmp_path / "two.npz", observations=SEEN, actions=SEEN[:, :1])
    (tmp_path / "plain.csv").write_text("0,10\n1,30\n\n0.5,20\n")
    (tmp_path / "named.csv").write_text("angle, speed\n0, 10\n1, 30\n0.5, 20\n")
    for name, key in [("seen.npy", None), ("one.npz", None), ("two.npz", "observations"), ("plain.csv", None)]:
        array, names = read_observations(tmp_path / name, key)
        assert array.tolist() == SEEN.tolist()
        assert names == ()
    array, names = read_observations(tmp_path / "named.csv")
    assert array.tolist() == SEEN.tolist()
    assert names == ("angle", "speed")


def test_bad_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", observations=SEEN, actions=SEEN)
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "words.csv").write_text("a,b\n1,2\n3,x\n")
    (tmp_path / "ragged.csv").write_text("1,2\n3\n")
    (tmp_path / "empty.csv").write_text("\n")
    for name, key, message in [
        ("two.npz", None, "holds several arrays: name one of observations, actions with --key"),
        ("two.npz", "rewards", "there is no 'rewards'"),
        ("objects.npy", None, "cannot be read as an array of numbers"),
        ("cut.npy", None, "cannot be read as an array"),
        ("cut.npz", None, "cannot be read as an array"),
        ("words.csv", None, "line 3 is not 2 numbers"),
        ("ragged.csv", None, "line 2 is not 2 numbers"),
        ("empty.csv", None, "is empty"),
        ("nothing.npy", None, "cannot be read: No such file"),
    ]:
        with pytest.raises(InputError, match=message):
            read_observations(tmp_path / name, key)


def test_the_command_writes_a_domain_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "seen.npy", SEEN)
    arguments = ["domain", "from-data", str(tmp_path / "seen.npy"), "--margin", "0.5", "--names", "angle, speed"]
    assert cli.run([*arguments, "--out", str(tmp_path / "domain.toml")]) == 0
    assert capsys.readouterr() == ("", "")
    domain = load_domain(tmp_path / "domain.toml")
    assert domain.names == ("angle", "speed")
    assert (domain.boxes[0].lower.tolist(), domain.boxes[0].upper.tolist()) == ([-0.5, 0], [1.5, 40])
    assert cli.run(arguments) == 0
    assert capsys.readouterr().out == (tmp_path / "domain.toml").read_text()


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "seen.npy", SEEN)
    seen = str(tmp_path / "seen.npy")
    for arguments, message in [
        (["domain"], "no command given: say karenina domain from-data FILE"),
        (["domain", "from-data", seen, "--margin", "-1"], "Invalid value for '--margin'"),
        (["domain", "from-data", seen, "--names", "one"], "has 1 names"),
        (["domain", "from-data", seen, "--leave-out", "0.9"], "less than 0.5"),
        (["domain", "from-data", seen, "--out", str(tmp_path / "no" / "d.toml")], "cannot be written"),
        (["domain", "from-data", str(tmp_path)], "cannot be read"),
    ]:
        assert cli.run(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert message in err
