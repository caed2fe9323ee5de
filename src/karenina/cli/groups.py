"""Groups of options as one parameter. Enters: a command. Leaves: a command as typer understands it.

    @expanded
    def pdt(first: FirstFile, *, comparison: Comparison, json: Json = False) -> None: ...

typer sees the fields of the dataclass `Comparison` as options; the command gets them as one object.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["expanded"]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a group of options replaced by the group's fields."""
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    fields = {name: list(_fields(group)) for name, group in groups.items()}

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields[name]})
        command(**given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        keyword = parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += fields.get(name, [keyword])
    del flat.__wrapped__
    flat.__dict__["__signature__"] = inspect.Signature(parameters)  # where `inspect.signature` looks first
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name])
