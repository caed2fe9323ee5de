"""Files that are whole or not there at all. Enters: bytes and a path. Leaves: a file, or an OSError.

Everything the store writes goes through the few calls of this module and of `journal`, one system call each, so that
tests can let every one of them fail.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

__all__ = ["sync_folder", "write_all", "write_whole"]

_CANNOT_BE_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)  # some network disks, for a folder: nothing to be done


def write_all(file: int, data: bytes) -> None:
    """Write the bytes; the system may take them in several pieces."""
    while data:
        data = data[os.write(file, data) :]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or, after a crash, as it was before."""
    draft = path.with_name(path.name + ".draft")
    try:
        _write_and_sync(draft, data)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # a disk that became read-only: the next to write it takes it away
            draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write_and_sync(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """Have the disk keep which files there are: after a power failure a new file may else be missing."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in _CANNOT_BE_SYNCED:
            raise
    finally:
        os.close(file)
