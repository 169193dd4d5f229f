"""Offsets between clocks from moments that they shared (rules B2, B4, B5).

The offset of a node is the median, over the moments it shares, of its time minus the median of all nodes, times corrected by what is known
so far, until nothing moves. Assumptions: the moments are simultaneous to within their grade; most clocks of the job's nodes are
right, since offsets are told from their median, not from true time. A clock that was stepped has an offset before and another after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import duckdb
import polars as pl

from postmortem.analysis.zones import NEAR_US, frame, shared

FLOOR_US: Final = {"fine": 100_000, "medium": 1_000_000}
"""Least uncertainty of an offset: how far the moments of a grade are from simultaneous."""
MIN_SHARED: Final = 3
ROUNDS: Final = 8
UNKNOWN_US: Final = 5_000_000
"""Half width of the error bar of a clock that was not compared. Hosts under NTP agree within milliseconds, badly kept ones do not."""
STEPPED_US: Final = 1_000_000
"""Uncertainty of an offset that only rests on the step by which the clock was set right."""
KINDS: Final = {
    "init": "communicator set-ups",
    "step": "steps",
    "collective": "collectives",
    "watchdog": "watchdog timeouts",
    "signal": "signals",
    "link": "link changes seen at both ends",
}


@dataclass(frozen=True, slots=True)
class Span:
    """How the clock of `node` ran from `begin` to `end` of its own time (None: from the first, to the last line)."""

    node: str
    begin: datetime | None
    end: datetime | None
    offset_us: int | None
    uncertainty_us: int
    basis: str
    twice_us: int = 0
    """How long after `begin` the clock shows times that it had shown before: the length of a step back."""


@dataclass(slots=True)
class _Solved:
    """Offset, uncertainty and number of shared moments of a node."""

    offset: float
    uncertainty: float
    count: int
    kinds: list[str] = field(default_factory=list)


def _steps(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[datetime, float | None]]]:
    """Steps of each node's clock: (own time after the step, microseconds added; None: not said), earliest first.

    From the daemons' own lines, and from kernel lines that print date and uptime: their difference jumps with the clock.
    """
    told = con.execute("""
        SELECT c.node, e.ts, any_value(CASE WHEN e.reason IS NULL THEN try_cast(e.value AS DOUBLE) * 1e6 END) FROM events e JOIN line_clock c USING (event_id)
        WHERE e.event = 'host.clock_step' AND e.ts IS NOT NULL AND e.source IN ('host', 'kernel') GROUP BY c.node, e.ts ORDER BY ALL""").fetchall()
    seen = con.execute("""
        WITH k AS (
          SELECT c.node, e.file, e.line, e.ts, e.boot, epoch_us(e.ts) - e.uptime_s * 1e6 AS boot_us, c.res_us FROM events e JOIN line_clock c USING (event_id)
          WHERE e.uptime_s > 300 AND e.ts IS NOT NULL AND NOT c.is_borrowed
          UNION ALL
          SELECT c.node, f.file, f.line, f.ts, f.boot, epoch_us(f.ts) - f.uptime_s * 1e6, c.res_us FROM facts f JOIN fact_line_clock c USING (file, line, "offset")
          WHERE f.uptime_s > 300 AND f.ts IS NOT NULL AND NOT c.is_borrowed
        ), d AS (SELECT *, boot_us - lag(boot_us) OVER w AS jump, lead(boot_us) OVER w - boot_us AS next_jump, epoch_us(ts - lag(ts) OVER w) AS gap FROM k WINDOW w AS (PARTITION BY file, boot ORDER BY line))
        SELECT node, ts, jump FROM d WHERE abs(jump) > 1e6 + res_us + 200e-6 * abs(gap) AND abs(jump) < 3600e6 AND abs(coalesce(next_jump, 0)) < 0.5 * abs(jump) ORDER BY ALL""").fetchall()
    out: dict[str, list[tuple[datetime, float | None]]] = {}
    for node, ts, value in [*told, *seen]:
        steps = out.setdefault(node, [])
        # One step is told by the daemon and seen in the kernel's lines; the daemon's figure stands.
        if value is not None and abs(value) < 1e6:
            continue
        if all(abs((ts - t).total_seconds()) > 60 + abs(v or value or 0.0) / 1e6 for t, v in steps):
            steps.append((ts, value))
    return {n: sorted(s)[:4] for n, s in out.items() if s}


def _moments(con: duckdb.DuckDBPyConnection, shifts: dict[str, int]) -> pl.DataFrame:
    """Moments with times in UTC (kind, key, grade, node, us), link changes at both ends of a cable among them."""
    rows = frame(
        con,
        "SELECT kind, key, grade, unit, node, us::DOUBLE AS us FROM moments WHERE grade <> 'coarse' AND kind NOT IN ('killed', 'died') ORDER BY ALL",
    )
    if shifts:
        fixed = pl.DataFrame({"unit": list(shifts), "shift": list(shifts.values())})
        rows = (
            rows.join(fixed, on="unit", how="left")
            .with_columns(pl.col("us") - pl.col("shift").fill_null(0))
            .drop("shift")
        )
    rows = rows.group_by("kind", "key", "grade", "node").agg(pl.col("us").median())
    # Of several changes of one port each meets the nearest at the other end, and only where that one meets it too.
    links = frame(
        con,
        f"""
        WITH d AS (
          SELECT p.host_event, p.switch_event, p.host_node, p.switch_node, epoch_us(h.ts) AS host_us, epoch_us(s.ts) AS switch_us, abs(epoch_us(h.ts - s.ts)) AS far
          FROM link_pairs p JOIN events h ON h.event_id = p.host_event JOIN events s ON s.event_id = p.switch_event WHERE abs(epoch_us(h.ts - s.ts)) < {3 * NEAR_US}
        )
        SELECT host_event || '/' || switch_event AS key, host_node, switch_node, host_us::DOUBLE AS host_us, switch_us::DOUBLE AS switch_us FROM d
        QUALIFY row_number() OVER (PARTITION BY host_event ORDER BY far, switch_event) = 1 AND row_number() OVER (PARTITION BY switch_event ORDER BY far, host_event) = 1
        ORDER BY key LIMIT 5000""",
    )
    parts = [
        links.select(kind=pl.lit("link"), key="key", grade=pl.lit("medium"), node=f"{end}_node", us=f"{end}_us")
        for end in ("host", "switch")
    ]
    return pl.concat([rows.select("kind", "key", "grade", "node", "us"), *parts]).sort("kind", "key", "node")


def _solve(moments: pl.DataFrame, solved: dict[str, _Solved], floor: float) -> None:
    """Add to `solved` the offsets of nodes that share at least three moments with nodes in it; the first call picks the reference."""
    if not solved:
        counts = shared(moments, "node").rows()
        counts = [c for c in counts if c[1] >= MIN_SHARED]
        if not counts:
            return
        solved[min(counts, key=lambda c: (-c[1], c[0]))[0]] = _Solved(0.0, floor, 0)
    while True:
        fresh = _compared(moments, solved, set(solved), floor)
        if not fresh:
            return
        solved |= fresh


def _compared(moments: pl.DataFrame, solved: dict[str, _Solved], skip: set[str], floor: float) -> dict[str, _Solved]:
    """Offsets of the nodes not in `skip` against the median of the nodes in `solved`, where at least three moments are shared."""
    known = pl.DataFrame(
        {"node": list(solved), "offset": [s.offset for s in solved.values()]},
        schema={"node": pl.String, "offset": pl.Float64},
    )
    right = moments.join(known, on="node").with_columns(t=pl.col("us") - pl.col("offset"))
    ref = right.group_by("kind", "key").agg(
        ref=pl.col("t").median(), n=pl.col("node").n_unique(), only=pl.col("node").first()
    )
    rows = (
        moments.filter(~pl.col("node").is_in(list(skip)))
        .join(ref, on=["kind", "key"])
        .filter((pl.col("n") > 1) | (pl.col("only") != pl.col("node")))
        .with_columns(d=pl.col("us") - pl.col("ref"))
    )
    rows = rows.filter(pl.len().over("node") >= MIN_SHARED)
    rows = rows.with_columns(middle=pl.col("d").median().over("node"))
    found = (
        rows.group_by("node")
        .agg(pl.col("middle").first(), spread=(pl.col("d") - pl.col("middle")).abs().median(), n=pl.len())
        .sort("node")
    )
    kinds: dict[str, list[str]] = {}
    for node, kind, _ in (
        rows.group_by("node", "kind").len().sort("node", "len", "kind", descending=[False, True, False]).rows()
    ):
        kinds.setdefault(node, []).append(kind)
    return {
        node: _Solved(middle, max(floor, 1.4826 * spread), n, kinds[node]) for node, middle, spread, n in found.rows()
    }


def find_spans(con: duckdb.DuckDBPyConnection, shifts: dict[str, int]) -> list[Span]:
    """The spans of every node with a known offset, or with a step of its clock."""
    moments = _moments(con, shifts)
    steps = _steps(con)
    moments = _split(moments, steps)
    solved: dict[str, _Solved] = {}
    fine = moments.filter(pl.col("grade") == "fine")
    _solve(fine, solved, FLOOR_US["fine"])
    first = set(solved)
    if not first:
        _solve(moments, solved, FLOOR_US["medium"])
        first = set(solved)
        fine = moments
    floor = FLOOR_US["fine" if fine is not moments else "medium"]
    for _ in range(ROUNDS):
        again = _compared(fine.filter(pl.col("node").is_in(list(first))), solved, set(), floor)
        moved = max((abs(again[n].offset - solved[n].offset) for n in again), default=0.0)
        solved |= again
        if moved < 1000:
            break
    _recentre(con, solved)
    _solve(moments, solved, FLOOR_US["medium"])
    if len(solved) < 2:
        solved.clear()
    return _spans(solved, steps)


def _recentre(con: duckdb.DuckDBPyConnection, solved: dict[str, _Solved]) -> None:
    """Tell offsets from the median of the job's nodes; where ranks are of no node among them, of all."""
    nodes = {r[0] for r in con.execute("SELECT host FROM job_nodes").fetchall()}
    values = [s.offset for n, s in solved.items() if n.split("\0")[0] in nodes] or [s.offset for s in solved.values()]
    if values:
        middle = float(pl.Series(values).median())  # type: ignore[arg-type]
        for s in solved.values():
            s.offset -= middle


