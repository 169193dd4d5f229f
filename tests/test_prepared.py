"""Data files are read from what was prepared of them, with the same content."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from postmortem import prepared

FOLDER = Path(prepared.__file__).parent / "analysis"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda p: p.name)
def test_a_toml_file_is_the_same_made_and_prepared(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_folder", lambda: tmp_path)
    wanted = tomllib.loads(path.read_text(encoding="utf-8"))
    assert prepared.prepared_toml("postmortem.analysis", path.name) == wanted
    monkeypatch.setattr(tomllib, "loads", None)  # whoever reads TOML again fails
    assert prepared.prepared_toml("postmortem.analysis", path.name) == wanted
