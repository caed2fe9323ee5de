"""Recorded inputs as they should not be: NumPy's formats, CSV, archives of statistics."""

from __future__ import annotations

import functools
import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np

from hostile.case import DATA, STATISTICS, hostile, register
from hostile.packed_files import payload

DEFLATED = zipfile.ZIP_DEFLATED


def _write(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return name


def npy(header: str, data: bytes = bytes(16)) -> bytes:
    """A `.npy` file with any text for a header."""
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _npy(folder: Path, header: str) -> str:
    return _write(folder, "bad.npy", npy(header))


for name, header in (
    ("gigantic_shape", "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000)}\n"),
    ("shape_that_overflows", "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}\n"),
    ("negative_shape", "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -2)}\n"),
    ("complex_numbers", "{'descr': '<c16', 'fortran_order': False, 'shape': (1, 1)}\n"),
    ("texts", "{'descr': '<U2', 'fortran_order': False, 'shape': (1, 2)}\n"),
    ("records", "{'descr': [('a', '<f8'), ('b', '<f8')], 'fortran_order': False, 'shape': (1, 1)}\n"),
    ("objects", "{'descr': '|O', 'fortran_order': False, 'shape': (1, 2)}\n"),
    ("code_for_a_header", "__import__('os').mkdir('../marker')\n"),
    ("header_nested_beyond_measure", "(" * 9000),
    ("no_header", ""),
):
    register(f"npy_{name}", DATA, functools.partial(_npy, header=header))


@hostile(DATA)
def npy_of_objects_with_payload(folder: Path) -> str:
    header = "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1)}\n"
    return _write(folder, "bad.npy", npy(header, payload(folder)))


@hostile(DATA)
def npy_with_nan(folder: Path) -> str:
    np.save(folder / "bad.npy", np.array([[1.0, np.nan]]))
    return "bad.npy"


@hostile(DATA)
def npy_cut_off(folder: Path) -> str:
    np.save(folder / "bad.npy", np.ones((10, 2)))
    return _write(folder, "bad.npy", (folder / "bad.npy").read_bytes()[:-30])


def _archive(folder: Path, content: bytes, packing: int = DEFLATED, more: int = 0) -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        archive.writestr("mean.npy", content)
        for k in range(more):
            archive.writestr(f"{k}.npy", content)
    return _write(folder, "bad.npz", buffer.getvalue())


LARGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (6000000, 2)}\n"


@hostile(DATA)
def npz_bomb(folder: Path) -> str:
    return _archive(folder, npy(LARGE, bytes(96_000_000)))


@hostile(DATA)
def npz_packed_with_lzma(folder: Path) -> str:
    return _archive(folder, npy(LARGE), zipfile.ZIP_LZMA)


@hostile(DATA)
def npz_of_pickles(folder: Path) -> str:
    return _archive(folder, pickle.dumps([1.0]))


@hostile(STATISTICS)
def statistics_archive_bomb(folder: Path) -> str:
    return _archive(folder, npy(LARGE, bytes(96_000_000)))


@hostile(STATISTICS)
def statistics_archive_of_many_arrays(folder: Path) -> str:
    """None of them is asked for, so none is unpacked."""
    return _archive(
        folder, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2000000,)}\n", bytes(16_000_000)), more=8
    )


def _csv(folder: Path, content: bytes) -> str:
    return _write(folder, "bad.csv", content)


for name, content in (
    ("nul_bytes", b"1,2\n3,\x00\n"),
    ("cell_of_a_million_digits", b'"' + b"1" * 10**6 + b'",2\n'),
    ("unclosed_quotation", b'1,2\n"3,4\n' * 10),
    ("ragged", b"1,2\n3\n"),
    ("words_below_the_head", b"a,b\n1,two\n"),
    ("infinity", b"a,b\n1,inf\n"),
    ("head_alone", b"a,b\n"),
    ("nothing_but_commas", b",,,\n,,,\n"),
    ("utf_16", "a,b\n1,2\n".encode("utf-16")),
    ("latin_1", "höhe,b\n1,2\n".encode("latin-1")),
    ("head_with_terminal_commands", b"\x1b[31ma,b\n1,2\n"),
    ("head_with_one_name_twice", b"a,a\n1,2\n"),
):
    register(f"csv_{name}", DATA, functools.partial(_csv, content=content))
