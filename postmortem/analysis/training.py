"""Candidates that the trainer's own lines show: numbers that come apart, and work of one rank for which the others waited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

import duckdb

from postmortem.analysis.derived import Derived, table_rows
from postmortem.analysis.model import Culprit
from postmortem.analysis.windows import JobTimes

BEFORE: Final = 20
"""Steps that a step's loss and gradient norm are held against."""
HOLE: Final = 50
"""So many usual distances between printed steps are a hole: what stands on its two sides is not compared."""
DRIFT_STEPS: Final = 60
"""Printed losses of a run that a slow rise is told from; the first ones of a run go up and down."""
USUAL_LIMITS_S: Final = (600.0, 1800.0, 3600.0)
"""Time limits of a barrier that nobody changed: of PyTorch now and before 2.2, and the round one that people set."""


def _is_spike(loss: float, norm: float | None, losses: Sequence[float], norms: Sequence[float]) -> bool:
    """The loss lies far above the steps before, and so does the gradient norm where it is printed."""
    usual = median(losses)
    if loss <= 1.5 * usual or loss - usual <= 0.5:
        return False
    if norm is None or not norms:
        return loss > 2 * usual
    return norm > 5 * max(median(norms), 1e-9)


def _beginnings(steps: list[dict[str, Any]]) -> list[int]:
    """Per step the index of the first one that it can be compared with: of the same run, no hole in between."""
    usual = median([b["step"] - a["step"] for a, b in pairwise(steps)] or [1])
    out: list[int] = []
    for i, step in enumerate(steps):
        last = steps[i - 1] if i else step
        whole = step["total_steps"] == last["total_steps"] and step["step"] - last["step"] <= HOLE * max(usual, 1)
        out.append(out[-1] if out and whole else i)
    return out


def _spike(steps: list[dict[str, Any]], begins: Sequence[int]) -> int | None:
    """Index of the first step whose numbers come apart; None when none do."""
    for i in range(3, len(steps)):
        loss = steps[i]["loss"]
        before = steps[max(begins[i], i - BEFORE) : i]
        losses = [s["loss"] for s in before if s["loss"] is not None]
        norms = [s["grad_norm"] for s in before if s["grad_norm"] is not None]
        if loss is not None and len(losses) >= 3 and _is_spike(loss, steps[i]["grad_norm"], losses, norms):
            return i
    return None


def _vanished(steps: list[dict[str, Any]]) -> bool:
    """The last step prints no loss although every one before did: a trainer that leaves out what is not a number."""
    return len(steps) >= 3 and steps[-1]["loss"] is None and all(s["loss"] is not None for s in steps[:-1])


