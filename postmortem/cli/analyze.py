"""`postmortem analyze`: from a bundle to verdict, report and database."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from postmortem import __version__, outputs
from postmortem.cli.bundles import BUNDLE
from postmortem.cli.examples import examples
from postmortem.cli.progress import progress
from postmortem.cli.settings import Values, outside, settings
from postmortem.errors import UsageError


@click.command(
    "analyze",
    epilog=examples(
        "postmortem analyze logs/",
        "postmortem analyze node-07.log.gz switches.tar.zst -o night.html --db night.duckdb",
        "postmortem analyze --markdown ticket.md --gpu-hour-price 2.5 job.tar.gz",
        "postmortem analyze --format json --fail-on unknown logs/ | jq .verdict",
        "postmortem analyze --redact -o to-send.html logs/",
    ),
)
@click.argument("bundle", nargs=-1, required=True, type=BUNDLE)
@click.option(
    "-o",
    "--output",
    "html",
    type=click.Path(path_type=Path),
    help="HTML report; default: the bundle's name in this folder.",
)
@click.option("--db", type=click.Path(path_type=Path), help="DuckDB file with all tables.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Markdown post-mortem, to paste into a ticket.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What stdout gets; json writes no file unless asked.",
)
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@settings()
@click.option(
    "--redact-map", type=click.Path(path_type=Path), help="With --redact: write which name got which mask (JSON)."
)
@click.option("--fail-on", type=click.Choice(["unknown"]), help="Exit 1 when the cause is not established.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    bundle: tuple[Path | str, ...],
    html: Path | None,
    db: Path | None,
    markdown: Path | None,
    form: str,
    force: bool,
    redact_map: Path | None,
    fail_on: str | None,
    quiet: bool,
    **rest: Any,
) -> int:
    """Say what killed the job whose logs are in BUNDLE: folder, files, archive or URL.

    \b
    Exit codes: 0 analysed, 1 with --fail-on, 2 wrong use, 3 nothing readable, 130 interrupted.
    """
    values = Values(**rest)
    outside(bundle)
    if redact_map is not None and not values.redact:
        raise UsageError("--redact-map needs --redact: without masks there is no map")
    for wanted in (html, db, markdown, redact_map):
        if wanted is not None:
            outputs.explicit(wanted, force)
    _get_ready(bundle, values)
    from postmortem.cli.writing import Written
    from postmortem.incident import bundle_name, open_incident

    company = None
    if values.template is not None:
        from postmortem.report.html import brand

        company = brand(values.template)
    options = values.options(context=form == "text" or html is not None or db is not None)
    with open_incident(bundle, options, with_file=db is not None, progress=progress(quiet)) as incident:
        analysis, is_readable = incident.analysis, incident.is_readable
        if form == "text" and html is None and is_readable:
            name = bundle_name(bundle)
            html = outputs.default(incident.masks.text(name) if incident.masks else name, ".html")
        with Written(incident.masks) as files:
            if html is not None:
                from postmortem.report.html import NO_BRAND, render

                page = render(analysis, incident.con, __version__, company or NO_BRAND, values.theme)
                files.page(html, page)
            if markdown is not None:
                from postmortem.report import markdown as twin

                files.text(markdown, twin.render(analysis, __version__, incident.con))
            if form == "json":
                from postmortem.report import document

                shown = files.json(document.to_json(analysis, __version__))
            elif is_readable:
                from postmortem.report import terminal

                colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
                width = shutil.get_terminal_size((100, 24)).columns
                shown = files.shown(terminal.summary(analysis, colour=colour, width=width))
            else:
                shown = ""
            if db is not None and incident.db_path is not None:
                incident.con.close()
                files.database(db, incident.db_path)
            if redact_map is not None:
                files.map(redact_map)
        if shown:
            click.echo(shown)
        if form != "json" and not is_readable:
            _nothing(analysis.coverage.files, [f"{f}: {why}" for f, _, why in analysis.coverage.odd[:3]])
        elif form != "json":
            written = (("report", html), ("database", db), ("Markdown", markdown))
            click.echo(", ".join(f"{name}: {path}" for name, path in written if path))
        if not is_readable:
            return 3
        return 1 if fail_on == "unknown" and analysis.verdict.cause == "unknown" else 0


def _get_ready(bundle: tuple[Path | str, ...], values: Values) -> None:
    """Start workers for a large bundle, unless its rows may be in the cache."""
    from postmortem.tables.parse import Where, get_ready

    if not values.may_be_kept():
        get_ready(bundle, Where(values.workers, values.scheduler, values.spool))


def _nothing(files: int, odd: list[str]) -> None:
    """One sentence for a bundle of which nothing was understood."""
    why = "; ".join(odd) if odd else "no line of it is of a known format"
    click.echo(f"postmortem: nothing recognised in {files} file{'' if files == 1 else 's'}: {why}", err=True)
