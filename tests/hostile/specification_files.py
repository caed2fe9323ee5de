"""VNN-LIB files of every broken kind."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

from command_line import BOX

from hostile.case import SPECIFICATION, register
from hostile.packed_files import gzip_of_many


def _specification(folder: Path, content: str | bytes) -> str:
    (folder / "bad.vnnlib").write_bytes(content if isinstance(content, bytes) else content.encode())
    return "bad.vnnlib"


def _declared(inputs: int, outputs: int = 1) -> str:
    names = [f"X_{k}" for k in range(inputs)] + [f"Y_{k}" for k in range(outputs)]
    return "".join(f"(declare-const {name} Real)" for name in names)


def _ands(count: int, wide: int) -> str:
    """Disjunctions to multiply out: count * wide * wide conjunctions."""
    some = " ".join(f"(<= Y_0 {k})" for k in range(wide))
    return "(assert (or " + f"(and (or {some}) (or {some}))" * count + "))"


BOUNDED = "".join(f"(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(2000))
for name, content in (
    ("empty", ""),
    ("only_comments", "; nothing\n" * 10),
    ("unclosed", BOX + "(assert (<= Y_0 1)"),
    ("closed_twice", BOX + "(assert (<= Y_0 1)))"),
    ("million_parentheses", "(" * 10**6),
    ("million_closing_parentheses", BOX + ")" * 10**6),
    ("deep_arithmetic", BOX + "(assert (<= " + "(- " * 10**5 + "Y_0" + ")" * 10**5 + " 1))"),
    ("words", "this is no specification"),
    ("unclosed_quotation", BOX + '(set-info :source "'),
    ("unclosed_bar", BOX + "(assert (<= |Y_0 1))"),
    ("undeclared", BOX + "(assert (<= Y_7 1))"),
    ("declared_twice", BOX + "(declare-const X_0 Real)"),
    ("gap_in_the_inputs", _declared(1) + "(declare-const X_900000000 Real)"),
    ("index_of_a_thousand_digits", f"(declare-const X_{'9' * 1000} Real)"),
    ("other_types", "(declare-const X_0 Int)"),
    ("no_lower_bound", _declared(2) + "(assert (<= X_0 1))(assert (<= X_1 1))"),
    ("input_in_a_sum", BOX + "(assert (<= (+ X_0 X_1) 1))"),
    ("product_of_outputs", BOX + "(assert (<= (* Y_0 Y_0) 1))"),
    ("number_1e999", BOX + "(assert (<= X_0 1e999))(assert (<= Y_0 1e999))"),
    ("number_1e999999999", BOX + "(assert (<= Y_0 1e999999999))"),
    ("number_of_a_million_digits", BOX + f"(assert (<= Y_0 {'9' * 10**6}))"),
    ("number_nan", BOX + "(assert (<= Y_0 nan))"),
    ("number_infinite", BOX + "(assert (<= X_0 inf))"),
    ("powers_that_grow", BOX + "(assert (<= " + "(* 1e300 " * 150 + "Y_0" + ")" * 150 + " 1))"),
    ("products_that_multiply_out", BOX + "(assert (or (<= Y_0 1) (<= Y_0 2)))" * 60),
    ("many_products_that_multiply_out", BOX + _ands(40, 600)),
    ("disjuncts_times_inputs", _declared(2000) + BOUNDED + "(assert (or " + "(<= X_0 0.5)" * 40_000 + "))"),
    ("inequalities_times_outputs", _declared(2, 50_000) + "(assert (<= Y_0 1))" * 5000),
    ("command_with_terminal_commands", BOX + "(\x1b[31mevil)"),
    ("code", BOX + "(eval __import__('os').mkdir('../marker'))"),
    ("version_2", "(vnnlib-version <2.0>)"),
    ("after_the_end", BOX + "(check-sat)(assert (<= Y_0 1))"),
    ("of_another_network", _declared(3) + "(assert (<= Y_0 1))"),
    ("nul_bytes", BOX + "\0"),
    ("utf_16", BOX.encode("utf-16")),
    ("latin_1", BOX.encode() + b"; h\xf6he\n"),
    ("gzip_cut_off", gzip.compress(BOX.encode())[:-10]),
    ("gzip_bomb", gzip_of_many(b" ", 300)),
    ("gzip_bomb_of_forms", gzip.compress(b"(assert(and" + b"()" * (3 * 2**20) + b"))", 1)),
):
    register(f"vnnlib_{name}", SPECIFICATION, functools.partial(_specification, content=content))
