"""`query`, `shell` and `formats`: what they print, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import duckdb
import polars as pl
import pytest


class Result(Protocol):
    """What a run of the command line gave."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Result]
XID = "2026-02-03T14:02:11.318000+00:00 node-7 kernel: [ 9.5] NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.\n"
SQL = "SELECT ts, host, event, xid, rank FROM events ORDER BY event_id"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An incident's file, made once."""
    from postmortem.incident import Options, open_incident

    folder = tmp_path_factory.mktemp("query")
    (folder / "kern.log").write_text(XID)
    with open_incident([folder / "kern.log"], Options(workers=1, context=False), with_file=True) as incident:
        incident.con.close()
        assert incident.db_path is not None
        (folder / "incident.duckdb").write_bytes(incident.db_path.read_bytes())
    return folder / "incident.duckdb"


def good(result: Result) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_json(postmortem: Run, database: Path) -> None:
    (row,) = json.loads(good(postmortem("query", database, SQL, "--format", "json")))
    expected = {"host": "node-7", "event": "gpu.xid", "xid": 79, "rank": None}
    assert row == {"ts": "2026-02-03T14:02:11.318000Z", **expected}


def test_csv(postmortem: Run, database: Path) -> None:
    rows = list(csv.reader(io.StringIO(good(postmortem("query", database, SQL, "--format", "csv")))))
    assert rows == [
        ["ts", "host", "event", "xid", "rank"],
        ["2026-02-03T14:02:11.318000Z", "node-7", "gpu.xid", "79", ""],
    ]


def test_table(postmortem: Run, database: Path) -> None:
    lines = good(
        postmortem("query", database, "SELECT 'a' || chr(27) || 'b' AS x, NULL AS y, 5 AS long_name")
    ).splitlines()
    assert lines == ["x       y  long_name", "------  -  ---------", "a\\x1bb     5", "(1 row)"]


