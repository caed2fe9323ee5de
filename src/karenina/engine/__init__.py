"""Our own verifier: branch and bound on linear bounds of the joint network."""

from karenina.engine.asked import Pairs
from karenina.engine.engine import Engine
from karenina.engine.settings import Settings

__all__ = ["Engine", "Pairs", "Settings"]
