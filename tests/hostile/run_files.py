"""Run folders that karenina did not write."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from hostile.case import REPORT, RESUME, register
from karenina.domain_file import domain_from_toml
from karenina.store import domain_hash
from karenina.store.seal import seal

DOMAIN = "[[box]]\nlower = [0, 0]\nupper = [1, 2]\n"
HASH = domain_hash(domain_from_toml(DOMAIN))
RUN: dict[str, Any] = {
    "models": [{"name": "a", "path": "/nowhere/a.onnx", "digest": "0" * 64, "normalisation": None}],
    "domain_file": "domain.toml",
    "domain_text": DOMAIN,
    "context": {
        "domain": domain_hash(domain_from_toml(DOMAIN)),
        "distance": "l1",
        "backend": "karenina",
        "version": "0",
    },
    "distance": "l1",
    "conditions": [],
    "options": {"action": "raw", "activation": None},
    "settings": {},
}


def _run(folder: Path, content: bytes, result: bytes | None = None) -> str:
    (folder / "run").mkdir()
    (folder / "run" / "run.json").write_bytes(content)
    if result is not None:
        (folder / "run" / "selection.json").write_bytes(result)
    return "run"


def _pipe(folder: Path) -> str:
    (folder / "run").mkdir()
    os.mkfifo(folder / "run" / "run.json")
    return "run"


def _sealed(**changes: object) -> bytes:
    """A configuration with changes, and with the right checksum."""
    return seal({**RUN, **changes})


MODEL = RUN["models"][0]
for what, command in (("report", REPORT), ("resume", RESUME)):
    for name, content in (
        ("empty", b""),
        ("no_json", b"{"),
        ("a_list", b"[]"),
        ("nested_beyond_measure", b"[" * 10**6),
        ("not_text", b"\xff\xfe\x00"),
        ("without_a_checksum", json.dumps(RUN).encode()),
        ("of_other_types", _sealed(models=[7])),
        ("without_a_domain", _sealed(domain_text="[[box]]")),
        ("with_a_domain_that_is_no_text", _sealed(domain_text=[1])),
        ("with_an_unknown_distance", _sealed(distance="\x1b[31m")),
        ("with_unknown_settings", _sealed(settings={"evil": 1})),
        ("with_a_model_that_is_no_text", _sealed(models=[{**MODEL, "path": [1]}])),
        ("with_terminal_commands", _sealed(models=[{**MODEL, "path": "run/\x1b[31m"}])),
    ):
        register(f"{what}_of_a_run_{name}", command, functools.partial(_run, content=content))
    register(f"{what}_of_a_run_that_is_a_pipe", command, _pipe)

for name, result in (
    ("empty", b""),
    ("nested_beyond_measure", b'{"a":' * 10**6),
    ("of_other_types", seal({"names": 3, "iterations": [[]]})),
    ("not_text", b"\xff\xfe\x00"),
):
    register(f"report_of_a_result_{name}", REPORT, functools.partial(_run, content=_sealed(), result=result))
