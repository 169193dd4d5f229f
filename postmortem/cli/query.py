"""`postmortem query`: one SQL statement on an incident's tables."""

from __future__ import annotations

import csv
import io
import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from postmortem import outputs
from postmortem.cli.bundles import BUNDLE
from postmortem.cli.examples import examples
from postmortem.cli.opening import ALLOW_FILES, connection, database
from postmortem.cli.settings import settings
from postmortem.errors import UsageError
from postmortem.report.figures import ascii_escaped, visible

if TYPE_CHECKING:
    import duckdb

MAX_CELL = 80


@click.command(
    "query",
    epilog=examples(
        "postmortem query night.duckdb \"SELECT ts, host, event FROM events WHERE severity = 'fatal' ORDER BY ts\"",
        "postmortem query --file steps.sql --format csv -o steps.csv logs/",
        'echo "FROM evidence(1)" | postmortem query night.duckdb -',
    ),
)
@click.argument("db_or_bundle", type=BUNDLE)
@click.argument("sql", required=False)
@click.option("-f", "--file", "source", type=click.Path(path_type=Path), help="Read the SQL from this file.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    default="table",
    show_default=True,
    help="How rows are printed.",
)
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), help="Write to this file; needed for parquet."
)
@click.option("--force", is_flag=True, help="Replace the output when it exists.")
@click.option("--allow-files", is_flag=True, help=ALLOW_FILES)
@settings("parsers")
def command(
    db_or_bundle: Path | str,
    sql: str | None,
    source: Path | None,
    form: str,
    target: Path | None,
    force: bool,
    allow_files: bool,
    parsers: tuple[Path, ...],
) -> None:
    """Run SQL on an incident: DB_OR_BUNDLE is a file that `analyze --db` wrote, or a bundle.

    The SQL is an argument, a file (-f FILE) or, with `-`, what stdin gives; of several statements the last one's rows are
    printed. The database is opened read-only; SQL reaches no other file and no network.
    """
    if (sql is None) == (source is None):
        raise click.UsageError("give the SQL: as an argument, as a file with -f FILE, or as - to read it from stdin")
    if target is not None:
        outputs.explicit(target, force)
    if form == "parquet" and target is None:
        raise UsageError("parquet is no text: name a file with -o FILE")
    text = _statement(sql, source)
    import duckdb

    with database(db_or_bundle, parsers) as path, connection(path, allow_files) as con:
        try:
            if form == "parquet" and target is not None:
                _parquet(con, text, target)
                return
            cursor = con.execute(text)
            if cursor is None:
                raise UsageError("the SQL is empty: give a statement")
            names = [d[0] for d in cursor.description or []]
            rows = cursor.fetchall()
        except duckdb.Error as error:
            raise UsageError(f"the SQL was refused: {str(error).strip().splitlines()[0]}") from error
    text = {"table": table_text, "csv": _csv, "json": _json}[form](names, rows)
    if target is not None:
        outputs.write_text(target, text)
    else:
        # On a terminal CSV, too, shows invisible characters; a pipe gets them as they are.
        click.echo(
            "\n".join(map(visible, text.split("\n"))) if form == "csv" and sys.stdout.isatty() else text, nl=False
        )


def _statement(sql: str | None, source: Path | None) -> str:
    """The SQL itself; `-` is stdin."""
    if source is None and sql is not None and sql != "-":
        return sql
    if source is None or str(source) == "-":
        return sys.stdin.read()
    try:
        return source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"{source} can't be read: {why}") from error


def _parquet(con: duckdb.DuckDBPyConnection, sql: str, target: Path) -> None:
    """Write the rows of `sql`; `target` is whole or as it was."""
    import pyarrow.parquet as pq

    relation = con.sql(sql)
    if relation is None:
        raise UsageError("the SQL gives no rows: parquet needs a SELECT")
    with outputs.partial(target) as partial:
        pq.write_table(relation.to_arrow_table(), str(partial))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds") + "Z"
    return value.isoformat() if isinstance(value, date) else value


def _json(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    return ascii_escaped(
        json.dumps(
            [dict(zip(names, map(_plain, row), strict=True)) for row in rows], ensure_ascii=False, indent=1, default=str
        )
        + "\n"
    )


def _csv(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if v is None else _plain(v) for v in row] for row in rows])
    return out.getvalue()


def table_text(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Aligned columns; control characters shown as escapes, long cells cut."""
    cells = [[_cell(v) for v in row] for row in rows]
    widths = [max([len(n), *(len(r[i]) for r in cells)]) for i, n in enumerate(names)]
    lines = [
        "  ".join(n.ljust(w) for n, w in zip(names, widths, strict=True)).rstrip(),
        "  ".join("-" * w for w in widths),
    ]
    lines += ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells]
    return "\n".join([*lines, f"({len(rows)} row{'' if len(rows) == 1 else 's'})"]) + "\n"


def _cell(value: Any) -> str:
    text = "" if value is None else str(_plain(value))
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
