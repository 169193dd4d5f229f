"""What is parsed in one go: units of a bundle that together are worth a call of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from postmortem.bundle import Limits, Problem, Unit
from postmortem.resources import data_folder

LEAST_BATCH: Final = 24 << 20
MOST_BATCH: Final = 192 << 20
LAST_BATCH: Final = 32 << 20
"""What the last batches come down to where workers share them, so that the others do not wait long for the last one."""
CUT_BYTES: Final = 64 << 20
"""A file up to this size is read in one go, a larger one may be cut into ranges."""


FILE_BYTES: Final = 48 << 10
"""What opening a file and finding out what it is costs, as bytes of lines."""

PACKED: Final = {".gz": 12, ".tgz": 12, ".zst": 14, ".zstd": 14, ".xz": 18, ".bz2": 15, ".zip": 12}
"""How many times as large logs are once they are unpacked, about, by the end of the name."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Picklable work for one call of `parse_batch`: units, where rows go (a folder or a URL), which definitions are used.

    Of `parsers` the empty text is our own definitions, wherever the worker has them installed.
    """

    number: int
    units: tuple[Unit, ...]
    spool: str
    parsers: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did; the rows are in the spool, in `files` (paths below it)."""

    number: int
    members: int
    bytes: int
    problems: tuple[Problem, ...]
    files: tuple[str, ...] = ()


def work_of(unit: Unit) -> int:
    """What reading a unit costs, as bytes of lines."""
    return unit.size * PACKED.get(Path(unit.name or unit.fs_path).suffix.lower(), 1) + FILE_BYTES


def batch_size(total: int, workers: int) -> int:
    """Bytes of a batch: few batches, since one costs most of a second by itself, but some for each worker once it has much to do."""
    each = -(-total // workers)
    return max(each if each <= MOST_BATCH else min(-(-each // 3), MOST_BATCH), LEAST_BATCH)


def batches(
    units: Sequence[Unit],
    spool: Path | str,
    parsers: Sequence[Path],
    batch_bytes: int | None = None,
    workers: int = 1,
) -> list[Batch]:
    """Units in their order, small ones together: a batch costs a fraction of a second by itself.

    Of `batch_bytes` of work each (a larger unit is a batch of its own), by default what `batch_size` says for one worker. Where
    several `workers` share them, batches become smaller toward the end, and what may take long for its size begins early: files too
    large to share out, then small ones, since the largest logs are floods of lines that are quick to read.
    """
    left = sum(map(work_of, units))
    if batch_bytes is None:
        batch_bytes = batch_size(left, 1)
    most = batch_bytes
    if workers > 1:
        limit = batch_bytes
        units = sorted(
            units, key=lambda u: (0, -work_of(u)) if u.span is None and work_of(u) > limit // 2 else (1, work_of(u))
        )
        most = min(batch_bytes, max(left // (2 * workers), LAST_BATCH))
    out: list[Batch] = []
    group: list[Unit] = []
    size = 0
    own = data_folder("parsers")
    folders = tuple("" if p == own else str(p) for p in parsers)
    for unit in units:
        work = work_of(unit)
        if group and size + work > most:
            out.append(Batch(len(out), tuple(group), str(spool), folders))
            left -= size
            group, size = [], 0
            if workers > 1:
                most = min(batch_bytes, max(left // (2 * workers), LAST_BATCH))
        group.append(unit)
        size += work
    if group:
        out.append(Batch(len(out), tuple(group), str(spool), folders))
    return out
