"""S-expressions, the syntax under VNN-LIB. Enters: text. Leaves: its top-level forms, each with its line.

One pass over the text, without recursion, a form at a time; forms nest to a limit, so that those who read them may
recurse, and have a limited number of parts: a form takes many times the memory of its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from karenina.errors import InputError

__all__ = ["Form", "read_forms"]

_TOKEN = re.compile(r'[()\n]|;[^\n]*|"[^"]*"|\|[^|]*\||[^\s();"|]+|["|]')
_PARTS = 4_000_000  # of one top-level form: a file of VNN-COMP has less than a million
_DEPTH = 200  # no specification nests so deep, and a reader that recurses stays far from Python's limit


@dataclass(slots=True)
class Form:
    """`(item item ...)`: every item is a form or a word."""

    line: int
    items: list[Form | str] = field(default_factory=list)


def read_forms(text: str, source: str) -> Iterator[Form]:
    """The forms of the text, without comments; `source` is what messages call it."""
    open_forms: list[Form] = []
    line, parts = 1, 0
    for match in _TOKEN.finditer(text):
        token, parts = match[0], parts + 1
        if parts > _PARTS:
            raise InputError(f"{source}, line {line}: a form with more than {_PARTS} parts")
        if token == "(":
            form = Form(line)
            if open_forms:
                open_forms[-1].items.append(form)
            open_forms.append(form)
            if len(open_forms) >= _DEPTH:
                raise InputError(f"{source}, line {line}: parentheses nest more than {_DEPTH} deep")
        elif token == ")":
            if not open_forms:
                raise InputError(f"{source}, line {line}: a closing parenthesis that none opened")
            form = open_forms.pop()
            if not open_forms:
                yield form
                parts = 0
        elif token[0] not in ";\n":
            word = _word(token, source, line)
            if not open_forms:
                raise InputError(f"{source} holds {word!r} outside parentheses: it is not a VNN-LIB file")
            open_forms[-1].items.append(word)
            line += token.count("\n") if token[0] in '"|' else 0
        elif token == "\n":
            line += 1
    if open_forms:
        raise InputError(f"{source}, line {open_forms[-1].line}: a parenthesis that is never closed")


def _word(token: str, source: str, line: int) -> str:
    if token in ('"', "|"):
        raise InputError(f"{source}, line {line}: a quotation that is never closed")
    return token.strip("|") if token[0] == "|" else token  # |X_0| is another way to write X_0
