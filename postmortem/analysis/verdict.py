"""From scored candidates to ranked findings and the verdict; "not established" is a good answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import duckdb

from postmortem.analysis.candidates import LIFECYCLE, Candidate, Edge, is_rival, place_fit
from postmortem.analysis.clocks import half_width
from postmortem.analysis.confidence import chance, confidence, standing
from postmortem.analysis.culprits import find_culprit
from postmortem.analysis.derived import Derived, absent_ranks
from postmortem.analysis.evidence import event_rows, gather
from postmortem.analysis.hangs import hung_ranks
from postmortem.analysis.model import Culprit, Evidence, Finding, Outcome, Rival, Verdict
from postmortem.analysis.naming import cause_title, opened, what_happened, within
from postmortem.analysis.reach import reach
from postmortem.analysis.rivals import rivals_of
from postmortem.analysis.sight import Sight
from postmortem.analysis.training import slowed_since
from postmortem.analysis.windows import FAILURES, SKEW_S, JobTimes
from postmortem.analysis.wording import collect, next_steps

ESTABLISHED: Final = 0.4
OPEN: Final = 0.7
"""Below: a possibility."""
FORERUNNERS: Final = ("F7", "F9", "F10", "F13", "F16")
"""Rules by which a fault of a part leads to the fault of what hangs on it."""
OF_THIS_JOB: Final = 0.03
"""Below: before the job, after it, or on another machine; not even a possibility."""
SLOW: Final = frozenset({"qp_straggler", "rank_straggler"})
MAX_FINDINGS: Final = 5
NEAR: Final = 0.2
"""A sign weaker than this casts no doubt on another."""
IN_PEACE: Final = 0.4
"""What is left of a finding's confidence where the job ended as planned."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the attempt ended: `outcome`, and the scheduler's or trainer's row that says so."""

    outcome: Outcome
    event_id: int | None


def _failed_before(scored: list[Candidate], when: datetime) -> bool:
    """Something of the job's own failed in the quarter of an hour before `when`: the end was not of free will."""
    return any(
        c.weight * c.relevance >= (0.3 if c.tier == "own" else 0.45)
        and c.tier in {"direct", "told", "own"}
        and c.cause not in LIFECYCLE | SLOW | {"congestion", "numeric"}
        and (c.first is None or when - timedelta(minutes=15) <= c.first <= when + timedelta(seconds=3))
        for c in scored
    )


# A step that srun ends because a task of it failed is reported as cancelled too; its own output then names the task first.
_DELIBERATE: Final = """
    e.event IN ('job.cancelled', 'job.preempted', 'job.timeout') AND NOT regexp_matches(coalesce(e.text, ''), 'DUE TO TASK FAILURE')
    AND NOT (e.event = 'job.cancelled' AND EXISTS (
      FROM events f WHERE f.file = e.file AND f.line < e.line AND f.source = 'scheduler' AND f.severity IN ('error', 'fatal')
       AND (f.event = 'process.exit' AND coalesce(f.exit_code, 1) <> 0 OR f.event = 'host.oom_kill' OR f.event = 'process.signal' AND coalesce(f.signal, 0) NOT IN (2, 15))
       AND (f.ts IS NULL OR e.ts IS NULL OR f.ts >= e.ts - INTERVAL 15 MINUTE)))"""


def _life(con: duckdb.DuckDBPyConnection, low: datetime, high: datetime) -> tuple[int, datetime | None, bool] | None:
    """(event, time, comes before every failure of its own file) of the first deliberate end; a launcher that was told to stop
    where the scheduler says nothing."""
    row = con.execute(
        f"""
        SELECT e.event_id, coalesce(e.ts_aligned, e.ts), e.event = 'process.signal' OR e.event = 'torch.exception' AS weak, NOT EXISTS (
          FROM events f WHERE f.file = e.file AND f.line < e.line AND f.event IN ({", ".join(f"'{n}'" for n in FAILURES)}) AND f.severity IN ('error', 'fatal'))
        FROM events e WHERE (e.ts IS NULL OR (coalesce(e.ts_aligned, e.ts) >= ? AND coalesce(e.ts_aligned, e.ts) < ?)) AND ({_DELIBERATE} OR e.event_id IN (SELECT event_id FROM signs WHERE tier = 'lifecycle') AND e.event IN ('process.signal', 'torch.exception'))
        ORDER BY weak, coalesce(e.ts_aligned, e.ts) NULLS LAST, e.event_id LIMIT 1""",
        [low, high],
    ).fetchone()
    return (int(row[0]), row[1], bool(row[3])) if row else None


def _ended_first(life: tuple[int, datetime | None, bool], times: JobTimes) -> bool:
    """The deliberate end came before the first failure: by the clock, or by the order of lines where it has no time."""
    _, when, is_ahead = life
    if when is None or times.detected is None:
        return is_ahead
    return when <= times.detected + timedelta(seconds=SKEW_S)


