"""The report's bytes: a change of the page shows up in review.

`POSTMORTEM_UPDATE=1 pytest tests/report/test_golden.py` writes the files of golden/ anew. Our styles and scripts, and the hashes by which the page
allows them, are left out: they are files of their own. Most analyses are made here, so nothing depends on machine, zone or what reads logs; two are of
real samples, from their logs on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb
import pytest
from report_samples import VERSION, crash, filled, quiet, unknown

from postmortem.analysis.model import Analysis
from postmortem.incident import Options, open_incident
from postmortem.report.html import render
from postmortem.report.markdown import render as render_markdown
from postmortem.report.terminal import summary

FOLDER = Path(__file__).resolve().parent / "golden"
LOGS = Path(__file__).resolve().parents[2] / "sample_logs"
SAMPLES = {"crash": crash, "unknown": unknown, "quiet": quiet}
MADE = ("crash.html", "quiet.html", "crash.md", "unknown.md", "crash.txt", "unknown.txt")
REAL = ("link-flap", "software-exception")
KINDS = ("html", "md", "txt")


def without_assets(page: str) -> str:
    """The page without the text of styles and scripts of ours and without their hashes."""
    page = re.sub(r"(<(style|script)>).*?(</\2>)", r"\1(left out)\3", page, flags=re.DOTALL)
    return re.sub(r"'sha256-[A-Za-z0-9+/=]+'", "'sha256-(left out)'", page)


def page_of(kind: str, analysis: Analysis, con: duckdb.DuckDBPyConnection) -> str:
    """What a golden file of that kind holds."""
    if kind == "html":
        return without_assets(render(analysis, con, VERSION))
    if kind == "md":
        return render_markdown(analysis, VERSION, con)
    return summary(analysis, colour=False, width=100) + "\n"


def made(name: str) -> str:
    """The page of an analysis of report_samples."""
    stem, _, kind = name.partition(".")
    return page_of(kind, SAMPLES[stem](), filled())


def compare(name: str, page: str) -> None:
    """Raises AssertionError unless the golden file is this page."""
    path = FOLDER / name
    if os.environ.get("POSTMORTEM_UPDATE"):
        path.write_text(page, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page, "look at the difference, then run with POSTMORTEM_UPDATE=1"
    assert len(page) < 200_000


@pytest.mark.parametrize("name", MADE)
def test_the_bytes_are_those_that_were_looked_at(name: str) -> None:
    page = made(name)
    compare(name, page)
    assert page == made(name), "twice the same"


@pytest.mark.parametrize("name", REAL)
def test_a_sample_gives_the_bytes_that_were_looked_at(name: str, tmp_path: Path) -> None:
    """From a copy whose files are of now and lie in another folder: neither is in the report."""
    bundle = tmp_path / "bundle"
    for path in (LOGS / name / "bundle").rglob("*"):
        if path.is_file():
            copy = bundle / path.relative_to(LOGS / name / "bundle")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    with open_incident([bundle], Options(workers=1)) as incident:
        for kind in KINDS:
            compare(f"{name}.{kind}", page_of(kind, incident.analysis, incident.con))


def test_no_file_is_left_over() -> None:
    assert {p.name for p in FOLDER.iterdir()} == {*MADE, *(f"{name}.{kind}" for name in REAL for kind in KINDS)}
