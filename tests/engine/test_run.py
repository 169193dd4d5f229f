"""The local pool: results in order, and nothing left running."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from multiprocessing import active_children
from typing import cast

import pytest

from postmortem.engine import WORKERS_FROM_BYTES, _set, run, start


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


def test_workers_may_be_started_before_there_is_work() -> None:
    before = set(active_children())
    start(2, "colorsys")
    early = set(active_children()) - before
    assert len(early) == 2
    assert list(run(_has_module, ["colorsys"] * 4, 2, WORKERS_FROM_BYTES)) == [True] * 4
    assert not any(worker.is_alive() for worker in early)


def test_workers_that_were_started_for_nothing_end() -> None:
    before = set(active_children())
    start(2, "")
    early = set(active_children()) - before
    assert list(run(abs, [-1], 2, WORKERS_FROM_BYTES)) == [1]
    for worker in early:
        worker.join(30)
    assert not any(worker.is_alive() for worker in early)


def test_workers_get_malloc_settings_that_this_process_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with _set({"MALLOC_TRIM_THRESHOLD_": "1", "PATH": "no"}):
        assert os.environ["MALLOC_TRIM_THRESHOLD_"] == "1"
        assert os.environ["PATH"] != "no"
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ


def _has_module(name: str) -> bool:
    return name in sys.modules
