"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared cases; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("POSTMORTEM_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared cases are not beside this checkout")
    return folder
