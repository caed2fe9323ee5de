"""Model files and modules in memory into networks: one module a format, and `load`, which tells them apart."""

from karenina.loading.by_content import load
from karenina.loading.modules import from_torch

__all__ = ["from_torch", "load"]
