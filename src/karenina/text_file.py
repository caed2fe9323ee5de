"""Text files as users have them: plain or gzip, told apart by content.

Enters: a path. Leaves: the text, or one sentence on why there is none.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from karenina.errors import InputError

__all__ = ["read_text"]

_LIMIT = 256 * 2**20  # bytes of text: more is a mistake, or a compressed file made to fill the memory
_GZIP = b"\x1f\x8b"


def read_text(path: str | Path) -> str:
    """The file's text, decompressed if it is gzip."""
    try:
        data = _read_bytes(Path(path))
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path} is a damaged gzip file: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a path that no file can have, such as one with a NUL in it
        raise InputError(f"{str(path)!r} cannot be read: {error}") from None
    if len(data) > _LIMIT:
        raise InputError(f"{path} holds more than {_LIMIT // 2**20} MiB of text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file: byte {error.start} is not UTF-8") from None


def _read_bytes(path: Path) -> bytes:
    """At most one byte more than the limit."""
    with path.open("rb") as file:
        if not file.peek(len(_GZIP)).startswith(_GZIP):  # a look ahead, not a seek: the path may be a pipe
            return file.read(_LIMIT + 1)
        with gzip.open(file) as stream:
            return stream.read(_LIMIT + 1)
