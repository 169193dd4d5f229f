"""Congestion against the job's pace: did steps slow down in the minutes in which switches and hosts showed it?"""

from __future__ import annotations

from typing import Final

import duckdb

from postmortem.analysis.model_slow import Congestion
from postmortem.tables.statements import run

SLOW_STEP: Final = 1.1
"""A step is in the tail from this multiple of the median on."""

MIN_MINUTES: Final = 3
"""Minutes with a sign below which nothing is said of how steps went with them."""

MAX_PLACES: Final = 50


def join_congestion(con: duckdb.DuckDBPyConnection) -> tuple[Congestion, ...]:
    """Per switch or host with signs of congestion how it went with the steps, most slow minutes first; fills `congestion_minutes`.

    `slow_with` and `slow_without` are shares of minutes that hold a slow step: with a sign at that place, and with none anywhere. None where
    no step ran in such minutes.
    """
    run(con, "postmortem.analysis", "congestion.sql")
    without = con.execute("SELECT avg((ratio >= ?)::INT) FROM step_minutes WHERE NOT has_sign", [SLOW_STEP]).fetchone()
    share = float(without[0]) if without and without[0] is not None else None
    rows = con.execute(
        """
        SELECT host, count(*), sum(storms), sum(marks), sum(drops), sum(waits), sum(grown), min(minute), max(minute), avg((step_ratio >= ?)::INT), max(ports), max(step_ratio)
        FROM congestion_minutes GROUP BY host ORDER BY count(*) FILTER (step_ratio >= ?) DESC, count(*) DESC, host LIMIT ?""",
        [SLOW_STEP, SLOW_STEP, MAX_PLACES],
    ).fetchall()
    return tuple(
        Congestion(
            place=host,
            minutes=int(minutes),
            storms=int(storms),
            marks=int(marks),
            drops=int(drops),
            waits=int(waits),
            grown=int(grown),
            ports=int(ports),
            first=first,
            last=last,
            slow_with=None if slow is None else round(float(slow), 4),
            slow_without=None if share is None else round(share, 4),
            worst_step=None if worst is None else round(float(worst), 4),
            summary=_said(int(minutes), slow, share),
        )
        for host, minutes, storms, marks, drops, waits, grown, first, last, slow, ports, worst in rows
    )


def _said(minutes: int, slow: float | None, without: float | None) -> str:
    if slow is None:
        return "no step with a known time ran then"
    if minutes < MIN_MINUTES:
        return "too few minutes to tell whether steps were slow for it"
    if without is None:
        return f"{100 * slow:.0f} % of these minutes hold a slow step; there is none without a sign to compare with"
    if slow >= 0.5 and slow >= 2 * without:
        return f"steps slow down with it: {100 * slow:.0f} % of these minutes hold a slow step, {100 * without:.0f} % of the others"
    if slow <= without + 0.1:
        return f"steps do not slow down with it: {100 * slow:.0f} % of these minutes hold a slow step, {100 * without:.0f} % of the others"
    return f"steps are somewhat slower with it: {100 * slow:.0f} % of these minutes hold a slow step, {100 * without:.0f} % of the others"
