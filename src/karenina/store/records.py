"""One answer about a pair as one line of JSON. Enters: a `Record`. Leaves: bytes, and from them the same record.

A line begins with the key of its question and ends with a checksum of the rest, both at fixed places: a file is
indexed and checked without parsing it. Numbers are written so that they read back exactly; infinities are the
strings "Infinity" and "-Infinity", as JSON has none.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.disagreement import Disagreement
from karenina.errors import InputError
from karenina.query import Goal, Status
from karenina.store.identity import SHORT, Context, short

__all__ = ["Record", "key_of_line"]

Array = npt.NDArray[np.float64]

_START = b'{"key":"'
_CHECK = b',"checksum":"'
_DIGITS = 16  # of the checksum
_END = b'"}\n'
_TAIL = len(_CHECK) + _DIGITS + len(_END)
_GOAL = tuple(field.name for field in fields(Goal))
_PASSING = (Status.TIME_LIMIT, Status.FAILED)  # another attempt may end otherwise


@dataclass(frozen=True, eq=False)
class Record:
    """How far two networks disagree, and which question that answers."""

    context: Context
    first: str  # digest
    second: str  # digest
    goal: Goal
    found: Disagreement

    @functools.cached_property
    def key(self) -> str:
        return self.context.key(self.first, self.second, self.goal)

    @property
    def lasting(self) -> bool:
        """Whether measuring again would give the same."""
        return self.found.status not in _PASSING

    def answers(self, goal: Goal) -> bool:
        """Whether it answers the question for a goal that differs in the time limit at most."""
        if self.found.status is Status.FAILED:
            return False
        return self.lasting or goal.time_limit <= self.goal.time_limit

    def line(self) -> bytes:
        """The record as bytes, with a newline at the end."""
        body = json.dumps(self._told(), separators=(",", ":"), allow_nan=False).encode()
        return body[:-1] + _CHECK + _checksum(body[:-1]) + _END

    def _told(self) -> dict[str, object]:
        goal, found = self.goal, self.found
        return {
            "key": self.key,
            "first": short(self.first),
            "second": short(self.second),
            "domain": self.context.domain,
            "distance": self.context.distance,
            "backend": self.context.backend,
            "version": self.context.version,
            "goal": {name: _written(getattr(goal, name)) for name in _GOAL},
            "lower": _written(found.lower),
            "upper": _written(found.upper),
            "status": found.status.name,
            "witness": _row(found.witness),
            "outputs": None if found.outputs is None else [_row(output) for output in found.outputs],
            "boxes": found.boxes,
            "seconds": found.seconds,
            "note": found.note,
        }

    @classmethod
    def read(cls, line: bytes) -> Record:
        """The record of a line that `key_of_line` accepted; a ValueError where that is not what `line` writes."""
        try:
            return cls._of(json.loads(line))
        except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError, InputError) as error:
            raise ValueError("a line with a checksum that is no record") from error

    @classmethod
    def _of(cls, told: Any) -> Record:
        context = Context(*(told[name] for name in ("domain", "distance", "backend", "version")))
        asked: dict[str, Any] = {n: None if value is None else float(value) for n, value in told["goal"].items()}
        outputs = told["outputs"]
        found = Disagreement(
            float(told["lower"]),
            float(told["upper"]),
            Status[told["status"]],
            None if told["witness"] is None else _array(told["witness"]),
            None if outputs is None else (_array(outputs[0]), _array(outputs[1])),
            int(told["boxes"]),
            float(told["seconds"]),
            str(told["note"]),
        )
        return cls(context, told["first"], told["second"], Goal(**asked), found)


def key_of_line(line: bytes) -> str | None:
    """The key of a whole and undamaged line, newline included; None for any other."""
    if not (line.startswith(_START) and line.endswith(_END)) or line[-_TAIL : len(_CHECK) - _TAIL] != _CHECK:
        return None
    if line[-len(_END) - _DIGITS : -len(_END)] != _checksum(line[:-_TAIL]):
        return None
    return line[len(_START) : len(_START) + SHORT].decode("ascii", "replace")


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGITS // 2).hexdigest().encode()


def _written(number: float | None) -> float | str | None:
    if number is None or math.isfinite(number):
        return number
    return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")


def _row(array: Array | None) -> list[float | str | None] | None:
    if array is None:
        return None
    return array.tolist() if np.isfinite(array).all() else [_written(value) for value in array.tolist()]


def _array(row: list[float | str]) -> Array:
    return np.array([float(value) for value in row], dtype=np.float64)
