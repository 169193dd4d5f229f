"""Ctrl-C at any moment: exit code 130, one line, and no file that is half written."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from test_cli_errors import XID, Run


def _interrupt(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "place",
    [
        "postmortem.tables.ingest.sniff",
        "postmortem.incident.analyse",
        "postmortem.report.markdown.render",
        "pathlib.Path.replace",
    ],
)
def test_no_half_written_report(postmortem: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    bundle, out = tmp_path / "bundle", tmp_path / "out"
    bundle.mkdir()
    out.mkdir()
    (bundle / "node-7.log").write_text(XID, encoding="utf-8")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "work"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(place, _interrupt)
    arguments = [
        "-o",
        out / "a.html",
        "--markdown",
        out / "a.md",
        "--db",
        out / "a.duckdb",
        "--cache-folder",
        tmp_path / "cache",
    ]
    result = postmortem("analyze", bundle, "-q", "--cache", *arguments)
    assert (result.returncode, result.stdout, result.stderr.strip()) == (130, "", "postmortem: interrupted")
    assert list(out.iterdir()) == []
    assert list((tmp_path / "work").iterdir()) == []
