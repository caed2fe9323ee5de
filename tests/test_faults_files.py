"""Run files cut off at every length, and with bits flipped: what is read is what was written, or nothing is read.

Tried here: every length and every byte of a journal and a configuration, a sample of a result, and some of each through
the command line; tests/slow/test_faults_bits.py goes on.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faults import SELECT, decisions, ended, flipped, make_population
from measured import DOMAIN, a_disagreement, facts
from test_store_run import CONFIGURATION

from karenina.distance import distance
from karenina.errors import InputError
from karenina.query import Goal
from karenina.store import Cache, Context, Journal, Record, open_run, read_configuration
from karenina.store.records import key_of_line
from karenina.store.seal import seal, unseal

CONTEXT = Context.of(DOMAIN, distance("l1"))
RECORDS = [Record(CONTEXT, "a" * 64, f"{k}" * 64, Goal(), a_disagreement(lower=0.1 * k)) for k in range(2)]
LINES = [record.line() for record in RECORDS]


def flips(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Each byte with one of its bits flipped."""
    return (flipped(data, at, rng.randrange(8)) for at in range(len(data)))


def believed(path: Path) -> list[int]:
    """The records that a journal answers with, after checking each against what was written."""
    journal, found = Journal(path), []
    for k, record in enumerate(RECORDS):
        read = journal.find(CONTEXT, record.first, record.second, record.goal)
        if read is not None:
            assert facts(read.found) == facts(record.found)
            found.append(k)
    assert len(journal) == len(found)
    journal.close()
    return found


def test_a_journal_cut_off_anywhere_keeps_its_whole_lines(tmp_path: Path) -> None:
    path, data = tmp_path / "pairs.jsonl", b"".join(LINES)
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        whole = data[:length].count(b"\n")
        assert believed(path) == list(range(whole))
        assert path.read_bytes() == b"".join(LINES[:whole])


def test_a_journal_with_a_bit_flipped_loses_that_line_alone(tmp_path: Path) -> None:
    path, data = tmp_path / "pairs.jsonl", b"".join(LINES)
    at, ends = 0, [len(LINES[0]), len(data)]
    for at, damaged in enumerate(flips(data, random.Random(1))):
        path.write_bytes(damaged)
        hit = next(k for k, end in enumerate(ends) if at < end)
        lost = {hit, hit + 1} if at + 1 == ends[hit] else {hit}  # without the newline two lines are one
        assert set(believed(path)) == {0, 1} - lost
    assert at + 1 == len(data)


def test_no_bit_of_a_record_may_change() -> None:
    for bit in range(8):
        for at in range(len(LINES[0])):
            assert key_of_line(flipped(LINES[0], at, bit)) is None


def test_a_record_that_changes_after_it_was_indexed_is_not_believed(tmp_path: Path) -> None:
    path, asked = tmp_path / "pairs.jsonl", (CONTEXT, RECORDS[1].first, RECORDS[1].second, Goal())
    path.write_bytes(b"".join(LINES))
    journal = Journal(path)
    assert journal.find(*asked) is not None
    path.write_bytes(LINES[0] + LINES[1].replace(b'"lower":0.1', b'"lower":0.2'))
    assert journal.find(*asked) is None
    path.write_bytes(LINES[0])
    assert journal.find(*asked) is None
    journal.close()


def test_a_cache_cut_off_or_flipped_answers_nothing_wrong(tmp_path: Path) -> None:
    told: list[str] = []
    cache = Cache(tmp_path, CONTEXT, told.append)
    for record in RECORDS:
        cache.append(record)
    cache.close()
    (path,) = tmp_path.rglob("*.jsonl")
    data, rng = path.read_bytes(), random.Random(2)
    for damaged in [*list(flips(data, rng))[::3], *(data[:length] for length in range(0, len(data), 9))]:
        path.write_bytes(damaged)
        cache = Cache(tmp_path, CONTEXT, told.append)
        for record in RECORDS:
            found = cache.find(CONTEXT, record.first, record.second, record.goal)
            assert found is None or facts(found.found) == facts(record.found)
        cache.close()
    assert told == []


def test_a_configuration_is_read_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIGURATION, print):
        pass
    path, refused = tmp_path / "run.json", list[str]()
    data, rng = path.read_bytes(), random.Random(3)
    for length in range(len(data) - 1):
        with pytest.raises(ValueError):  # noqa: PT011  # whatever it says
            unseal(data[:length])
    for damaged in [*flips(data, rng), b"", data[:99]]:
        path.write_bytes(damaged)
        try:
            assert read_configuration(tmp_path) == CONFIGURATION
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 0.9 * len(data)  # all but blanks that became other blanks
    assert set(refused) == {
        f"{path} is damaged: remove it and run karenina select again with the same --out; no measurement is lost"
    }


def test_a_configuration_without_a_checksum_is_refused(tmp_path: Path) -> None:
    """Whoever wrote it."""
    (tmp_path / "run.json").write_text(json.dumps(CONFIGURATION.to_json()))
    with pytest.raises(InputError, match=r"run\.json is damaged: remove it"):
        read_configuration(tmp_path)
    other = replace(CONFIGURATION, domain_file="/another.toml").to_json()
    whole = json.loads(seal(CONFIGURATION.to_json()))
    (tmp_path / "run.json").write_text(json.dumps({**other, "checksum": whole["checksum"]}))
    with pytest.raises(InputError, match=r"run\.json is damaged: remove it"):
        read_configuration(tmp_path)


def test_a_seal_is_of_the_content_alone() -> None:
    content = {"b": [1.5, None, "é"], "a": {"x": 1}}
    assert unseal(seal(content)) == content
    assert unseal(json.dumps(json.loads(seal(content)), sort_keys=True).encode()) == content
    for wrong in (b"[]", b"", b"{}", b'{"a":1}', b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError):  # noqa: PT011  # whatever it says
            unseal(wrong)


# --- Through the command line ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_population(tmp_path_factory.mktemp("originals"), 4)


@pytest.mark.parametrize("name", ["pairs.jsonl", "run.json", "selection.json", "cache"])
def test_a_run_with_a_damaged_file_ends_as_if_nothing_had_happened(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Or is refused in one sentence, and goes on as that says."""
    undisturbed = ended(capsys, [*SELECT, "--out", "run"]).result
    shutil.copytree(here / "run", here / "whole")
    file = next((here / "cache").rglob("*.jsonl")) if name == "cache" else here / "run" / name
    data, rng = file.read_bytes(), random.Random(5)
    damaged = [flipped(data, rng.randrange(len(data)), rng.randrange(8)) for _ in range(5)]
    for content in [*damaged, *(data[: rng.randrange(len(data))] for _ in range(3))]:
        if name == "cache":
            shutil.rmtree(here / "run")
        file.write_bytes(content)
        again = [*SELECT, "--out", "run"] if name == "cache" else ["resume", "run", "--json", "--no-cache"]
        found = ended(capsys, again)
        if found.code != 0:
            assert name == "run.json"
            assert "run/run.json is damaged: remove it" in found.one_sentence()
            file.unlink()
            found = ended(capsys, [*SELECT, "--out", "run"])
        assert decisions(found.result) == decisions(undisturbed)
        assert found.result["pairs"] == undisturbed["pairs"]
        shutil.rmtree(here / "run")
        shutil.copytree(here / "whole", here / "run")
