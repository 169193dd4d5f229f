"""What a traced job's steps would take had its operations taken other times (lost_compute.md section 4, spatial form).

The trace gives, for every worker (pipeline stage × data-parallel replica) and step, its operations with begin and duration. All
replicas and steps run the same schedule, so it is laid out once, over stages, and evaluated for all of them at the same time:
one vector per operation, one entry per (step, replica). An operation begins when those before it have ended; a transfer ends when
its last member has begun, plus what it took from then on. Delays of the host between operations are left out, in the real and in
every imagined course alike, as in the published method.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COMPUTE: Final = ("forward-compute", "backward-compute")
LOCAL: Final = (*COMPUTE, "optimizer", "gc")
"""Work of a worker alone: its peers' mean is the ideal. All other operations move data, where the median is less moved by stalls."""

ALL_REPLICAS: Final = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")
ALL_WORKERS: Final = ("optimizer-clip-main-grad",)
BOTH_ENDS: Final = ("embedding-grads-all-reduce",)
NEIGHBOURS: Final = ("forward-send", "forward-recv", "backward-send", "backward-recv")

MAX_OPERATIONS: Final = 50_000
"""Operations of one step and replica that are laid out; a longer schedule is not imagined."""


@dataclass(frozen=True, slots=True)
class Course:
    """The schedule of a trace. Operations are numbered in an order in which each stands after those that it waits for.

    `seconds` has one row per operation and one column per (step, replica): how long it took, of a transfer from its last member's
    begin. `waits[i]` are the operations that end before i begins; `group[i]` the members of the transfer it belongs to, itself included.
    """

    op: npt.NDArray[np.str_]
    stage: Ints
    seconds: Floats
    step: Ints
    replica: Ints
    waits: tuple[tuple[int, ...], ...]
    group: tuple[tuple[int, ...], ...]
    over_replicas: npt.NDArray[np.bool_]

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return int(self.stage.max()) + 1

    def step_s(self, seconds: Floats) -> float:
        """Mean time of a step, were the operations that long."""
        _, end = self.times(seconds)
        return float(self._latest_of_step(end.max(axis=0))[:: self.replicas].mean())

    def times(self, seconds: Floats) -> tuple[Floats, Floats]:
        """(begin, end) of every operation, were they that long: seconds since the step began."""
        begin, end = np.zeros_like(seconds), np.zeros_like(seconds)
        done = np.zeros(len(self.op), dtype=bool)
        for i in range(len(self.op)):  # operations of one step; each is a vector over steps and replicas
            for w in self.waits[i]:
                np.maximum(begin[i], end[w], out=begin[i])
            members = self.group[i]
            done[i] = True
            if not all(done[m] for m in members):
                continue
            start = begin[list(members)].max(axis=0)
            if self.over_replicas[i]:
                start = self._latest_of_step(start)
            for m in members:
                end[m] = start + seconds[m]
        return begin, end

    def ideal(self) -> Floats:
        """Every operation as long as the mean (of transfers the median) of all of its kind."""
        out = self.seconds.copy()
        for name in np.unique(self.op):
            rows = self.op == name
            out[rows] = self.seconds[rows].mean() if name in LOCAL else np.median(self.seconds[rows])
        return out

    def even_work(self) -> Floats:
        """The work of every stage the same in all microbatches, replicas and steps, its mean; the rest as it was."""
        out = self.seconds.copy()
        for name in COMPUTE:
            for stage in range(self.stages):
                rows = (self.op == name) & (self.stage == stage)
                out[rows] = self.seconds[rows].mean() if rows.any() else 0.0
        return out

    @property
    def replicas(self) -> int:
        """Data-parallel replicas."""
        return len(np.unique(self.replica))

    def _latest_of_step(self, values: Floats) -> Floats:
        return np.repeat(values.reshape(-1, self.replicas).max(axis=1), self.replicas)