def _split(moments: pl.DataFrame, steps: dict[str, list[tuple[datetime, float | None]]]) -> pl.DataFrame:
    """Moments of a node whose clock was stepped carry the number of the span in its name: each span runs on its own."""
    for node, found in steps.items():
        edges = [int((t - datetime(1970, 1, 1)) / timedelta(microseconds=1)) for t, _ in found]
        number = sum((pl.col("us") >= e).cast(pl.Int64) for e in edges)
        moments = moments.with_columns(
            node=pl.when(pl.col("node") == node).then(pl.format("{}\0{}", "node", number)).otherwise("node")
        )
    return moments


def _spans(solved: dict[str, _Solved], steps: dict[str, list[tuple[datetime, float | None]]]) -> list[Span]:
    out = []
    for name, s in solved.items():
        if "\0" not in name:
            out.append(Span(name, None, None, round(s.offset), round(s.uncertainty), _basis(s)))
    for node, found in steps.items():
        times = [t for t, _ in found]
        known = [solved.get(f"{node}\0{n}") for n in range(len(times) + 1)]
        offsets: list[_Solved | None] = list(known)
        # A daemon steps a clock to the right time: where the span after it was not compared it counts as right, and the one before
        # was off by what was taken away.
        for n in range(len(times), -1, -1):
            added = found[n][1] if n < len(times) else None
            after = offsets[n + 1] if n < len(times) else None
            if offsets[n] is None and added is not None:
                base = after or _Solved(0.0, STEPPED_US, 0)
                offsets[n] = _Solved(base.offset - added, max(base.uncertainty, STEPPED_US), 0)
        for n in range(1, len(times) + 1):
            before, added = known[n - 1], found[n - 1][1]
            if offsets[n] is None and added is not None:
                base = before or _Solved(-added, STEPPED_US, 0)
                offsets[n] = _Solved(base.offset + added, max(base.uncertainty, STEPPED_US), 0)
        for n, one in enumerate(offsets):
            begin, end = (times[n - 1] if n else None), (times[n] if n < len(times) else None)
            basis = "not compared beside a step"
            if one:
                basis = _basis(one) if one.count else "by a step that set it right"
            back = max(0.0, -(found[n - 1][1] or 0.0)) if n else 0.0
            off, wide = (round(one.offset), round(one.uncertainty)) if one else (None, UNKNOWN_US)
            out.append(Span(node, begin, end, off, wide, basis, round(back)))
    return sorted(out, key=lambda s: (s.node, s.begin or datetime.min))


def _basis(s: _Solved) -> str:
    if not s.kinds:
        return "reference"
    return f"{s.count} shared: {' and '.join(KINDS.get(k, k) for k in s.kinds[:2])}"
