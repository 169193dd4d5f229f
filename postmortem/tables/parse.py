"""All batches of a plan through a local pool or a cluster, and their rows into one local folder."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from postmortem.bundle import Limits, Plan, Problem, base_name, is_url
from postmortem.engine import WORKERS_FROM_BYTES, default_workers, run, start
from postmortem.engine.cluster import Cluster, ClusterError, cluster
from postmortem.engine.gather import DroppedError, Failed, gather
from postmortem.errors import UsageError
from postmortem.resources import data_folder
from postmortem.tables.batches import CUT_BYTES, Batch, BatchResult, batch_size, batches, work_of
from postmortem.tables.spool import collect, shared_spool
from postmortem.tables.unit import HEAVY, is_plain, parse_unit
from postmortem.tables.workers import check

LOOKED_AT: Final = 5_000
"""Files of a folder that are looked at to see whether it is large."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a bundle is parsed: `workers` processes of this machine, or the Dask cluster of `scheduler`.

    `spool` is a folder or URL that all of them see; a cluster on this machine alone needs none.
    """

    workers: int | None = None
    scheduler: str | None = None
    spool: str | None = None

    @property
    def is_shared(self) -> bool:
        """Rows are written to a place of their own and collected, batch by batch."""
        return self.scheduler is not None or self.spool is not None

    def open_spool(self, folder: Path) -> AbstractContextManager[str]:
        """Where workers write: `folder` itself, or a new folder in the shared place that is removed at the end.

        Rows collected from a shared folder are links into it, so it has to outlive all reading. Raises UsageError.
        """
        if not self.is_shared:
            return nullcontext(str(folder))
        return shared_spool(str(folder.parent) if self.spool is None else self.spool)


def get_ready(paths: Sequence[Path | str], where: Where) -> None:
    """Start the workers for a folder that is clearly large: they load what they need while this process still loads its own."""
    workers = where.workers or default_workers()
    if where.scheduler is None and workers > 1 and any(_is_large(str(p)) for p in paths if not is_url(str(p))):
        start(workers, HEAVY)


def _is_large(folder: str) -> bool:
    """Files among the first thousands in `folder` are together worth more than one process."""
    size = count = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - a Path for each file takes longer
            count += 1
            if size >= WORKERS_FROM_BYTES and count > 1:
                return True
            if count > LOOKED_AT:
                return False
    return False


def parse(
    todo: Plan,
    roots: Sequence[Path | str],
    folder: Path,
    spool: str,
    parsers: Sequence[Path],
    where: Where,
    limits: Limits | None = None,
) -> Generator[tuple[Batch, BatchResult], None, None]:
    """Each batch of `todo` with what came of it, once its Parquet files can be read below `folder`.

    On a cluster batches come as they are ready, and one that failed gives a problem for each unit that could not be
    read. `roots` are the paths and URLs that the bundle was given by. Raises UsageError for a cluster that cannot be used.
    """
    total = sum(map(work_of, todo.units))
    workers = where.workers or default_workers()
    is_one = where.scheduler is None and (workers <= 1 or total < WORKERS_FROM_BYTES)
    size = batch_size(total, 1 if is_one else workers)
    units = todo.units
    if not is_one and any(unit.size >= CUT_BYTES for unit in units):
        from postmortem.tables.ranges import cut

        units = tuple(cut(units, size, is_plain))
    folders = (data_folder("parsers"), *(p.absolute() for p in parsers))
    tasks = batches(units, spool, folders, size, 1 if is_one else workers)
    tasks = [replace(task, limits=limits) for task in tasks] if limits else tasks
    if where.scheduler is None:
        for task, result in zip(tasks, run(parse_unit, tasks, workers, total), strict=True):
            yield task, _collected(task, result, spool, folder) if where.is_shared else result
    elif tasks:
        paths = tuple(str(r) if is_url(str(r)) else os.path.realpath(r) for r in roots)
        with _connected(where.scheduler) as connected:
            check(connected.ask_all, tasks[0].parsers, paths, spool)
            for task, result in _on_cluster(tasks, connected):
                yield task, _collected(task, result, spool, folder)


@contextmanager
def _connected(scheduler: str) -> Iterator[Cluster]:
    try:
        with cluster(scheduler) as workers:
            yield workers
    except ClusterError as error:
        raise UsageError(str(error)) from None
    except DroppedError:
        raise UsageError(f"the cluster at {scheduler} dropped the work: its scheduler ended or was restarted") from None


def _on_cluster(tasks: Sequence[Batch], workers: Cluster) -> Iterator[tuple[Batch, BatchResult]]:
    numbers = itertools.count(len(tasks))

    def split(task: Batch) -> list[Batch]:
        """Each unit as a batch of its own, with a number that no other has."""
        return [replace(task, number=next(numbers), units=(unit,)) for unit in task.units]

    for task, outcome in gather(workers.pool, parse_unit, tasks, split, workers.gave_up):
        if isinstance(outcome, Failed):
            yield task, _lost(task, f"not read, since reading it failed on every try: {outcome.why}")
        else:
            yield task, outcome


def _collected(task: Batch, result: BatchResult, spool: str, folder: Path) -> BatchResult:
    """`result`, its files made readable; one whose files are gone counts as unread."""
    try:
        collect(spool, result.files, folder)
    except OSError as error:
        return _lost(task, f"its rows were lost on the way: {error.strerror or error}")
    return result


def _lost(task: Batch, why: str) -> BatchResult:
    names = (unit.name or base_name(unit.fs_path) for unit in task.units)
    return BatchResult(task.number, 0, 0, tuple(Problem(name, why) for name in names))
