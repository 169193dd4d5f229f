"""The incident's database: public tables with their documentation, readable by DuckDB 1.2 and later."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from postmortem.schema import SOURCES, TABLE_BY_NAME, TABLES, Table

STORAGE_VERSION: Final = "v1.2.0"
"""A file in the library's own default format is refused by older command-line clients."""


def connect(
    path: Path | None, work: Path, memory_limit: str = "1GB", threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """A connection whose default database is a new file at `path` (in memory without one).

    Spills into `work`; never loads extensions or reads other files on its own.
    """
    con = duckdb.connect(":memory:")
    con.execute(f"SET memory_limit = '{memory_limit}'")
    con.execute(f"SET temp_directory = '{str(work).replace(chr(39), chr(39) * 2)}'")
    con.execute("SET preserve_insertion_order = false")
    if threads:
        con.execute(f"SET threads = {threads}")
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET autoinstall_known_extensions = false")
    if path is not None:
        quoted = str(path).replace("'", "''")
        con.execute(f"ATTACH '{quoted}' AS incident (STORAGE_VERSION '{STORAGE_VERSION}')")
        con.execute("USE incident")
    return con


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def create_table(con: duckdb.DuckDBPyConnection, table: Table) -> None:
    """An empty public table, with its columns in order."""
    columns = ", ".join(f'"{c.name}" {c.type}' for c in table.columns)
    con.execute(f"CREATE TABLE {table.name} ({columns})")


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """All public tables, empty."""
    for table in TABLES:
        create_table(con, table)


def fill_from_spool(con: duckdb.DuckDBPyConnection, spool: Path, name: str, into: str | None = None) -> None:
    """Rows that decoders wrote for the public table `name`, in a stable order, into it or into a table of its layout.

    Rows without a host get their file's (`file_host`), but for cables, whose host is the far end.
    """
    pattern = spool / name / "*.parquet"
    if not any(pattern.parent.glob("*.parquet")):
        return
    table = TABLE_BY_NAME[name]
    own = "coalesce(r.host, h.host)" if "host" in table.names and name != "ports" else "NULL"
    columns = ", ".join(own if c == "host" and own != "NULL" else f'r."{c}"' for c in table.names)
    order = ", ".join(f"r.{c}" for c in ("file", "line", "rank", "pg", "counter") if c in table.names)
    con.execute(
        f"INSERT INTO {into or name} SELECT {columns} FROM read_parquet({_quote(str(pattern))}) r"
        f" LEFT JOIN file_host h USING (file) ORDER BY {order}"
    )


def document(con: duckdb.DuckDBPyConnection) -> None:
    """Comments on every public table and column, and the views per source."""
    con.execute("BEGIN")
    for table in TABLES:
        con.execute(f"COMMENT ON TABLE {table.name} IS {_quote(table.doc)}")
        for column in table.columns:
            con.execute(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {_quote(column.doc)}')
    con.execute("COMMIT")


def source_views(con: duckdb.DuckDBPyConnection) -> None:
    """One view per source over `events`, showing only the columns that the source fills."""
    names = TABLE_BY_NAME["events"].names
    counts = ", ".join(f'count("{n}") AS "{n}"' for n in names)
    rows = con.execute(f"SELECT source, {counts} FROM events GROUP BY source ORDER BY source").fetchall()
    filled = {row[0]: [n for n, k in zip(names, row[1:], strict=True) if k] for row in rows}
    for source in SOURCES:
        columns = filled.get(source, ["event_id", "ts", "host", "event", "severity", "file", "line", "message"])
        listed = ", ".join(f'"{c}"' for c in columns)
        con.execute(f'CREATE OR REPLACE VIEW "{source}" AS SELECT {listed} FROM events WHERE source = {_quote(source)}')
        con.execute(f'COMMENT ON VIEW "{source}" IS {_quote(f"events of the source {source}, columns that it fills")}')
