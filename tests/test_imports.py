"""The shape of the house: which module may import which, what is public, and what importing costs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import karenina

SOURCE = Path(karenina.__file__).parent

# A module imports only from those before it. The later ones may not exist yet.
ORDER = (
    "checker",  # first: it trusts nothing else
    "errors",
    "printable",
    "text_file",
    "array_file",
    "s_expression",
    "vnnlib_parser",
    "onnx_writer",
    "network",
    "loading",
    "domain",
    "domain_data",
    "query",
    "vnnlib",
    "domain_file",
    "distance",
    "engine",
    "backends",
    "disagreement",
    "selection",
    "store",
    "execution",
    "certificate",
    "report",
    "presentation",
    "cli",
    "zoo",
    "experiments",
)
CORE_LIBRARIES = {"torch", "numpy", "onnx"}
MAY_NEED_MORE = ("backends", "zoo", "experiments")
COMPILED = tuple(
    f"engine.{name}"
    for name in (
        "lanes",
        "room",
        "forward",
        "near",
        "box",
        "tighten_box",
        "explore",
        "abreast_room",
        "abreast_lines",
        "abreast",
        "abreast_steps",
        "explore_abreast",
        "climb",
        "tableau",
        "dive",
        "record",
    )
)
# Third-party imports at the top of a core module or of a package's modules, each with its reason.
ALLOWED = {
    ("cli", "typer"),  # the command line, all of it, is the one place that parses arguments
    ("engine.lines", "numba"),  # compiled code cannot be lazy: `engine.compiled` imports it where numba is
    *((name, "numba") for name in COMPILED),  # through `engine.lines`
    ("engine.lanes", "llvmlite"),  # which comes with numba
}


def module_name(path: Path) -> str:
    """`engine.bounds` for src/karenina/engine/bounds.py; the package itself is `__init__`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
PUBLIC = [name for name in FILES if not any(part.startswith("_") for part in name.split("."))]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported(node: ast.AST, lazy: bool = True) -> Iterator[str]:
    """Full names of what the code imports when it runs; with lazy, inside functions too."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif lazy or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(child, lazy)


def parsed(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


def test_every_module_has_its_place() -> None:
    assert {name.split(".")[0] for name in FILES} - {"__init__"} <= set(ORDER)


@pytest.mark.parametrize("name", [name for name in FILES if name != "__init__"])
def test_imports_point_one_way(name: str) -> None:
    own = name.split(".")[0]
    used = {full.split(".")[1] for full in imported(parsed(name)) if full.startswith("karenina.")}
    assert used - {own} <= set(ORDER[: ORDER.index(own)]), f"{name} imports what comes after it"


@pytest.mark.parametrize("name", [name for name in FILES if name.split(".")[0] not in MAY_NEED_MORE])
def test_the_core_needs_torch_numpy_and_onnx_alone(name: str) -> None:
    libraries = {full.split(".")[0] for full in imported(parsed(name), lazy=False)}
    foreign = libraries - sys.stdlib_module_names - CORE_LIBRARIES - {"karenina"}
    assert {library for library in foreign if not {(name, library), (name.split(".")[0], library)} & ALLOWED} == set()


@pytest.mark.parametrize("name", [*PUBLIC, "__init__"])
def test_all_is_complete_and_true(name: str) -> None:
    optional = {
        **dict.fromkeys(("engine.lines", *COMPILED), "numba"),
        "backends.marabou_worker": "maraboupy",
    }
    if name in optional and importlib.util.find_spec(optional[name]) is None:
        pytest.skip(f"{optional[name]} is not installed")
    module = importlib.import_module("karenina" if name == "__init__" else f"karenina.{name}")
    public = getattr(module, "__all__", None)
    assert public is not None, f"{name} has no __all__"
    assert len(public) == len(set(public))
    assert [missing for missing in public if not hasattr(module, missing)] == []
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = parsed(name).body
    defined = {node.name for node in body if isinstance(node, definitions) and not node.name.startswith("_")}
    assert defined <= set(public)


def run(code: str) -> str:
    """What the code prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["karenina", "karenina.cli", "karenina.backends"])
def test_importing_is_cheap(module: str) -> None:
    heavy = ["torch", "numpy", "onnx"]
    code = f"import sys, {module}; print([library for library in {heavy} if library in sys.modules])"
    assert run(code).strip() == "[]"


def normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def closure(distributions: set[str]) -> set[str]:
    """The distributions and all that they need, extras aside."""
    found: set[str] = set()
    todo = set(distributions)
    while todo:
        name = todo.pop()
        found.add(name)
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # needed on another platform only
            continue
        names = {re.split(r"[^A-Za-z0-9._-]", need)[0] for need in needs if "extra ==" not in need}
        todo |= {normalised(need) for need in names} - found
    return found


def foreign_modules() -> list[str]:
    """Top-level modules installed here that do not come with torch, numpy and onnx."""
    core = closure(CORE_LIBRARIES) | {"karenina"}
    owners = metadata.packages_distributions()
    return [module for module in owners if not {normalised(owner) for owner in owners[module]} & core]


def test_the_core_runs_on_a_bare_machine() -> None:
    """Every core module is imported where all other third-party modules are missing."""
    foreign = foreign_modules()
    assert {"highspy", "typer", "safetensors", "onnxruntime"} <= set(foreign)
    assert not CORE_LIBRARIES & set(foreign)
    more = {name for name, _ in ALLOWED} | set(MAY_NEED_MORE)
    core = [f"karenina.{name}" for name in PUBLIC if not {name, name.split(".")[0]} & more]
    code = f"""
import importlib, json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in FOREIGN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

FOREIGN = set(json.loads({json.dumps(foreign)!r}))
sys.meta_path.insert(0, Missing())
for module in {core}:
    importlib.import_module(module)
print("imported")
"""
    assert run(code).strip() == "imported"
