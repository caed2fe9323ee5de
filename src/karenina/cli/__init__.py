"""The command line: arguments in, calls out; no logic. One module a command; `application` holds them together."""

from karenina.cli.application import app, main, run

__all__ = ["app", "main", "run"]
