"""What stands where a file should: nothing, a folder, a pipe nobody writes to, a device, links in a circle."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from hostile.case import DATA, DOMAIN, MODEL, POPULATION, SPECIFICATION, STATISTICS, register

COMMANDS = {
    "model": MODEL,
    "population": POPULATION,
    "domain": DOMAIN,
    "specification": SPECIFICATION,
    "data": DATA,
    "statistics": STATISTICS,
}


def nothing(folder: Path) -> str:
    return str(folder / "missing")


def empty_file(folder: Path) -> str:
    (folder / "empty").write_bytes(b"")
    return "empty"


def empty_folder(folder: Path) -> str:
    (folder / "folder").mkdir()
    return "folder"


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return "pipe"


def endless_device(folder: Path) -> str:
    (folder / "zeros").symlink_to("/dev/zero")
    return "zeros"


def link_in_a_circle(folder: Path) -> str:
    (folder / "circle").symlink_to("elcric")
    (folder / "elcric").symlink_to("circle")
    return "circle"


def link_to_nothing(folder: Path) -> str:
    (folder / "dangling").symlink_to("nowhere")
    return "dangling"


def path_through_a_file(folder: Path) -> str:
    del folder
    return "good.onnx/inside"


def name_that_is_too_long(folder: Path) -> str:
    del folder
    return "x" * 300


for what, command in COMMANDS.items():
    for place in (
        nothing,
        empty_file,
        empty_folder,
        pipe,
        endless_device,
        link_in_a_circle,
        link_to_nothing,
        path_through_a_file,
        name_that_is_too_long,
    ):
        register(f"{place.__name__}_for_{what}", command, place)


def _hostile_name(folder: Path, name: bytes) -> str:
    """Random bytes under a name that is worse than its content."""
    (folder / os.fsdecode(name)).write_bytes(b"\x01\x02\x03")
    return os.fsdecode(name)


for what, command in COMMANDS.items():
    for kind, name in (
        ("terminal_commands", b"\x1b]0;owned\x07\x1b[31mred"),
        ("line_ends", b"a\nerror: b\r\nc"),
        ("bytes_that_are_no_text", b"\xff\xfe\x80"),
        ("another_writing_direction", "gpj.\u202eonnx".encode()),
        ("markup", b"[bold red]<b>&"),
    ):
        register(f"name_of_{kind}_for_{what}", command, functools.partial(_hostile_name, name=name))
