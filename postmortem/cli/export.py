"""`postmortem export`: an incident for other programs: a Perfetto trace, Parquet or CSV files."""

from __future__ import annotations

from pathlib import Path

import click

from postmortem import outputs
from postmortem.cli.bundles import BUNDLE
from postmortem.cli.examples import examples
from postmortem.cli.opening import database
from postmortem.cli.settings import settings
from postmortem.errors import UsageError

MEMORY = "1GB"


@click.command(
    "export",
    epilog=examples(
        "postmortem export --perfetto job.pftrace.gz logs/",
        "postmortem export --parquet tables --csv sheets night.duckdb",
    ),
)
@click.argument("bundle_or_db", type=BUNDLE)
@click.option("--perfetto", type=click.Path(path_type=Path), help="A trace for ui.perfetto.dev; FILE.gz is compressed.")
@click.option("--parquet", type=click.Path(path_type=Path), help="Folder that gets every table as a Parquet file.")
@click.option("--csv", "text", type=click.Path(path_type=Path), help="Folder that gets every table as a CSV file.")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@settings("parsers")
def command(
    bundle_or_db: Path | str,
    perfetto: Path | None,
    parquet: Path | None,
    text: Path | None,
    force: bool,
    parsers: tuple[Path, ...],
) -> None:
    """Write an incident for other programs: BUNDLE_OR_DB is a bundle or a file that `analyze --db` wrote.

    \b
    Exit codes: 0 written, 2 wrong use, 3 nothing readable, 130 interrupted.
    """
    if perfetto is None and parquet is None and text is None:
        raise UsageError("say what to write: --perfetto FILE, --parquet DIR or --csv DIR")
    if perfetto is not None:
        outputs.explicit(perfetto, force)
    import tempfile

    import duckdb

    from postmortem.report.perfetto import write_file
    from postmortem.tables.export import Form, file_names, present, write_tables
    from postmortem.tables.store import read_only

    folders: list[tuple[Path, Form]] = []
    if parquet is not None:
        folders.append((parquet, "parquet"))
    if text is not None:
        folders.append((text, "csv"))
    for folder, form in folders:
        outputs.folder(folder, file_names(form), force)
    with (
        database(bundle_or_db, parsers) as path,
        tempfile.TemporaryDirectory(prefix="postmortem-") as work,
        read_only(path, Path(work), MEMORY) as con,
    ):
        if not present(con):
            raise UsageError(f"{bundle_or_db} is no incident's database: give one that analyze --db wrote, or a bundle")
        try:
            if perfetto is not None:
                written = write_file(con, perfetto)
                click.echo(f"{perfetto}: {written.packets:,} packets, {written.tracks:,} tracks", err=True)
                for name, count in written.left_out:
                    click.echo(f"  not drawn: {count:,} rows of {name} without a time or above the limit", err=True)
            for folder, form in folders:
                rows = write_tables(con, folder, form)
                click.echo(f"{folder}: {len(rows)} tables, {sum(n for _, n in rows):,} rows", err=True)
        except duckdb.Error as error:
            raise UsageError(f"{bundle_or_db} can't be exported: {str(error).splitlines()[0]}") from error