# A trainer's last word, unless its own file goes on: with steps of a further run, with a fault, with a stop. A scheduler's is final.
_DONE: Final = """
    SELECT e.event_id FROM events e WHERE (e.ts IS NULL OR (coalesce(e.ts_aligned, e.ts) >= ? AND coalesce(e.ts_aligned, e.ts) < ?)) AND
     ((e.event = 'train.end' AND e.severity = 'info' AND NOT regexp_matches(coalesce(e.text, ''), '(?i)SIGTERM|signal')
       AND NOT EXISTS (FROM events f WHERE f.file = e.file AND f.line > e.line
         AND (f.event = 'train.step' OR f.event_id IN (SELECT event_id FROM signs WHERE tier <> 'victim' AND weight >= 0.5)))) OR
      (e.event = 'job.end' AND (upper(e.value) = 'COMPLETED' OR (e.exit_code = 0 AND e.severity = 'info') OR regexp_matches(coalesce(e.text, ''), '(?i)successfully completed|COMPLETED'))))
    ORDER BY e.event_id LIMIT 1"""


def ending(con: duckdb.DuckDBPyConnection, times: JobTimes, scored: list[Candidate]) -> Ending:
    """How the attempt ended, from its last lifecycle row and from what failed before it."""
    after = times.last_progress or datetime(1970, 1, 1)
    before = times.next_start or datetime(2100, 1, 1)
    done = con.execute(_DONE, [after - timedelta(seconds=60), before]).fetchone()
    life = _life(con, after - timedelta(seconds=60), before)
    if done and times.detected is None and not times.has_failure:
        return Ending("completed", int(done[0]))
    if times.detected is not None or times.has_failure:
        hang = con.execute(
            "SELECT count(*) FROM events WHERE event IN ('torch.watchdog_timeout', 'torch.heartbeat_timeout')"
        ).fetchone()
        if life and _ended_first(life, times) and not _failed_before(scored, life[1] or times.detected or after):
            return Ending("cancelled", life[0])
        return Ending("hung" if hang and hang[0] and times.watchdog_onset else "crashed", None)
    if life:
        return Ending("cancelled", life[0])
    return Ending("completed" if done else "unknown", int(done[0]) if done else None)


def _by_cause(scored: list[Candidate]) -> list[list[Candidate]]:
    """Candidates grouped by cause, best cause first; within a cause best first."""
    groups: dict[str, list[Candidate]] = {}
    for c in scored:
        groups.setdefault(c.cause, []).append(c)
    for group in groups.values():
        # Of candidates that are about as likely the one that says most is shown: Xid 79 rather than the port above it.
        near = [c for c in group if c.p >= 0.9 * group[0].p and c.host == group[0].host]
        best = max(near, key=lambda c: (not c.is_borrowed, c.weight * c.relevance, c.p, -c.episode))
        group.remove(best)
        group.insert(0, replace(best, p=group[0].p if group and group[0].p > best.p else best.p))
    return sorted(groups.values(), key=lambda g: (-g[0].p, g[0].first or datetime.max, g[0].episode))


def _culprit(con: duckdb.DuckDBPyConnection, best: Candidate, times: JobTimes) -> Culprit:
    """The culprit of a finding; of a hang the ranks that never came, never those that waited."""
    if best.cause in LIFECYCLE:
        return Culprit()
    culprit = find_culprit(con, best)
    if best.cause not in {"collective_hang", "data_stall"}:
        return culprit
    absent = hung_ranks(con, is_weak=False) or absent_ranks(con, times)
    if best.cause == "collective_hang":
        culprit = Culprit()
        absent = absent or _named_late(con, best.event_id) or hung_ranks(con, is_weak=True)
    else:
        row = con.execute(
            "SELECT min(peer) FROM events WHERE event = 'host.storage_stall' AND host = ? AND peer IS NOT NULL",
            [best.host],
        ).fetchone()
        culprit = replace(culprit, peer=culprit.peer or (row[0] if row else None), pid=None)
    if not absent:
        return culprit
    place = (
        con.execute("SELECT node, gpu, pci, local_rank FROM ranks WHERE rank = ?", [absent[0]]).fetchone()
        if len(absent) == 1
        else None
    )
    node = place[0] if place else culprit.host
    return replace(
        culprit,
        rank=absent[0],
        ranks=absent,
        host=culprit.host or node,
        gpu=place[1] if place else None,
        pci=place[2] if place else None,
        local_rank=place[3] if place else None,
    )


def _named_late(con: duckdb.DuckDBPyConnection, event_id: int) -> tuple[int, ...]:
    """The rank that a barrier names as the one that did not come."""
    row = con.execute(
        "SELECT peer_rank FROM events WHERE event_id = ? AND contains(coalesce(reason, message, ''), 'failed to pass')",
        [event_id],
    ).fetchone()
    return (int(row[0]),) if row and row[0] is not None else ()


