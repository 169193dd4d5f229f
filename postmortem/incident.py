"""One call from a bundle to its incident: plan, parse, settle, analyse."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import duckdb

from postmortem import __version__
from postmortem.analysis.bill import Asked
from postmortem.analysis.context import with_context
from postmortem.analysis.model import Analysis
from postmortem.analysis.run import analyse
from postmortem.analysis.stored import store
from postmortem.bundle import Limits, Plan, Problem, base_name, is_url, plan
from postmortem.engine import default_workers
from postmortem.errors import NoRoomError
from postmortem.tables.kept import Kept, keep, restore, see
from postmortem.tables.parse import Where, parse
from postmortem.tables.settle import DECODED, settle
from postmortem.tables.spool import count_rows
from postmortem.tables.store import connect, document, macros, source_views
from postmortem.tables.switch_names import SwitchName

if TYPE_CHECKING:
    from postmortem.redaction import Masks


LEAST_MEMORY_MB: Final = 300
MOST_MEMORY_MB: Final = 1000
MEMORY_MB: Final = 240
"""Memory of the SQL part for a million rows, in megabytes."""
SMALL_ROWS: Final = 50_000
"""Rows below which planning costs more than running, and a second thread more than it gains."""
HELD_ROWS: Final = 150_000
"""Rows up to which tables that nobody asked for as a file are held in memory: writing them, compressed, takes as long as all else about them."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to analyse: definitions beside ours, worker processes, price per GPU-hour, what else was asked of the bill, memory of the SQL part.

    `scheduler` is the address of a Dask cluster that parses, `spool` a folder or URL that its workers see.
    """

    parsers: tuple[Path, ...] = ()
    workers: int | None = None
    price: float | None = None
    asked: Asked | None = None
    memory_limit: str | None = None
    """Of the SQL part, such as `500MB`; None: by the number of rows."""
    context: bool = True
    scheduler: str | None = None
    spool: str | None = None
    cache: Path | None = None
    """Folder of rows of bundles that were parsed before (`postmortem.tables.kept`); of what a cluster parses nothing is kept."""
    limits: Limits = field(default_factory=Limits)
    zone_s: int | None = None
    """Zone of clocks that no line tells it of, seconds east of UTC."""
    switch_names: tuple[SwitchName, ...] = ()
    """Names that switches go by, for those that logs print."""
    redact: bool = False
    """Mask hosts, addresses, users, paths, mails and tokens in the answer and in all tables."""


def asked(mtbf_hours: float | None, energy: bool, gpu_watts: float | None, pue: float) -> Asked:
    """What the user gave for the bill; the power of a GPU asks for its energy."""
    mtbf_s = None if mtbf_hours is None else mtbf_hours * 3600
    return Asked(mtbf_s=mtbf_s, wants_energy=energy or gpu_watts is not None, watts=gpu_watts, pue=pue)


@dataclass(slots=True)
class Incident:
    """An analysed bundle: the answer and a connection to its tables; a context manager."""

    analysis: Analysis
    con: duckdb.DuckDBPyConnection
    work: tempfile.TemporaryDirectory[str]
    db_path: Path | None
    rest: ExitStack = field(default_factory=ExitStack)
    """What has to outlive the connection: the shared spool."""
    masks: Masks | None = None
    """Names and their masks where the incident is redacted."""

    def __enter__(self) -> Incident:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove the work folder."""
        self.con.close()
        self.rest.close()
        self.work.cleanup()

    @property
    def is_readable(self) -> bool:
        """Something of the bundle was recognised: a line, or a row of a file that has no lines."""
        return self.analysis.coverage.events > 0 or any(
            self.con.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() for name in DECODED
        )


def bundle_name(paths: Sequence[Path | str]) -> str:
    """How the bundle is called in reports: the last part of its path without archive suffixes."""
    first = str(paths[0])
    name = (base_name(first) if is_url(first) else Path(first).resolve().name) or "bundle"
    for suffix in (".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2", ".tgz", ".tar", ".zip", ".gz", ".zst", ".xz", ".bz2"):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
            break
    return name if len(paths) == 1 else f"{name}+{len(paths) - 1}"


