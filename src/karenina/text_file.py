"""Text files as users have them: plain or gzip, told apart by content.

Enters: a path, of a file or a pipe (a shell's `<(...)`). Leaves: the text, or one sentence on why there is none. Never
more than a limit is read, and no pipe is waited for longer than it may be silent.
"""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import zlib
from pathlib import Path

from karenina.errors import InputError

__all__ = ["read_text"]

_LIMIT = 256 * 2**20  # bytes of text: more is a mistake, or a compressed file made to fill the memory
_SILENCE = 30.0  # seconds that a pipe may be silent: who writes to it may have to compute first
_PORTION = 2**20
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
    mode = path.stat().st_mode
    if stat.S_ISFIFO(mode):
        data = _from_pipe(path)
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InputError(f"{path} is a device, not a text file")
    else:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
    if not data.startswith(_GZIP):
        return data
    with gzip.open(io.BytesIO(data)) as stream:
        return stream.read(_LIMIT + 1)


def _from_pipe(path: Path) -> bytes:
    """What comes through a pipe. Nobody may ever write to it, which must not keep us waiting for ever."""
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        portions, size = [], 0
        while size <= _LIMIT:
            if not waiting.poll(1000 * _SILENCE):
                raise InputError(f"{path} is a pipe to which nothing was written for {_SILENCE:g} s")
            portion = os.read(pipe, _PORTION)
            if not portion:
                break
            portions.append(portion)
            size += len(portion)
        return b"".join(portions)
    finally:
        os.close(pipe)
