"""docs/results.md: prose by hand, tables from the results between markers. Enters: the page. Leaves: the page with
every table as the results say.

    <!-- table: selections -->
    ...
    <!-- end -->
"""

from __future__ import annotations

import re
from pathlib import Path

from karenina.errors import InputError
from karenina.experiments.results import Results
from karenina.experiments.rows import TABLES

__all__ = ["fill", "filled"]

_MARKED = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(text: str, results: Results) -> str:
    """The text with every table between markers written anew."""

    def table(found: re.Match[str]) -> str:
        if found[1] not in TABLES:
            raise InputError(f"there is no table {found[1]!r}; there are {', '.join(TABLES)}")
        return f"<!-- table: {found[1]} -->\n{TABLES[found[1]](results)}<!-- end -->"

    return _MARKED.sub(table, text)


def fill(path: Path, results: Results) -> None:
    """The page's file, written anew."""
    path.write_text(filled(path.read_text(encoding="utf-8"), results), encoding="utf-8")
