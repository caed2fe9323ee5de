"""A file of records that only grows. Enters: records. Leaves: records by their keys.

Each record is written by one system call when it arrives, so a killed process loses nothing it has written; once
a second, and when asked, the disk is told to keep it, for the case of a power failure. What a write left half done
is cut off when the file is opened again. A damaged line elsewhere is not believed: it counts in `damaged`, and its
question is open again. A line is checked again whenever it is read: disks and other programs change files.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from karenina.errors import WorkStopped
from karenina.query import Goal
from karenina.store.disk import sync_folder, write_all
from karenina.store.identity import Context
from karenina.store.records import Record, key_of_line

__all__ = ["Journal"]

_SYNC_SECONDS = 1.0


class Journal:
    """An open file of records. The caller sees to it that nobody else writes to it (`run`, `cache`)."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self.damaged = 0  # lines that are not whole records
        self.torn = False  # whether the end of a record was missing at the end of the file
        self._index: dict[str, tuple[int, int]] = {}  # key -> where its last line starts, how long it is
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if writable else os.O_RDONLY
        self._file = os.open(path, flags, 0o666)
        try:
            self._prepare(writable)
        except OSError:
            self.close()
            raise
        self._synced = time.monotonic()

    def _prepare(self, writable: bool) -> None:
        """Read what is there; cut off what was half written."""
        self._end = self._scan()
        if self.torn and writable:
            os.ftruncate(self._file, self._end)
        if writable and not self._end:
            sync_folder(self.path.parent)  # the file may be new

    def _scan(self) -> int:
        """Index the file; where its whole lines end."""
        at = 0
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    self.torn = True
                    break
                key = key_of_line(line)
                if key is None:
                    self.damaged += 1
                else:
                    self._index[key] = at, len(line)
                at += len(line)
        return at

    def __len__(self) -> int:
        return len(self._index)

    def find(self, context: Context, first: str, second: str, goal: Goal) -> Record | None:
        """What is on record for the question, if it answers it within the goal's time limit."""
        key = context.key(first, second, goal)
        place = self._index.get(key)
        if place is None:
            return None
        try:
            line = os.pread(self._file, place[1], place[0])
        except OSError as error:
            raise _stopped(self.path, error, "read") from error
        if key_of_line(line) != key:  # it was whole when the file was opened
            return None
        try:
            record = Record.read(line)
        except ValueError:  # a checksum is no proof of who wrote it
            return None
        return record if record.answers(goal) else None

    def append(self, record: Record) -> None:
        """Write the record. On failure the file keeps what it held before, whole."""
        line = record.line()
        try:
            write_all(self._file, line)
        except OSError as error:
            self._cut()
            raise _stopped(self.path, error) from error
        self._index[record.key] = self._end, len(line)
        self._end += len(line)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Have the disk keep what was written."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _stopped(self.path, error) from error
        self._synced = time.monotonic()

    def close(self) -> None:
        os.close(self._file)

    def _cut(self) -> None:
        """Remove a half-written line; if that fails too, the next to open the file does it."""
        try:
            os.ftruncate(self._file, self._end)
        except OSError:
            return


def _stopped(path: Path, error: OSError, what: str = "written") -> WorkStopped:
    reason = error.strerror or str(error)
    return WorkStopped(f"{path} can no longer be {what} ({reason}): what was measured before is kept there")
