"""What several files of tests share: fixtures, and that property tests try the same examples in every run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import Library, make_files, stand_in_library
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small networks, domains and specifications."""
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, files: Path) -> Library:
    """A stand-in for what computes."""
    return stand_in_library(monkeypatch, files)


@pytest.fixture
def here(originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with what the module's `originals` holds, and a cache of its own."""
    shutil.copytree(originals, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_CACHE", str(tmp_path / "cache"))
    return tmp_path
