"""Text that is safe to show. Enters: text that may quote a file, or its name. Leaves: text that a terminal only prints.

A name may hold anything: line ends, a terminal's commands, marks that turn the writing direction, bytes that are no
text. All of it is shown as Python would write it, `\\x1b`, `\\u202e`, `\\udcff`.
"""

from __future__ import annotations

__all__ = ["one_line", "printable"]

_LONGEST = 1500  # characters of a message: it may quote a name of a million


def printable(text: str, keep: str = "") -> str:
    """The text with all that does not print written out, except what is in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _written_out(c) for c in text)


def one_line(text: str) -> str:
    """A message on one line, not too long to read."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
