"""Asking for help costs little: the heavy libraries stay out of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from postmortem import __version__

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("polars", "duckdb", "pyarrow", "jinja2", "numpy", "zstandard")
PROGRAM = """
import sys
from postmortem.cli import main
try:
    main()
finally:
    print([m for m in %r if m in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "verb", [[], ["analyze"], ["query"], ["shell"], ["export"], ["formats"], ["formats", "lint"]], ids=" ".join
)
def test_help_imports_nothing_heavy(verb: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM % (HEAVY,), *verb, "--help"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.returncode == 0
    assert "Usage: " in result.stdout
    assert result.stderr.strip() == "[]"


def test_version() -> None:
    command = [sys.executable, "-c", "from postmortem.cli import main; main()", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (result.returncode, result.stdout.strip().endswith(__version__)) == (0, True)


def test_the_reader_may_go_away() -> None:
    command = f"{sys.executable} -c 'from postmortem.cli import main; main()' formats list | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert "Traceback" not in result.stderr
    assert len(result.stdout.splitlines()) == 1
