"""Every bit of the files of a run among shipped policies, and every call to the disk with every error there is."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path

import pytest
from faults import SELECT, Disk, decisions, ended, flipped, keys, make_population

import karenina
from karenina.store.records import key_of_line
from karenina.store.seal import unseal

pytestmark = pytest.mark.slow

POLICIES = Path(karenina.__file__).parent / "zoo" / "policies" / "mountaincar"
SHIPPED = ["select", str(POLICIES), "--domain", str(POLICIES / "domain.toml"), "--device", "cpu", "--json"]
SHIPPED += ["--tolerance", "0.01", "--no-cache", "--out", "run"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_population(tmp_path_factory.mktemp("originals"), 4)


def test_every_bit_of_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(capsys, SHIPPED).code == 0
    tried = 0
    for line in (here / "run" / "pairs.jsonl").read_bytes().splitlines(keepends=True)[::4]:
        for at in range(len(line)):
            for bit in range(8):
                tried += 1
                assert key_of_line(flipped(line, at, bit)) is None
    for name, every in (("run.json", 1), ("selection.json", 20)):
        data = (here / "run" / name).read_bytes()
        whole = unseal(data)
        for place in range(0, 8 * len(data), every):
            tried += 1
            try:
                assert unseal(flipped(data, place // 8, place % 8)) == whole
            except ValueError:  # it is refused
                continue
    print(f"{tried} flips")


def test_runs_that_are_damaged_all_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several places of the journal at once, some of them cut off as well; then the run goes on."""
    undisturbed, rng = ended(capsys, SHIPPED).result, random.Random(9)
    data, lost = (here / "run" / "pairs.jsonl").read_bytes(), 0
    for _ in range(40):
        damaged = bytearray(data[: rng.choice([len(data), rng.randrange(len(data))])])
        for _ in range(rng.choice([0, 1, 3, 30])):
            if damaged:
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (here / "run" / "pairs.jsonl").write_bytes(bytes(damaged))
        found = ended(capsys, ["resume", "run", "--json", "--no-cache", "--device", "cpu"])
        assert decisions(found.result) == decisions(undisturbed)
        intervals = {(pair["a"], pair["b"]): pair for pair in undisturbed["pairs"]}
        for pair in found.result["pairs"]:
            before = intervals[pair["a"], pair["b"]]
            assert max(pair["lower"], before["lower"]) <= min(pair["upper"], before["upper"])  # of one threshold
        lost += found.err.count("damaged record(s) are not used")
    print(f"40 damaged journals, {lost} of them not only cut off")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("lasts", [False, True])
def test_every_call_to_the_disk_with_every_error(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int, lasts: bool
) -> None:
    monkeypatch.setattr("karenina.store.journal._SYNC_SECONDS", -1.0)  # after every record
    run, select = here / "run", [*SELECT, "--no-cache", "--out", "run"]

    whole = Disk(run, None, number)
    with pytest.MonkeyPatch.context() as patch:
        whole.install(patch)
        undisturbed, expected = ended(capsys, select).result, keys(run)
    for at in range(len(whole.calls)):
        shutil.rmtree(run)
        with pytest.MonkeyPatch.context() as patch:
            Disk(run, at, number, lasts).install(patch)
            found = ended(capsys, select)
        if found.code != 0:
            assert os.strerror(number) in found.one_sentence()
        again = ["resume", "run", "--json", "--no-cache"] if (run / "run.json").exists() else select
        assert ended(capsys, again).result == undisturbed
        assert keys(run) == expected
    print(f"{len(whole.calls)} calls, {os.strerror(number)}")
