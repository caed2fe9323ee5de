"""The form of plain data. Enters: data from a file, and a form. Leaves: nothing, or `Refused` with the first misfit.

A form is a dictionary of forms (these keys and no others), a list of one form (any number of them), or a `Leaf`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from karenina.checker.refusal import Refused

__all__ = ["Leaf", "check_form", "is_number", "need"]


@dataclass(frozen=True)
class Leaf:
    """What a value is to be, in words and as a test."""

    what: str
    fits: Callable[[Any], bool]


def check_form(data: Any, form: Any, where: str) -> None:
    """Refuse data of another form."""
    if isinstance(form, Leaf):
        need(form.fits(data), f"{where} is not {form.what}")
    elif isinstance(form, list):
        need(isinstance(data, list), f"{where} is not a list")
        for number, item in enumerate(data, 1):
            check_form(item, form[0], f"{where} {number}")
    else:
        need(isinstance(data, Mapping) and set(data) == set(form), f"{where} is not made of {', '.join(form)}")
        for key, part in form.items():
            check_form(data[key], part, f"{where}: {key}")


def is_number(value: Any) -> bool:
    """Whether it is a finite number and not negative."""
    return type(value) in (int, float) and 0 <= value < math.inf


def need(holds: object, otherwise: str) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise Refused(otherwise)
