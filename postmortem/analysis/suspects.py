"""Workers of a trace of timed operations that are slower than the other replicas of their pipeline stage: by their work, by their links."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import polars as pl

from postmortem.analysis.peers import Floats, SlowPeer, slow_peers
from postmortem.analysis.what_if import NEIGHBOURS, Course

MIN_LINK_RATIO: Final = 1.5
MIN_LINK_SHARE: Final = 0.03
"""What slow transfers must add to a step, as a share of it, to be worth a name."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A slow worker of a trace; `ratio` of its own work (or transfers) to its peers', `since` a step or None."""

    rank: int
    stage: int
    replica: int | None
    ratio: float
    since: int | None
    kind: str
    waits_least: bool
    file: str
    line: int


def _by_peer(work: pl.DataFrame, column: str) -> tuple[list[int], list[int], Floats]:
    """(ranks, steps, times) of one stage: a row per rank and a column per step, NaN where a rank has none."""
    wide = work.pivot("step", index="rank", values=column, sort_columns=False).sort("rank")
    steps = sorted(int(c) for c in wide.columns if c != "rank")
    times = wide.select(pl.col(str(s)).cast(pl.Float64) for s in steps).to_numpy().astype(np.float64)
    return wide["rank"].to_list(), steps, times


def slow_by_work(con: duckdb.DuckDBPyConnection, trace: str, work: pl.DataFrame) -> list[Suspect]:
    """Workers whose own work takes longer than that of the other replicas of their stage.

    Two readings, either is enough: the sum over a step's microbatches, and the shortest of them. The second one sees a slow machine
    where inputs of unequal length make the sums differ from step to step.
    """
    least = {
        int(r[0])
        for r in con.execute(
            """
            WITH m AS (SELECT stage, rank, median(wait_s) AS w FROM op_waits WHERE trace = ? GROUP BY ALL)
            SELECT arg_min(rank, w) FROM m GROUP BY stage HAVING count(*) > 1 AND median(w) >= 2 * min(w)""",
            [trace],
        ).fetchall()
    }
    found: list[Suspect] = []
    for (stage,), part in work.partition_by("stage", as_dict=True, maintain_order=True).items():
        best: dict[int, SlowPeer] = {}
        ranks: list[int] = []
        steps: list[int] = []
        for column in ("sum_s", "least_s"):
            ranks, steps, times = _by_peer(part, column)
            for peer in slow_peers(times):
                if peer.index not in best:
                    best[peer.index] = peer
        for index, peer in best.items():
            since = None if peer.since is None else steps[peer.since]
            own = part.filter((pl.col("rank") == ranks[index]) & (pl.col("step") >= (since or steps[0])))
            slowest = own.sort("sum_s", descending=True).row(0, named=True)
            replica = own["dp_rank"][0]
            found.append(
                Suspect(
                    ranks[index], int(str(stage)), replica, peer.ratio, since, "compute", ranks[index] in least,
                    slowest["file"], int(slowest["line"]),
                )
            )  # fmt: skip
    return found


def slow_by_links(course: Course, work: pl.DataFrame, named: set[tuple[int, int | None]]) -> list[Suspect]:
    """Workers whose transfers to every neighbour take longer than those of the other replicas, from when both ends are there.

    Only where it matters (3 % of a step). Where both ends of one link are slow and neither has another slow one, the path between
    them may as well be at fault: nobody is named.
    """
    order = np.unique(course.replica)
    least = MIN_LINK_SHARE * course.step_s(course.ideal())
    slow: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    ends: dict[int, set[int]] = defaultdict(set)
    for stage in range(course.stages):
        links: dict[int, list[int]] = defaultdict(list)
        for i in np.flatnonzero((course.stage == stage) & np.isin(course.op, NEIGHBOURS)):
            others = [m for m in course.group[i] if m != i]
            if len(others) == 1:
                links[int(course.stage[others[0]])].append(int(i))
        for far, rows in links.items():
            ends[stage].add(far)
            times = np.array([course.seconds[np.ix_(rows, course.replica == r)].sum(axis=0) for r in order])
            for peer in slow_peers(times):
                extra = float(np.median(times[peer.index]) * (1 - 1 / peer.ratio))
                if peer.ratio >= MIN_LINK_RATIO and extra >= least:
                    slow[stage, int(order[peer.index])][far] = peer.ratio
    found = []
    for (stage, replica), ratios_by_end in slow.items():
        alone = any(stage not in slow.get((f, replica), {}) for f in ratios_by_end)
        is_everywhere = set(ratios_by_end) == ends[stage]
        if not is_everywhere or (stage, replica) in named or not (len(ratios_by_end) > 1 or alone):
            continue
        own = work.filter((pl.col("stage") == stage) & (pl.col("dp_rank") == replica))
        if own.height:
            row = own.row(0, named=True)
            found.append(
                Suspect(
                    row["rank"],
                    stage,
                    replica,
                    min(ratios_by_end.values()),
                    None,
                    "network",
                    False,
                    row["file"],
                    int(row["line"]),
                )
            )
    return found
