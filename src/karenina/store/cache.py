"""Answers shared by all runs of a user. Enters: records of any run. Leaves: records, by question.

A folder for every context (domain, distance, back end, version), in it one journal for every process that writes
at the same time: a process continues a journal that nobody has locked, or starts a new one. So there is no waiting,
no server and no file format of its own, it works on a home directory shared by machines, and a run reads only the
journals of its context. (An SQLite file in WAL mode would be searched faster, but must not lie on a network disk.)
A cache that cannot be read or written is a note and costs nothing but time.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

from karenina.errors import WorkStopped
from karenina.query import Goal
from karenina.store.identity import Context
from karenina.store.journal import Journal
from karenina.store.lock import Lock
from karenina.store.records import Record

__all__ = ["Cache", "cache_folder"]


def cache_folder() -> Path:
    """Where the user's cache is: $KARENINA_CACHE, or karenina in the platform's folder for caches."""
    given = os.environ.get("KARENINA_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "karenina"


class Cache:
    """The answers of other runs in one context. `note` is told, once, when the cache cannot be used."""

    def __init__(self, folder: Path, context: Context, note: Callable[[str], None]) -> None:
        self._folder = folder / context.hash
        self._note = note
        self._journals: list[Journal] = []
        self._own: Journal | None = None
        self._lock: Lock | None = None
        self._writable = True
        self._told = False
        try:
            for path in sorted(self._folder.glob("*.jsonl")):
                self._journals.append(Journal(path, writable=False))
        except OSError as error:
            self._give_up("read", error)

    def find(self, context: Context, first: str, second: str, goal: Goal) -> Record | None:
        try:
            found = (journal.find(context, first, second, goal) for journal in self._journals)
            return next((record for record in found if record is not None), None)
        except WorkStopped as error:
            self._leave_out()
            self._give_up("read", error)
            return None

    def append(self, record: Record) -> None:
        """Keep an answer for other runs, unless another attempt might end otherwise."""
        if not record.lasting or not self._writable:
            return
        try:
            self._own = self._own or self._open_own()
            self._own.append(record)
        except (OSError, WorkStopped) as error:
            self._give_up("written", error)

    def close(self) -> None:
        self._leave_out()
        if self._own:
            self._own.close()
        if self._lock:
            self._lock.release()

    def _leave_out(self) -> None:
        while self._journals:
            self._journals.pop().close()

    def _open_own(self) -> Journal:
        """A journal nobody else writes to."""
        self._folder.mkdir(parents=True, exist_ok=True)
        candidates = [*sorted(self._folder.glob("*.jsonl")), self._folder / f"{uuid.uuid4().hex}.jsonl"]
        for path in candidates:
            self._lock = Lock.acquire(path.with_suffix(".lock"))
            if self._lock:
                return Journal(path)
        raise OSError("no journal can be locked")

    def _give_up(self, what: str, error: Exception) -> None:
        self._writable = False
        if self._told:
            return
        self._told = True
        reason = getattr(error, "strerror", None) or error
        self._note(f"the cache {self._folder.parent} cannot be {what} and is left out: {reason}")
