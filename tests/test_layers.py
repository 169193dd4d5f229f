"""Imports point one way: cli, report, analysis, tables, then decoders and catalogue, lines, bundle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "postmortem"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Lower is nearer to the bytes. What has the same number may not import each other.
LEVEL = {
    "bundle": 1,
    "lines": 1,
    "decoders": 2,
    "catalogue": 2,
    "engine": 1,
    "tables": 3,
    "analysis": 4,
    "redaction": 5,
    "report": 5,
    "incident": 6,
    "cli": 7,
    "api": 7,
    "": 8,
}
FOR_ALL = {"schema", "errors", "resources", "outputs", "patterns", "prepared", "zone"}
FOREIGN = {
    "click": {"cli"},
    "jinja2": {"report"},
    "duckdb": {"cli", "api", "report", "analysis", "tables", "incident", "redaction"},
    "zstandard": {"bundle"},
    "polars": {"lines", "catalogue", "decoders", "tables", "analysis", "report", "cli", "api", "redaction"},
}


def part(path: Path) -> str:
    """The package or module of `postmortem` that a file belongs to; empty for its own __init__."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py") if first != "__init__.py" else ""


def imports(path: Path) -> Iterator[str]:
    """Dotted names of what a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "postmortem")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_point_down(path: Path) -> None:
    own = part(path)
    for name in imports(path):
        words = name.split(".")
        if words[0] == "postmortem" and len(words) > 1 and words[1] in LEVEL:
            assert own not in FOR_ALL, f"{own} is for all and imports {name}"
            assert words[1] == own or LEVEL[words[1]] < LEVEL[own], f"{own} imports {name}"
        if words[0] in FOREIGN:
            assert own in FOREIGN[words[0]], f"{own} imports {words[0]}"


def test_every_part_has_its_place() -> None:
    assert {part(p) for p in MODULES} == set(LEVEL) | FOR_ALL


def test_the_engine_knows_no_format() -> None:
    for path in MODULES:
        if part(path) == "engine":
            assert [n for n in imports(path) if n.startswith("postmortem")] == []


@pytest.mark.parametrize("word", ["pickle.load(", "pickle.loads(", "eval(", "exec(", "except Exception", "yaml.load("])
def test_words_that_are_nowhere(word: str) -> None:
    found = [p.name for p in MODULES if any(w == word for w in calls(p))]
    assert found == []


def calls(path: Path) -> Iterator[str]:
    """Calls as `name(` or `module.name(`, and handlers as `except Name`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield f"{node.func.id}("
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield f"{ast.unparse(node.func)}("
        elif isinstance(node, ast.ExceptHandler):
            yield f"except {ast.unparse(node.type) if node.type else 'Exception'}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_modules_stay_small(path: Path) -> None:
    # A table of all columns is no code to be parted.
    assert path.name == "schema.py" or len(path.read_text(encoding="utf-8").splitlines()) < 400
