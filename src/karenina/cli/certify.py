"""What `--certify` does. Enters: what a command has found. Leaves: a certificate beside it, and a line that says so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from karenina.cli.options import Reading
from karenina.cli.terminal import remark
from karenina.errors import WorkStopped

if TYPE_CHECKING:
    from karenina.certificate import Source, Subject
    from karenina.disagreement import Disagreement

__all__ = ["certify", "counting", "source_of"]


def source_of(file: Path, normalisation: Path | None, reading: Reading) -> Source:
    """Where a network came from, for the certificate."""
    from karenina.certificate import Source

    beside = None if normalisation is None else normalisation.resolve()
    return Source(file.resolve(), reading.action.value, beside, reading.activation)


def certify(
    place: Path,
    subject: Subject,
    pairs: Mapping[tuple[int, int], Disagreement],
    selection: Mapping[str, object] | None,
    jobs: int,
) -> str:
    """Write the certificate; a line about it."""
    from karenina.certificate import NotProven, write_certificate

    try:
        with counting("proving pairs") as count:
            nodes = write_certificate(place, subject, pairs, selection, jobs=jobs, on_pair=count)
    except NotProven as error:
        raise WorkStopped(f"no certificate was written: {error}") from error
    return f"{'certificate:':<13}{place} ({nodes} nodes, {place.stat().st_size / 1000:.0f} kB)\n"


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Whom to tell how many of how many are done: a bar on a terminal, else a line every tenth of the way."""
    if not sys.stderr.isatty():
        yield lambda done, of: remark(f"{what}: {done} of {of}") if done * 10 // of > (done - 1) * 10 // of else None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
