"""`postmortem analyze`: from a bundle to verdict, report and database."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from postmortem import __version__
from postmortem.cli import output


def _progress(quiet: bool) -> Callable[[int, int, int], None] | None:
    """A line on stderr that is redrawn, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        return None

    def show(done: int, total: int, members: int) -> None:
        share = 100 * done // total if total else 100
        click.echo(
            f"\r  read {done / 1e6:,.0f} of {total / 1e6:,.0f} MB ({share} %), {members:,} files ",
            nl=share >= 100,
            err=True,
        )

    return show


@click.command("analyze")
@click.argument("bundle", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "html",
    type=click.Path(path_type=Path),
    help="HTML report; default: the bundle's name in this folder.",
)
@click.option("--db", type=click.Path(path_type=Path), help="DuckDB file with all tables.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What stdout gets; json writes no file unless asked.",
)
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@click.option(
    "--parsers",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder of your own format definitions; may be given again.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Worker processes; default: one per processor.")
@click.option(
    "--gpu-hour-price", type=click.FloatRange(min=0), help="Price of a GPU-hour; without it no money is printed."
)
@click.option("--fail-on", type=click.Choice(["unknown"]), help="Exit 1 when the cause is not established.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    bundle: tuple[Path, ...],
    html: Path | None,
    db: Path | None,
    form: str,
    force: bool,
    parsers: tuple[Path, ...],
    workers: int | None,
    gpu_hour_price: float | None,
    fail_on: str | None,
    quiet: bool,
) -> int:
    """Say what killed the job whose logs are in BUNDLE: a folder, files, or an archive.

    \b
    Exit codes: 0 analysed, 1 with --fail-on, 2 wrong use, 3 nothing readable, 130 interrupted.
    """
    for wanted in (html, db):
        if wanted is not None:
            output.explicit(wanted, force)
    from postmortem.incident import Options, bundle_name, open_incident
    from postmortem.report import document, terminal

    options = Options(
        parsers=parsers, workers=workers, price=gpu_hour_price, context=form == "text" or html is not None
    )
    with open_incident(bundle, options, with_file=db is not None, progress=_progress(quiet)) as incident:
        analysis = incident.analysis
        if form == "text" and html is None and incident.is_readable:
            html = output.default(bundle_name(bundle), ".html")
        if html is not None:
            from postmortem.report.html import render

            output.write_text(html, render(analysis, incident.con, __version__))
        if db is not None and incident.db_path is not None:
            incident.con.close()
            output.replace_file(incident.db_path, db)
        if form == "json":
            click.echo(document.to_json(analysis, __version__))
        elif not incident.is_readable:
            _nothing(analysis.coverage.files, [f"{f}: {why}" for f, _, why in analysis.coverage.odd[:3]])
        else:
            colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            click.echo(terminal.summary(analysis, colour=colour, width=shutil.get_terminal_size((100, 24)).columns))
            click.echo(f"report: {html}" + (f", database: {db}" if db else ""))
        if not incident.is_readable:
            return 3
        return 1 if fail_on == "unknown" and analysis.verdict.cause == "unknown" else 0


def _nothing(files: int, odd: list[str]) -> None:
    """One sentence for a bundle of which nothing was understood."""
    why = "; ".join(odd) if odd else "no line of it is of a known format"
    click.echo(f"postmortem: nothing recognised in {files} file{'' if files == 1 else 's'}: {why}", err=True)
