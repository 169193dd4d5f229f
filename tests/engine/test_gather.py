"""Tasks that fail are tried again, then in parts; nothing is lost and nothing comes twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from postmortem.engine.gather import DroppedError, Failed, gather, one_line

Work = tuple[int, ...]


def parts(task: Work) -> list[Work]:
    return [(n,) for n in task]


def gathered(function: Callable[[Work], int], tasks: list[Work]) -> dict[Work, int | Failed[Work]]:
    with ThreadPoolExecutor(2) as pool:
        found = list(gather(pool, function, tasks, parts))
    assert len({task for task, _ in found}) == len(found)
    return dict(found)


def test_each_task_comes_once() -> None:
    assert gathered(sum, [(n, 1) for n in range(50)]) == {(n, 1): n + 1 for n in range(50)}
    assert gathered(sum, []) == {}


def test_a_task_that_fails_once_is_tried_again() -> None:
    tries: Counter[Work] = Counter()

    def function(task: Work) -> int:
        tries[task] += 1
        if tries[task] == 1:
            raise OSError("the network went away")
        return sum(task)

    assert gathered(function, [(1, 2), (3,)]) == {(1, 2): 3, (3,): 3}
    assert tries == {(1, 2): 2, (3,): 2}


def test_a_task_that_fails_twice_is_tried_in_parts() -> None:
    tries: Counter[Work] = Counter()

    def function(task: Work) -> int:
        tries[task] += 1
        if 7 in task:
            raise ValueError("seven")
        return sum(task)

    found = gathered(function, [(1, 7, 2), (3, 4)])
    assert found == {(1,): 1, (2,): 2, (3, 4): 7, (7,): Failed((7,), "ValueError: seven")}
    assert tries == {(1, 7, 2): 2, (7,): 2, (1,): 1, (2,): 1, (3, 4): 1}


class Fragile(ThreadPoolExecutor):
    """Stands for an executor whose workers die over a task: it raises by itself."""

    tries: ClassVar[Counter[Work]] = Counter()

    def submit(self, fn: Any, /, *arguments: Any, **more: Any) -> Any:
        task = arguments[-1]
        self.tries[task] += 1
        if 7 not in task:
            return super().submit(fn, *arguments, **more)
        future: Future[int] = Future()
        future.set_exception(BrokenExecutor("four workers died"))
        return future


def test_what_the_executor_gave_up_is_not_tried_whole_again() -> None:
    with Fragile(1) as pool:
        found = dict(gather(pool, sum, list[Work]([(1, 7)]), parts, lambda error: isinstance(error, BrokenExecutor)))
    assert found == {(1,): 1, (7,): Failed((7,), "BrokenExecutor: four workers died")}
    assert pool.tries == {(1, 7): 1, (1,): 1, (7,): 1}


def test_an_executor_that_drops_work_is_told() -> None:
    with ThreadPoolExecutor(1) as pool:
        results = gather(pool, slow, list[Work]([(0,), (1,), (2,)]), parts)
        assert next(results) == ((0,), 0)
        pool.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(DroppedError):
            list(results)


def slow(task: Work) -> int:
    time.sleep(0.2 * sum(task))
    return sum(task)


def test_what_has_not_begun_is_cancelled_when_the_caller_stops() -> None:
    begun: list[Work] = []
    go_on = threading.Event()

    def function(task: Work) -> int:
        begun.append(task)
        if task != (0,):
            go_on.wait(30)
        return sum(task)

    with ThreadPoolExecutor(1) as pool:
        results = gather(pool, function, list[Work]((n,) for n in range(100)), parts)
        assert next(results) == ((0,), 0)
        results.close()
        go_on.set()
    assert len(begun) <= 2


def test_an_error_is_one_line() -> None:
    assert one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("x" * 1000))) < 250
