"""Where parsing runs: in this process or in worker processes, the same function everywhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

WORKERS_FROM_BYTES: Final = 48 << 20
"""Below this a second process costs more (importing polars) than it gains."""


def default_workers() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def run(function: Callable[[Task], Result], tasks: Sequence[Task], workers: int, total_bytes: int) -> Iterator[Result]:
    """`function` of each task, in the order of the tasks.

    `function` and tasks must be picklable. In process when one worker is asked for, when there is
    one task, or when there is too little to share out.
    """
    if workers <= 1 or len(tasks) <= 1 or total_bytes < WORKERS_FROM_BYTES:
        yield from map(function, tasks)
        return
    # Here, since a small bundle does without: they load sockets and pickling.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    before = set(active_children())
    # forkserver: a fork after polars has started its threads is not safe, spawn is slower.
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("forkserver"), initializer=_deaf)
    try:
        yield from pool.map(function, tasks)
    except BaseException:
        # Nobody waits for what the workers are at: the caller was interrupted, or stopped asking.
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(active_children()) - before:
            worker.terminate()
        raise
    pool.shutdown()


def _deaf() -> None:
    """Ctrl-C goes to all processes of a terminal; the parent alone answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
