"""NumPy's files, read without trust. Enters: a `.npy` as a stream, or an `.npz`. Leaves: an array of numbers.

What a header claims is held against the bytes that are there before anything is allocated, objects are refused, and an
archive's array may be larger than the archive only within a limit. What is wrong is a `ValueError` or an `OSError`: the
caller knows what to call the file.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = ["array_member", "array_names", "open_archive", "read_array", "read_array_file"]

Numbers = npt.NDArray[np.number | np.bool_]

_VERSIONS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
_ALWAYS = 2**26  # bytes that an archive's array may have, however small the archive
_RATIO = 64  # how many times its archive's size it may have beyond that


def read_array_file(path: Path) -> Numbers:
    """The array of a `.npy` file."""
    with path.open("rb") as file:
        return read_array(file, path.stat().st_size)


def read_array(stream: BinaryIO, size: int) -> Numbers:
    """The array that a stream of `size` bytes holds."""
    shape, fortran, dtype = _header(stream)
    if dtype.kind not in "fiub" or dtype.hasobject or dtype.subdtype is not None:
        raise ValueError(f"it holds {dtype}, not numbers")
    if any(not isinstance(length, int) or length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    claimed, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if claimed > there:
        raise ValueError(f"it claims {math.prod(shape)} numbers, and {there} bytes are there")
    content = stream.read(claimed)
    if len(content) < claimed:
        raise ValueError("it is cut off")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type. NumPy's reader meets untrusted bytes: whatever it raises, they are damaged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of headers that Python 2 wrote
            version = np.lib.format.read_magic(stream)
            if version not in _VERSIONS:
                raise ValueError(f"its version is {version}")
            shape, fortran, dtype = _VERSIONS[version](stream)
    except Exception as error:
        raise ValueError(f"its header makes no sense: {error}") from None
    return shape, fortran, dtype


def open_archive(file: Path | bytes) -> zipfile.ZipFile:
    """An `.npz`; what zipfile raises on damaged ones becomes a ValueError."""
    try:
        return zipfile.ZipFile(io.BytesIO(file) if isinstance(file, bytes) else file)
    except OSError:
        raise
    except Exception as error:  # BadZipFile, struct.error, ...: see `_header`
        raise ValueError(f"it is no complete archive: {error}") from None


def array_names(archive: zipfile.ZipFile) -> list[str]:
    """The arrays' names, without `.npy`."""
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def array_member(archive: zipfile.ZipFile, name: str, archive_size: int) -> Numbers:
    """One array of an archive."""
    info = archive.getinfo(f"{name}.npy")
    limit = _ALWAYS + _RATIO * archive_size
    if info.file_size > limit:
        raise ValueError(f"its array {name!r} unpacks to {info.file_size} bytes, more than the {limit} karenina reads")
    if info.compress_type not in _PACKINGS:
        raise ValueError(f"its array {name!r} is packed in a way that NumPy does not use")
    try:
        with archive.open(info) as stream:
            content = stream.read(limit + 1)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"its array {name!r} cannot be unpacked: {error}") from None
    return read_array(io.BytesIO(content), len(content))
