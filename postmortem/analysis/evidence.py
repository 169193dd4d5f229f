"""The lines that prove a finding, strongest first: the fault itself, what ties it to the end, what followed."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import duckdb

from postmortem.analysis.candidates import Candidate, Edge
from postmortem.analysis.model import Evidence, Role
from postmortem.analysis.windows import JobTimes

MAX_CAUSE: Final = 6
MAX_LINK: Final = 4
MAX_EFFECT: Final = 3


def _quoted(text: str | None, message: str | None, reason: str | None = None, value: str | None = None) -> str:
    """The line itself; of a record over several lines what the others add, after it."""
    line = text or message or ""
    for more in (reason, value):
        # Words of a record's other line, not a name or number taken out of this one.
        if more and " " in more and " ".join(more.split()) not in " ".join(f"{line} {message}".split()):
            line = f"{line.rstrip()} {' '.join(more.split())}"
    first, _, rest = (message or "").partition("\n")
    return f"{line.rstrip()} {' '.join(rest.split())}" if rest and line.rstrip().endswith(first.rstrip()) else line


def event_rows(con: duckdb.DuckDBPyConnection, ids: list[int], role: Role) -> list[Evidence]:
    """Evidence of these events, in the order given."""
    if not ids:
        return []
    found = {
        r[0]: Evidence(
            file=r[1],
            line=r[2],
            text=_quoted(r[3], r[4], r[8], r[9]),
            role=role,
            ts=r[5],
            host=r[6],
            event=r[7],
            event_id=r[0],
        )
        for r in con.execute(
            "SELECT event_id, file, line, text, message, ts, host, event, reason, value FROM events WHERE event_id IN (SELECT unnest(?))",
            [ids],
        ).fetchall()
    }
    return [found[i] for i in ids if i in found]


def _sign_rows(con: duckdb.DuckDBPyConnection, episode: int, cause: str, limit: int) -> list[int]:
    rows = con.execute(
        """
        SELECT r.event_id FROM episode_rows r JOIN events e USING (event_id) LEFT JOIN signs s ON s.event_id = r.event_id AND s.cause = ?
        WHERE r.episode = ? ORDER BY s.weight DESC NULLS LAST, e.ts NULLS LAST, r.event_id LIMIT ?""",
        [cause, episode, limit],
    ).fetchall()
    return [int(r[0]) for r in rows]


def gather(
    con: duckdb.DuckDBPyConnection,
    best: Candidate,
    group: list[Candidate],
    scored: list[Candidate],
    edges: list[Edge],
    times: JobTimes,
) -> tuple[Evidence, ...]:
    """Evidence rows of a finding: unique by file and line, the convincing one first."""
    ids = _sign_rows(con, best.episode, best.cause, 3)
    if best.event_id not in ids:
        ids.insert(0, best.event_id)
    for other in group[1:]:
        if len(ids) >= MAX_CAUSE:
            break
        if (
            other.relevance >= 0.3
            and (other.tier != "victim" or best.tier == "victim")
            and (other.host == best.host or other.port_host == best.host or best.port_host == other.host)
        ):
            ids += [i for i in _sign_rows(con, other.episode, other.cause, 1) if i not in ids]
    out = event_rows(con, ids[:MAX_CAUSE], "cause")
    out += event_rows(con, _links(con, best, scored, edges), "link")
    out += event_rows(con, _effects(con, best, edges, times), "effect")
    seen: dict[tuple[str, int], Evidence] = {}
    for row in out:
        seen.setdefault((row.file, row.line), row)
    return tuple(seen.values())


def _links(con: duckdb.DuckDBPyConnection, best: Candidate, scored: list[Candidate], edges: list[Edge]) -> list[int]:
    """Other first-hand rows of the same place and time, or that a rule ties to the cause."""
    tied = {
        e.effect
        for e in edges
        if e.cause == best.episode and e.rule.startswith(("F7", "F9", "F10", "F13", "F16", "E5"))
    }
    tied |= {e.cause for e in edges if e.effect == best.episode and e.rule.startswith(("F7", "F10", "F13"))}
    ids: list[int] = []
    for c in scored:
        if c.episode == best.episode or c.cause == best.cause or c.tier != "direct" or len(ids) >= MAX_LINK:
            continue
        near = c.first is not None and best.first is not None and abs(c.first - best.first) <= timedelta(seconds=60)
        same = c.host == best.host or (c.port_host is not None and c.port_host == best.host)
        if (c.episode in tied and c.relevance >= 0.2) or (near and same and c.relevance >= 0.3):
            ids += [i for i in _sign_rows(con, c.episode, c.cause, 1) if i not in ids]
    return ids


def _effects(con: duckdb.DuckDBPyConnection, best: Candidate, edges: list[Edge], times: JobTimes) -> list[int]:
    """First rows of what a rule says followed, and the first line by which the job knew."""
    episodes = [
        e.effect
        for e in sorted(
            (e for e in edges if e.cause == best.episode), key=lambda e: (-e.strength, abs(e.lag_s), e.effect)
        )
        if not e.rule.startswith(("F7", "F9", "F10", "F16", "E5"))
    ]
    names: dict[str, int] = {}
    for row in con.execute(
        "SELECT episode, event, event_id, first_ts FROM episodes WHERE episode IN (SELECT unnest(?)) ORDER BY first_ts NULLS LAST, episode",
        [episodes[:200]],
    ).fetchall():
        names.setdefault(row[1], int(row[2]))
    ids = list(names.values())[:MAX_EFFECT]
    if not ids and times.detected is not None and best.tier != "victim":
        known = con.execute(
            """
            SELECT event_id FROM events WHERE coalesce(ts_aligned, ts) = ? AND severity IN ('error', 'fatal') AND source IN ('nccl', 'torch', 'scheduler')
            ORDER BY event_id LIMIT 1""",
            [times.detected],
        ).fetchone()
        ids = [int(known[0])] if known else []
    return [i for i in ids if i != best.event_id]
