"""The fuzzing of the parsers (`make fuzz-parsers`): its seeds are read, and what it once found stays fixed.

A short part of the property runs here too, without atheris: flipped and cut seeds are read or refused, nothing else.
"""

from __future__ import annotations

import random
import warnings

import pytest
from parser_targets import TARGETS, Target, replay

# Inputs that were once not refused as they should be: the target, and the bytes.
FOUND: dict[str, tuple[str, bytes]] = {
    "a name with an odd escape in a pickle, which warned": ("state-dict", b"\x80\x00ce\\k\n."),
    "the same in the old format": (
        "torch-file",
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03coat\x0e:\x98]\x93\xb4M\xeb\xd0A\x8a\\\x02h\nFloat",
    ),
    "the same in statistics": ("statistics", b"\x80\x02S'\\z'\n."),
    "a cell of a table of rewards that is too long": ("rewards", b"name,reward\na," + b"1" * 200_000),
    "a manifest nested beyond measure": ("rewards", b'{"policies":' * 100_000),
    "a result with outputs of one model": ("run", b"\x00\xff\xff["),
    "a result with a number beyond float64": ("run", b"\x00\xff[\x82"),
    "a record with the right checksum that is none": ("journal", b"\xff\x00\x05"),
}


def fed(target: Target, data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return replay(target, data)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_something_of_every_format_is_read(target: Target) -> None:
    assert "read" in {fed(target, seed) for seed in target.seeds()}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_seeds_are_read_or_refused(target: Target) -> None:
    chance = random.Random(target.name)
    for seed in list(target.seeds())[:6]:
        for _ in range(15):
            damaged = bytearray(seed)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            fed(target, bytes(damaged[: chance.randint(1, len(damaged))]) if chance.random() < 0.3 else bytes(damaged))


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_fixed(name: str) -> None:
    target, data = FOUND[name]
    fed(next(t for t in TARGETS if t.name == target), data)