def course_of(ops: pl.DataFrame) -> Course | None:
    """The schedule of a trace; None when replicas or steps differ too much in it, or its sends and receives do not match.

    `ops` has columns stage, dp_rank, step, op, seq, start_s, duration_s and chunk (of the whole model, null not known).
    """
    key = ["stage", "op", "seq"]
    ops = ops.unique([*key, "dp_rank", "step"], keep="first", maintain_order=True)
    replicas = ops["dp_rank"].n_unique()
    laid = ops.group_by(key).agg(
        pl.len().alias("n"),
        pl.col("start_s").median().alias("start"),
        (pl.col("start_s") + pl.col("duration_s")).median().alias("end"),
        pl.col("chunk").max(),
    )
    lanes = ops.select("step", "dp_rank").unique().height
    laid = laid.filter(pl.col("n") * 2 > lanes).sort("start", "stage", "op", "seq")
    if not laid.height or laid.height > MAX_OPERATIONS:
        return None
    ops = ops.join(laid.select(key), on=key, how="semi")
    whole = ops.group_by("step").len().filter(pl.col("len") == laid.height * replicas)["step"]
    if whole.len() * 2 < ops["step"].n_unique():
        return None
    ops = ops.filter(pl.col("step").is_in(whole.implode()))
    plan = _lay_out(laid)
    if plan is None:
        return None
    order, waits, group = plan
    names = laid[order]
    place = names.select(key).with_row_index("place")
    shape = (laid.height, whole.len() * replicas)
    cells = ops.join(place, on=key).sort("place", "step", "dp_rank")
    start = cells["start_s"].to_numpy().astype(np.float64).reshape(shape)
    end = start + cells["duration_s"].to_numpy().astype(np.float64).reshape(shape)
    op = np.array(names["op"].to_list())
    wide = np.isin(op, ALL_REPLICAS + ALL_WORKERS)
    course = Course(
        op,
        names["stage"].to_numpy().astype(np.int64),
        np.zeros(shape),
        cells["step"].to_numpy()[: shape[1]].astype(np.int64),
        cells["dp_rank"].to_numpy()[: shape[1]].astype(np.int64),
        waits,
        group,
        wide,
    )
    for i, members in enumerate(group):
        late = start[list(members)].max(axis=0)
        course.seconds[i] = np.maximum(end[i] - (course._latest_of_step(late) if wide[i] else late), 0.0)
    return course


Plan = tuple[list[int], tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]


def _lay_out(laid: pl.DataFrame) -> Plan | None:
    """Order, waits and groups of the rows of `laid` (by begin); None when the operations do not fit together."""
    rows = laid.rows(named=True)  # one row per operation of a step and replica: some thousands
    by: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, r in enumerate(rows):
        by[r["stage"], r["op"]].append(i)
    for listed in by.values():
        listed.sort(key=lambda i: rows[i]["seq"])
    stages = max(r["stage"] for r in rows) + 1
    chunks = 1 + max(_chunk(r) for r in rows)
    waits: dict[int, list[int]] = defaultdict(list)
    group: dict[int, tuple[int, ...]] = {i: (i,) for i in range(len(rows))}
    sends: dict[tuple[str, int], list[int]] = {}
    for stage in range(stages):
        work = sorted(by[stage, COMPUTE[0]] + by[stage, COMPUTE[1]], key=lambda i: rows[i]["start"])
        if not work:
            return None
        _chain(waits, work)
        for way in ("forward", "backward"):
            own = by[stage, f"{way}-compute"]
            for end in ("send", "recv"):
                transfers = by[stage, f"{way}-{end}"]
                _chain(waits, transfers)
                edge = chunks - 1 if (way == "forward") == (end == "send") else 0
                real = [i for i in own if _chunk(rows[i]) != edge]
                mine = own if len(transfers) == len(own) else real
                if len(transfers) != len(mine):
                    return None
                for number, (t, c) in enumerate(zip(transfers, mine, strict=True)):
                    waits[t if end == "send" else c].append(c if end == "send" else t)
                    if end == "recv" and number:
                        waits[t].append(mine[number - 1])
                sends[f"{way}-{end}", stage] = [t for t, c in zip(transfers, mine, strict=True) if c in set(real)]
        _around(rows, by, waits, stage, work)
    for way, ahead in (("forward", 1), ("backward", -1)):
        for stage in range(stages):
            there = sends[f"{way}-recv", (stage + ahead) % stages]
            if len(there) != len(sends[f"{way}-send", stage]):
                return None
            for a, b in zip(sends[f"{way}-send", stage], there, strict=True):
                group[a] = group[b] = (a, b)
    for name in (*ALL_WORKERS, *BOTH_ENDS):
        members: dict[int, list[int]] = defaultdict(list)
        for stage in range(stages):
            for i in by.get((stage, name), []):
                members[rows[i]["seq"]].append(i)
        for together in members.values():
            group.update(dict.fromkeys(together, tuple(together)))
    return _in_order(len(rows), waits, group)