def _drift(steps: list[dict[str, Any]], begin: int) -> int | None:
    """Index of the step from which on the loss stays above what it had come down to, where it ends far above it.

    A run that comes apart slowly has no step that lies far above those just before. Losses are compared as medians of five,
    from `begin` on; the last tenth of them, ten at least, must all lie at one and a half times the best, and by 1 above it.
    """
    known = [i for i in range(begin, len(steps)) if steps[i]["loss"] is not None]
    if len(known) < DRIFT_STEPS:
        return None
    smooth = [median(steps[i]["loss"] for i in known[k - 4 : k + 1]) for k in range(4, len(known))]
    best = min(smooth)
    end = min(smooth[-max(10, len(smooth) // 10) :])
    # A loss near 0 or below, as of a policy or a contrast, has no scale to be held against.
    if best < 0.1 or end <= 1.5 * best or end - best <= 1.0:
        return None
    last_low = max(k for k, value in enumerate(smooth) if value <= 1.25 * best)
    return known[last_low + 5] if last_low + 5 < len(known) else None


def broken_numbers(con: duckdb.DuckDBPyConnection, times: JobTimes) -> Derived | None:
    """A loss that jumps, vanishes, or whose scale was lowered to nothing; surer when it had not come back by the end."""
    steps = table_rows(
        con,
        "SELECT step, loss, grad_norm, total_steps, ts, file, line FROM steps WHERE is_main AND attempt = ? ORDER BY step",
        [times.attempt],
    )
    begins = _beginnings(steps)
    at = _spike(steps, begins)
    if at is not None:
        losses = [s["loss"] for s in steps[begins[at] : at] if s["loss"] is not None][-BEFORE:]
        last = [s["loss"] for s in steps[-5:] if s["loss"] is not None]
        came_back = bool(last) and median(last[-2:]) <= 1.2 * median(losses) and not _vanished(steps)
        far = len(steps) - at
        if came_back and (far > 200 or times.has_failure):
            return None
        worst = max(range(at, min(at + BEFORE, len(steps))), key=lambda i: steps[i]["loss"] or 0.0)
        shown = sorted({at, worst, *([len(steps) - 1] if _vanished(steps) else [])}, key=lambda i: (i != worst, i))
        return _numeric(steps, shown, 0.69 if came_back else 0.9)
    if _vanished(steps):
        return _numeric(steps, [len(steps) - 1], 0.6)
    risen = None if times.has_failure or not steps else _drift(steps, begins[-1])
    if risen is not None:
        return _numeric(steps, [risen, len(steps) - 1], 0.65)
    return _lost_scale(con)


def _numeric(steps: list[dict[str, Any]], shown: Sequence[int], p: float) -> Derived:
    first = steps[min(shown)]
    return Derived(
        "numeric",
        p,
        Culprit(),
        f"Numeric failure: the loss comes apart at step {first['step']}.",
        first["ts"],
        (),
        tuple((steps[i]["file"], int(steps[i]["line"])) for i in shown),
    )


def _lost_scale(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """Overflow after overflow until the scale of the loss is next to nothing (a healthy run loses a power of two now and then)."""
    rows = table_rows(
        con,
        "SELECT try_cast(value AS DOUBLE) AS scale, ts, file, line FROM facts WHERE fact = 'loss.scale' AND value IS NOT NULL ORDER BY file, line LIMIT 100000",
    )
    rows = [r for r in rows if r["scale"] is not None]
    if len(rows) < 6:
        return None
    last, first = rows[-1], rows[0]
    if last["scale"] > 1.0 or last["scale"] > first["scale"] / 64:
        return None
    return Derived(
        "numeric",
        0.9,
        Culprit(),
        f"Numeric failure: gradients overflow again and again, the loss scale fell to {last['scale']:g}.",
        first["ts"],
        (),
        tuple((r["file"], int(r["line"])) for r in (last, rows[-2], first)),
    )


def _clock_s(text: str) -> float:
    """Seconds of `29:55` or `1:02:03`."""
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + float(part)
    return total


def unfinished_preparation(con: duckdb.DuckDBPyConnection, times: JobTimes) -> Derived | None:
    """One rank prepares data while the others wait at a barrier until its time limit: the bar stands at the limit, unfinished,
    and no step was ever made after it."""
    rows = table_rows(
        con,
        """
        SELECT value, try_cast(status AS BIGINT) AS done, reason, ts, file, line, NOT EXISTS (FROM events e WHERE e.file = f.file AND e.line > f.line) AS is_last
        FROM facts f WHERE fact = 'data.progress' AND value IS NOT NULL AND NOT EXISTS (FROM steps s WHERE s.file = f.file AND s.line > f.line)
        ORDER BY file, line DESC LIMIT 1000""",
    )
    waited = con.execute(
        "SELECT max(coalesce(elapsed_ms, timeout_ms)) / 1000 FROM events WHERE event = 'torch.watchdog_timeout'"
    ).fetchone()
    limit = waited[0] if waited and waited[0] else None
    for row in rows:
        spent = _clock_s(row["value"])
        if row["done"] is None or row["done"] >= 99:
            continue
        if limit is not None:
            fits, p = 0.8 * limit <= spent <= 1.3 * limit, 0.9
        else:
            fits = any(0.98 * s <= spent <= 1.05 * s for s in USUAL_LIMITS_S) and (times.has_failure or row["is_last"])
            p = 0.69
        if fits:
            said = (row["reason"] or "").strip() or "data preparation"
            return Derived(
                "data_stall",
                p,
                Culprit(),
                f"Input data: {said} was at {row['done']} % after {row['value']} when the ranks that waited for it gave up.",
                row["ts"] - timedelta(seconds=spent) if row["ts"] else None,
                (),
                ((row["file"], int(row["line"])),),
            )
    return None


def waiting_for_data(con: duckdb.DuckDBPyConnection, times: JobTimes) -> Derived | None:
    """The steps' own times say that most of them was waiting for data, far more than what a step takes otherwise.

    Rule: at least four steps print both times, the run's first left out, since loaders fill up then; half of the whole time went into
    data, and the slowest step took five times the fastest quarter's. A job that is bound by its input throughout is slow by design.
    """
    if times.has_failure:
        return None
    rows = table_rows(
        con,
        """
        SELECT step, ts, file, line, step_time_ms AS ms, data_time_ms AS data FROM steps
        WHERE is_main AND attempt = ? AND step_time_ms > 0 AND data_time_ms IS NOT NULL AND data_time_ms <= 1.05 * step_time_ms ORDER BY step""",
        [times.attempt],
    )
    if rows and rows[0]["step"] <= 1:
        rows = rows[1:]
    if len(rows) < 4:
        return None
    usual = sorted(r["ms"] for r in rows)[len(rows) // 4]
    waits = [r for r in rows if r["data"] >= 0.5 * r["ms"] and r["ms"] >= 5 * usual]
    if not waits or sum(r["data"] for r in rows) < 0.5 * sum(r["ms"] for r in rows):
        return None
    worst = sorted(waits, key=lambda r: -r["data"])[:3]
    longest = worst[0]
    return Derived(
        "data_stall",
        0.85,
        Culprit(),
        f"Input data: {len(waits)} of {len(rows)} printed steps waited for it, step {longest['step']} {longest['data'] / 1000:.1f} s of {longest['ms'] / 1000:.1f} s.",
        waits[0]["ts"],
        (),
        tuple((r["file"], int(r["line"])) for r in worst),
    )


def unfinished_save(con: duckdb.DuckDBPyConnection, times: JobTimes) -> Derived | None:
    """A save that was begun just as the stuck collective was, and never finished: the ranks wait for the one that writes."""
    if times.watchdog_onset is None:
        return None
    rows = table_rows(
        con,
        """
        SELECT e.event_id, e.ts, e.host, e.rank FROM events e WHERE e.event = 'train.checkpoint_start' AND e.ts BETWEEN ? AND ?
         AND NOT EXISTS (FROM events d WHERE d.event = 'train.checkpoint_done' AND d.ts >= e.ts)
         AND NOT EXISTS (FROM events s WHERE s.event = 'train.step' AND s.ts > e.ts) ORDER BY e.ts DESC, e.event_id LIMIT 1""",
        [times.watchdog_onset - timedelta(seconds=300), times.watchdog_onset + timedelta(seconds=60)],
    )
    if not rows:
        return None
    row = rows[0]
    return Derived(
        "checkpoint_failure",
        0.69,
        Culprit(host=row["host"], rank=row["rank"], ranks=() if row["rank"] is None else (row["rank"],)),
        "Saving a checkpoint: begun just before the collective got stuck, and never finished.",
        row["ts"],
        (int(row["event_id"]),),
    )


def slowed_since(con: duckdb.DuckDBPyConnection, when: datetime | None, times: JobTimes) -> bool:
    """From `when` on the steps took a fifth longer than before it: medians of at least three on each side."""
    if when is None:
        return False
    row = con.execute(
        """
        WITH s AS (SELECT ts, step, coalesce(step_time_ms, epoch_ms(ts - lag(ts) OVER w) / nullif(step - lag(step) OVER w, 0)) AS ms
          FROM steps WHERE is_main AND attempt = ? AND ts IS NOT NULL WINDOW w AS (ORDER BY step))
        SELECT median(ms) FILTER (ts < ?), count(ms) FILTER (ts < ?), median(ms) FILTER (ts > ?), count(ms) FILTER (ts > ?) FROM s""",
        [times.attempt, when, when, when, when],
    ).fetchone()
    return bool(row and row[1] >= 3 and row[3] >= 3 and row[2] >= 1.2 * row[0])
