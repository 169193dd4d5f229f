"""What travels to a worker: a function whose module loads nothing, so that workers are started and fed before this process has loaded polars."""

from __future__ import annotations

from typing import Final

from postmortem.tables.batches import Batch, BatchResult

HEAVY: Final = "postmortem.tables.ingest"
"""The module that `parse_unit` needs."""


def parse_unit(batch: Batch) -> BatchResult:
    """Parse all members of `batch` (`postmortem.tables.ingest.parse_batch`). Raises OSError when the spool refuses."""
    from postmortem.tables.ingest import parse_batch

    return parse_batch(batch)


def is_plain(name: str, head: bytes) -> bool:
    """A file that begins with `head` is read line by line (`postmortem.tables.ingest.is_plain`)."""
    from postmortem.tables import ingest

    return ingest.is_plain(name, head)