def open_incident(
    paths: Sequence[Path | str],
    options: Options | None = None,
    *,
    with_file: bool = False,
    progress: Callable[[int, int, int], None] | None = None,
) -> Incident:
    """Parse and analyse the bundle at `paths`; a string may be a URL that fsspec knows.

    `with_file` keeps the tables in a database file inside the work folder (`Incident.db_path`) instead of memory.
    `progress` is called with (bytes done, bytes in all, members done). Raises UsageError for a path that does not exist,
    a store or cluster that cannot be used, and DefinitionError for a wrong definition; odd data raises nothing.
    """
    options = options or Options()
    todo = plan(paths)
    work = tempfile.TemporaryDirectory(prefix="postmortem-")
    rest = ExitStack()
    try:
        return _open(paths, options, todo, work, rest, with_file, progress)
    except BaseException as error:
        rest.close()
        work.cleanup()
        if (why := _no_room(error)) is not None:
            raise NoRoomError(why) from error
        raise


def _no_room(error: BaseException) -> str | None:
    """The sentence for an analysis that filled the disk or its memory; None for any other error. polars and DuckDB say it in text alone."""
    text = str(error)
    if isinstance(error, OSError | duckdb.Error) and any(
        w in text for w in ("No space left", "File too large", "quota exceeded")
    ):
        return (
            f"no room is left in {tempfile.gettempdir()} for the rows of this bundle: set TMPDIR to a folder with more"
        )
    if isinstance(error, BrokenExecutor):
        return "a worker process was killed, most likely for lack of memory: try fewer with --workers"
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
        return "the memory does not suffice for this bundle: give a part of it, such as the files of the last hours"
    return None


def memory_for(rows: int) -> str:
    """What the SQL part may take: what is beyond it spills, which a usual incident never gets to."""
    return f"{min(max(rows * MEMORY_MB // 1_000_000, LEAST_MEMORY_MB), MOST_MEMORY_MB)}MB"


def _open(
    paths: Sequence[Path | str],
    options: Options,
    todo: Plan,
    work: tempfile.TemporaryDirectory[str],
    rest: ExitStack,
    with_file: bool,
    progress: Callable[[int, int, int], None] | None,
) -> Incident:
    folder = Path(work.name)
    spool = folder / "spool"
    spool.mkdir()
    total = sum(u.size for u in todo.units)
    where = Where(options.workers, options.scheduler, options.spool)
    target = rest.enter_context(where.open_spool(spool))
    problems: list[Problem] = list(todo.problems)
    cache = None if where.is_shared else options.cache
    seen = see(todo, ("", *map(str, options.parsers)), options.limits) if cache else None
    kept = restore(cache, seen.key, spool) if cache and seen else None
    if kept is not None:
        problems += kept.problems
        if progress:
            progress(total, total, kept.members)
    else:
        done = members = 0
        with closing(parse(todo, paths, spool, target, options.parsers, where, options.limits)) as parsed:
            for task, result in parsed:
                problems += result.problems
                done += sum(u.size for u in task.units)
                members += result.members
                if progress:
                    progress(done, total, members)
        if cache and seen:
            keep(cache, seen, spool, Kept(members, tuple(problems[len(todo.problems) :])))
    db_path = folder / "incident.duckdb" if with_file else None
    rows = count_rows(spool, ("events", "facts", *(("repeats",) if with_file else ())))
    is_small = rows < SMALL_ROWS
    # In a file columns are compressed: of a large incident memory would not hold them, and what spills is not.
    tables = folder / "incident.duckdb" if db_path is not None or rows > HELD_ROWS else None
    memory = options.memory_limit or memory_for(rows)
    con = connect(None if options.redact else tables, folder, memory, is_small=is_small)
    masks = None
    try:
        settle(con, spool, problems, whole=with_file, zone_s=options.zone_s, switch_names=options.switch_names)
        analysis = analyse(con, bundle_name(paths), options.price, options.asked)
        analysis = replace(analysis, findings=with_context(analysis.findings, todo.units, neighbours=options.context))
        if options.redact:
            from postmortem.redaction import find_names, redact, sweep

            # A database of its own, and a folder of its own to spill into: bytes of what is masked must not stay in the file.
            (folder / "masked").mkdir()
            plain, con = con, connect(db_path, folder / "masked", memory, is_small=is_small)
            with plain:
                names = find_names(plain, analysis)
                sweep(todo.units, names, options.limits, options.workers or default_workers())
                analysis, masks = redact(plain, con, analysis, names)
        store(con, analysis, __version__)
        if with_file:  # comments, views and macros are for those who open the file
            document(con)
            source_views(con)
            macros(con)
    except BaseException:
        con.close()
        raise
    return Incident(analysis, con, work, db_path, rest, masks)
