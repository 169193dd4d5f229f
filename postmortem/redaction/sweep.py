"""Names in all lines of a bundle: one that no kept line explains (`session opened for user …`) may stand in a kept one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from postmortem.bundle import Limits, Unit, open_units
from postmortem.engine import run
from postmortem.lines.blocks import read_blocks
from postmortem.redaction.names import Names
from postmortem.tables.batches import batches

HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Task:
    """Units for one worker, and the names that are known beforehand."""

    units: tuple[Unit, ...]
    limits: Limits
    known: Names


def sweep(units: Sequence[Unit], names: Names, limits: Limits, workers: int) -> None:
    """Add to `names` what the text members of `units` hold; a second reading of the bundle, in worker processes where it is large."""
    tasks = [Task(batch.units, limits, names) for batch in batches(units, "", ())]
    for found in run(find_in, tasks, workers, sum(unit.size for unit in units)):
        names.merge(found)


def find_in(task: Task) -> Names:
    """The names of one task, the known ones among them."""
    names = Names()
    names.merge(task.known)
    for member in open_units(task.units, task.limits):
        if b"\0" in member.head(HEAD_BYTES):
            continue
        for block in read_blocks(member.stream):
            names.find(block.text.unique())
    return names
