"""The folder of a run. Enters: what is to be run. Leaves: a `Run` that holds the folder's lock and its journal.

    run.json        the configuration: models by path and content, the domain's text, the distance, the settings
    pairs.jsonl     what was measured, one line an answer; only ever appended to
    selection.json  the result, once there is one
    report.html     the result to look at, if that was asked for
    certificate.zip its proof, if that was asked for
    run.lock        held by the process that works on the run

`run.json` and `selection.json` appear whole or not at all, and carry a checksum. A folder may be used again with
more, fewer or changed models, another domain or other settings: every record says what it is an answer to, and the
rest is measured. The result of another configuration is removed when work on the new one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from karenina.errors import InputError, WorkStopped
from karenina.store.configuration import Configuration
from karenina.store.disk import write_whole
from karenina.store.journal import Journal
from karenina.store.lock import Lock
from karenina.store.seal import seal, unseal

__all__ = ["Run", "open_run", "read_configuration", "read_result"]

_CONFIGURATION, _RECORDS, _RESULT, _LOCK = "run.json", "pairs.jsonl", "selection.json", "run.lock"
_PAGE, _CERTIFICATE = "report.html", "certificate.zip"
_OURS = {_CONFIGURATION, _RECORDS, _RESULT, _LOCK, _PAGE, _CERTIFICATE}


class Run:
    """An open run folder; nobody else writes to it."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder = folder
        self.journal = journal

    def finish(self, result: Mapping[str, object]) -> None:
        """Write the result, whole or not at all."""
        try:
            write_whole(self.folder / _RESULT, seal(result))
        except OSError as error:
            where = self.folder / _RESULT
            kept = "all that was measured is kept, and the same command writes it when there is room"
            raise WorkStopped(f"{where} cannot be written ({error.strerror or error}): {kept}") from error


@contextmanager
def open_run(folder: Path, configuration: Configuration, note: Callable[[str], None]) -> Iterator[Run]:
    """Open a run folder, new or old, for this configuration. `note` is told what is on record but not used."""
    _refuse_foreign(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = Lock.acquire(folder / _LOCK)
    except OSError as error:
        raise _unwritable(folder, error) from error
    if lock is None:
        holder = (folder / _LOCK).read_text(encoding="utf-8", errors="replace") or "another process"
        raise InputError(f"{folder} is in use by {holder}: wait until it is done, or choose another --out")
    try:
        with _journal(folder, configuration, note) as journal:
            yield Run(folder, journal)
    finally:
        lock.release()


@contextmanager
def _journal(folder: Path, configuration: Configuration, note: Callable[[str], None]) -> Iterator[Journal]:
    for change in _changes(folder, configuration):
        note(change)
    try:
        if not _is_run(folder) or read_configuration(folder).hash != configuration.hash:
            for stale in (_RESULT, _PAGE, _CERTIFICATE):  # they would pass for the result of what is asked now
                (folder / stale).unlink(missing_ok=True)
        write_whole(folder / _CONFIGURATION, seal(configuration.to_json()))
        journal = Journal(folder / _RECORDS)
    except OSError as error:
        raise _unwritable(folder, error) from error
    if journal.damaged:
        note(f"{journal.path}: {journal.damaged} damaged record(s) are not used; their pairs are measured again")
    try:
        yield journal
    finally:
        journal.close()


def read_configuration(folder: Path) -> Configuration:
    """The configuration of a run folder."""
    path = folder / _CONFIGURATION
    try:
        return Configuration.from_json(unseal(_bytes(path)))
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    except FileNotFoundError:
        raise InputError(f"{folder} is not a run folder: it has no {_CONFIGURATION}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        remedy = "remove it and run karenina select again with the same --out; no measurement is lost"
        raise InputError(f"{path} is damaged: {remedy}") from error


def read_result(folder: Path) -> dict[str, Any]:
    """The result of a finished run."""
    path = folder / _RESULT
    try:
        return unseal(_bytes(path))
    except FileNotFoundError:
        raise InputError(f"{folder} holds no finished selection: karenina resume {folder} finishes it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: karenina resume {folder} writes it anew") from error


def _bytes(path: Path) -> bytes:
    """A file's content; a pipe in its place would keep us waiting."""
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")
    return path.read_bytes()


def _refuse_foreign(folder: Path) -> None:
    """A folder with other things in it is not ours to write to."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: a run needs a folder of its own")
    try:
        present = {entry.name.removesuffix(".draft") for entry in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from error
    if present - _OURS and not _is_run(folder):
        raise InputError(f"{folder} holds other files and no {_CONFIGURATION} of ours: a run needs a folder of its own")


def _is_run(folder: Path) -> bool:
    try:
        read_configuration(folder)
    except InputError:
        return False
    return True


def _changes(folder: Path, now: Configuration) -> Iterator[str]:
    """What has changed since the run was recorded, so that records are not used."""
    if not (folder / _CONFIGURATION).exists():
        return
    before = read_configuration(folder)
    old = {model.path: model.digest for model in before.models}
    for model in now.models:
        if old.get(model.path, model.digest) != model.digest:
            yield f"{model.path} has changed since {folder} was recorded: what was measured of it is not used"
    for what in ("domain", "distance", "backend", "version"):
        if getattr(before.context, what) != getattr(now.context, what):
            told = "version of the engine" if what == "version" else what.replace("backend", "back end")
            yield f"the {told} is not the one {folder} was recorded with: what was measured then is not used"


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(f"{folder} cannot be written: {error.strerror or error}; choose another --out")
