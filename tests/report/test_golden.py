"""The report's bytes: a change of the page shows up in review.

`POSTMORTEM_UPDATE=1 pytest tests/report/test_golden.py` writes the files of golden/ anew. Our styles and scripts, and the hashes by which the page
allows them, are left out: they are files of their own. The analyses are made here, so nothing depends on machine, zone or what reads logs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from report_samples import VERSION, crash, filled, quiet, unknown

from postmortem.report.html import render
from postmortem.report.markdown import render as render_markdown
from postmortem.report.terminal import summary

FOLDER = Path(__file__).resolve().parent / "golden"
SAMPLES = {"crash": crash, "unknown": unknown, "quiet": quiet}


def without_assets(page: str) -> str:
    """The page without the text of styles and scripts of ours and without their hashes."""
    page = re.sub(r"(<(style|script)>).*?(</\2>)", r"\1(left out)\3", page, flags=re.DOTALL)
    return re.sub(r"'sha256-[A-Za-z0-9+/=]+'", "'sha256-(left out)'", page)


def made(name: str) -> str:
    """What a golden file must hold."""
    stem, _, kind = name.partition(".")
    analysis, con = SAMPLES[stem](), filled()
    if kind == "html":
        return without_assets(render(analysis, con, VERSION))
    if kind == "md":
        return render_markdown(analysis, VERSION, con)
    return summary(analysis, colour=False, width=100) + "\n"


@pytest.mark.parametrize("name", ["crash.html", "quiet.html", "crash.md", "unknown.md", "crash.txt", "unknown.txt"])
def test_the_bytes_are_those_that_were_looked_at(name: str) -> None:
    path, page = FOLDER / name, made(name)
    if os.environ.get("POSTMORTEM_UPDATE"):
        path.write_text(page, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page, "look at the difference, then run with POSTMORTEM_UPDATE=1"
    assert len(page) < 200_000
    assert page == made(name), "twice the same"


def test_no_file_is_left_over() -> None:
    assert {p.name for p in FOLDER.iterdir()} == {"crash.html", "quiet.html", "crash.md", "unknown.md", "crash.txt", "unknown.txt"}  # fmt: skip