def _from_derived(con: duckdb.DuckDBPyConnection, d: Derived, p: float, others: list[Finding]) -> Finding:
    """A computed candidate as a finding; lines that are no events get their text when the bundle is read again."""
    rows = event_rows(con, list(d.events), "cause")
    rows += [Evidence(file=f, line=n, text="", role="cause") for f, n in d.places]
    rows += [Evidence(file=f, line=n, text=said, role="cause") for f, n, said in d.shown]
    return Finding(
        cause=d.cause,
        confidence=round(p, 4),
        culprit=d.culprit,
        summary=d.summary,
        evidence=tuple(rows),
        onset=d.onset,
        onset_lo=d.onset,
        onset_hi=d.onset,
        chosen_over=tuple(
            Rival(o.cause, "it does not explain the slowdown")
            for o in others[:3]
            if d.cause in SLOW and o.cause != d.cause
        ),
        next_steps=next_steps(d.cause, d.culprit),
        collect=(*d.collect, *collect(d.cause)),
    )


def with_derived(
    con: duckdb.DuckDBPyConnection, found: list[Finding], derived: list[Derived], end: Ending
) -> list[Finding]:
    """Findings with the computed ones in their place.

    Slowness is a cause only where nothing failed first-hand: a job that was slow and was then cancelled died of what made
    it slow, a job that crashed did not.
    """
    out = list(found)
    for d in derived:
        firm = max(
            (f.confidence for f in found if f.cause not in LIFECYCLE | {"collective_hang"} and f.cause != d.cause),
            default=0.0,
        )
        p = d.p
        if d.cause in SLOW:
            p *= 1.0 if end.outcome in {"cancelled", "completed", "unknown"} and firm < OPEN else 0.4
        elif d.cause == "collective_hang" and firm >= ESTABLISHED:
            # Dumps say who was waited for; a fault that was seen says why.
            p = min(p, 0.8 * firm)
        elif firm > p:
            p *= 0.8
        if d.cause not in SLOW | {"collective_mismatch"} and any(
            f.cause == d.cause and f.confidence >= p for f in found
        ):
            continue
        out = [f for f in out if f.cause != d.cause]
        made = _from_derived(con, d, p, found)
        if made.evidence:
            out.append(made)
    # A jam is ahead of the cancel only where it made the steps slow (_ordered).
    slow_first = any(f.cause in SLOW and f.confidence >= 0.7 for f in out) or any(
        f.cause == "congestion" for f in found[:1]
    )
    return sorted(
        out,
        key=lambda f: (
            slow_first and f.cause in LIFECYCLE,
            -f.confidence if not (f.cause in LIFECYCLE and end.outcome == "cancelled" and not slow_first) else -2.0,
        ),
    )[:MAX_FINDINGS]


def findings(
    con: duckdb.DuckDBPyConnection,
    scored: list[Candidate],
    edges: list[Edge],
    times: JobTimes,
    end: Ending,
    seen: Sight,
) -> list[Finding]:
    """Ranked findings, at most MAX_FINDINGS, best first; each has at least one evidence row."""
    groups = _ordered(con, _by_cause([c for c in scored if c.p >= 0.12 and c.relevance >= OF_THIS_JOB]), times, end)
    joined = {(e.cause, e.effect) for e in edges} | {(e.effect, e.cause) for e in edges}
    out: list[Finding] = []
    for number, group in enumerate(groups[:MAX_FINDINGS]):
        best = group[0]
        rivals = [g[0] for i, g in enumerate(groups) if i != number and is_rival(g[0], best, joined)]
        rival = max((r.weight * r.relevance for r in rivals), default=0.0)
        features = dict(best.features)
        p = best.p
        if best.cause not in LIFECYCLE:
            scored_p = p * chance({**features, "rival": rival}) / chance(features)
            might = best.weight * place_fit(best)[0]
            near = max((r.p for r in rivals if r.weight * r.relevance >= NEAR), default=0.0)
            features |= {
                "rival": rival,
                **standing(scored_p, might, near, features["corrob"], best.cause == "collective_hang"),
            }
            if seen.is_open(group):
                features["settled"] = 0.0
            p = confidence(features) * (IN_PEACE if end.outcome == "completed" else 1.0)
        if out:
            p = min(p, out[0].confidence * 0.95)
        culprit = _culprit(con, best, times)
        others = [g[0] for i, g in enumerate(groups) if i != number]
        begun = _onset(con, best, group, _led_to(group, scored, edges), times)
        spread = half_width(con, best.event_id)
        out.append(
            Finding(
                cause=best.cause,
                confidence=round(p, 4),
                culprit=culprit,
                summary=_sentence(best, culprit),
                evidence=gather(con, best, group, scored, edges, times),
                onset=begun,
                onset_lo=begun - spread if begun else None,
                onset_hi=begun + spread if begun else None,
                chosen_over=rivals_of(best, others, edges, scored),
                next_steps=seen.wanted(group) + next_steps(best.cause, culprit),
                collect=collect(best.cause),
                reach=reach(con, [c.episode for c in group], culprit.host) if not out else None,
                features=() if best.cause in LIFECYCLE else tuple(sorted(features.items())),
            )
        )
    return [f for f in out if f.evidence]


