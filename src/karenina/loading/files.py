"""Model files as bytes: what every loader starts from.

Enters: a path, or a zip's member. Leaves: its bytes, decompressed where it is a `.gz`; never more than a limit,
so that a small file that claims to be huge cannot fill the memory. What cannot be read is an `InputError`.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from pathlib import Path

from karenina.errors import InputError

__all__ = ["LARGEST_FILE", "member", "read_file"]

LARGEST_FILE = 2**31  # bytes; a protobuf, and so an ONNX file, cannot be larger either

_GZIP = b"\x1f\x8b"


def read_file(path: Path) -> bytes:
    """A file's content, decompressed if it is gzip."""
    content = _read(path)
    return _decompressed(content, path) if content.startswith(_GZIP) else content


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a directory, not a model file")
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is not a regular file")
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: has more than {LARGEST_FILE} bytes, the most karenina reads")
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not content:
        raise InputError(f"{path}: is empty")
    return content


def _decompressed(content: bytes, path: Path) -> bytes:
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            result = stream.read(LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: is not a complete gzip file: {error}") from error
    if len(result) > LARGEST_FILE:
        raise InputError(f"{path}: decompresses to more than {LARGEST_FILE} bytes, the most karenina reads")
    if not result:
        raise InputError(f"{path}: is empty once decompressed")
    return result


def member(archive: zipfile.ZipFile, name: str, limit: int, path: Path) -> bytes:
    """One file of a zip archive."""
    try:
        with archive.open(name) as stream:
            content = stream.read(limit + 1)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        raise InputError(f"{path}: its member {name!r} cannot be read: {error}") from error
    if len(content) > limit:
        raise InputError(f"{path}: its member {name!r} has more than {limit} bytes, the most karenina reads")
    return content
