"""How the files of a bundle are shared out to workers."""

from __future__ import annotations

from postmortem.bundle import Unit
from postmortem.tables.batches import LAST_BATCH, batch_size, batches, work_of

MB = 1 << 20


def units(*sizes: int) -> list[Unit]:
    """Plain files of so many megabytes."""
    return [Unit(f"/bundle/{n:03}.log", f"{n:03}.log", size * MB, is_archive=False) for n, size in enumerate(sizes)]


def test_every_unit_is_in_one_batch() -> None:
    given = units(*range(1, 60), 300)
    for workers in (1, 2, 16):
        made = batches(given, "spool", (), batch_size(sum(map(work_of, given)), workers), workers)
        assert sorted(u.name for b in made for u in b.units) == [u.name for u in given]
        assert [b.number for b in made] == list(range(len(made)))


def test_batches_of_several_workers_become_small_toward_the_end() -> None:
    given = units(*[8] * 100)
    made = batches(given, "spool", (), 192 * MB, 2)
    sizes = [sum(u.size for u in b.units) for b in made]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 4 * LAST_BATCH
    assert sizes[-1] <= LAST_BATCH


def test_what_cannot_be_shared_out_begins_first_and_floods_come_last() -> None:
    made = batches(units(30, 500, 1, 30, 2), "spool", (), 192 * MB, 2)
    assert [u.size // MB for b in made for u in b.units] == [500, 1, 2, 30, 30]
    assert [u.size // MB for b in batches(units(30, 500, 1), "spool", (), 192 * MB, 1) for u in b.units] == [30, 500, 1]