def _chunk(row: dict[str, object]) -> int:
    """Part of the model, in the order of the forward pass; without chunks the stage."""
    chunk = row["chunk"]
    stage = row["stage"]
    assert isinstance(stage, int)
    return chunk if isinstance(chunk, int) and chunk >= 0 else stage


def _chain(waits: dict[int, list[int]], chain: list[int]) -> None:
    for before, after in pairwise(chain):
        waits[after].append(before)


def _around(
    rows: list[dict[str, object]],
    by: dict[tuple[int, str], list[int]],
    waits: dict[int, list[int]],
    stage: int,
    work: list[int],
) -> None:
    """What stands before and after the work of a stage: parameters are gathered before it, the rest follows one another.

    What begins while work goes on (gradients that are reduced meanwhile) waits for the work that had ended by then.
    """
    gathers = by[stage, "params-all-gather"]
    _chain(waits, gathers)
    if gathers:
        waits[work[0]].append(gathers[0])
    taken = {*COMPUTE, *NEIGHBOURS, "params-all-gather"}
    rest = sorted(
        (i for (s, op), ids in by.items() if s == stage and op not in taken for i in ids), key=_by_start(rows)
    )
    _chain(waits, rest)
    for i in rest[:1] if rest and _at(rows, rest[0], "start") >= _at(rows, work[-1], "start") else rest:
        ended = [w for w in work if _at(rows, w, "end") <= _at(rows, i, "start") + 1e-3]
        is_after = _at(rows, i, "start") >= _at(rows, work[-1], "start")
        waits[i] += work[-1:] if is_after else ended[-1:]


def _at(rows: list[dict[str, object]], i: int, column: str) -> float:
    value = rows[i][column]
    assert isinstance(value, float)
    return value


def _by_start(rows: list[dict[str, object]]):  # type: ignore[no-untyped-def]
    return lambda i: (_at(rows, i, "start"), i)


def _in_order(count: int, waits: dict[int, list[int]], group: dict[int, tuple[int, ...]]) -> Plan | None:
    """Operations so that each stands after those it waits for and after all members of theirs; None for a circle."""
    follows: dict[int, list[int]] = defaultdict(list)
    missing = [0] * count
    for i in range(count):
        needed = {m for w in waits[i] for m in group[w]} - {i}
        missing[i] = len(needed)
        for n in needed:
            follows[n].append(i)
    ready = [i for i in range(count) if not missing[i]]
    order: list[int] = []
    while ready:
        i = ready.pop()
        order.append(i)
        for f in follows[i]:
            missing[f] -= 1
            if not missing[f]:
                ready.append(f)
    if len(order) < count:
        return None
    place = {i: n for n, i in enumerate(order)}
    return (
        order,
        tuple(tuple(place[w] for w in waits[i]) for i in order),
        tuple(tuple(place[m] for m in group[i]) for i in order),
    )
