"""The HTML report: one file that needs no script, no network and nothing beside it."""

from __future__ import annotations

import duckdb
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from postmortem.analysis.model import Analysis
from postmortem.report.figures import visible
from postmortem.report.view import build
from postmortem.resources import data_folder


def render(analysis: Analysis, con: duckdb.DuckDBPyConnection, version: str) -> str:
    """The report as text; the same analysis and tables give the same bytes.

    `con` holds the public tables, any of which may be empty. Bulk is cut (the page says how much),
    so that the file stays below 10 MB whatever the bundle holds.
    """
    folder = data_folder("reports")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    # Ours, not the bundle's: autoescape would turn the quotes of the style sheet into entities.
    style = Markup((folder / "report.css").read_text(encoding="utf-8"))
    return environment.get_template("report.html").render(page=build(analysis, con, version), style=style)


def _printable(value: object) -> object:
    # The net under the view model: no string reaches the page with a control or bidi character in it.
    return visible(value) if type(value) is str else value
