"""One call from a bundle to its incident: plan, parse, settle, analyse."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import duckdb

from postmortem.analysis.context import with_context
from postmortem.analysis.model import Analysis
from postmortem.analysis.run import analyse
from postmortem.bundle import Plan, Problem, plan
from postmortem.engine import default_workers, run
from postmortem.resources import data_folder
from postmortem.tables.ingest import batches, parse_batch
from postmortem.tables.settle import settle
from postmortem.tables.store import connect, document, source_views


@dataclass(frozen=True, slots=True)
class Options:
    """How to analyse: definitions beside ours, worker processes, price per GPU-hour, memory of the SQL part."""

    parsers: tuple[Path, ...] = ()
    workers: int | None = None
    price: float | None = None
    memory_limit: str = "1GB"
    context: bool = True


@dataclass(slots=True)
class Incident:
    """An analysed bundle: the answer and a connection to its tables; a context manager."""

    analysis: Analysis
    con: duckdb.DuckDBPyConnection
    work: tempfile.TemporaryDirectory[str]
    db_path: Path | None

    def __enter__(self) -> Incident:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove the work folder."""
        self.con.close()
        self.work.cleanup()

    @property
    def is_readable(self) -> bool:
        """Something of the bundle was recognised."""
        return self.analysis.coverage.events > 0


def bundle_name(paths: Sequence[Path]) -> str:
    """How the bundle is called in reports: the last part of its path without archive suffixes."""
    name = paths[0].resolve().name or "bundle"
    for suffix in (".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2", ".tgz", ".tar", ".zip", ".gz", ".zst", ".xz", ".bz2"):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
            break
    return name if len(paths) == 1 else f"{name}+{len(paths) - 1}"


def open_incident(
    paths: Sequence[Path],
    options: Options | None = None,
    *,
    with_file: bool = False,
    progress: Callable[[int, int, int], None] | None = None,
) -> Incident:
    """Parse and analyse the bundle at `paths`.

    `with_file` keeps the tables in a database file inside the work folder (`Incident.db_path`) instead of memory.
    `progress` is called with (bytes done, bytes in all, members done). Raises UsageError for a path that does not exist
    and DefinitionError for a wrong definition; odd data raises nothing.
    """
    options = options or Options()
    todo = plan(paths)
    work = tempfile.TemporaryDirectory(prefix="postmortem-")
    try:
        return _open(paths, options, todo, work, with_file, progress)
    except BaseException:
        work.cleanup()
        raise


def _open(
    paths: Sequence[Path],
    options: Options,
    todo: Plan,
    work: tempfile.TemporaryDirectory[str],
    with_file: bool,
    progress: Callable[[int, int, int], None] | None,
) -> Incident:
    folder = Path(work.name)
    spool = folder / "spool"
    spool.mkdir()
    total = sum(u.size for u in todo.units)
    tasks = batches(todo.units, spool, (data_folder("parsers"), *options.parsers))
    problems: list[Problem] = list(todo.problems)
    done = members = 0
    for task, result in zip(tasks, run(parse_batch, tasks, options.workers or default_workers(), total), strict=True):
        problems += result.problems
        done += sum(u.size for u in task.units)
        members += result.members
        if progress:
            progress(done, total, members)
    db_path = folder / "incident.duckdb" if with_file else None
    con = connect(db_path, folder, options.memory_limit)
    try:
        settle(con, spool, problems)
        analysis = analyse(con, bundle_name(paths), options.price)
        analysis = replace(analysis, findings=with_context(analysis.findings, todo.units, neighbours=options.context))
        document(con)
        source_views(con)
    except BaseException:
        con.close()
        raise
    return Incident(analysis, con, work, db_path)
