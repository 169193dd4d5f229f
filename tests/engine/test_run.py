"""The local pool: results in order, and nothing left running."""

from __future__ import annotations

import time
from collections.abc import Generator
from multiprocessing import active_children
from typing import cast

from postmortem.engine import WORKERS_FROM_BYTES, run


def test_who_stops_asking_does_not_wait_for_the_workers() -> None:
    before = set(active_children())
    begin = time.monotonic()
    # Three minutes of work that nobody can hurry.
    results = cast("Generator[None, None, None]", run(time.sleep, [0.0, 90.0, 90.0], 2, WORKERS_FROM_BYTES))
    assert next(results) is None
    workers = set(active_children()) - before
    assert len(workers) == 2
    results.close()
    for worker in workers:
        worker.join(30)
    assert not any(worker.is_alive() for worker in workers)
    assert time.monotonic() - begin < 80


def test_little_work_stays_in_this_process() -> None:
    before = set(active_children())
    assert list(run(abs, [-1, 2, -3], 2, WORKERS_FROM_BYTES - 1)) == [1, 2, 3]
    assert set(active_children()) == before
