"""Public tables as files: one Parquet or CSV file each, rows in the order of their keys, read in batches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import duckdb
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from postmortem.outputs import partial
from postmortem.schema import TABLES, Table

BATCH: Final = 20_000
KEY: Final = re.compile(r"; key ([a-z_0-9, ]+)$")
Form = Literal["parquet", "csv"]


def present(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Names of the public tables that the database has (views under their names do not count)."""
    names = {
        row[0]
        for row in con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT temporary AND database_name = current_database()"
        ).fetchall()
    }
    return names & {table.name for table in TABLES}


def file_names(form: Form) -> list[str]:
    """Names of the files of an export."""
    return [f"{table.name}.{form}" for table in TABLES]


def write_tables(con: duckdb.DuckDBPyConnection, folder: Path, form: Form) -> list[tuple[str, int]]:
    """Write every public table of `con` into `folder` and return names and rows; each file is whole or as it was.

    Parquet keeps the types; CSV has times as ISO 8601 with Z and nothing for null. Memory is bounded by the connection's limit and a batch.
    """
    folder.mkdir(exist_ok=True)
    there = present(con)
    found = []
    for table in TABLES:
        if table.name in there:
            with partial(folder / f"{table.name}.{form}") as path:
                found.append((table.name, _write(con, table, path, form)))
    return found


def _write(con: duckdb.DuckDBPyConnection, table: Table, path: Path, form: Form) -> int:
    """Rows written; columns that a database of an older version lacks are left out."""
    rows = con.execute(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = ? AND NOT internal AND database_name = current_database()",
        [table.name],
    ).fetchall()
    have = {row[0] for row in rows}
    columns = [column for column in table.columns if column.name in have]
    shown = [
        f'strftime("{c.name}", \'%Y-%m-%dT%H:%M:%S.%fZ\') AS "{c.name}"'
        if form == "csv" and c.type == "TIMESTAMP"
        else f'"{c.name}"'
        for c in columns
    ]
    found = KEY.search(table.doc)
    key = [f't."{name}"' for name in (found[1].split(", ") if found else []) if name in have]
    order = f" ORDER BY {', '.join(key)}" if key else ""
    reader = con.sql(f"SELECT {', '.join(shown)} FROM {table.name} t{order}").to_arrow_reader(BATCH)
    written = 0
    with _writer(path, reader.schema, form) as out:
        for batch in reader:
            out.write_batch(batch)
            written += batch.num_rows
    return written


def _writer(path: Path, schema: pa.Schema, form: Form) -> pq.ParquetWriter | pc.CSVWriter:
    if form == "parquet":
        return pq.ParquetWriter(path, schema, compression="zstd")
    return pc.CSVWriter(path, schema)
