"""The results of a function over tasks from any executor of concurrent.futures, where a try may fail."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

TRIES = 2


@dataclass(frozen=True, slots=True)
class Failed(Generic[Task]):
    """A task that was given up, and what its last try raised, in one line."""

    task: Task
    why: str


class DroppedError(Exception):
    """The executor cancelled work that nobody asked it to cancel: what ran it is gone."""


@dataclass(slots=True)
class Raised:
    """Catches what a try raises and keeps it as text: an exception itself may not survive the way between processes."""

    why: str = ""

    def __enter__(self) -> Raised:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.why = one_line(error)
            return True
        return False


def attempt(function: Callable[[Task], Result], task: Task) -> Result | Raised:
    """One try, where the work is done."""
    with Raised() as raised:
        return function(task)
    return raised


def gather(
    pool: Executor,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    split: Callable[[Task], Sequence[Task]],
    is_final: Callable[[BaseException], bool] = lambda error: False,
) -> Generator[tuple[Task, Result | Failed[Task]], None, None]:
    """(task, result) of every task as they become ready; each task, or each of its parts, comes exactly once.

    A task that fails is tried once more. When it fails again it is replaced by the parts that `split` makes of it, so
    that what is wrong with one part costs no other; a single part that fails twice is Failed. `is_final` says of an
    exception of the executor's own that it has tried often enough. What has not begun is cancelled when the caller
    stops. Raises DroppedError when the executor gives up on its own.
    """
    ready: SimpleQueue[Future[Result | Raised]] = SimpleQueue()
    open_tries: dict[Future[Result | Raised], tuple[Task, int]] = {}

    def submit(task: Task, number: int) -> None:
        future = pool.submit(attempt, function, task)
        open_tries[future] = (task, number)
        future.add_done_callback(ready.put)

    try:
        for task in tasks:
            submit(task, 1)
        while open_tries:
            future = ready.get()
            task, number = open_tries.pop(future)
            if future.cancelled():
                raise DroppedError
            error = future.exception()
            result = Raised(one_line(error)) if error is not None else future.result()
            if not isinstance(result, Raised):
                yield task, result
            elif number < TRIES and not (error is not None and is_final(error)):
                submit(task, number + 1)
            elif len(parts := split(task)) > 1:
                for part in parts:
                    submit(part, 1)
            else:
                yield task, Failed(task, result.why)
    finally:
        for future in open_tries:
            future.cancel()


def one_line(error: BaseException) -> str:
    """Type and first line of what `error` says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:200]}" if said else type(error).__name__
