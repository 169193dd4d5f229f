"""`postmortem shell`: a DuckDB shell on an incident's tables.

The DuckDB command-line client is used where it is installed (extra `shell`: the package duckdb-cli): it has history,
completion, every output mode. Otherwise a small prompt of our own does, with line editing and history from readline.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

import click

from postmortem.cli.bundles import BUNDLE
from postmortem.cli.examples import examples
from postmortem.cli.opening import ALLOW_FILES, connection, database
from postmortem.cli.settings import settings

BANNER = """\
Tables: {tables}
Views per source: nccl, torch, trainer, kernel, switch, scheduler, host, profiler. DESCRIBE events; shows columns.
Macros: timeline(host), around(moment, seconds), who(rank), evidence(finding), silent(). docs/queries.md has ten worked queries.

Try:
  SELECT rank() OVER () AS n, cause, confidence, summary FROM findings;
  SELECT ts, host, event, file, line, message FROM events WHERE severity IN ('error', 'fatal') ORDER BY ts LIMIT 20;
  SELECT event, host, entity, first_ts, last_ts, count FROM episodes WHERE in_window ORDER BY first_ts;
  FROM evidence(1);
"""
TABLES = """
SELECT name, rows, comment FROM (
  SELECT table_name AS name, estimated_size AS rows, comment, 1 AS kind FROM duckdb_tables() WHERE NOT internal
  UNION ALL SELECT view_name, NULL, comment, 2 FROM duckdb_views() WHERE NOT internal
  UNION ALL SELECT function_name, NULL, comment, 3 FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal)
ORDER BY kind, name"""
"""What `.tables` prints."""


@click.command("shell", epilog=examples("postmortem shell night.duckdb", "postmortem shell --plain logs/"))
@click.argument("bundle_or_db", type=BUNDLE)
@click.option("--plain", is_flag=True, help="Use the small built-in prompt even if the DuckDB client is installed.")
@click.option("--allow-files", is_flag=True, help=ALLOW_FILES)
@settings("parsers")
def command(bundle_or_db: Path | str, plain: bool, allow_files: bool, parsers: tuple[Path, ...]) -> int:
    """Open a DuckDB shell on BUNDLE_OR_DB: a bundle is analysed first, a database is opened read-only.

    Statements reach no other file and no network.
    """
    with database(bundle_or_db, parsers) as path:
        click.echo(BANNER.format(tables=", ".join(_tables(path))), err=True)
        client = None if plain else client_path()
        if client:
            # Without the user's init file: it could reopen what safe mode closes.
            bounds = [] if allow_files else ["-no-init", "-safe"]
            return subprocess.run([client, *bounds, "-readonly", str(path)], check=False).returncode
        return _prompt(path, allow_files)


def client_path() -> str | None:
    """The DuckDB command-line client: beside this Python first, then on PATH."""
    own = Path(sysconfig.get_path("scripts")) / "duckdb"
    return str(own) if own.is_file() and os.access(own, os.X_OK) else shutil.which("duckdb")


def _tables(path: Path) -> list[str]:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as con:
        rows = con.execute("SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY table_name").fetchall()
    return [f"{name} ({size})" for name, size in rows if size]


def _prompt(path: Path, allow_files: bool) -> int:
    """Read statements up to a semicolon, print rows; an error is one line and the prompt goes on."""
    import duckdb

    from postmortem.cli.query import table_text

    with suppress(ImportError):
        import readline  # noqa: F401 - gives input() editing and history
    statement = ""
    with connection(path, allow_files) as con:
        while True:
            try:
                line = (
                    input("incident> " if not statement else "     ...> ")
                    if sys.stdin.isatty()
                    else next(sys.stdin, None)
                )
            except EOFError:
                return 0
            if line is None or (not statement and line.strip().lower() in {"exit", "quit", ".exit", ".quit", "\\q"}):
                return 0
            if not statement and line.strip() == ".tables":
                line = f"{TABLES};"
            statement += line if line.endswith("\n") else line + "\n"
            if not statement.strip():
                statement = ""
            elif statement.rstrip().endswith(";"):
                try:
                    cursor = con.execute(statement)
                    if cursor is not None:  # None: nothing but the semicolon
                        names = [d[0] for d in cursor.description or []]
                        click.echo(table_text(names, cursor.fetchall()), nl=False)
                except duckdb.Error as error:
                    click.echo(f"error: {str(error).strip().splitlines()[0]}", err=True)
                statement = ""
