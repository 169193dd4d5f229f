"""Blast radius (rule G): how much of what failed lies behind the first finding, from the job's end back over the edges to its root.

A recursive query over the table `edges`: the failures of the job's ranks, what explains each of them, what explains that, and so
on. A rank is covered when the finding's own episodes are met on the way, or are its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from postmortem.analysis.model import Reach
from postmortem.analysis.windows import FAILURES

MAX_ENDS = 20_000
"""Episodes of failures that the walk begins at, the earliest; more are not asked."""

_WALK = f"""
    WITH RECURSIVE ends AS (
      SELECT DISTINCT r.episode, coalesce(e.rank, f.rank) AS rank, coalesce(k.node, p.node, e.host) AS host
      FROM events e JOIN episode_rows r ON r.event_id = e.event_id LEFT JOIN file_rank f ON f.file = e.file
        LEFT JOIN ranks k ON k.rank = coalesce(e.rank, f.rank) LEFT JOIN pod_node p ON p.pod = e.host
      WHERE e.event IN ({", ".join(f"'{name}'" for name in FAILURES)}, 'nccl.abort', 'nccl.ib_completion_error', 'nccl.remote_closed', 'nccl.socket_error')
        AND e.severity IN ('error', 'fatal')
      ORDER BY r.episode LIMIT {MAX_ENDS}),
    back AS (
      SELECT DISTINCT unnest(?::BIGINT[]) AS episode
      UNION
      SELECT x.effect_episode FROM back b JOIN edges x ON x.cause_episode = b.episode),
    failed AS (SELECT rank, host, bool_or(episode IN (FROM back) OR host = ?) AS is_met FROM ends GROUP BY rank, host)
    SELECT count(DISTINCT rank) FILTER (is_met), count(DISTINCT rank), count(DISTINCT host) FILTER (is_met), count(DISTINCT host) FROM failed"""
# The walk is written from the root on: the same pairs as from each end back, but once instead of once per end.


def reach(con: duckdb.DuckDBPyConnection, episodes: Sequence[int], host: str | None) -> Reach | None:
    """What lies behind the episodes of a finding whose culprit is `host`; None where fewer than two ranks or hosts failed."""
    row = con.execute(_WALK, [list(episodes), host]).fetchone()
    if row is None:
        return None
    ranks, all_ranks, hosts, all_hosts = row
    if all_ranks >= 2:
        return Reach("rank", int(ranks), int(all_ranks))
    return Reach("host", int(hosts), int(all_hosts)) if all_hosts >= 2 else None
