"""A file that one process at a time holds. Enters: a path. Leaves: a `Lock`, or None when another process has it.

The kernel releases the lock when its holder ends, however it ends: nothing is left behind to be removed by hand.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path

__all__ = ["Lock"]


class Lock:
    """A lock that is held. The file says by whom."""

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def acquire(cls, path: Path) -> Lock | None:
        """The lock, if nobody has it; an OSError where the file cannot be opened."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # not inherited by processes started from here
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        with contextlib.suppress(OSError):  # a full disk: who holds it is only for people to read
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        return cls(file)

    def release(self) -> None:
        os.close(self._file)
