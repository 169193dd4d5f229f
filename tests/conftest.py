"""Fixtures that several tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postmortem.catalogue.definition import load_folders
from postmortem.catalogue.matcher import Matcher

if TYPE_CHECKING:
    from postmortem.incident import Incident

ROOT = Path(__file__).resolve().parent.parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Analyse = Callable[[Mapping[str, str | bytes]], "Incident"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared cases; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("POSTMORTEM_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared cases are not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def matcher() -> Matcher:
    """The whole catalogue, compiled once."""
    return Matcher(load_folders([ROOT / "parsers"]))


@pytest.fixture
def postmortem(tmp_path: Path) -> Run:
    """Runs the command line in a process of its own, in an empty folder, as a user does."""
    place = tmp_path / "cwd"
    place.mkdir()

    def run(*arguments: object, stdin: str = "", cwd: Path = place) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from postmortem.cli import main; main()", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120
        )

    return run


@pytest.fixture
def analyse(tmp_path: Path) -> Any:
    """Writes the given files as a bundle and analyses them in this process; the incident is closed after the test."""
    # Imported here: tests of the lower layers need nothing of the upper ones.
    from postmortem.incident import Options, open_incident

    opened: list[Incident] = []

    def run(files: Mapping[str, str | bytes]) -> Incident:
        bundle = tmp_path / f"bundle-{len(opened)}"
        for name, content in files.items():
            path = bundle / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        incident = open_incident([bundle], Options(workers=1, context=False))
        opened.append(incident)
        return incident

    yield run
    for incident in opened:
        incident.close()
