"""What is installed holds all that the program reads beside its code."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Paths in a wheel built from this checkout."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(path) as wheel:
        return set(wheel.namelist())


def below(folder: str) -> set[str]:
    return {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and not p.name.startswith(".")
    }


def test_the_code_and_its_data_are_there(names: set[str]) -> None:
    wanted = below("postmortem")
    assert any(n.endswith(".sql") for n in wanted)
    assert any(n.endswith(".toml") for n in wanted)
    assert wanted - names == set()


@pytest.mark.parametrize("folder", ["parsers", "reports"])
def test_the_data_folders_are_inside_the_package(names: set[str], folder: str) -> None:
    wanted = {f"postmortem/{n}" for n in below(folder)}
    assert wanted
    assert wanted - names == set()


def test_nothing_else_is_installed(names: set[str]) -> None:
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"postmortem"}
    assert [n for n in names if n.endswith("LICENSE")]


def test_the_command_is_declared(names: set[str]) -> None:
    assert any(n.endswith("entry_points.txt") for n in names)
