"""A run on disk, so that nothing measured is ever lost: append-only, resumable, reusable across runs.

Enters: answers about pairs, as they arrive. Leaves: the same answers, when the same question is asked again.

    identity   what an answer depends on, as a key
    records    one answer as one line of text with a checksum
    journal    a file of such lines that only grows
    disk, seal files that are whole or not there, and know whether they are what was written
    run        the folder of a run: its configuration, its journal, its result, its lock (`configuration`, `lock`)
    cache      journals shared by all runs of a user
    memory     a `Measure` that looks first and measures what is missing
"""

from karenina.store.cache import Cache, cache_folder
from karenina.store.configuration import Configuration, Model
from karenina.store.identity import Context, canonical_order, domain_hash
from karenina.store.journal import Journal
from karenina.store.memory import recorded, reordered
from karenina.store.records import Record
from karenina.store.run import Run, open_run, read_configuration, read_result

__all__ = [
    "Cache",
    "Configuration",
    "Context",
    "Journal",
    "Model",
    "Record",
    "Run",
    "cache_folder",
    "canonical_order",
    "domain_hash",
    "open_run",
    "read_configuration",
    "read_result",
    "recorded",
    "reordered",
]
