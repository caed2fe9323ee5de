"""The fuzzer of the engine: random cases through many checks, until stopped.

    python fuzz/engine.py --seconds 3600 --seed 1 --out tests/regressions

Every case has a seed of its own, written to the log before the case begins; `--case SEED` runs that case again. A case
that fails is shrunk and written to the folder, where tests/test_fuzzer.py replays it. Ends with a line that says what
was tried, and with exit code 1 where anything failed.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from fuzz_checks import ALWAYS, CHECKS
from fuzz_random import KINDS, random_subject
from fuzz_shrink import shrink
from fuzz_subjects import Subject, to_json

from karenina.errors import KareninaError

__all__ = ["Failure", "Fuzzer", "main"]

ROOT = Path(__file__).parents[1]
MORE = 2  # checks of a case beside the one it always goes through
SHRINKING = 90.0  # seconds a failure
EVERY = 60.0  # seconds between two lines of progress


@dataclass(frozen=True, eq=False)
class Failure:
    """A case that failed a check, as small as it could be made."""

    seed: int
    check: str
    said: str
    subject: Subject

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.check.replace(' ', '_')}-{self.seed}.json"
        path.write_text(to_json(self.subject, self.check, self.said))
        return path


@dataclass
class Fuzzer:
    """Cases one after the other, and the books about them."""

    seed: int
    log: Path | None = None
    kinds: dict[str, float] = field(default_factory=lambda: dict(KINDS))
    shrinking: float = SHRINKING
    cases: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def run(self, seconds: float) -> Iterator[Failure]:
        """Failures as they are found, until the time is over."""
        start = told = time.monotonic()
        for number in range(sys.maxsize):
            if time.monotonic() - start >= seconds:
                return
            if time.monotonic() - told > EVERY:
                print(self.summary, flush=True)
                told = time.monotonic()
            yield from self.try_case(int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0]))

    def try_case(self, seed: int) -> Iterator[Failure]:
        """One case through its checks."""
        kind, subject = random_subject(seed, self.kinds)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{seed} {kind}\n")
        self.cases[kind] += 1
        for check in _chosen(kind, seed):
            self.checks[check] += 1
            said = _said(kind, check, subject)
            if said is not None:
                small = shrink(subject, partial(_same, kind, check, said), self.shrinking)
                failure = Failure(seed, check, _said(kind, check, small) or said, small)
                self.failures.append(failure)
                yield failure
                return

    @property
    def summary(self) -> str:
        """One line: what was tried, what failed."""
        by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(self.cases.items()))
        return (
            f"{sum(self.cases.values())} cases ({by_kind}), {sum(self.checks.values())} checks, "
            f"{len(self.failures)} failures, seed {self.seed}"
        )


def _chosen(kind: str, seed: int) -> list[str]:
    """What the case goes through: the check of its kind, and some others."""
    others = [name for name in CHECKS[kind] if name != ALWAYS[kind]]
    order = np.random.default_rng([seed, 1]).permutation(len(others))
    return [ALWAYS[kind], *(others[i] for i in order[:MORE])]


def _said(kind: str, check: str, subject: Subject) -> str | None:
    """What is wrong with a case, in words; None where nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHECKS[kind][check](subject)
    except KareninaError:
        return None  # refused, and said so: a shrunk case may ask what makes no sense
    except Exception as error:
        place = (
            "" if type(error).__name__ == "Wrong" else traceback.format_exc(limit=-1).strip().splitlines()[1].strip()
        )
        return f"{type(error).__name__}: {error} {place}".strip()
    return None


def _same(kind: str, check: str, said: str, subject: Subject) -> bool:
    """Whether a smaller case fails in the same way."""
    found = _said(kind, check, subject)
    return found is not None and found.split(":")[0] == said.split(":")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long (default: until stopped)")
    parser.add_argument("--seed", type=int, default=None, help="of the whole run (default: a new one)")
    parser.add_argument("--case", type=int, default=None, help="the seed of one case, to run it alone")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "regressions", help="where failures are kept")
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "fuzz" / "seeds.log", help="the cases' seeds")
    chosen = parser.parse_args(arguments)
    chosen.log.parent.mkdir(parents=True, exist_ok=True)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if chosen.seed is None else chosen.seed
    fuzzer = Fuzzer(seed, chosen.log)
    print(f"seed {seed}, cases in {chosen.log}", flush=True)
    try:
        for failure in fuzzer.try_case(chosen.case) if chosen.case is not None else fuzzer.run(chosen.seconds):
            print(f"FAILED case {failure.seed}, {failure.check}: {failure.said}", flush=True)
            print(f"kept as {failure.write(chosen.out)}", flush=True)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    print(fuzzer.summary, flush=True)
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
