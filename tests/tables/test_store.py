"""The database: documented, complete, and readable by older clients."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from postmortem.incident import Options, open_incident
from postmortem.schema import SOURCES, TABLES
from postmortem.tables.store import COSTLY, STORAGE_VERSION, connect

LINE = "2026-02-03T14:02:11.318000+00:00 node-7 kernel: [ 9.5] NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    (folder / "bundle").mkdir()
    (folder / "bundle" / "kern.log").write_text(LINE * 3)
    target = folder / "it's.duckdb"
    with open_incident([folder / "bundle"], Options(workers=1, context=False), with_file=True) as incident:
        incident.con.close()
        assert incident.db_path is not None
        target.write_bytes(incident.db_path.read_bytes())
    return target


@pytest.fixture
def con(database: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(database), read_only=True)


def test_every_table_has_its_columns_and_comments(con: duckdb.DuckDBPyConnection) -> None:
    comments = dict(con.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall())
    assert comments == {t.name: t.doc for t in TABLES}
    rows = con.execute(
        "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal"
    ).fetchall()
    tables = {t.name for t in TABLES}
    expected = {(t.name, c.name, c.type, c.doc) for t in TABLES for c in t.columns}
    assert {r for r in rows if r[0] in tables} == expected


def test_there_is_a_view_per_source(con: duckdb.DuckDBPyConnection) -> None:
    views = {r[0] for r in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    assert views == set(SOURCES)
    assert con.execute("SELECT count(*), min(xid), min(pci) FROM kernel").fetchall() == [(3, 79, "0000:9d:00.0")]
    assert con.execute("SELECT count(*) FROM switch").fetchall() == [(0,)]


def test_nothing_but_the_public_tables_is_left(con: duckdb.DuckDBPyConnection) -> None:
    names = {r[0] for r in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert names == {t.name for t in TABLES}


def test_the_file_has_the_older_storage_version(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert STORAGE_VERSION in str(rows[0][0])


def test_every_event_says_where_it_was_read(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute('SELECT file, line, "offset", text FROM events ORDER BY event_id').fetchall()
    assert rows == [("kern.log", n + 1, n * len(LINE), LINE.rstrip()) for n in range(3)]


def test_coverage_counts_the_whole_file(con: duckdb.DuckDBPyConnection) -> None:
    row = con.execute("SELECT bytes, lines, recognised, events, odd, sources FROM coverage").fetchall()
    assert row == [(3 * len(LINE), 3, 3, 3, 0, "kernel")]


def test_a_small_incident_is_planned_without_the_costly_steps(tmp_path: Path) -> None:
    with connect(None, tmp_path, is_small=True) as con:
        row = con.execute("SELECT current_setting('threads'), current_setting('disabled_optimizers')").fetchone()
        assert row is not None
        assert (int(row[0]), frozenset(row[1].split(","))) == (1, COSTLY)
    with connect(None, tmp_path) as con:
        assert con.execute("SELECT current_setting('disabled_optimizers')").fetchone() == ("",)
