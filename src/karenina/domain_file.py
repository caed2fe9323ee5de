"""Domain files. Enters: a TOML or a VNN-LIB file, plain or gzip. Leaves: a `Domain`.

    names = ["latency gradient", "latency ratio", "sending ratio"]   # optional
    repeat = 10                                                       # optional: a history of 10 equal blocks

    [[box]]                          # one or more; their union is the domain
    lower = [-0.01, 1.0, 0.7]        # a number for every input of a block
    upper = [ 0.01, 1.2, 1.1]

    [[box]]
    [box.bounds]                     # or by name
    "latency gradient" = [0.0, 0.0]
    ...

With `repeat = n` a block's bounds hold for n blocks in a row, and the names become `latency ratio[0]`,
`latency ratio[1]`, ... A box may have a `repeat` of its own: it counts instead of the file's, so that
`repeat = 1` with a number (or the full name) for every input describes a history whose blocks differ.
Without a `repeat` at the top of the file, one that all boxes share repeats the names too.

Bounds are the float64 numbers nearest to the decimals in the file. A VNN-LIB file is read for its input
boxes; its output constraints, if any, are left out with a note.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np

from karenina.domain import Array, Box, Domain, first_bad_side
from karenina.errors import DomainError
from karenina.text_file import read_text

__all__ = ["domain_from_toml", "load_domain"]

_INPUT_LIMIT = 1_000_000  # inputs after repetition: more is a slip of the pen
_SIDE_LIMIT = 20_000_000  # of all boxes together
_KEY_DEPTH = 30
_KEY_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{_KEY_DEPTH}}}")


def load_domain(path: str | Path) -> Domain:
    """Read a domain from a file, TOML or VNN-LIB by its content."""
    text = read_text(path)
    if text.lstrip().startswith(("(", ";")):  # no TOML file starts so, every VNN-LIB file does
        from karenina.vnnlib import parse_specification

        return parse_specification(text, str(path)).domain()
    return domain_from_toml(text, str(path))


def domain_from_toml(text: str, name: str = "the domain") -> Domain:
    """Read a domain from TOML text; `name` is what messages call it."""
    if _DEEP_KEY.search(text):  # tomllib takes the square of a key's length, for every key
        raise DomainError(f"{name}: a key has more than {_KEY_DEPTH} parts; the keys are names, repeat and box")
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError; so is a number of 5,000 digits
        raise DomainError(f"{name} is not a TOML file: {error}") from None
    _allow(content, ("names", "repeat", "box"), name)
    boxes = content.get("box")
    if not isinstance(boxes, list) or not boxes or not all(isinstance(box, dict) for box in boxes):
        raise DomainError(f"{name}: a domain file needs one or more [[box]] tables")
    tables = [
        _Table(f"{name}: box {number} of {len(boxes)}", box, content.get("repeat", 1))
        for number, box in enumerate(boxes, 1)
    ]
    if sum(table.sides for table in tables) > _SIDE_LIMIT:
        raise DomainError(f"{name}: its boxes have more than {_SIDE_LIMIT} sides in all")
    names = _names(content, tables, name)
    return Domain([table.box(names) for table in tables], names.full if names else (), name)


def _allow(table: dict[str, Any], allowed: Sequence[str], where: str) -> None:
    unknown = table.keys() - set(allowed)
    if unknown:
        raise DomainError(f"{where}: unknown key {min(unknown)!r}; the keys are {', '.join(allowed)}")


@dataclass(frozen=True)
class _Names:
    """The names of one block, and of all the inputs: the block's, numbered, when it repeats."""

    block: tuple[str, ...]
    repeat: int

    @property
    def full(self) -> tuple[str, ...]:
        if self.repeat == 1:
            return self.block
        return tuple(f"{name}[{k}]" for k in range(self.repeat) for name in self.block)

    def for_repeat(self, repeat: int) -> tuple[str, ...] | None:
        """The names a box with this `repeat` goes by; None if its blocks are not the named ones."""
        if repeat == self.repeat:
            return self.block
        return self.full if repeat == 1 else None


