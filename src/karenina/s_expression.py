"""S-expressions, the syntax under VNN-LIB. Enters: text. Leaves: its top-level forms, each with its line.

One pass over the text, without recursion; forms nest to a limit, so that those who read them may recurse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from karenina.errors import InputError

__all__ = ["Form", "read_forms"]

_TOKEN = re.compile(r'[()\n]|;[^\n]*|"[^"]*"|\|[^|]*\||[^\s();"|]+|["|]')
_DEPTH = 200  # no specification nests so deep, and a reader that recurses stays far from Python's limit


@dataclass(slots=True)
class Form:
    """`(item item ...)`: every item is a form or a word."""

    line: int
    items: list[Form | str] = field(default_factory=list)


def read_forms(text: str, source: str) -> list[Form]:
    """The forms of the text, without comments; `source` is what messages call it."""
    document = Form(0)
    open_forms = [document]
    line = 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "(":
            form = Form(line)
            open_forms[-1].items.append(form)
            open_forms.append(form)
            if len(open_forms) > _DEPTH:
                raise InputError(f"{source}, line {line}: parentheses nest more than {_DEPTH} deep")
        elif token == ")":
            if len(open_forms) == 1:
                raise InputError(f"{source}, line {line}: a closing parenthesis that none opened")
            open_forms.pop()
        elif token[0] not in ";\n":
            open_forms[-1].items.append(_word(token, source, line))
            line += token.count("\n") if token[0] in '"|' else 0
        elif token == "\n":
            line += 1
    if len(open_forms) > 1:
        raise InputError(f"{source}, line {open_forms[-1].line}: a parenthesis that is never closed")
    return [_form(item, source) for item in document.items]


def _word(token: str, source: str, line: int) -> str:
    if token in ('"', "|"):
        raise InputError(f"{source}, line {line}: a quotation that is never closed")
    return token.strip("|") if token[0] == "|" else token  # |X_0| is another way to write X_0


def _form(item: Form | str, source: str) -> Form:
    if isinstance(item, str):
        raise InputError(f"{source} holds {item!r} outside parentheses: it is not a VNN-LIB file")
    return item
