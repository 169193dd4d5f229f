"""The cache as the command line has it: where it lies, and how it is turned off."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_errors import Run

from postmortem.cli.settings import Values


def test_rows_are_kept_unless_told_otherwise(postmortem: Run, tmp_path: Path) -> None:
    bundle, cache = tmp_path / "bundle", tmp_path / "cache"
    bundle.mkdir()
    (bundle / "node-7.log").write_text(
        "Mar 14 02:00:11 node-7 kernel: NVRM: Xid (PCI:0000:9d:00): 79, pid=1, GPU has fallen off the bus.\n",
        encoding="utf-8",
    )
    first = postmortem("analyze", bundle, "--format", "json", "-q", "--cache", "--cache-folder", cache)
    (entry,) = cache.iterdir()
    assert (entry / "manifest.json").is_file()
    again = postmortem("analyze", bundle, "--format", "json", "-q", "--cache", "--cache-folder", cache)
    none = postmortem("analyze", bundle, "--format", "json", "-q", "--no-cache", "--cache-folder", tmp_path / "other")
    assert first.stdout == again.stdout == none.stdout
    assert first.returncode == again.returncode == none.returncode == 0
    assert not (tmp_path / "other").exists()


def test_it_lies_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    values = Values((), None, "auto", None, None, None, True, None, None, (), None, None, False, None, 1.0, False, ())
    assert values.options(context=False).cache == tmp_path / "postmortem"
