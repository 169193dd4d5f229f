"""Slow paths by NCCL's proxy steps per peer and channel, where no queue pair was timed (rules I6 and I8)."""

from __future__ import annotations

from typing import Any, Final

import duckdb

from postmortem.analysis.derived import Derived, table_rows
from postmortem.analysis.model import Culprit

CONFIDENCE: Final = 0.75
"""Less than for a queue pair: a channel's sends may be spread over several."""

MOST: Final = 8


def slow_channels(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """The channels whose sends stay on the wire far longer than those of others, as a computed candidate.

    None where a queue pair was timed, and where more than a quarter of the channels are slow that neither leave one rank nor lead to one: that is
    no straggler but a fabric that is slow as a whole. Needs `proxy_steps.sql`.
    """
    rows = table_rows(con, "SELECT * FROM slow_channels ORDER BY p99_us DESC, rank, peer_rank, channel")
    if not rows:
        return None
    worst = rows[0]
    is_near, is_far = len({r["rank"] for r in rows}) == 1, len({r["peer_rank"] for r in rows}) == 1
    if not (is_near or is_far) and (len(rows) > MOST or 4 * len(rows) > worst["total"]):
        return None
    at_fault = int(worst["peer_rank"]) if is_far and not is_near else int(worst["rank"])
    place = table_rows(con, "SELECT node, gpu, pci, local_rank FROM ranks WHERE rank = ?", [at_fault])
    one: dict[str, Any] = place[0] if place else {}
    return Derived(
        "qp_straggler",
        CONFIDENCE,
        Culprit(
            host=one.get("node"),
            rank=at_fault,
            ranks=(at_fault,),
            gpu=one.get("gpu"),
            pci=one.get("pci"),
            local_rank=one.get("local_rank"),
        ),
        f"Sends of rank {worst['rank']} to rank {worst['peer_rank']} on channel {worst['channel']}: 1 % stayed on the wire for {worst['p99_us']:.0f} µs and more, "
        f"those of other channels far less; {_ground(rows, is_near=is_near, is_far=is_far)}.",
        places=tuple((r["file"], int(r["line"])) for r in rows[:4] if r["line"] is not None),
        collect=(
            "Latencies of queue pairs (NCCL built with NET_PROFILER=1): proxy steps do not say on which of them a send went.",
        ),
    )


def _ground(rows: list[dict[str, Any]], *, is_near: bool, is_far: bool) -> str:
    """What the slow channels have in common."""
    first = rows[0]
    if is_near and 2 * first["near"] > first["of_near"] >= 2 and not is_far:
        return f"{first['near']} of {first['of_near']} channels of that rank are slow: its NIC or link"
    if is_far and 2 * first["far"] > first["of_far"] >= 2 and not is_near:
        return f"{first['far']} of {first['of_far']} channels to that rank are slow: the NIC or link at the far end"
    return "the path between the two, for other channels are not slow"
