"""Statements that are left out where their input is empty: that the claim holds, and that the tables they leave behind have the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from postmortem.incident import Options, open_incident
from postmortem.tables.statements import Statement, columns_of, layouts, parsed, run

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = "postmortem.analysis"
FILES = sorted(p.name for p in (ROOT / "postmortem" / "analysis" / "sql").glob("*.sql"))
CONDITIONAL = [s for file in FILES for s in parsed(PACKAGE, file) if s.needs]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """All samples analysed as one bundle: most tables have rows."""
    with open_incident([ROOT / "sample_logs"], Options(workers=1, context=False)) as incident:
        yield incident.con


def emptied(con: duckdb.DuckDBPyConnection, group: tuple[str, ...]) -> None:
    """Take away all that a group of words names."""
    for word in group:
        if word.startswith("="):
            con.execute("DELETE FROM events WHERE source = ?", [word[1:]])
        elif "." in word:
            con.execute("DELETE FROM events WHERE event = ?", [word])
            con.execute("DELETE FROM facts WHERE fact = ?", [word])
        else:
            con.execute(f"DELETE FROM {word}")


def rows_of(con: duckdb.DuckDBPyConnection, s: Statement) -> int:
    """Rows that the statement gives or changes."""
    if s.makes:
        con.execute(f"DROP TABLE {s.makes}")
    row = con.execute(s.sql).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("s", CONDITIONAL, ids=[s.name for s in CONDITIONAL])
def test_without_what_it_needs_a_statement_does_nothing(con: duckdb.DuckDBPyConnection, s: Statement) -> None:
    for group in s.needs:
        if s.makes in group or any("." not in w and not w.startswith("=") and not _has(con, w) for w in group):
            continue
        con.execute("BEGIN")
        try:
            emptied(con, group)
            assert rows_of(con, s) == 0, f"{s.name} has rows without {' and '.join(group)}"
        finally:
            con.execute("ROLLBACK")


PARTED = [(s, n) for file in FILES for s in parsed(PACKAGE, file) for n, (need, _) in enumerate(s.parts) if need]


@pytest.mark.parametrize(("s", "number"), PARTED, ids=[f"{s.name}-{n}" for s, n in PARTED])
def test_without_what_it_needs_a_part_adds_nothing(con: duckdb.DuckDBPyConnection, s: Statement, number: int) -> None:
    rest = "\n".join(text for n, (_, text) in enumerate(s.parts) if n != number)
    for group in s.parts[number][0]:
        con.execute("BEGIN")
        try:
            emptied(con, group)
            assert written(con, s, s.sql) == written(con, s, rest), f"{s.name} has rows without {' and '.join(group)}"
        finally:
            con.execute("ROLLBACK")


def written(con: duckdb.DuckDBPyConnection, s: Statement, sql: str) -> list[tuple[object, ...]]:
    """What the table of the statement holds when it alone writes it, by this text."""
    con.execute(f"DROP TABLE {s.makes}" if s.makes else f"DELETE FROM {s.fills}")
    con.execute(sql)
    return sorted(con.execute(f"FROM {s.fills}").fetchall(), key=repr)


def _has(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    found = con.execute(f"SELECT EXISTS (FROM {table})").fetchone()
    return bool(found and found[0])


@pytest.mark.parametrize("s", [s for s in CONDITIONAL if s.makes], ids=lambda s: s.makes)
def test_the_layout_of_an_empty_table_is_that_of_the_statement(con: duckdb.DuckDBPyConnection, s: Statement) -> None:
    assert s.makes is not None
    digest, columns = layouts(PACKAGE).get(s.makes, ("", ""))
    assert digest == s.digest, "the statement has changed: run python benchmarks/layouts.py"
    con.execute("BEGIN")
    try:
        rows_of(con, s)
        assert columns_of(con, s.makes) == columns
    finally:
        con.execute("ROLLBACK")


def test_a_statement_runs_when_its_input_comes_from_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_package"
    (package / "sql").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    (package / "sql" / "two.sql").write_text(
        "-- name: one\n-- needs: given\nCREATE TEMP TABLE one AS SELECT * FROM given;\n\n"
        "-- name: two\n-- needs: one\nINSERT INTO result SELECT i FROM one;\n\n"
        "-- name: three\n-- needs: no.such_event | missing\nINSERT INTO result SELECT 100;\n"
    )
    with duckdb.connect() as con:
        for table in ("given", "missing", "result"):
            con.execute(f"CREATE TABLE {table} (i INTEGER)")
        con.execute("CREATE TABLE events (event VARCHAR, source VARCHAR)")
        con.execute("CREATE TABLE facts (fact VARCHAR)")
        con.execute("INSERT INTO given VALUES (7)")
        run(con, "some_package", "two.sql")
        assert con.execute("FROM result").fetchall() == [(7,)]
