"""Records, journals and measures that remember: what is kept, what is believed, what is measured again."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from measured import DOMAIN, Scripted, a_disagreement, a_network, all_pairs, facts

from karenina.disagreement import Disagreement, PairTask, pairwise_disagreement_threshold
from karenina.distance import CDistance, ClassDistance, distance
from karenina.domain import Box, Domain
from karenina.errors import WorkStopped
from karenina.query import Goal, Status
from karenina.store import Cache, Context, Journal, Record, cache_folder, canonical_order, recorded, reordered
from karenina.store.records import key_of_line

CONTEXT = Context.of(DOMAIN, distance("l1"))
A, B = "a" * 64, "b" * 64
GOAL = Goal()

numbers = st.floats(allow_nan=False)
vectors = arrays.arrays(np.float64, st.integers(1, 4), elements=numbers)


# --- Records ---------------------------------------------------------------------------------------------------------


@given(
    st.tuples(numbers, numbers).map(sorted),
    st.none() | vectors,
    st.none() | st.tuples(vectors, vectors),
    st.sampled_from(Status),
    st.text(max_size=5),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_record_reads_back_bit_for_bit(
    bounds: list[float], witness: Any, outputs: Any, status: Status, note: str, threshold: float | None
) -> None:
    found = a_disagreement(lower=bounds[0], upper=bounds[1], witness=witness, outputs=outputs, status=status, note=note)
    goal = Goal(0.1, 1 / 3, threshold, math.inf, 5.0)
    line = Record(CONTEXT, A, B, goal, found).line()
    json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert line.count(b"\n") == 1
    again = Record.read(line)
    assert key_of_line(line) == again.key == CONTEXT.key(A, B, goal)
    assert facts(again.found) == facts(found)
    assert (again.context, again.goal, again.found.seconds) == (CONTEXT, goal, found.seconds)


@given(st.data())
def test_a_damaged_line_is_not_a_record(data: st.DataObject) -> None:
    line = Record(CONTEXT, A, B, GOAL, a_disagreement()).line()
    at = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    assert key_of_line(line[:at] + bytes([other]) + line[at + 1 :]) is None
    assert key_of_line(line[:at]) is None
    assert key_of_line(line[at + 1 :]) is None


def test_the_key_tells_apart_what_changes_the_answer() -> None:
    domains = [DOMAIN, Domain(Box([-1, -1], [1, 2])), Domain([*DOMAIN.boxes, *DOMAIN.boxes])]
    contexts = [Context.of(domain, distance("l1")) for domain in domains]
    contexts += [Context.of(DOMAIN, distance(name)) for name in ("linf", "c-distance", "class")]
    contexts += [Context.of(DOMAIN, distance("c-distance", ["y0 >= 0"])), Context.of(DOMAIN, distance("l1"), "highs")]
    goals = [GOAL, Goal(1e-4), Goal(relative_tolerance=0.1), Goal(threshold=0.0), Goal(ceiling=1.0)]
    keys = [context.key(A, B, GOAL) for context in contexts] + [CONTEXT.key(A, B, goal) for goal in goals[1:]]
    keys += [CONTEXT.key(B, A, GOAL), CONTEXT.key(A, A, GOAL)]
    assert len(set(keys)) == len(keys)
    named = Domain(DOMAIN.boxes, ["left", "right"], "elsewhere.toml")
    assert Context.of(named, distance("l1")).key(A, B, Goal(time_limit=3)) == keys[0]


# --- Journals --------------------------------------------------------------------------------------------------------


def filled(path: Path, count: int) -> list[PairTask]:
    """A journal with the answers of `Scripted` to that many tasks."""
    tasks = [PairTask(0, k + 1, GOAL) for k in range(count)]
    journal = Journal(path)
    list(recorded(Scripted(), digests(count + 1), CONTEXT, journal)(tasks))
    journal.close()
    return tasks


def digests(count: int) -> list[str]:
    return [hashlib.sha256(str(k).encode()).hexdigest() for k in range(count)]


@pytest.mark.parametrize("kept", ["nothing of it", "half of it", "all but the newline"])
def test_a_torn_last_record_is_dropped(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "pairs.jsonl"
    tasks = filled(path, 5)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    rest = {"nothing of it": 1, "half of it": len(last) // 2, "all but the newline": len(last) - 1}[kept]
    path.write_bytes(whole[: len(whole) - len(last) + rest])
    journal = Journal(path)
    assert (len(journal), journal.torn, journal.damaged) == (4, True, 0)
    assert path.read_bytes() == whole[: -len(last)]
    measure = Scripted()
    list(recorded(measure, digests(6), CONTEXT, journal)(tasks))
    assert len(measure.asked) == 1
    journal.close()
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_a_damaged_record_in_the_middle_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    tasks = filled(path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"lower":', b'"lower":9')
    path.write_bytes(b"".join(lines))
    journal = Journal(path)
    assert (len(journal), journal.torn, journal.damaged) == (4, False, 1)
    measure = Scripted()
    answers = dict(recorded(measure, digests(6), CONTEXT, journal)(tasks))
    assert len(measure.asked) == 1
    assert [answers[task].lower for task in tasks] == [task.second / 100 for task in tasks]
    journal.close()


def test_nothing_is_measured_twice(tmp_path: Path) -> None:
    tasks, journal = all_pairs(5), Journal(tmp_path / "pairs.jsonl")
    interrupted = Scripted(fail_at=4)
    with pytest.raises(KeyboardInterrupt):
        list(recorded(interrupted, digests(5), CONTEXT, journal)(tasks))
    journal.close()  # what a kill leaves: the lines that were written
    journal = Journal(tmp_path / "pairs.jsonl")
    measure = Scripted()
    answers = dict(recorded(measure, digests(5), CONTEXT, journal)(tasks))
    assert set(answers) == set(tasks)
    assert {*interrupted.asked, *measure.asked} == set(tasks)
    assert len(interrupted.asked) + len(measure.asked) == len(tasks)
    again = Scripted()
    assert {task: facts(found) for task, found in recorded(again, digests(5), CONTEXT, journal)(tasks)} == {
        task: facts(found) for task, found in answers.items()
    }
    assert again.asked == []
    journal.close()


@pytest.mark.parametrize(
    ("status", "limit", "measured"),
    [
        (Status.EXACT, math.inf, 0),
        (Status.PRECISION, math.inf, 0),
        (Status.TIME_LIMIT, 5.0, 0),
        (Status.TIME_LIMIT, 1.0, 0),
        (Status.TIME_LIMIT, 6.0, 1),
        (Status.FAILED, 5.0, 1),
    ],
)
def test_more_time_asks_again_only_what_was_cut_short(
    tmp_path: Path, status: Status, limit: float, measured: int
) -> None:
    journal = Journal(tmp_path / "pairs.jsonl")
    list(recorded(Scripted(status), digests(2), CONTEXT, journal)([PairTask(0, 1, Goal(time_limit=5.0))]))
    measure = Scripted()
    list(recorded(measure, digests(2), CONTEXT, journal)([PairTask(0, 1, Goal(time_limit=limit))]))
    assert len(measure.asked) == measured
    journal.close()


@pytest.mark.parametrize("written", [0, 1, 100])
def test_a_full_disk_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    path = tmp_path / "pairs.jsonl"
    filled(path, 3)
    before, write, calls = path.read_bytes(), os.write, [0]

    def full(file: int, data: bytes) -> int:
        calls[0] += 1
        if calls[0] == 1 and written:
            return write(file, data[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal(path)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WorkStopped, match=r"pairs.jsonl can no longer be written \(No space left on device\)"):
        journal.append(Record(CONTEXT, A, B, GOAL, a_disagreement()))
    monkeypatch.undo()
    assert path.read_bytes() == before
    journal.append(Record(CONTEXT, A, B, GOAL, a_disagreement()))
    assert journal.find(CONTEXT, A, B, GOAL) is not None
    journal.close()


def test_a_disk_that_fails_to_keep_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(tmp_path / "pairs.jsonl")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WorkStopped, match="Input/output error"):
        list(recorded(Scripted(), digests(2), CONTEXT, journal)(all_pairs(2)))
    journal.close()


# --- Finer answers ---------------------------------------------------------------------------------------------------


LADDER = [Goal(1e300), Goal(0.001, 0.5), Goal(0.001, 0.25), Goal(0.001)]


def asked(journal: Journal, goal: int, cache: Cache | None = None) -> tuple[bool, int]:
    """Ask for a pair to a goal of the ladder: whether it was measured now, and to which goal the answer was."""
    measure, task = Scripted(), PairTask(0, 1, LADDER[goal])

    def told(tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        for done, found in measure(tasks):
            yield done, replace(found, boxes=goal)

    ((_, found),) = recorded(told, digests(2), CONTEXT, journal, cache, LADDER)([task])
    return bool(measure.asked), found.boxes


def test_a_finer_answer_serves_a_coarser_question(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "pairs.jsonl")
    assert asked(journal, 1) == (True, 1)
    assert asked(journal, 0) == (False, 1)
    assert asked(journal, 2) == (True, 2)
    assert asked(journal, 0) == (False, 1)  # the coarsest that will do, as before
    assert asked(journal, 3) == (True, 3)  # the finest question only by its own answer
    assert asked(journal, 2) == (False, 2)
    journal.close()
    journal = Journal(tmp_path / "other.jsonl")
    assert asked(journal, 3) == (True, 3)
    assert [asked(journal, goal) for goal in range(3)] == [(False, 3)] * 3
    journal.close()


def test_a_replay_finds_what_it_found_whatever_the_cache_has_learnt(tmp_path: Path) -> None:
    _, note = notes()
    journal = Journal(tmp_path / "pairs.jsonl")
    for learnt in (3, 1):
        other, cache = Journal(tmp_path / f"{learnt}.jsonl"), Cache(tmp_path / "cache", CONTEXT, note)
        assert asked(other, learnt) == (True, learnt)
        record = other.find(CONTEXT, digests(2)[0], digests(2)[1], LADDER[learnt])
        assert record is not None
        cache.append(record)
        cache.close()
        cache = Cache(tmp_path / "cache", CONTEXT, note)
        assert asked(journal, 0, cache) == (False, 3)
        cache.close()
        other.close()
    journal.close()


# --- Order -----------------------------------------------------------------------------------------------------------


def test_a_measure_of_reordered_networks_answers_about_the_same_pairs() -> None:
    order = [2, 0, 3, 1]  # the measure's first network is ours at place 2
    measure = Scripted()
    tasks = all_pairs(4)
    for task, found in reordered(measure, order)(tasks):
        assert found.outputs is not None
        theirs = [int(output[0]) for output in found.outputs]
        assert [order[k] for k in theirs] == [task.first, task.second]
    assert len(measure.asked) == len(tasks)


@pytest.mark.parametrize(
    "chosen", [distance("l1"), distance("linf"), CDistance(("y0 >= -1", "y1 <= 1")), ClassDistance()]
)
def test_every_distance_is_symmetric(chosen: Any) -> None:
    """What is on record for (b, a) answers (a, b) with the outputs exchanged."""
    a, b = a_network(1, outputs=3), a_network(2, outputs=3)
    forth = pairwise_disagreement_threshold(a, b, DOMAIN, chosen, goal=Goal(1e-6))
    back = pairwise_disagreement_threshold(b, a, DOMAIN, chosen, goal=Goal(1e-6))
    assert forth.lower <= back.upper + 1e-9
    assert back.lower <= forth.upper + 1e-9
    assert back.outputs is not None
    y_b, y_a = back.outputs
    assert chosen(y_a, y_b) == pytest.approx(chosen(y_b, y_a), abs=1e-12)
    assert chosen(y_a, y_b) == pytest.approx(forth.lower, abs=1e-5)


def test_the_canonical_order_depends_on_the_contents_alone() -> None:
    networks = [a_network(seed) for seed in range(6)]
    order = canonical_order(networks)
    assert sorted(order) == list(range(6))
    turned = list(reversed(networks))
    assert [networks[k].name for k in order] == [turned[k].name for k in canonical_order(turned)]


# --- The cache -------------------------------------------------------------------------------------------------------


def notes() -> tuple[list[str], Any]:
    told: list[str] = []
    return told, told.append


def test_answers_are_shared_by_runs(tmp_path: Path) -> None:
    told, note = notes()
    tasks = all_pairs(3)
    for run in range(3):
        cache, journal = Cache(tmp_path / "cache", CONTEXT, note), Journal(tmp_path / f"{run}.jsonl")
        measure = Scripted()
        answers = dict(recorded(measure, digests(3), CONTEXT, journal, cache)(tasks))
        assert len(measure.asked) == (len(tasks) if run == 0 else 0)
        assert {task: found.lower for task, found in answers.items()} == {
            task: task.first + task.second / 100 for task in tasks
        }
        assert len(journal) == len(tasks)  # whole without the cache
        cache.close()
        journal.close()
    assert told == []
    assert len(list((tmp_path / "cache").rglob("*.jsonl"))) == 1


def test_processes_that_share_a_cache_write_to_files_of_their_own(tmp_path: Path) -> None:
    told, note = notes()
    caches = [Cache(tmp_path, CONTEXT, note) for _ in range(3)]
    for k, cache in enumerate(caches):
        cache.append(Record(CONTEXT, A, digests(3)[k], GOAL, a_disagreement(lower=float(k), upper=9.0)))
    assert len(list(tmp_path.rglob("*.jsonl"))) == 3
    for cache in caches:
        cache.close()
    merged = Cache(tmp_path, CONTEXT, note)
    for k in range(3):
        record = merged.find(CONTEXT, A, digests(3)[k], GOAL)
        assert record is not None
        assert record.found.lower == k
    merged.close()
    assert told == []


def test_a_cache_keeps_no_answer_that_may_end_otherwise(tmp_path: Path) -> None:
    _, note = notes()
    cache = Cache(tmp_path, CONTEXT, note)
    for status in (Status.TIME_LIMIT, Status.FAILED):
        cache.append(Record(CONTEXT, A, B, GOAL, a_disagreement(status=status)))
    cache.close()
    assert Cache(tmp_path, CONTEXT, note).find(CONTEXT, A, B, GOAL) is None


def test_another_context_is_another_cache(tmp_path: Path) -> None:
    _, note = notes()
    cache = Cache(tmp_path, CONTEXT, note)
    cache.append(Record(CONTEXT, A, B, GOAL, a_disagreement()))
    cache.close()
    other = Context.of(DOMAIN, distance("linf"))
    assert Cache(tmp_path, other, note).find(other, A, B, GOAL) is None


def test_a_cache_that_cannot_be_written_is_one_note(tmp_path: Path) -> None:
    told, note = notes()
    (tmp_path / "cache").write_text("a file where a folder should be")
    cache, journal = Cache(tmp_path / "cache", CONTEXT, note), Journal(tmp_path / "pairs.jsonl")
    measure = Scripted()
    list(recorded(measure, digests(3), CONTEXT, journal, cache)(all_pairs(3)))
    assert (len(measure.asked), len(journal)) == (3, 3)
    assert len(told) == 1
    assert "cannot be written and is left out" in told[0]
    cache.close()
    journal.close()


def test_a_full_cache_is_one_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, note = notes()
    cache = Cache(tmp_path, CONTEXT, note)
    cache.append(Record(CONTEXT, A, B, GOAL, a_disagreement()))

    def full(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for k in range(3):
        cache.append(Record(CONTEXT, A, digests(3)[k], GOAL, a_disagreement()))
    monkeypatch.undo()
    assert len(told) == 1
    assert "No space left on device" in told[0]
    cache.close()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("KARENINA_CACHE", raising=False)
    assert cache_folder() == Path("/home/of/.cache/karenina")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/karenina")
    monkeypatch.setenv("KARENINA_CACHE", "/mine")
    assert cache_folder() == Path("/mine")
