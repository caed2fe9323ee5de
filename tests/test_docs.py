"""The documentation is true: every snippet runs, every link leads somewhere, every command and name is described.

A page's snippets run one after the other, in a folder that holds what its readers are told to have: policies, a domain,
observations, rewards, a finished run. Commands that need a cluster or a GPU are only parsed. The tutorial's script
trains with a budget of its own here, too small to learn anything.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from measured import a_network
from reports import make_run

import karenina
from karenina import cli
from karenina.checker import activations, chain, reading, tree
from karenina.domain_file import domain_from_toml
from karenina.report import read_rewards

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md", ROOT / "CONTRIBUTING.md"])
ELSEWHERE = ("--ray", "--device cuda", "karenina reproduce", "karenina zoo")  # parsed, not run
TRAINING = "python examples/tutorial.py tutorial"
OWN = ("select", "resume", "report", "explain", "plot", "pdt", "check", "verify", "domain from-data", "doctor")


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def snippets(page: Path) -> Iterator[Snippet]:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Snippet(found[1], found[2], text[: found.start()].count("\n") + 1)


def indented_commands(page: Path) -> list[str]:
    """Commands in blocks of code that are set off by four spaces, without comments."""
    found = re.findall(r"^    ((?:venv/bin/)?karenina .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"  +#.*", "", command.removeprefix("venv/bin/")) for command in found]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- Snippets --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    make_run(folder)
    (folder / "models").rename(folder / "policies")
    for name, seed in (("a", 20), ("b", 21)):
        a_network(seed).to_onnx(folder / f"{name}.onnx")
    np.save(folder / "observations.npy", np.random.default_rng(0).normal(size=(50, 2)))
    (folder / "rewards.csv").write_text("name,reward\n" + "".join(f"seed_{k},{20 * k}\n" for k in range(6)))
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


RUNNABLE = [page for page in PAGES if any(snippet.language in ("python", "sh") for snippet in snippets(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=map(name_of, RUNNABLE))
def test_snippets_run(page: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if TRAINING in page.read_text(encoding="utf-8") and importlib.util.find_spec("stable_baselines3") is None:
        pytest.skip("stable-baselines3 is not installed")
    namespace: dict[str, Any] = {"__name__": "snippet"}
    for snippet in snippets(page):
        where = f"{name_of(page)}, line {snippet.line}"
        if snippet.language == "python":
            exec(compile(snippet.text, where, "exec"), namespace)
        elif snippet.language == "sh":
            for line in snippet.text.replace("\\\n", " ").splitlines():
                run_line(line, where, capsys)
    assert here.exists()


def run_line(line: str, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    if line == TRAINING:
        train()
        return
    assert line.startswith("karenina "), f"{where}: nothing here knows how to run {line!r}"
    arguments = shlex.split(line)[1:]
    if any(words in line for words in ELSEWHERE) or not is_installed(line):
        parse(arguments)
        return
    code = cli.run(arguments)
    assert code == 0, f"{where}: {line} ends with {code}: {capsys.readouterr().err}"


def is_installed(line: str) -> bool:
    libraries = {"--backend marabou": "maraboupy", "--backend gurobi": "gurobipy", "--backend highs": "highspy"}
    libraries["karenina plot"] = "matplotlib"
    wanted = [library for words, library in libraries.items() if words in line]
    return all(importlib.util.find_spec(library) is not None for library in wanted)


def train() -> None:
    """The tutorial's script, with less to do."""
    command = [sys.executable, "examples/tutorial.py", "tutorial", "--policies", "3", "--steps", "1024"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def parse(arguments: list[str]) -> None:
    """Refuses a command or an option that is not there; runs nothing."""
    group: Any = typer.main.get_command(cli.app)
    context = group.make_context("karenina", list(arguments))
    name, command, rest = group.resolve_command(context, arguments)
    while hasattr(command, "resolve_command"):
        context = command.make_context(name, list(rest), parent=context)
        name, command, rest = command.resolve_command(context, rest)
    command.make_context(name, list(rest), parent=context)


COMMANDS = [(page, command) for page in PAGES for command in indented_commands(page)]


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{name_of(page)}: {words}" for page, words in COMMANDS])
def test_commands_that_are_only_mentioned_are_there(page: Path, command: str) -> None:  # noqa: ARG001
    parse(shlex.split(command)[1:])


def test_a_command_that_is_not_there_is_noticed() -> None:
    for wrong in (["select", "x", "--domain", "d", "--no-such-option"], ["domain", "from-nothing"]):
        with pytest.raises(Exception, match="No such"):
            parse(wrong)


DATA = [(page, s) for page in PAGES for s in snippets(page) if s.language in ("toml", "csv")]


@pytest.mark.parametrize(("page", "snippet"), DATA, ids=[f"{name_of(page)}:{snippet.line}" for page, snippet in DATA])
def test_files_that_are_shown_can_be_read(page: Path, snippet: Snippet, tmp_path: Path) -> None:
    if snippet.language == "toml":
        assert domain_from_toml(snippet.text, name_of(page)).size > 0
    else:
        (tmp_path / "rewards.csv").write_text(snippet.text)
        assert read_rewards(tmp_path / "rewards.csv").earned


def test_no_snippet_is_of_a_kind_that_nobody_checks() -> None:
    languages = {snippet.language for page in PAGES for snippet in snippets(page)}
    assert languages <= {"python", "sh", "toml", "csv"}
    for page in PAGES:
        assert len(re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)) == 2 * len(list(snippets(page)))