def test_parquet(postmortem: Run, database: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    good(postmortem("query", database, SQL, "--format", "parquet", "-o", target))
    assert pl.read_parquet(target)["xid"].to_list() == [79]
    assert postmortem("query", database, SQL, "--format", "parquet", "-o", target).returncode == 2
    result = postmortem("query", database, SQL, "--format", "parquet")
    assert (result.returncode, "-o" in result.stderr) == (2, True)
    for sql in ("", "SELEC", "COPY events TO 'x.csv'"):
        result = postmortem("query", database, sql, "--format", "parquet", "-o", tmp_path / "other.parquet")
        assert (result.returncode, len(result.stderr.strip().splitlines())) == (2, 1)


def test_statement_from_stdin_and_output_to_a_file(postmortem: Run, database: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    assert good(postmortem("query", database, "-", "--format", "csv", "-o", target, stdin="SELECT 1 AS one")) == ""
    assert target.read_text() == "one\n1\n"


def test_statements_from_a_file(postmortem: Run, database: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.sql"
    path.write_text("\ufeff-- two statements, rows of the last\nSELECT 1 AS one;\nSELECT 2 AS two;\n")
    for option in ("-f", "--file"):
        assert good(postmortem("query", database, option, path, "--format", "csv")) == "two\n2\n"
    assert good(postmortem("query", database, "-f", "-", "--format", "csv", stdin="SELECT 3 AS t")) == "t\n3\n"
    path.write_bytes(b"SELECT '\xff'")
    for wrong, why in ((path, "no UTF-8"), (tmp_path / "absent.sql", "No such file"), (tmp_path, "Is a directory")):
        result = postmortem("query", database, "-f", wrong)
        assert (result.returncode, len(result.stderr.splitlines()), why in result.stderr) == (2, 1, True)
    assert postmortem("query", database, "SELECT 1", "-f", path).returncode == 2
    assert postmortem("query", database).returncode == 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELEC 1",
        "SELECT * FROM nothing",
        "SELECT nothing FROM events",
        "",
        "DROP TABLE events",
        "INSERT INTO losses VALUES (1)",
        *["SELECT * FROM read_csv('kern.log')", "COPY events TO 'x.csv'", "SELECT 1 / 'a'", "ATTACH 'other.db'"],
    ],
)
def test_refused_statements(postmortem: Run, database: Path, sql: str) -> None:
    before = database.read_bytes()
    result = postmortem("query", database, sql)
    assert result.returncode == 2, result.stdout
    assert len(result.stderr.strip().splitlines()) == 1
    assert database.read_bytes() == before


def test_a_bundle_is_analysed_first(postmortem: Run, database: Path) -> None:
    rows = json.loads(good(postmortem("query", database.parent / "kern.log", SQL, "--format", "json")))
    assert [r["xid"] for r in rows] == [79]


def test_what_can_not_be_queried(postmortem: Run, tmp_path: Path) -> None:
    assert postmortem("query", tmp_path / "absent", "SELECT 1").returncode == 2
    (tmp_path / "x.txt").write_text("nothing\n")
    assert postmortem("query", tmp_path / "x.txt", "SELECT 1").returncode == 3
    (tmp_path / "x.duckdb").write_bytes(b"12345678DUCK" + bytes(100))
    result = postmortem("query", tmp_path / "x.duckdb", "SELECT 1")
    assert (result.returncode, len(result.stderr.strip().splitlines())) == (2, 1)


def test_a_database_of_something_else(postmortem: Run, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "other.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 7 AS x")
    assert json.loads(good(postmortem("query", tmp_path / "other.duckdb", "FROM t", "--format", "json"))) == [{"x": 7}]


def test_shell_reads_statements(postmortem: Run, database: Path) -> None:
    stdin = "SELECT xid\nFROM events;\n\n;\nSELEC 1;\nSELECT 'still here' AS x;\nexit\nSELECT 'not this' AS x;\n"
    result = postmortem("shell", "--plain", database, stdin=stdin)
    out = good(result)
    assert ("79" in out, "still here" in out, "not this" in out) == (True, True, False)
    assert result.stderr.count("error: ") == 1
    assert "events (1)" in result.stderr


def test_shell_changes_nothing(postmortem: Run, database: Path) -> None:
    before = database.read_bytes()
    result = postmortem("shell", "--plain", database, stdin="DELETE FROM events;\n")
    assert "read-only" in result.stderr
    assert database.read_bytes() == before


DEFINITION = """\
source = "kernel"
[[message]]
event = "gpu.xid"
severity = "error"
contains = "FROB: Xid"
pattern = '^FROB: Xid (?P<xid>[0-9]+)$'
[[message.sample]]
line = "FROB: Xid 79"
fields = { xid = 79 }
"""


def test_formats_list(postmortem: Run) -> None:
    result = postmortem("formats", "list", "--event", "gpu.xid")
    lines = good(result).splitlines()
    assert lines
    assert all(line.split()[1] == "gpu.xid" for line in lines)
    assert postmortem("formats", "list", "--event", "gpu.nothing").returncode == 2


def test_formats_lint(postmortem: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    path = folder / "frob.toml"
    path.write_text(DEFINITION)
    assert good(postmortem("formats", "lint", folder)) == ""
    path.write_text(DEFINITION.replace("xid = 79 }", "xid = 80 }"))
    result = postmortem("formats", "lint", folder)
    assert (result.returncode, result.stdout.count("\n")) == (1, 1)
    assert "gives xid=79, expected 80" in result.stdout
    path.write_text(DEFINITION.replace("[0-9]+)$", "[0-9]+$"))
    result = postmortem("formats", "lint", path)
    assert (result.returncode, "message 1" in result.stdout) == (1, True)
    assert postmortem("formats", "lint", tmp_path / "absent").returncode == 2


def test_formats_try(postmortem: Run, tmp_path: Path) -> None:
    (tmp_path / "frob.toml").write_text(DEFINITION)
    (tmp_path / "a.log").write_text("x\nFROB: Xid 48\n")
    result = postmortem("formats", "try", tmp_path / "frob.toml", tmp_path / "a.log")
    assert good(result) == "a.log:2: gpu.xid error xid=48\n"
    assert "1 events in 2 lines" in result.stderr
    (tmp_path / "frob.toml").write_text(DEFINITION.replace("[0-9]+)$", "[0-9]+$"))
    result = postmortem("formats", "try", tmp_path / "frob.toml", tmp_path / "a.log")
    assert (result.returncode, len(result.stderr.strip().splitlines())) == (2, 1)


def test_definitions_of_the_user(postmortem: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "frob.toml").write_text(DEFINITION)
    (tmp_path / "a.log").write_text("FROB: Xid 48\n")
    assert postmortem("analyze", tmp_path / "a.log", "--format", "json").returncode == 3
    out = good(postmortem("analyze", tmp_path / "a.log", "--format", "json", "--parsers", folder))
    assert json.loads(out)["coverage"]["events"] == 1
