"""`postmortem formats`: list, lint and try the definitions of log formats."""

from __future__ import annotations

from pathlib import Path

import click

from postmortem.cli.examples import examples
from postmortem.cli.settings import settings
from postmortem.errors import DefinitionError, UsageError


@click.group("formats", epilog=examples("postmortem formats list --event gpu.xid"))
def command() -> None:
    """The log formats that are recognised: list them, check definitions of yours, try them on a file."""


def _folders(parsers: tuple[Path, ...]) -> list[Path]:
    from postmortem.resources import data_folder

    return [data_folder("parsers"), *parsers]


@command.command("list", epilog=examples("postmortem formats list | grep -i lustre"))
@settings("parsers")
@click.option("--event", help="Only this event.")
def list_formats(parsers: tuple[Path, ...], event: str | None) -> None:
    """Print every message and file format: source, event, severity, where defined, a text it holds, who prints it, reference."""
    from postmortem.catalogue.definition import load_folders
    from postmortem.tables.formats import decoder_rows, message_rows

    messages = [m for m in load_folders(_folders(parsers)) if event is None or m.event == event]
    if not messages:
        raise UsageError(f"no definition gives {event}: postmortem formats list shows all events")
    rows = [*message_rows(messages), *(decoder_rows() if event is None else ())]
    for row in rows:
        click.echo(row.line)
    samples = sum(len(m.samples) for m in messages)
    files = sum(row.source == "file" for row in rows)
    click.echo(f"{len(rows) - files} messages, {samples} samples, {files} file formats", err=True)


@command.command("lint", epilog=examples("postmortem formats lint my-formats/"))
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def lint_formats(folder: Path | None) -> int:
    """Check definitions: keys, patterns, and that every sample gives its own events and no other (default: ours)."""
    from postmortem.catalogue.definition import load_file, load_folders
    from postmortem.catalogue.lint import lint
    from postmortem.catalogue.matcher import Matcher

    if folder is not None and not folder.exists():
        raise UsageError(f"{folder} does not exist: give a folder or file of definitions")
    try:
        messages, own = load_folders(_folders(())), None
        if folder is not None:
            part = _of_ours(folder)
            if part is not None:
                own = tuple(m for m in messages if f"{m.file}/".startswith(part))
            else:
                own = load_file(folder) if folder.is_file() else load_folders([folder])
                replaced = {m.file for m in own}
                messages = (*(m for m in messages if m.file not in replaced), *own)
        complaints = lint(Matcher(messages), own)
    except DefinitionError as error:
        click.echo(str(error))
        return 1
    for complaint in complaints:
        click.echo(str(complaint))
    checked = own if own is not None else messages
    click.echo(
        f"{len(checked)} messages, {sum(len(m.samples) for m in checked)} samples, {len(complaints)} complaints",
        err=True,
    )
    return 1 if complaints else 0


def _of_ours(path: Path) -> str | None:
    """How the names of our own files below `path` begin, if it is one of ours or holds some; None elsewhere."""
    from postmortem.resources import data_folder

    ours = data_folder("parsers").resolve()
    if not path.resolve().is_relative_to(ours):
        return None
    name = path.resolve().relative_to(ours).as_posix()
    return "" if name == "." else f"{name}/"


@command.command("try", epilog=examples("postmortem formats try my-formats/cooler.toml logs/bmc.log"))
@click.argument("definition", type=click.Path(path_type=Path))
@click.argument("log", type=click.Path(path_type=Path))
def try_format(definition: Path, log: Path) -> None:
    """Run one DEFINITION file over LOG and print what it recognises."""
    import polars as pl

    from postmortem.bundle import open_unit, plan
    from postmortem.catalogue.definition import load_file
    from postmortem.catalogue.matcher import Matcher
    from postmortem.catalogue.records import merge_records
    from postmortem.lines.blocks import read_blocks
    from postmortem.report.figures import visible

    if not definition.is_file():
        raise UsageError(f"{definition} is no file: give one TOML file of definitions")
    matcher = Matcher(load_file(definition))
    shown = lines = 0
    for unit in plan([log]).units:
        for member in open_unit(unit):
            for block in read_blocks(member.stream):
                lines += len(block.text)
                index = block.text.str.contains(matcher.prefilter).arg_true()
                where = index.to_numpy()
                hits = pl.DataFrame(
                    {
                        "line": where.astype("int64") + block.first_line,
                        "offset": block.offsets[where],
                        "text": block.text.gather(index),
                    }
                )
                rows = merge_records(
                    matcher.recognise(hits.select(pl.lit(member.name).alias("file"), "line", "offset", "text"))
                )
                for row in rows.to_dicts():
                    fields = {k: v for k, v in row.items() if v is not None and k in _FIELDS}
                    click.echo(
                        f"{row['file']}:{row['line']}: {row['event']} {row['severity']} "
                        + visible(" ".join(f"{k}={v}" for k, v in fields.items()))
                    )
                    shown += 1
    click.echo(f"{shown} events in {lines} lines", err=True)


def _columns() -> frozenset[str]:
    from postmortem.schema import ENTITY

    return frozenset(c.name for c in ENTITY) | {"host"}


_FIELDS = _columns()
