"""Domain files and conditions that say nothing, too much, or something else."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

from hostile.case import CONDITION, DOMAIN, hostile, register
from hostile.packed_files import gzip_of_many

BOX = "[[box]]\nlower = [0, 0]\nupper = [1, 2]\n"


def _toml(folder: Path, content: str | bytes) -> str:
    (folder / "bad.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    return "bad.toml"


for name, content in (
    ("empty", ""),
    ("not_toml", "[[box"),
    ("json", '{"box": []}'),
    ("no_box", "names = ['a', 'b']\n"),
    ("box_that_is_no_list", "box = 3\n"),
    ("box_without_bounds", "[[box]]\n"),
    ("bounds_reversed", "[[box]]\nlower = [1, 0]\nupper = [0, 2]\n"),
    ("bounds_of_two_sizes", "[[box]]\nlower = [0]\nupper = [1, 2]\n"),
    ("bound_infinite", "[[box]]\nlower = [0, 0]\nupper = [1, inf]\n"),
    ("bound_nan", "[[box]]\nlower = [0, nan]\nupper = [1, 2]\n"),
    ("bound_1e999", "[[box]]\nlower = [0, 0]\nupper = [1, 1e999]\n"),
    ("bound_of_400_digits", f"[[box]]\nlower = [0, 0]\nupper = [1, 1{'0' * 400}]\n"),
    ("bound_of_5000_digits", f"[[box]]\nlower = [0, 0]\nupper = [1, 1{'0' * 5000}]\n"),
    ("bound_a_text", "[[box]]\nlower = [0, '0']\nupper = [1, 2]\n"),
    ("bound_a_truth", "[[box]]\nlower = [0, false]\nupper = [1, true]\n"),
    ("bound_a_date", "[[box]]\nlower = [0, 1979-05-27]\nupper = [1, 2]\n"),
    ("duplicate_key", BOX + "upper = [1, 2]\n"),
    ("duplicate_names", "names = ['a', 'a']\n" + BOX),
    ("many_names_and_one_twice", f"names = [{', '.join(repr(str(k)) for k in range(60_000))}, '59999']\n" + BOX),
    ("unknown_key", BOX + "uper = [1, 2]\n"),
    ("boxes_of_two_sizes", BOX + "[[box]]\nlower = [0]\nupper = [1]\n"),
    ("of_another_size_than_the_network", "[[box]]\nlower = [0]\nupper = [1]\n"),
    ("repeat_negative", "repeat = -1\n" + BOX),
    ("repeat_a_fraction", "repeat = 1.5\n" + BOX),
    ("repeat_gigantic", "repeat = 1000000000000000\n" + BOX),
    ("many_boxes_repeated", "repeat = 400000\n" + BOX * 2000),
    ("nested_lists", "x = " + "[" * 100_000),
    ("nested_tables", "x = " + "{a = " * 100_000),
    ("key_of_a_million_parts", "a" + ".a" * 500_000 + " = 1\n"),
    ("table_of_a_million_parts", '["a"' + ' . "a"' * 250_000 + "]\n" + "b = 1\n" * 100),
    ("name_with_terminal_commands", 'names = ["\\u001b[31mred", "b"]\n' + BOX),
    ("name_turning_the_writing_direction", 'names = ["a\\u202eb", "b"]\n' + BOX),
    ("key_with_terminal_commands", BOX + '"\\u001b]0;owned\\u0007" = 1\n'),
    ("nul_bytes", BOX + "\0"),
    ("utf_16", BOX.encode("utf-16")),
    ("latin_1", "names = ['höhe', 'b']\n".encode("latin-1") + BOX.encode()),
    ("one_line_of_ten_million_letters", "x" * 10_000_000),
    ("gzip_cut_off", gzip.compress(BOX.encode())[:-10]),
    ("gzip_bomb", gzip_of_many(b"#", 300)),
):
    register(f"toml_{name}", DOMAIN, functools.partial(_toml, content=content))


@hostile(DOMAIN)
def toml_marked_with_two_byte_orders(folder: Path) -> str:
    return _toml(folder, "\ufeff\ufeff" + BOX)


for name, condition in (
    ("empty", " "),
    ("no_inequality", "y0"),
    ("two_inequalities_in_one", "0 <= y0 <= 1"),
    ("unknown_output", "y99999999999999999999 >= 0"),
    ("infinite", "1e999*y0 >= 0"),
    ("a_product_of_outputs", "y0*y0 >= 0"),
    ("code", "__import__('os').mkdir('../marker') >= 0"),
    ("terminal_commands", "\x1b[31my0 >= 0"),
):
    register(f"condition_{name}", CONDITION, lambda _, condition=condition: condition)  # type: ignore[misc]