def _names(content: dict[str, Any], tables: list[_Table], where: str) -> _Names | None:
    if "names" not in content:
        return None
    block = content["names"]
    if not isinstance(block, list) or not block or not all(isinstance(name, str) for name in block):
        raise DomainError(f"{where}: names must be a list of texts, one for every input")
    if len(set(block)) < len(block):
        twice = next(name for name, count in Counter(block).items() if count > 1)
        raise DomainError(f"{where}: two inputs are named {twice!r}")
    own = {table.repeat for table in tables}
    repeat = own.pop() if "repeat" not in content and len(own) == 1 else _repeat(content.get("repeat", 1), where)
    _check_size(len(block), repeat, where)
    return _Names(tuple(block), repeat)


def _repeat(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DomainError(f"{where}: repeat must be a whole number of blocks, 1 or more, not {shortened(value)}")
    return value


def _check_size(block: int, repeat: int, where: str) -> None:
    if block * repeat > _INPUT_LIMIT:
        raise DomainError(f"{where}: repeat = {repeat} makes more than {_INPUT_LIMIT} inputs")


def _number(value: object, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DomainError(f"{where} is {shortened(value)}: a bound must be a number")
    try:
        return float(value)
    except OverflowError:
        raise DomainError(f"{where} is too large for float64") from None


class _Table:
    """One [[box]] table, checked for its keys."""

    def __init__(self, where: str, content: dict[str, Any], repeat: object) -> None:
        _allow(content, ("lower", "upper", "bounds", "repeat"), where)
        self.where = where
        self.content = content
        self.repeat = _repeat(content.get("repeat", repeat), where)

    @property
    def sides(self) -> int:
        """How many inputs the box bounds, as far as that can be said before it is read."""
        given = self.content.get("bounds", self.content.get("lower"))
        return min(self.repeat * len(given), _INPUT_LIMIT) if isinstance(given, list | dict) else 0

    def box(self, names: _Names | None) -> Box:
        by_name = "bounds" in self.content
        if by_name == ("lower" in self.content or "upper" in self.content):
            raise DomainError(f"{self.where}: give either lower and upper, or bounds by name")
        lower, upper = self._by_name(names) if by_name else (self._list("lower"), self._list("upper"))
        if len(lower) != len(upper):
            raise DomainError(f"{self.where}: lower has {len(lower)} numbers but upper has {len(upper)}")
        _check_size(len(lower), self.repeat, self.where)
        lower, upper = np.tile(lower, self.repeat), np.tile(upper, self.repeat)
        if names and len(lower) != len(names.full):
            raise DomainError(f"{self.where}: has {len(lower)} inputs but there are names for {len(names.full)}")
        bad = first_bad_side(lower, upper)
        if bad:
            label = f"{names.full[bad[0]]!r} (input {bad[0]})" if names else f"input {bad[0]}"
            raise DomainError(f"{self.where}: {label} {bad[1]}")
        return Box(lower, upper)

    def _list(self, key: str) -> Array:
        values = self.content.get(key)
        if not isinstance(values, list) or not values:
            raise DomainError(f"{self.where}: {key} must be a list of numbers, one for every input")
        return np.array([_number(value, f"{self.where}: {key}[{i}]") for i, value in enumerate(values)])

    def _by_name(self, names: _Names | None) -> tuple[Array, Array]:
        bounds = self.content["bounds"]
        if not isinstance(bounds, dict):
            raise DomainError(f"{self.where}: bounds must be a table of intervals, such as position = [-2.4, 0.9]")
        if names is None:
            raise DomainError(
                f"{self.where}: bounds by name need names = [...] at the top, for the order of the inputs"
            )
        wanted = names.for_repeat(self.repeat)
        if wanted is None:
            raise DomainError(f"{self.where}: with bounds by name, repeat is {names.repeat} (or 1, with full names)")
        _allow(bounds, wanted, f"{self.where}: bounds")
        missing = [name for name in wanted if name not in bounds]
        if missing:
            raise DomainError(f"{self.where}: bounds lack {missing[0]!r}")
        sides = [self._interval(name, bounds[name]) for name in wanted]
        return np.array([low for low, _ in sides]), np.array([high for _, high in sides])

    def _interval(self, name: str, value: object) -> tuple[float, float]:
        if not isinstance(value, list) or len(value) != 2:
            raise DomainError(f"{self.where}: the bounds of {name!r} must be two numbers, [lower, upper]")
        low, high = (_number(side, f"{self.where}: a bound of {name!r}") for side in value)
        return low, high
