"""Domain files: what can be written, and what every mistake is answered with."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from karenina import text_file
from karenina.domain_file import domain_from_toml, load_domain
from karenina.errors import DomainError, InputError

CARTPOLE = """
names = ["position", "velocity"]

[[box]]
lower = [-10, -2.18]
upper = [-2.4, 2.66]

[[box]]
[box.bounds]
velocity = [-2.66, 2.18]
position = [2.4, 10]
"""


def test_a_union_of_boxes_by_list_and_by_name(tmp_path: Path) -> None:
    file = tmp_path / "cartpole.toml"
    file.write_text(CARTPOLE)
    domain = load_domain(file)
    assert domain.names == domain.labels == ("position", "velocity")
    assert domain.name == str(file)
    assert [(list(box.lower), list(box.upper)) for box in domain.boxes] == [
        ([-10.0, -2.18], [-2.4, 2.66]),
        ([2.4, -2.66], [10.0, 2.18]),
    ]


def test_names_are_optional_and_a_side_may_be_degenerate() -> None:
    domain = domain_from_toml("[[box]]\nlower = [0, 1]\nupper = [0, 1e-0]")
    assert domain.names == ()
    assert domain.labels == ("x0", "x1")
    assert domain.contains([0, 1])


AURORA = ["gradient", "ratio", "sending"]


@pytest.mark.parametrize(
    "text",
    [
        "repeat = 2\n[[box]]\nlower = [0, 1, 2]\nupper = [3, 4, 5]",
        "[[box]]\nrepeat = 2\nlower = [0, 1, 2]\nupper = [3, 4, 5]",
        "repeat = 2\n[[box]]\n[box.bounds]\ngradient = [0, 3]\nratio = [1, 4]\nsending = [2, 5]",
        "[[box]]\nrepeat = 2\n[box.bounds]\ngradient = [0, 3]\nratio = [1, 4]\nsending = [2, 5]",
        "repeat = 2\n[[box]]\nrepeat = 1\nlower = [0, 1, 2, 0, 1, 2]\nupper = [3, 4, 5, 3, 4, 5]",
        'repeat = 2\n[[box]]\nrepeat = 1\n[box.bounds]\n"gradient[0]" = [0, 3]\n"ratio[0]" = [1, 4]\n'
        '"sending[0]" = [2, 5]\n"gradient[1]" = [0, 3]\n"ratio[1]" = [1, 4]\n"sending[1]" = [2, 5]',
    ],
)
def test_a_history_of_equal_blocks(text: str) -> None:
    domain = domain_from_toml(f"names = {AURORA}\n{text}")
    assert domain.names == ("gradient[0]", "ratio[0]", "sending[0]", "gradient[1]", "ratio[1]", "sending[1]")
    assert list(domain.boxes[0].lower) == [0, 1, 2, 0, 1, 2]
    assert list(domain.boxes[0].upper) == [3, 4, 5, 3, 4, 5]


def test_boxes_may_repeat_differently_without_names() -> None:
    domain = domain_from_toml(
        "[[box]]\nrepeat = 2\nlower = [0, 0]\nupper = [1, 1]\n[[box]]\nrepeat = 4\nlower = [5]\nupper = [6]"
    )
    assert [box.size for box in domain.boxes] == [4, 4]


BOX = "\n[[box]]\nlower = [0, 0]\nupper = [1, 1]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a domain file needs one or more [[box]] tables"),
        ("names = ['a']", "a domain file needs one or more [[box]] tables"),
        ("[box]\nlower = [0]\nupper = [1]", "a domain file needs one or more [[box]] tables"),
        ("box = 3", "a domain file needs one or more [[box]] tables"),
        ("box = [1, 2]", "a domain file needs one or more [[box]] tables"),
        ("box = []", "a domain file needs one or more [[box]] tables"),
        ("lower = [0]" + BOX, "unknown key 'lower'; the keys are names, repeat, box"),
        ("[[box]]\nlow = [0]\nupper = [1]", "box 1 of 1: unknown key 'low'; the keys are lower, upper, bounds, repeat"),
        (BOX + "[[box]]\nupper = [1]", "box 2 of 2: lower must be a list of numbers, one for every input"),
        ("[[box]]\nlower = []\nupper = []", "box 1 of 1: lower must be a list of numbers, one for every input"),
        ("[[box]]\nlower = 0\nupper = [1]", "box 1 of 1: lower must be a list of numbers, one for every input"),
        ("[[box]]", "box 1 of 1: give either lower and upper, or bounds by name"),
        (BOX + "[box.bounds]\na = [0, 1]", "box 1 of 1: give either lower and upper, or bounds by name"),
        ("[[box]]\nlower = [0, true]\nupper = [1, 1]", "box 1 of 1: lower[1] is True: a bound must be a number"),
        ("[[box]]\nlower = [0, '1']\nupper = [1, 1]", "box 1 of 1: lower[1] is '1': a bound must be a number"),
        ("[[box]]\nlower = [0]\nupper = [1979-05-27]", "datetime.date(1979, 5, 27): a bound must be a number"),
        (f"[[box]]\nlower = [0]\nupper = [1{'0' * 400}]", "box 1 of 1: upper[0] is too large for float64"),
        ("[[box]]\nlower = [0, 0]\nupper = [1]", "box 1 of 1: lower has 2 numbers but upper has 1"),
        ("[[box]]\nlower = [2]\nupper = [1]", "box 1 of 1: input 0 has lower bound 2.0 above its upper bound 1.0"),
        ("[[box]]\nlower = [0]\nupper = [inf]", "input 0 has bounds [0.0, inf]: bounds must be finite numbers"),
        ("[[box]]\nlower = [nan]\nupper = [1]", "input 0 has bounds [nan, 1.0]: bounds must be finite numbers"),
        (
            "names = ['a', 'b']" + BOX + "[[box]]\nlower = [0, 3]\nupper = [1, 2]",
            "box 2 of 2: 'b' (input 1) has lower bound 3.0 above its upper bound 2.0",
        ),
        (
            "names = ['a']\nrepeat = 2\n[[box]]\nlower = [3]\nupper = [2]",
            "box 1 of 1: 'a[0]' (input 0) has lower bound 3.0 above its upper bound 2.0",
        ),
        (BOX + "[[box]]\nlower = [0]\nupper = [1]", "the boxes of a domain must have one size, not [2, 1]"),
        ("names = 'ab'" + BOX, "names must be a list of texts, one for every input"),
        ("names = []" + BOX, "names must be a list of texts, one for every input"),
        ("names = ['a', 1]" + BOX, "names must be a list of texts, one for every input"),
        ("names = ['a', 'a']" + BOX, "two inputs are named 'a'"),
        ("names = ['a', '']" + BOX, "an input's name must be printable text, not ''"),
        ("names = ['a']" + BOX, "box 1 of 1: has 2 inputs but there are names for 1"),
        ("repeat = 0" + BOX, "box 1 of 1: repeat must be a whole number of blocks, 1 or more, not 0"),
        ("repeat = 2.0" + BOX, "box 1 of 1: repeat must be a whole number of blocks, 1 or more, not 2.0"),
        ("repeat = true" + BOX, "box 1 of 1: repeat must be a whole number of blocks, 1 or more, not True"),
        (
            "names = ['a', 'b']\nrepeat = -1" + BOX + "repeat = 1",
            "repeat must be a whole number of blocks, 1 or more, not -1",
        ),
        ("repeat = 1000000000000" + BOX, "box 1 of 1: repeat = 1000000000000 makes more than 1000000 inputs"),
        ("names = ['a', 'b']\nrepeat = 1000000000000" + BOX + "repeat = 1", "makes more than 1000000 inputs"),
        (
            "[[box]]\n[box.bounds]\na = [0, 1]",
            "box 1 of 1: bounds by name need names = [...] at the top, for the order of the inputs",
        ),
        (
            "names = ['a', 'b']\n[[box]]\nbounds = 3",
            "box 1 of 1: bounds must be a table of intervals, such as position = [-2.4, 0.9]",
        ),
        ("names = ['a', 'b']\n[[box]]\n[box.bounds]\na = [0, 1]", "box 1 of 1: bounds lack 'b'"),
        (
            "names = ['a', 'b']\n[[box]]\n[box.bounds]\na = [0, 1]\nc = [0, 1]",
            "box 1 of 1: bounds: unknown key 'c'; the keys are a, b",
        ),
        ("names = ['a']\n[[box]]\n[box.bounds]\na = [0]", "the bounds of 'a' must be two numbers, [lower, upper]"),
        ("names = ['a']\n[[box]]\n[box.bounds]\na = 0", "the bounds of 'a' must be two numbers, [lower, upper]"),
        ("names = ['a']\n[[box]]\n[box.bounds]\na = [0, '1']", "a bound of 'a' is '1': a bound must be a number"),
        (
            "names = ['a']\n[[box]]\n[box.bounds]\na = [1, 0]",
            "box 1 of 1: 'a' (input 0) has lower bound 1.0 above its upper bound 0.0",
        ),
        (
            "names = ['a']\nrepeat = 4\n[[box]]\nrepeat = 2\n[box.bounds]\na = [0, 1]",
            "box 1 of 1: with bounds by name, repeat is 4 (or 1, with full names)",
        ),
        ("[[box]\n", "is not a TOML file: "),
        ("\x00", "is not a TOML file: "),
        ("x = " + "[" * 100_000, "is not a TOML file: "),
        (f"x = {'9' * 5000}", "is not a TOML file: "),
    ],
)
def test_every_mistake_is_answered_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(DomainError) as refused:
        domain_from_toml(text, "d.toml")
    assert str(refused.value).startswith("d.toml")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_vnnlib_file_is_read_for_its_input_boxes(tmp_path: Path) -> None:
    file = tmp_path / "spec.txt"  # told by its content, not its name
    file.write_text(
        "; a comment\n(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(assert (>= Y_0 3))\n"
        "(assert (or (and (>= X_0 0) (<= X_0 1)) (and (>= X_0 2) (<= X_0 3))))\n"
    )
    domain = load_domain(file)
    assert domain.names == ("X_0",)
    assert [(box.lower[0], box.upper[0]) for box in domain.boxes] == [(0, 1), (2, 3)]
    assert domain.notes == (f"{file}: only the input boxes are used, not the constraints on outputs",)


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    for name in ("domain.toml.gz", "domain.toml"):
        (tmp_path / name).write_bytes(gzip.compress(CARTPOLE.encode(), mtime=0))
        assert load_domain(tmp_path / name).size == 2


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_bytes(b"\xef\xbb\xbf" + CARTPOLE.replace("\n", "\r\n").encode())
    assert load_domain(tmp_path / "d.toml").size == 2


def test_a_pipe_can_be_read() -> None:
    read, write = os.pipe()
    os.write(write, gzip.compress(CARTPOLE.encode(), mtime=0))
    os.close(write)
    try:
        assert load_domain(f"/dev/fd/{read}").size == 2
    finally:
        os.close(read)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x81", "is not a text file: byte 0 is not UTF-8"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-9], "is a damaged gzip file: "),
        (b"\x1f\x8b", "is a damaged gzip file: "),
        (b"\x1f\x8bgarbage", "is a damaged gzip file: "),
        (gzip.compress(b"x" * 1000, mtime=0)[:20] + b"\xff" * 20, "is a damaged gzip file: "),
        (gzip.compress(b"x" * 2000, mtime=0), "holds more than 0 MiB of text"),
        (b"x" * 2000, "holds more than 0 MiB of text"),
    ],
)
def test_a_file_that_is_not_text_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.setattr(text_file, "_LIMIT", 1500)
    (tmp_path / "d.toml").write_bytes(content)
    with pytest.raises(InputError) as refused:
        load_domain(tmp_path / "d.toml")
    assert str(refused.value).startswith(f"{tmp_path / 'd.toml'} {message}")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no-such.toml", "no-such.toml cannot be read: No such file or directory"),
        ("/", "/ cannot be read: Is a directory"),
        ("a\0b", "'a\\x00b' cannot be read: embedded null byte"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_a_path_that_leads_to_no_file_is_refused(path: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        load_domain(path)
    assert str(refused.value).endswith(message)
