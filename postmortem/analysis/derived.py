"""Candidates that no single line states: slow ranks, slow queue pairs, ranks that differ in a stuck collective.

Each comes with evidence rows of its own (file and line), since it rests on many lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import duckdb

from postmortem.analysis.model import Culprit, SlowQueuePair, SlowRank
from postmortem.analysis.windows import JobTimes

MIN_SLOWDOWN: Final = 1.05


@dataclass(frozen=True, slots=True)
class Derived:
    """A computed candidate: cause, culprit, chance, onset and the rows it rests on, (file, line) or event ids."""

    cause: str
    p: float
    culprit: Culprit
    summary: str
    onset: datetime | None = None
    events: tuple[int, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    ranks: tuple[SlowRank, ...] = field(default=())
    queue_pairs: tuple[SlowQueuePair, ...] = field(default=())
    shown: tuple[tuple[str, int, str], ...] = ()
    """(file, entry, what it says) of files that have no lines to quote."""
    collect: tuple[str, ...] = ()


def table_rows(con: duckdb.DuckDBPyConnection, sql: str, values: list[Any] | None = None) -> list[dict[str, Any]]:
    """All rows of a query as dictionaries."""
    cursor = con.execute(sql, values or [])
    names = [d[0] for d in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _node(con: duckdb.DuckDBPyConnection, host: str | None) -> tuple[str | None, str | None]:
    """(node, pod) of a printed host name."""
    row = con.execute("SELECT node, is_pod FROM pod_node WHERE pod = ?", [host]).fetchone()
    return (row[0], host if row[1] else None) if row else (host, None)


def slow_ranks(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """Ranks that are slower than the median of their steps to the end of the record."""
    rows = table_rows(
        con,
        """
        SELECT s.*, r.node, r.host, r.gpu, r.pci, (SELECT min(x.file) FROM rank_ratio x WHERE x.rank = s.rank AND x.step = s.since_step) AS file,
          (SELECT min(x.line) FROM rank_ratio x WHERE x.rank = s.rank AND x.step = s.since_step) AS line, (SELECT min(x.ts) FROM rank_ratio x WHERE x.rank = s.rank AND x.step = s.since_step) AS ts
        FROM slow_ranks s LEFT JOIN ranks r USING (rank) ORDER BY s.ratio DESC, s.rank""",
    )
    if not rows:
        return None
    nodes = {r["node"] for r in rows if r["node"]}
    node = nodes.pop() if len(nodes) == 1 else None
    if node is None and len(nodes) > 1:
        return None
    whole = con.execute("SELECT count(*) FROM ranks WHERE node = ?", [node]).fetchone() if node else None
    ratio = sorted(r["ratio"] for r in rows)[len(rows) // 2]
    ranks = tuple(sorted(int(r["rank"]) for r in rows))
    kinds = tuple(
        SlowRank(int(r["rank"]), round(float(r["ratio"]), 3), int(r["since_step"]), "unknown", 0.85) for r in rows
    )
    heat = [
        int(r[0])
        for r in con.execute(
            "SELECT event_id FROM events WHERE event IN ('host.thermal_throttle', 'gpu.thermal') AND host = ? ORDER BY ts LIMIT 3",
            [node],
        ).fetchall()
    ]
    is_host = bool(whole and whole[0] and len(rows) >= whole[0] > 1)
    one = rows[0] if len(rows) == 1 else {}
    _, pod = _node(con, rows[0]["host"])
    return Derived(
        "rank_straggler",
        0.9 if ratio >= 1.1 else 0.75,
        Culprit(host=node, pod=pod, rank=ranks[0], ranks=ranks, gpu=one.get("gpu"), pci=one.get("pci")),
        f"{'All ranks of ' + str(node) if is_host else 'Rank ' + ', '.join(map(str, ranks[:8]))} slower than the others by a factor of {ratio:.2f} since step {rows[0]['since_step']}.",
        min((r["ts"] for r in rows if r["ts"]), default=None),
        tuple(heat),
        tuple((r["file"], int(r["line"])) for r in rows[:3] if r["file"]),
        kinds,
    )


def _minority(votes: list[dict[str, Any]]) -> tuple[list[int], Any] | None:
    """Ranks whose signature differs from that of more than half; None when all agree or none has a majority."""
    counts = Counter(v["signature"] for v in votes)
    if len(counts) < 2:
        return None
    (top, n), *_ = counts.most_common(1)
    if n * 2 <= len(votes):
        return None
    return sorted({int(v["rank"]) for v in votes if v["signature"] != top}), top


def mismatch(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """Ranks that wait in another collective than the majority at the same sequence number (rule H3)."""
    watch: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in table_rows(con, "SELECT *, concat_ws('/', op, numel) AS signature FROM watchdog_votes ORDER BY rank"):
        watch[row["pg"], row["seq"]].append(row)
    for votes in sorted(watch.values(), key=len, reverse=True):
        found = _minority(votes)
        if found:
            guilty, _ = found
            rows = [v for v in votes if v["rank"] in guilty]
            return _mismatch(
                con,
                guilty,
                tuple(int(v["event_id"]) for v in rows + [v for v in votes if v["rank"] not in guilty][:2]),
                (),
            )
    recorder: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table_rows(
        con,
        "SELECT *, concat_ws('/', op, numel_in, numel_out) AS signature FROM collective_votes ORDER BY rank, file, line",
    ):
        recorder[row["pg"]].append(row)
    for votes in recorder.values():
        found = _minority(votes)
        if found and found[0]:
            guilty, usual = found
            shown = [(v, "most others: " + usual) for v in votes if v["rank"] in guilty][:3]
            shown += [(v, "like most") for v in votes if v["rank"] not in guilty][:1]
            return _mismatch(con, guilty, (), tuple((v["file"], int(v["line"]), _vote(v, why)) for v, why in shown))
    return _fingerprints(con)


def _vote(v: dict[str, Any], why: str) -> str:
    """An entry of a flight recorder in words."""
    return f"rank {v['rank']} in group {v['pg']}: collective {v['seq']} is {v['signature']} ({why})"


def _fingerprints(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL names both sides; the one in fewest reports' first place or most named as other is guilty."""
    rows = table_rows(
        con,
        """
        SELECT event_id, regexp_extract(coalesce(text, message), 'Rank ([0-9]+) is running collective: (.*?), but Rank ([0-9]+) is running collective: (.*)$', ['a', 'x', 'b', 'y']) AS g
        FROM events WHERE event = 'torch.collective_mismatch' ORDER BY event_id LIMIT 4096""",
    )
    said: dict[int, str] = {}
    for row in rows:
        if row["g"] and row["g"]["a"]:
            said[int(row["g"]["a"])] = row["g"]["x"].split("OpType=")[-1].split(")")[0]
            said[int(row["g"]["b"])] = row["g"]["y"].split("OpType=")[-1].split(")")[0]
    found = _minority([{"rank": r, "signature": s} for r, s in said.items()]) if len(said) > 2 else None
    if not found:
        return None
    return _mismatch(con, found[0], tuple(int(r["event_id"]) for r in rows[:3]), ())


