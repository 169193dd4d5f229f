"""What is installed holds all that the program reads beside its code."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout."""
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return Path(path)


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Paths in the wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


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


def test_nothing_else_is_installed_but_the_manual_page(names: set[str]) -> None:
    rest = {n for n in names if ".dist-info/" not in n and not n.startswith("postmortem/")}
    assert {n.partition(".data/")[2] for n in rest} == {"data/share/man/man1/postmortem.1"}
    assert [n for n in names if n.endswith("LICENSE")]


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 2_000_000


def test_the_sdist_holds_what_a_packager_needs(tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (path,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(path) as opened:
        found = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    wanted = set().union(
        *(below(folder) for folder in ("postmortem", "parsers", "reports", "tests", "docs", "benchmarks"))
    )
    assert wanted - found == set()
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO"} <= found
    assert not [name for name in found if name.startswith(("build/", "dist/", ".ci/"))]


def test_the_command_is_declared(names: set[str]) -> None:
    assert any(n.endswith("entry_points.txt") for n in names)
