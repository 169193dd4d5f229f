"""Traces of timed operations as ByteDance's StragglerAnalysis takes them, made from given durations: small grids, exact times."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import polars as pl

Duration = Callable[[str, int, int, int, int], float]
"""(operation, replica, stage, step, microbatch) -> seconds"""

MOVE, REDUCE, CLIP, UPDATE = 0.001, 0.05, 0.002, 0.01


def trace(
    work: Duration,
    *,
    replicas: int = 3,
    stages: int = 2,
    steps: int = 24,
    microbatches: int = 4,
    transfer: Duration | None = None,
) -> list[dict[str, Any]]:
    """Rows of a trace in which every stage does all forward passes, then all backward ones, and nothing else takes time of its own."""
    rows: list[dict[str, Any]] = []

    def move(op: str, replica: int, stage: int, step: int, k: int) -> float:
        return transfer(op, replica, stage, step, k) if transfer else MOVE

    for step in range(100, 100 + 3 * steps, 3):
        free: dict[tuple[int, int], float] = {}

        def put(op: str, replica: int, stage: int, k: int, start: float, end: float, step: int = step) -> None:
            is_work = op.endswith("-compute")
            rows.append(
                {
                    "dp_rank": replica, "stage": stage, "rank": stage * replicas + replica, "step": step, "optype": op, "start_ts": start,
                    "duration": end - start, "seq_id": k, "mc": 0 if is_work else -1, "mb_id": k if is_work else -1, "gmc": stage if is_work else -1,
                }
            )  # fmt: skip

        for replica in range(replicas):
            for way, order in (("forward", range(stages)), ("backward", reversed(range(stages)))):
                sent: list[float] = []
                before = -1
                for stage in order:
                    ready = free.get((replica, stage), 0.0)
                    done: list[float] = []
                    for k in range(microbatches):
                        if sent:
                            took = move(f"{way}-send", replica, before, step, k)
                            end = max(ready, sent[k]) + took
                            put(f"{way}-recv", replica, stage, k, ready, end)
                            put(f"{way}-send", replica, before, k, sent[k], end)
                            ready = end
                        end = ready + work(f"{way}-compute", replica, stage, step, k)
                        put(f"{way}-compute", replica, stage, k, ready, end)
                        ready = end
                        done.append(end)
                    free[replica, stage] = ready
                    sent, before = done, stage
        for stage in range(stages):
            last = max(free[r, stage] for r in range(replicas)) + REDUCE
            for replica in range(replicas):
                put("grads-reduce-scatter", replica, stage, 0, free[replica, stage], last)
                free[replica, stage] = last
        last = max(free.values()) + CLIP
        for (replica, stage), start in free.items():
            put("optimizer-clip-main-grad", replica, stage, 0, start, last)
            put("optimizer", replica, stage, 0, last, last + UPDATE)
    return rows


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """The rows as a Parquet file with the types of the published traces; operations in a dictionary by first appearance."""
    stream = io.BytesIO()
    small = {"dp_rank": pl.Int8, "stage": pl.Int8, "rank": pl.Int16, "step": pl.Int64, "optype": pl.Categorical, "start_ts": pl.Float32,
             "duration": pl.Float32, "seq_id": pl.Int32, "mc": pl.Int8, "mb_id": pl.Int8, "gmc": pl.Int16}  # fmt: skip
    pl.DataFrame(rows).cast({n: t for n, t in small.items() if n in rows[0]}).write_parquet(stream)
    return stream.getvalue()


def jitter(step: int, replica: int, k: int) -> float:
    """A repeatable disturbance of at most half a percent."""
    return 1 + 0.005 * (((step * 31 + replica * 17 + k * 7) % 11) / 5 - 1)