def _mismatch(
    con: duckdb.DuckDBPyConnection, guilty: list[int], events: tuple[int, ...], shown: tuple[tuple[str, int, str], ...]
) -> Derived:
    about = table_rows(con, "SELECT node, host, gpu, pci FROM ranks WHERE rank = ?", [guilty[0]])
    one = about[0] if about and len(guilty) == 1 else {}
    _, pod = _node(con, one.get("host"))
    named = ", ".join(map(str, guilty[:8]))
    return Derived(
        "collective_mismatch",
        0.9,
        Culprit(
            host=one.get("node"), pod=pod, gpu=one.get("gpu"), pci=one.get("pci"), rank=guilty[0], ranks=tuple(guilty)
        ),
        f"Rank{'s' if len(guilty) > 1 else ''} {named} called another collective than all others.",
        None,
        events,
        shown=shown,
    )


def absent_ranks(con: duckdb.DuckDBPyConnection, times: JobTimes) -> tuple[int, ...]:
    """Ranks of the world that printed no watchdog line while most others did (rule E7), or that lag in sequence; at most a quarter."""
    rows = con.execute(
        "SELECT rank, seq FROM watchdog_votes WHERE pg IN ('0', 'default_pg') OR (SELECT count(DISTINCT pg) FROM watchdog_votes) = 1"
    ).fetchall()
    world = con.execute("SELECT greatest(coalesce(max(nranks), 0), coalesce(max(rank) + 1, 0)) FROM ranks").fetchone()
    size = int(world[0]) if world and world[0] else 0
    if len(rows) < max(2, size // 2):
        waiting = {
            int(r[0])
            for r in con.execute("""
            SELECT DISTINCT coalesce(e.rank, f.rank) FROM events e LEFT JOIN file_rank f ON f.file = e.file
            WHERE e.event IN ('torch.exception', 'torch.watchdog_error', 'torch.watchdog_timeout') AND e.severity IN ('error', 'fatal')
              AND coalesce(e.rank, f.rank) IS NOT NULL""").fetchall()
        }
        silent = set(range(size)) - waiting
        return tuple(sorted(silent)) if waiting and 0 < len(silent) <= max(1, size // 4) else ()
    counts = Counter(r[1] for r in rows)
    top = counts.most_common(1)[0][0]
    lagging = {int(r[0]) for r in rows if r[1] is not None and top is not None and r[1] < top}
    missing = set(range(size)) - {int(r[0]) for r in rows}
    found = lagging | missing
    return tuple(sorted(found)) if 0 < len(found) <= max(1, size // 4) else ()
