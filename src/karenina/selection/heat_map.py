"""The table of a selection as a picture for notebooks. Enters: a `Selection`. Leaves: SVG text; pointing at a cell
tells its interval.

Models stand by clustering, so that camps are squares. The colours are those of `karenina report`; lightness alone tells
them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from karenina.selection.wording import at_most

if TYPE_CHECKING:
    from karenina.selection.result import Selection

__all__ = ["MOST_MODELS", "heat_map_svg"]

MOST_MODELS = 64  # more make a picture that a notebook is slow with
_STOPS = ((246, 242, 231), (180, 200, 216), (125, 166, 200), (74, 127, 176), (37, 90, 144), (10, 31, 69))
_CELL, _CHARACTER, _LONGEST = 18, 6.2, 16


def heat_map_svg(selection: Selection) -> str:
    """The lower ends of the pairs' intervals; nothing for more than `MOST_MODELS`."""
    names = selection.camps.order
    if len(names) > MOST_MODELS:
        return ""
    margin = _CHARACTER * min(_LONGEST, max(map(len, names))) + 8
    size = margin + _CELL * len(names)
    labels = "".join(_labels(names, margin))
    cells = "".join(_cells(selection, names, margin))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size:.0f}" height="{size:.0f}" role="img" '
        f'aria-label="disagreement of all pairs" font-family="sans-serif" font-size="11" fill="currentColor">'
        f"{labels}{cells}</svg>"
    )


def _labels(names: tuple[str, ...], margin: float) -> Iterator[str]:
    for k, name in enumerate(names):
        text = escape(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")
        at = margin + (k + 0.7) * _CELL
        yield f'<text x="{margin - 5:.1f}" y="{at:.1f}" text-anchor="end">{text}</text>'
        yield f'<text transform="translate({at:.1f},{margin - 5:.1f}) rotate(-90)">{text}</text>'


def _cells(selection: Selection, names: tuple[str, ...], margin: float) -> Iterator[str]:
    largest = float(selection.table.lower.max()) or 1.0
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            if first == second:
                continue
            found = selection.table.disagreement(first, second)
            told = f"{first} and {second}: {found.lower:.4g} to {at_most(found.upper, 4)}"
            x, y = margin + column * _CELL, margin + row * _CELL
            side = f'width="{_CELL - 1}" height="{_CELL - 1}" fill="{_colour(found.lower / largest)}"'
            yield f'<rect x="{x:.1f}" y="{y:.1f}" {side}><title>{escape(told)}</title></rect>'


def _colour(share: float) -> str:
    at = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    k = min(int(at), len(_STOPS) - 2)
    mixed = (round(a + (b - a) * (at - k)) for a, b in zip(_STOPS[k], _STOPS[k + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
