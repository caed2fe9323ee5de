"""A canvas that needs no display, and small PNG files. Enters: sizes. Leaves: axes; then a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from karenina.errors import MissingExtra

__all__ = ["BAD", "GOOD", "GREY", "canvas", "save"]

GOOD, BAD, GREY = "#1f4e8c", "#d1682b", "#8a949e"


def canvas(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, (rows, columns)."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise MissingExtra(str(missing.name), "zoo") from missing
    figure = Figure(figsize=(width, height), dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Any, path: Path) -> None:
    """With a small palette, since the pictures lie in the repository."""
    from PIL import Image

    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(32, dither=Image.Dither.NONE).save(path, optimize=True)
