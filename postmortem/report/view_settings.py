"""Settings of the job and the words that the report uses, as rows of the report."""

from __future__ import annotations

import re
import tomllib
from functools import cache

import duckdb

from postmortem.report.figures import plural
from postmortem.report.queries import settings, switch_names
from postmortem.report.view_rows import TextTable, words
from postmortem.resources import data_folder

ROWS = 60


def settings_table(con: duckdb.DuckDBPyConnection) -> TextTable:
    """Versions, environment and arguments that the job's lines state; a value that differs between hosts has rows of its own."""
    found = settings(con, ROWS + 1)
    rows = tuple(
        (words(name, 120), words(value, 300), plural(hosts, "host") if hosts else "", words(f"{file}:{line}", 300))
        for name, value, hosts, file, line in found[:ROWS]
    )
    heads = ("setting", "value", "printed by", "first line")
    return TextTable(
        "What the job's own lines say of how it was set up", heads, frozenset(), rows, max(0, len(found) - ROWS)
    )


def switch_names_table(con: duckdb.DuckDBPyConnection) -> TextTable:
    """Switches that go by a name that the user gave, and the names that lines print for them."""
    found = switch_names(con, ROWS + 1)
    rows = tuple(
        (words(printed, 200), words(name, 200), words(f"{file}:{line}", 300))
        for printed, name, file, line in found[:ROWS]
    )
    heads = ("printed", "shown here as", "first line")
    return TextTable(
        "Switches under names that were given for them", heads, frozenset(), rows, max(0, len(found) - ROWS)
    )


@cache
def _glossary() -> dict[str, dict[str, str]]:
    loaded: dict[str, dict[str, str]] = tomllib.loads(
        (data_folder("reports") / "glossary.toml").read_text(encoding="utf-8")
    )
    return loaded


def glossary(page: str) -> tuple[tuple[str, str], ...]:
    """(term, meaning) of the terms that occur in `page`, the text of a report, in alphabetical order."""
    return tuple(
        (term, entry["meaning"])
        for term, entry in sorted(_glossary().items(), key=lambda item: item[0].lower())
        if re.search(
            entry.get("pattern", rf"\b{re.escape(term)}s?\b"), page, re.IGNORECASE if "pattern" not in entry else 0
        )
    )
