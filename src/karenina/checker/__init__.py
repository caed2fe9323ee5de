"""A checker that trusts nothing: it re-derives what a certificate claims, with no code of the rest of karenina.

It needs numpy and the standard library alone. `check(path)` returns what was proved, or raises `Refused`.
"""

from karenina.checker.check import Proved, check
from karenina.checker.pairs import Distance
from karenina.checker.reading import Certificate, read_certificate
from karenina.checker.refusal import Refused

__all__ = ["Certificate", "Distance", "Proved", "Refused", "check", "read_certificate"]
