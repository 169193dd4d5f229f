"""What is left to say of slow ranks where no trace and no table of their own times is in the bundle."""

from __future__ import annotations

from typing import Final

import duckdb

from postmortem.analysis.derived import Derived, table_rows
from postmortem.analysis.model import Culprit, Loss, SlowRank
from postmortem.tables.statements import run

NOTICEABLE: Final = 0.03
"""Share of the throughput lost to slow steps from which on somebody will ask which rank it was."""

SLOWING: Final = frozenset({"congestion", "data_stall", "storage_stall", "rank_straggler", "qp_straggler"})
"""Causes that explain slow steps by themselves."""

TO_COLLECT: Final = (
    "Times of each rank's own work: a trace of timed operations, Megatron-LM's --log-straggler, NVRx straggler detection. Step lines show the same time on "
    "every rank, for all wait for the slowest.",
    "Times of collectives on every rank (NCCL Inspector, NCCL 2.28 and later): the rank that waits least is the one the others wait for.",
    "Latencies of queue pairs (NCCL's example profiler plug-in, or a table as in docs/queue-pair-table.md): they tell a slow network from slow work.",
    "Clocks, temperatures and power of all GPUs while it is slow (dcgmi dmon, nvidia-smi -q).",
)


def late_ranks(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """The rank that the others wait for in most timed collectives.

    Two such ranks of different communicators are named only when it is the same one: a rank that is late in one group makes its members
    late in theirs.
    """
    run(con, "postmortem.analysis", "late_ranks.sql")
    rows = table_rows(con, "SELECT * FROM late_ranks")
    if not rows or len({r["rank"] for r in rows}) > 1:
        return None
    rank = int(rows[0]["rank"])
    wait, span = rows[0]["wait_s"], rows[0]["span_s"]
    slowdown = round(span / (span - wait), 4) if span and 0 < wait < span else 1.0
    place = con.execute("SELECT node, gpu, pci, local_rank FROM ranks WHERE rank = ?", [rank]).fetchone()
    node, gpu, pci, local = place or (None, None, None, None)
    calls = sum(int(r["calls"]) for r in rows)
    return Derived(
        "rank_straggler",
        0.75,
        Culprit(host=node, rank=rank, ranks=(rank,), gpu=gpu, pci=pci, local_rank=local),
        f"Rank {rank} comes last: in {calls} timed collectives ({100 * rows[0]['share']:.0f} %) it waits least and the others twice as long or more.",
        places=tuple((r["file"], int(r["line"])) for r in rows[:3] if r["line"] is not None),
        ranks=(SlowRank(rank, slowdown, None, "unknown", 0.75),),
    )


def to_name_a_rank(con: duckdb.DuckDBPyConnection, loss: Loss, *, is_named: bool, has_traces: bool) -> tuple[str, ...]:
    """What to collect where steps were slow and nothing tells whose fault it was; empty where somebody is named or ranks could be compared."""
    if is_named or has_traces or (loss.throughput_loss or 0.0) < NOTICEABLE:
        return ()
    apart = con.execute("""
        SELECT count(*) FROM (SELECT step FROM steps WHERE rank IS NOT NULL AND step_time_ms > 0 GROUP BY attempt, step
          HAVING count(DISTINCT rank) > 1 AND max(step_time_ms) > 1.01 * min(step_time_ms))""").fetchone()
    timed = con.execute("SELECT EXISTS(FROM qp_samples)").fetchone()
    texts: tuple[str, ...] = TO_COLLECT
    if apart and apart[0]:
        texts = texts[1:]
    return tuple(t for t in texts if not (timed and timed[0] and t.startswith("Latencies")))