def _onset(
    con: duckdb.DuckDBPyConnection, best: Candidate, group: list[Candidate], led_to: datetime | None, times: JobTimes
) -> datetime | None:
    """When it began to hurt the job.

    A hang begins when its first collective did, not when the waiting gave up (D1, D3); a forerunner that the job went
    on with begins when what it led to did (`led_to`): the optic alarmed for minutes, the link went down later.
    """
    low, _ = times.window
    if (
        best.cause != "collective_hang"
        and led_to is not None
        and low is not None
        and best.first
        and best.first < low <= led_to
    ):
        return led_to
    if best.cause != "collective_hang":
        # The first sign of the same cause on the same host within two minutes: the port fails before the device on it.
        early = [
            c.first
            for c in group
            if c.first
            and best.first
            and c.host == best.host
            and c.relevance >= 0.3
            and c.tier == best.tier
            and not c.is_borrowed
        ]
        near = [t for t in early if best.first and timedelta(0) <= best.first - t <= timedelta(minutes=2)]
        return min(near, default=best.first)
    if times.watchdog_onset is not None:
        return times.watchdog_onset
    row = con.execute("""
        SELECT min(coalesce(ts_aligned, ts) - to_microseconds((coalesce(elapsed_ms, timeout_ms) * 1000)::BIGINT)) FROM events JOIN signs USING (event_id)
        WHERE cause = 'collective_hang' AND coalesce(elapsed_ms, timeout_ms) > 0""").fetchone()
    if row and row[0] is not None:
        return row[0]  # type: ignore[no-any-return]
    return times.last_progress + timedelta(seconds=times.step_s or 0.0) if times.last_progress else best.first


def _led_to(group: list[Candidate], scored: list[Candidate], edges: list[Edge]) -> datetime | None:
    """When the first first-hand fault began that a rule of forerunners ties to a sign of `group` and that fits the end."""
    mine = {c.episode for c in group}
    effects = {e.effect for e in edges if e.cause in mine and e.rule.startswith(FORERUNNERS)}
    return min(
        (c.first for c in scored if c.episode in effects and c.tier == "direct" and c.first and c.relevance >= 0.5),
        default=None,
    )


def _ordered(
    con: duckdb.DuckDBPyConnection, groups: list[list[Candidate]], times: JobTimes, end: Ending
) -> list[list[Candidate]]:
    """Lifecycle causes go first when the job ended by them, and out of the way when something failed before.

    A job that congestion slowed down and that was then stopped by hand died of the congestion (A6). In a job that ended as planned no fault is the cause of an end; what was there is kept as a possibility only.
    """
    life = [g for g in groups if g[0].cause in LIFECYCLE]
    rest = [g for g in groups if g[0].cause not in LIFECYCLE]
    jam = [
        g for g in rest if g[0].cause == "congestion" and g[0].p >= ESTABLISHED and slowed_since(con, g[0].first, times)
    ]
    if end.outcome == "cancelled":
        return [*jam, *life, *(g for g in rest if g not in jam)]
    if end.outcome == "completed":
        return [g for g in rest if g[0].tier != "victim"]
    weak = [[replace(c, p=c.p * 0.3) for c in g] for g in life]
    return sorted(rest + weak, key=lambda g: (-g[0].p, g[0].first or datetime.max))


def _sentence(c: Candidate, culprit: Culprit) -> str:
    when = f" at {c.first:%H:%M:%S} UTC" if c.first else ""
    return f"{opened(what_happened(c.cause, culprit), culprit)}{when}."


def decide(found: list[Finding], end: Ending) -> Verdict:
    """The verdict: the best finding when it is established, `none` when nothing went wrong, else `unknown`."""
    best = found[0] if found else None
    if end.outcome == "completed" and (best is None or best.confidence < 0.5):
        return Verdict("none", 0.9, Culprit(), "The job ended as planned; nothing went wrong.")
    if best is not None and best.confidence >= ESTABLISHED:
        return Verdict(
            best.cause, best.confidence, best.culprit, best.summary, best.onset, best.onset_lo, best.onset_hi
        )
    guess = f" The best guess is {within(cause_title(best.cause))}." if best else ""
    return Verdict("unknown", best.confidence if best else 0.0, Culprit(), f"The cause is not established.{guess}")
