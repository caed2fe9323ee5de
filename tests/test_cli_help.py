"""What a new user meets: help that fits 80 columns, completion, `--version`, `doctor`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from command_line import COMMAND, ENVIRONMENT, strict_json

import karenina
from karenina import cli
from karenina.cli import diagnosis
from karenina.cli.diagnosis import Check, Diagnosis, diagnose
from karenina.cli.doctor import diagnosis_text

OWN = ["select", "resume", "report", "explain", "plot", "pdt", "verify", "doctor", "domain", "domain from-data"]


def help_of(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert cli.run([*command.split(), "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *OWN])
def test_help_fits_and_is_whole(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(command, monkeypatch, capsys)
    assert max(map(len, text.splitlines())) <= 80
    listed = re.findall(r"^  (\S+)  +(.*)$", text.split("Commands:")[-1], re.MULTILINE) if "Commands:" in text else []
    assert [name for name, line in listed if name in OWN and line.endswith("...")] == []


@pytest.mark.parametrize("command", [name for name in OWN if name not in ("domain", "doctor")])
def test_help_has_an_example(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(command, monkeypatch, capsys)
    assert re.search(rf"For\s+example:\n\n +karenina {command} ", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["selct"], "No such command 'selct'. Did you mean 'select'? (see karenina --help)"),
        (["select"], "Missing argument 'PATH'. (see karenina select --help)"),
        (["domain", "from-data"], "Missing argument 'FILE'. (see karenina domain from-data --help)"),
        (
            ["plot", "run", "--kind", "pie"],
            "Invalid value for '--kind': 'pie' is not one of 'ratio', 'rewards', 'scores', 'heatmap'. "
            "(see karenina plot --help)",
        ),
    ],
)
def test_a_slip_names_the_help_that_would_have_helped(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert " ".join(capsys.readouterr().err.split()) == f"error: {message}"


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"karenina {karenina.__version__}\n"


@pytest.mark.parametrize(("typed", "offered"), [("karenina re", {"resume", "report"}), ("karenina exp", {"explain"})])
def test_the_shell_completes_commands(typed: str, offered: set[str], tmp_path: Path) -> None:
    asked = {"_KARENINA_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": "1"}
    done = subprocess.run(
        COMMAND, env={**ENVIRONMENT, **asked}, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert offered <= set(done.stdout.split())
    assert all(word.startswith(typed.split()[1]) for word in done.stdout.split())


# --- doctor ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return diagnose()


def test_the_doctor_finds_what_is_here(found: Diagnosis) -> None:
    import torch

    assert found.well
    checks = {check.name: check for check in (*found.system, *found.backends)}
    assert checks["torch"].found == torch.__version__
    assert checks["karenina"].well
    assert found.backends[0] == Check("karenina", "works", True)
    assert max(map(len, diagnosis_text(found).splitlines())) <= 80
    assert diagnosis_text(found).endswith("karenina works.\n")


def test_the_doctor_names_the_extra_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["torch>=2.2", "numba>=0.59; extra == 'fast'", 'nonesuch>=1; extra == "milp"']
    monkeypatch.setattr(diagnosis, "_requirements", lambda: needs)
    assert diagnosis._extra("milp") == Check("milp", "nonesuch missing: pip install 'karenina[milp]'", False)
    assert "unknown" in diagnosis._extra("ray").found


def test_a_back_end_that_is_wrong_or_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from karenina.errors import MissingExtra
    from karenina.query import Answer, Status

    class Wrong:
        def answer(self, query: object, goal: object) -> Answer:  # noqa: ARG002
            return Answer(1.0, 1.0, Status.EXACT)

    monkeypatch.setattr("karenina.backends.backend", lambda *_: Wrong())
    assert diagnosis._backend("karenina", "cpu").found == "answers 1 to 1 instead of 4"

    def missing(*_: object) -> Wrong:
        raise MissingExtra("highspy", "milp")

    def broken(*_: object) -> Wrong:
        raise OSError("no licence")

    monkeypatch.setattr("karenina.backends.backend", missing)
    assert "karenina[milp]" in diagnosis._backend("highs", "cpu").found
    monkeypatch.setattr("karenina.backends.backend", broken)
    assert diagnosis._backend("gurobi", "cpu") == Check("gurobi", "fails: OSError: no licence", False)


def test_the_command(found: Diagnosis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(diagnosis, "diagnose", lambda: found)
    assert cli.run(["doctor"]) == 0
    assert "Back ends" in capsys.readouterr().out
    sick = Diagnosis(found.system, found.extras, (Check("karenina", "fails", False),))
    monkeypatch.setattr(diagnosis, "diagnose", lambda: sick)
    assert cli.run(["doctor", "--json"]) == 1
    assert strict_json(capsys.readouterr().out)["backends"] == {"karenina": {"found": "fails", "well": False}}
