"""An incident's tables and answer → the same with every name masked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import duckdb
import polars as pl

from postmortem.analysis.model import Analysis
from postmortem.redaction.masks import CUTS, Masks
from postmortem.redaction.names import Names
from postmortem.schema import TABLES, Table
from postmortem.tables.store import create_table

BATCH: Final = 50_000
CUT_SHORT: Final = {("odd_lines", "text"): (120,)}
"""Columns whose texts end at a length of their own."""

ANSWER: Final = "answer"
"""Filled from the masked answer by whoever stores it."""

_HOSTS: Final = """
    SELECT host AS name, role = 'switch' AS is_switch FROM hosts UNION SELECT node, false FROM hosts UNION SELECT host, false FROM events
    UNION SELECT host, false FROM facts UNION SELECT host, false FROM files UNION SELECT host, false FROM ranks UNION SELECT node, false FROM ranks
    UNION SELECT host, false FROM gpus UNION SELECT host, false FROM nics UNION SELECT host, false FROM addresses UNION SELECT host, false FROM clocks
    UNION SELECT switch, true FROM ports UNION SELECT host, false FROM ports UNION SELECT host, false FROM counters UNION SELECT host, false FROM listed_nodes
    UNION SELECT a, true FROM joins WHERE kind = 'switch-name'
"""
_SERIALS: Final = "SELECT gpu_uuid FROM gpus UNION SELECT gpu_uuid FROM events UNION SELECT gpu_uuid FROM facts UNION SELECT serial FROM gpus"
_HARDWARE: Final = (
    "SELECT guid FROM nics UNION SELECT mac FROM nics UNION SELECT guid FROM events UNION SELECT guid FROM facts"
)

Value = TypeVar("Value")


def redact(
    con: duckdb.DuckDBPyConnection, target: duckdb.DuckDBPyConnection, analysis: Analysis, names: Names
) -> tuple[Analysis, Masks]:
    """The masked answer, and the masks; all public tables of `con` but `answer` are made in `target` with every name masked.

    `target` is a database of its own, not `con` changed in place: a file keeps bytes of rows that were overwritten.
    """
    masks = Masks.of(names)
    for table in TABLES:
        create_table(target, table)
        if table.name != ANSWER:
            _copy(con, target, table, masks)
    return masked(analysis, masks), masks


def find_names(con: duckdb.DuckDBPyConnection, analysis: Analysis) -> Names:
    """All names of the incident, of whatever kind."""
    names = Names()
    for (pod,) in con.execute("SELECT DISTINCT pod FROM events UNION SELECT DISTINCT pod FROM facts").fetchall():
        names.host(pod, "pod")
    for name, is_switch in con.execute(f"SELECT DISTINCT * FROM ({_HOSTS}) ORDER BY ALL").fetchall():
        names.host(name, "switch" if is_switch else "host")
    for sql, kind in ((_SERIALS, "serial"), (_HARDWARE, "addr")):
        for (name,) in con.execute(sql).fetchall():
            names.add(kind, (name or "").removeprefix("0x"), 6)
    names.find(pl.Series(sorted(set(_texts(analysis))), dtype=pl.String))
    for table in TABLES:
        for column in _text_columns(table):
            reader = con.sql(
                f'SELECT DISTINCT "{column}" AS v FROM {table.name} WHERE "{column}" IS NOT NULL'
            ).to_arrow_reader(BATCH)
            for batch in reader:
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                names.find(frame["v"])
    return names


def masked(value: Value, masks: Masks) -> Value:
    """A record with every text in it masked, also in records and tuples below."""
    return _masked(value, masks)  # type: ignore[no-any-return]


def _masked(value: Any, masks: Masks) -> Any:
    if isinstance(value, str):
        return str(masks.column(pl.Series([value]))[0]) if len(value) > 100 else masks.text(value)
    if isinstance(value, tuple):
        return tuple(_masked(one, masks) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{f.name: _masked(getattr(value, f.name), masks) for f in dataclasses.fields(value)}
        )
    return value


def _texts(value: Any) -> Iterator[str]:
    """All texts of a record."""
    if isinstance(value, str):
        yield value.encode("utf-8", "replace").decode()
    elif isinstance(value, tuple):
        for one in value:
            yield from _texts(one)
    elif dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            yield from _texts(getattr(value, f.name))


def _text_columns(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.type == "VARCHAR"]


def _copy(con: duckdb.DuckDBPyConnection, target: duckdb.DuckDBPyConnection, table: Table, masks: Masks) -> None:
    """The rows of one table, in their order."""
    columns = ", ".join(f'"{name}"' for name in table.names)
    reader = con.sql(f"SELECT {columns} FROM {table.name} ORDER BY rowid").to_arrow_reader(BATCH)
    for batch in reader:
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        frame = frame.with_columns(
            masks.column(frame[name], CUT_SHORT.get((table.name, name), CUTS)).alias(name)
            for name in _text_columns(table)
        )
        target.register("masked_rows", frame)
        target.execute(f"INSERT INTO {table.name} SELECT {columns} FROM masked_rows")
        target.unregister("masked_rows")
