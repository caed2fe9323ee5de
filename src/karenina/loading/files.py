"""Model files as bytes: what every loader starts from.

Enters: a path, or a zip's member. Leaves: its bytes, decompressed where it is a `.gz`; never more than a limit,
which grows with the file: a small one that unpacks to much cannot fill the memory. What cannot be read is an
`InputError`.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from pathlib import Path

from karenina.errors import InputError

__all__ = ["LARGEST_FILE", "member", "open_zip", "read_file", "unpacked_limit"]

LARGEST_FILE = 2**31  # bytes; a protobuf, and so an ONNX file, cannot be larger either

_GZIP = b"\x1f\x8b"
_ALWAYS = 2**26  # bytes that any file may unpack to
_RATIO = 32  # how many times its own size it may unpack to beyond that; weights hardly compress, text tenfold
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may ask for gigabytes to unpack a byte


def unpacked_limit(size: int) -> int:
    """The most bytes that a packed file of a size may unpack to."""
    return min(LARGEST_FILE, _ALWAYS + _RATIO * size)


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
    limit = unpacked_limit(len(content))
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            result = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: is not a complete gzip file: {error}") from error
    if len(result) > limit:
        raise InputError(f"{path}: decompresses to more than {limit} bytes, the most karenina reads of such a file")
    if not result:
        raise InputError(f"{path}: is empty once decompressed")
    return result


def open_zip(content: bytes, what: str) -> zipfile.ZipFile:
    """A zip archive; `what` is what it is no complete one of."""
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except Exception as error:  # zipfile meets untrusted bytes: BadZipFile, struct.error, UnicodeDecodeError, ...
        raise InputError(f"{what}: {error}") from error


def member(archive: zipfile.ZipFile, name: str, limit: int, path: Path) -> bytes:
    """One file of a zip archive."""
    try:
        if archive.getinfo(name).compress_type not in _PACKINGS:
            raise ValueError("it is neither stored nor deflated")
        with archive.open(name) as stream:
            content = stream.read(limit + 1)
    except Exception as error:  # as above
        raise InputError(f"{path}: its member {name!r} cannot be read: {error}") from error
    if len(content) > limit:
        raise InputError(f"{path}: its member {name!r} has more than {limit} bytes, the most karenina reads")
    return content
