"""A pickle's data without its code.

Enters: the bytes of a pickle. Leaves: what it holds, where every class is replaced by an inert stand-in that
only remembers what it was given. Names outside a short list (numpy's arrays, Gymnasium's spaces,
Stable-Baselines3's own classes) are refused: nothing of the file, and nothing it names, is ever called.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError, UnsupportedModel

__all__ = ["DAMAGED", "Inert", "InertArray", "check_pickles", "inert"]

# Everything in these modules becomes an `Inert`, whatever it is.
_KNOWN = ("gym.spaces.", "gymnasium.spaces.", "numpy.random.", "stable_baselines3.common.")

_TUPLES = 20_000  # four a tensor are usual; a stack of 8 MiB holds 100,000 levels of hashing, and not 200,000

# What reading a damaged pickle raises.
DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


class Inert:
    """Stands for an object: remembers its class's name, its arguments and its state, and does nothing."""

    name = ""
    arguments: tuple[Any, ...]
    state: dict[str, Any]

    def __new__(cls, *arguments: Any) -> Self:
        made = super().__new__(cls)
        made.arguments, made.state = arguments, {}
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, dict) else {"": state}

    def __setitem__(self, key: Any, value: Any) -> None:
        """A dict-like object's items do not matter here."""


class InertArray(Inert):
    """Stands for a numpy array: its bytes, not yet an array."""

    def array(self, path: Path) -> npt.NDArray[np.float64]:
        """The numbers, if they are floats."""
        try:
            _, shape, dtype, fortran, raw = self.state[""]
            kind, order = dtype.arguments[0], dtype.state[""][1]
            if kind not in ("f8", "f4") or order not in ("<", ">", "=") or not isinstance(raw, bytes | bytearray):
                raise ValueError("it holds no floats")
            numbers = np.frombuffer(raw, dtype=order + kind).astype(np.float64)
            return numbers.reshape(shape, order="F" if fortran else "C")
        except DAMAGED as error:
            raise InputError(f"{path}: its array is damaged: {error}") from error


class _BufferedArray(InertArray):
    """An array as numpy writes it in newer pickles: made from a buffer, a dtype, a shape and an order."""

    def __new__(cls, raw: Any, dtype: Any, shape: Any, order: Any) -> Self:
        made = super().__new__(cls)
        made.__setstate__((1, shape, dtype, order == "F", raw))
        return made


def _stand_in(module: str, name: str) -> type[Inert]:
    """The harmless replacement of a global name: always a class, so that a pickle cannot change it."""
    match module.replace("numpy.core.", "numpy._core."), name:
        case "numpy._core.multiarray", "_reconstruct":
            return InertArray
        case "numpy._core.numeric", "_frombuffer":
            return _BufferedArray
        case ("numpy", "ndarray" | "dtype") | ("numpy._core.multiarray", "scalar") | ("collections", "OrderedDict"):
            return type("StandIn", (Inert,), {"name": name})
    if f"{module}.".startswith(_KNOWN):
        return type("StandIn", (Inert,), {"name": name})
    raise UnsupportedModel(f"names {module}.{name}, which karenina does not read from a pickle")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _stand_in(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it refers to something outside the file: {pid!r}")


def inert(content: bytes, path: Path) -> Any:
    """The pickle's object, with every class replaced by a stand-in."""
    try:
        check_pickles(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in texts
            return _Unpickler(io.BytesIO(content)).load()
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{path}: {error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: is no complete pickle: {error}") from error


def check_pickles(content: bytes, count: int = 1) -> None:
    """Refuse, with a ValueError, what breaks an unpickler that runs no code, in each of the first pickles in a row.

    Memo numbers beyond the file's length: room would be made for all numbers before them. Very many tuples: nested in
    each other and used as a key, they overflow the stack when they are hashed, which ends the process.
    """
    stream = io.BytesIO(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as below
        tuples = 0
        for _ in range(count):
            for opcode, argument, _ in pickletools.genops(stream):
                if "PUT" in opcode.name and isinstance(argument, int) and argument > len(content):
                    raise ValueError(f"it numbers an object {argument}")
                tuples += "TUPLE" in opcode.name
                if tuples > _TUPLES:
                    raise ValueError(f"it holds more than {_TUPLES} tuples")
