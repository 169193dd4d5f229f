"""Where parsing runs: in this process or in worker processes, the same function everywhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Task = TypeVar("Task")
Result = TypeVar("Result")

WORKERS_FROM_BYTES: Final = 48 << 20
"""Below this a second process costs more (importing polars) than it gains."""

_MEMORY: Final[Mapping[str, str]] = {
    # What numpy frees block after block stays in the process, in large pages: else a tenth of the time goes into getting it again.
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Settings of glibc's malloc for workers; another C library does not know them."""


def default_workers() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


class _Early:
    """Workers that were started before there was work for them."""

    pool: ProcessPoolExecutor | None = None


def start(workers: int, module: str) -> None:
    """Start `workers` processes for the next `run`; they import `module` while this process does other things."""
    if workers > 1 and _Early.pool is None:
        pool = _pool(workers, module)
        # A process is started for each task that finds none at rest.
        for _ in range(workers):
            pool.submit(int)
        _Early.pool = pool


def run(function: Callable[[Task], Result], tasks: Sequence[Task], workers: int, total_bytes: int) -> Iterator[Result]:
    """`function` of each task, in the order of the tasks.

    `function` and tasks must be picklable. In process when one worker is asked for, when there is
    one task, or when there is too little to share out.
    """
    early, _Early.pool = _Early.pool, None
    if workers <= 1 or len(tasks) <= 1 or total_bytes < WORKERS_FROM_BYTES:
        if early is not None:
            early.shutdown(wait=False, cancel_futures=True)
        yield from map(function, tasks)
        return
    # Here, since a small bundle does without: they load sockets and pickling.
    from multiprocessing import active_children

    before = set() if early is not None else set(active_children())
    pool = early or _pool(min(workers, len(tasks)))
    try:
        yield from pool.map(function, tasks)
    except BaseException:
        # Nobody waits for what the workers are at: the caller was interrupted, or stopped asking.
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(active_children()) - before:
            worker.terminate()
        raise
    pool.shutdown()


def _pool(workers: int, module: str = "") -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import forkserver, get_context

    with _set(_MEMORY):
        forkserver.ensure_running()
    # forkserver: a fork after polars has started its threads is not safe, spawn is slower.
    return ProcessPoolExecutor(workers, get_context("forkserver"), initializer=_begin, initargs=(module,))


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment with those `variables` that it lacks."""
    new = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _begin(module: str) -> None:
    """Ctrl-C goes to all processes of a terminal; the parent alone answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if module:
        __import__(module)
