"""docs/schema.md from postmortem.schema: `python -m postmortem.tables.docs > docs/schema.md`.

The sentences are those that `COMMENT ON` carries into the database, so that the page and a shell say the same.
"""

from __future__ import annotations

import sys
from typing import Final

from postmortem.schema import CAUSES, ENTITY, EVENTS, SCHEMA_VERSION, SOURCES, TABLES, VERDICT_ONLY, Column, Table

_HEAD: Final = f"""\
<!-- Generated from postmortem/schema.py by `python -m postmortem.tables.docs > docs/schema.md`; change it there. -->
# Tables

Schema {SCHEMA_VERSION}. `postmortem analyze BUNDLE --db FILE` writes these tables into a DuckDB file; `postmortem query` and
`postmortem shell` show them for a file or straight from a bundle. The same sentences are in the database:
`SELECT table_name, column_name, comment FROM duckdb_columns()`.

Times are UTC without a zone, microseconds. What is not known is null. A table that has no rows is there, empty.
`file` and `line` lead back to the bundle: the path inside it (archives are separated by `!/`) and the 1-based line in
the uncompressed member.
"""


def schema_page() -> str:
    """The whole page: contents, one section per table, the views, the closed sets of words."""
    contents = "\n".join(f"- [`{t.name}`](#{t.name}): {_about(t)[0]}" for t in TABLES)
    sections = "\n".join(_section(t) for t in TABLES)
    return "\n".join([_HEAD, contents, "", sections, _views(), _words()])


def _about(table: Table) -> tuple[str, str]:
    """(what one row is, its key) of the table's sentence, which ends in `; key a, b`."""
    what, _, key = table.doc.rpartition("; key ")
    return (what, key) if what else (table.doc, "")


def _section(table: Table) -> str:
    what, key = _about(table)
    keys = ", ".join(f"`{k.strip()}`" for k in key.split(","))
    head = f"## {table.name}\n\n{what[0].upper()}{what[1:]}." + (f" Key: {keys}." if key else "")
    columns = table.columns
    note = ""
    if table.name == "facts":
        # Its last columns are those that events lists already; a second list of eighty rows would only hide the first ones.
        columns = columns[: len(columns) - len(ENTITY)]
        first, last = f"`{ENTITY[0].name}`", f"`{ENTITY[-1].name}`"
        note = f"\nThen the columns {first} to {last} of [`events`](#events), as far as the line states them.\n"
    return f"{head}\n\n{_columns(columns)}\n{note}"


def _columns(columns: tuple[Column, ...]) -> str:
    rows = [f"| `{c.name}` | {c.type} | {c.doc.replace('|', chr(92) + '|')} |" for c in columns]
    return "\n".join(["| column | type | meaning |", "| --- | --- | --- |", *rows])


def _views() -> str:
    listed = ", ".join(f"`{s}`" for s in SOURCES)
    return f"""\
## Views per source

{listed}: the rows of `events` of that source, with only the columns that some row of it fills. A source without rows
shows `event_id`, `ts`, `host`, `event`, `severity`, `file`, `line`, `message`.
"""


def _words() -> str:
    rows = [f"| {family} | {' '.join(f'`{name}`' for name in names)} |" for family, names in EVENTS.items()]
    causes = " ".join(f"`{c}`" for c in CAUSES)
    return "\n".join(
        [
            "## Words",
            "",
            "Names that `event` may have:",
            "",
            "| family | events |",
            "| --- | --- |",
            *rows,
            "",
            f"Names that `cause` may have: {causes}; as a verdict only: `{VERDICT_ONLY}`. What speaks for each: [causes.md](causes.md).",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(schema_page())
