"""The cactus plot of `versus.py`: how many instances each solver has solved when each may take so long.

    python benchmarks/cactus.py benchmarks/results/versus.json benchmarks/results/cactus.svg

Enters: its rows, each with an instance's time. Leaves: for the paper's tolerance and for 1e-3 a panel with a line a
solver: the times of what it finished, in order. Farther right is more solved, lower is sooner.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

__all__ = ["draw", "solved"]

Row = dict[str, Any]
EXACT = 1e-3
STYLES = {  # solver -> its name, colour and marker, the same in both panels
    "karenina": ("karenina", "C0", "o"),
    "marabou": ("Marabou", "C1", "s"),
    "highs": ("HiGHS", "C2", "v"),
    "gurobi": ("Gurobi", "C3", "^"),
    "alpha-crown": ("α-CROWN style", "C4", "D"),
}


def solved(rows: list[Row], exact: bool) -> dict[str, list[float]]:
    """Solver -> seconds of the instances that it finished, the fastest first; to 1e-3, or to the paper's tolerance.

    Ours is measured once against each peer: its median counts.
    """
    chosen = [row for row in rows if (row["tolerance"] == EXACT) == exact]
    ours: dict[tuple[str, str], list[float]] = {}
    times: dict[str, list[float]] = {"karenina": []}
    for row in chosen:
        if row["ours_finished"]:
            ours.setdefault((row["setting"], row["pair"]), []).append(row["ours"])
        theirs = times.setdefault(row["peer"], [])
        if row["theirs_finished"]:
            theirs.append(row["theirs"])
    times["karenina"] = [statistics.median(each) for each in ours.values()]
    return {solver: sorted(seconds) for solver, seconds in times.items()}


def draw(rows: list[Row], path: Path) -> None:
    """Both panels, as an SVG or PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "cactus"  # the same picture is the same file
    from matplotlib import pyplot

    panels = [(False, "the paper's tolerance"), (True, "exact to 1e-3")]
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, (exact, title) in zip(axes, panels, strict=True):
        for solver, seconds in solved(rows, exact).items():
            name, colour, marker = STYLES[solver]
            axis.plot(range(1, len(seconds) + 1), seconds, color=colour, marker=marker, markersize=4, label=name)
        instances = len({(row["setting"], row["pair"]) for row in rows})
        axis.set(title=title, xlabel=f"instances solved, of {instances}", yscale="log", xlim=(0, instances + 1))
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    axes[0].set_ylabel("seconds an instance")
    for limit in {row["limit"] for row in rows}:
        for axis in axes:
            axis.axhline(limit, color="grey", linestyle=":", linewidth=1)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