# --- The whole -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=map(name_of, PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def test_the_site_has_every_page_once() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {str(page.relative_to(DOCS)) for folder in (DOCS, DOCS / "how-to") for page in folder.glob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == pages | {"zoo/README.md"}


def options_of(command: str) -> set[str]:
    """The long options of a command, as its parser knows them."""
    found: Any = typer.main.get_command(cli.app)
    context = found.make_context("karenina", command.split())
    for part in command.split():
        found = found.get_command(context, part)
    return {option for parameter in found.params for option in parameter.opts if option.startswith("--")} - {"--help"}


@pytest.mark.parametrize("command", OWN)
def test_every_option_of_every_command_is_in_the_reference(command: str) -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {command.split()[0]}\n")[1].split("\n## ")[0]
    assert {option for option in options_of(command) if option not in section} == set()


def test_every_key_of_a_result_is_in_the_reference(originals: Path) -> None:
    text = (DOCS / "formats.md").read_text(encoding="utf-8")
    result = json.loads((originals / "run" / "selection.json").read_text())
    keys = {*result, *result["guarantee"], *result["iterations"][0], *result["camps"], *result["pairs"][0]}
    assert {key for key in keys if f"`{key}`" not in text} == set()


def test_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [name for name in karenina.__all__ if not re.search(rf"\b{name}\b", text)] == ["__version__"]


# --- Why you can believe the answer ----------------------------------------------------------------------------------

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def functions_of(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=map(name_of, PAGES))
def test_tests_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`(tests/[^`*<]*)`", page.read_text(encoding="utf-8")):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), f"{name_of(page)} names {file}"
        assert not test or test in functions_of(ROOT / file), f"{name_of(page)} names {test} of {file}"


def test_every_claim_names_a_test() -> None:
    text = (DOCS / "trust.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| claim \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    rows = [row for table in tables for row in table.strip().splitlines()[2:]]
    assert len(rows) > 30
    assert [row for row in rows if not NAMED.search(row)] == []


def test_the_checker_needs_numpy_alone(here: Path) -> None:
    """It accepts a proof where every other library, and all else of karenina, is missing."""
    asked = ["pdt", "a.onnx", "b.onnx", "--domain", "domain.toml", "--certify", "proof.zip"]
    assert cli.run(asked) == 0
    code = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] == "karenina" and parts[1:2] in ([], ["checker"]):
            return None
        if parts[0] not in sys.stdlib_module_names | {"numpy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from pathlib import Path
from karenina.checker import check
print(check(Path("proof.zip")))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=here)
    assert done.stdout.startswith("proved: the largest l1 distance over all inputs"), done.stderr


def test_limits_and_assumptions_of_the_checker_are_those_of_its_code() -> None:
    limits = [reading.MOST_TEXT, reading.MOST_WEIGHTS, reading.MOST_IN_ALL, reading.MOST_LAYERS, reading.MOST_OUTPUTS]
    limits += [chain.MOST_ENTRIES, tree.MOST_OPEN, tree.MOST_BYTES]
    section = (DOCS / "certificates.md").read_text(encoding="utf-8").split("\n## Limits\n")[1].split("\n## ")[0]
    assert [2 ** int(power) for power in re.findall(r"2\^(\d+)", section)] == limits
    text = (DOCS / "trust.md").read_text(encoding="utf-8")
    assert f"right to {activations.LIBRARY / activations.UNIT:.0f} units of 2^-53" in text
    assert f"right to {chain.OPERATIONS} units in the last place" in text
