"""How the engine works: what may be chosen, with defaults that are measured (benchmarks/README.md)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The first few are of both searches, the compiled one and the one in torch."""

    steps: int = 3  # Polyak steps a node
    starts: int = 16  # random starts of gradient ascent a case
    ascent: int = 10  # its steps
    memory: int = 2 << 30  # bytes of open nodes before the search goes depth-first
    threads: int | None = None  # of compiled code: as many as torch has; 0: torch instead of compiled code
    settled: int = 40  # loose neurons at which a compiled search over them is tried
    programmes: int = 512  # linear programmes of that search, at most
    abreast: bool = True  # whether compiled code bounds eight boxes at a time, where it can
    batch: int = 2048  # nodes bounded a step in torch, at most
    endgame: int = 8  # loose neurons at which torch splits neurons instead of inputs
    climbers: int = 32  # open nodes from whose corners the ascent is tried again
