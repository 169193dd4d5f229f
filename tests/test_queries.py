"""The worked queries of docs/queries.md give what stands below them, and the macros of a database do what their comments say.

`POSTMORTEM_UPDATE=1 pytest tests/test_queries.py` writes the answers anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from postmortem.cli import cli
from postmortem.incident import open_incident

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "queries.md"
QUERY = re.compile(r"```sql\n(.+?)\n```\n\n```text\n(.*?)```\n", re.DOTALL)
QUERIES = QUERY.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the sample that the page speaks of."""
    target = tmp_path_factory.mktemp("incident") / "incident.duckdb"
    with open_incident([ROOT / "sample_logs" / "link-flap" / "bundle"], with_file=True) as incident:
        incident.con.close()
        assert incident.db_path is not None
        target.write_bytes(incident.db_path.read_bytes())
    return target


def asked(database: Path, sql: str) -> str:
    done = CliRunner().invoke(cli, ["query", str(database), sql])
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def test_there_are_ten() -> None:
    assert len(QUERIES) == 10


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_worked_query_gives_what_the_page_shows(database: Path, number: int) -> None:
    sql, shown = QUERIES[number]
    got = asked(database, sql)
    if os.environ.get("POSTMORTEM_UPDATE"):
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            text.replace(f"```sql\n{sql}\n```\n\n```text\n{shown}```", f"```sql\n{sql}\n```\n\n```text\n{got}```"),
            encoding="utf-8",
        )
        return
    assert got == shown
    assert got.count("\n") > 3


def test_macros_have_comments_and_answer_for_what_is_not_there(database: Path) -> None:
    with duckdb.connect(str(database), read_only=True) as con:
        rows = con.execute(
            "SELECT function_name, comment FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal ORDER BY 1"
        ).fetchall()
        assert [name for name, _ in rows] == ["around", "evidence", "silent", "timeline", "who"]
        assert all(comment.startswith(f"{name}(") for name, comment in rows)
        for call in ("timeline('nobody')", "around('1999-01-01', 1)", "who(-1)", "evidence(99)"):
            assert con.execute(f"FROM {call}").fetchall() == []


def test_the_shell_lists_tables_views_and_macros(database: Path) -> None:
    done = CliRunner().invoke(cli, ["shell", "--plain", str(database)], input=".tables\n.exit\n")
    assert done.exit_code == 0
    for name in ("events", "kernel", "timeline"):
        assert re.search(rf"^{name} ", done.stdout, re.MULTILINE)
