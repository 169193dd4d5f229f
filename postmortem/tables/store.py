"""The incident's database: public tables with their documentation, readable by DuckDB 1.2 and later."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

import duckdb

from postmortem.errors import UsageError
from postmortem.schema import SOURCES, TABLE_BY_NAME, TABLES, Table

STORAGE_VERSION: Final = "v1.2.0"
"""A file in the library's own default format is refused by older command-line clients."""
MAGIC: Final = b"DUCK"
COSTLY: Final = frozenset(
    {
        *(
            "aggregate_reuse",
            "column_lifetime",
            "common_subexpressions",
            "common_subplan",
            "compressed_materialization",
        ),
        *("cte_inlining", "duplicate_groups", "in_clause", "join_filter_pushdown", "late_materialization"),
        *("outer_join_simplification", "partial_aggregate_pushdown", "partitioned_execution", "projection_placement"),
        *(
            "projection_pullup",
            "redundant_order_keys",
            "reorder_filter",
            "self_join_aggregate",
            "statistics_propagation",
        ),
        *("top_n_window_elimination", "window_self_join"),
    }
)
"""Steps of the optimizer that change what a plan costs by a constant at most: over a few thousand rows they take longer than they save.
The order of joins and what pushes filters into them is not among them."""
MACRO: Final = re.compile(
    r"^-- ([a-z_]+\([^\n]*)\n(?=CREATE OR REPLACE MACRO ([a-z_]+)\()(CREATE [^;]*);$", re.MULTILINE
)
"""Comment, name and statement of each macro in sql/macros.sql."""


def is_database(path: Path) -> bool:
    """The file is a DuckDB database (its magic stands at byte 8)."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == MAGIC


def connect(
    path: Path | None, work: Path, memory_limit: str = "1GB", *, is_small: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection whose default database is a new file at `path` (in memory without one).

    Spills into `work`; never loads extensions or reads other files on its own. The statements of a small incident are over before a
    second thread has been woken, and are planned without the steps in COSTLY.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "temp_directory": str(work),
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "parquet_metadata_cache": "true",
    }
    if is_small:
        config["threads"] = 1
    con = duckdb.connect(":memory:", config=config)
    con.execute("SET TimeZone = 'UTC'")
    if is_small:  # a later version may have others, and refuses names that it does not know
        known = {row[0] for row in con.execute("FROM duckdb_optimizers()").fetchall()}
        con.execute(f"SET disabled_optimizers = '{','.join(sorted(COSTLY & known))}'")
    if path is not None:
        quoted = str(path).replace("'", "''")
        con.execute(f"ATTACH '{quoted}' AS incident (STORAGE_VERSION '{STORAGE_VERSION}', RECOVERY_MODE no_wal_writes)")
        con.execute("USE incident")
    return con


def read_only(
    path: Path, work: Path, memory_limit: str = "1GB", *, allow_files: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection to a finished database that can change nothing in it; it spills into `work`.

    Statements reach no other file and no network, unless `allow_files`.

    Raises UsageError when the file can't be opened.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(work),
        "memory_limit": memory_limit,
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    try:
        con = duckdb.connect(str(path), read_only=True, config=config)
        con.execute("SET GLOBAL TimeZone = 'UTC'")
        if not allow_files:
            con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise UsageError(f"{path} can't be opened: {str(error).splitlines()[0]}") from error
    return con


def attached(path: Path, work: Path, memory_limit: str) -> duckdb.DuckDBPyConnection:
    """Like `read_only`, for a file that several connections of this process may have open with settings of their own.

    The library wants all connections that are made to one file to have the same settings; this one is to a database in memory, to
    which the file is attached as `incident`. A cursor of it begins with `USE incident`.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(work),
        "memory_limit": memory_limit,
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    con = None
    try:
        con = duckdb.connect(":memory:", config=config)
        con.execute(f"ATTACH {_quote(str(path))} AS incident (READ_ONLY)")
        con.execute("USE incident")
        con.execute("SET GLOBAL TimeZone = 'UTC'")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        if con is not None:
            con.close()
        raise UsageError(f"{path} can't be opened: {str(error).splitlines()[0]}") from error
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


def macros(con: duckdb.DuckDBPyConnection) -> None:
    """The table macros of sql/macros.sql (`timeline(host)`, `who(rank)`, …), each with its comment."""
    text = files("postmortem.tables").joinpath("sql", "macros.sql").read_text(encoding="utf-8")
    for comment, name, statement in MACRO.findall(text):
        con.execute(statement)
        con.execute(f"COMMENT ON MACRO TABLE {name} IS {_quote(comment)}")
