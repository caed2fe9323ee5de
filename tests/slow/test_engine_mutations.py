"""The suite notices when the engine is broken: every mutant of tests/engine_mutants.py makes a test fail.

`python tests/slow/test_engine_mutations.py` prints which test caught which mutant first.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script, the folder of tests is not on the path

from engine_mutants import CONTROL, MUTANTS, Mutant, caught_by

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_engine_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    caught = caught_by(mutant, tmp_path)
    print(f"{mutant.name} -> {caught}")
    assert caught, f"no test noticed: {mutant.name}"


def test_a_whole_engine_passes(tmp_path: Path) -> None:
    assert caught_by(CONTROL, tmp_path) == ""


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12


if __name__ == "__main__":
    chosen = [
        mutant
        for mutant in (CONTROL, *MUTANTS)
        if not sys.argv[1:] or any(word in mutant.name for word in sys.argv[1:])
    ]
    for mutant in chosen:
        with tempfile.TemporaryDirectory() as folder:
            caught = caught_by(mutant, Path(folder))
        print(f"| {mutant.name} | {caught or '**nothing**'} |", flush=True)
