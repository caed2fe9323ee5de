"""The paper's three environments, simulated many episodes at a time, and adaptors to the usual interfaces."""

from __future__ import annotations

__all__: list[str] = []
