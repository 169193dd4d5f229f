"""Candidate causes and their scores: evidence makes the score, never the number of lines (rules D5, K).

The features made here are weighed by postmortem.analysis.confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import duckdb

from postmortem.analysis.confidence import chance
from postmortem.analysis.corroborate import FAMILY, Others
from postmortem.analysis.windows import SKEW_S, JobTimes

FIRM_SIGN: Final = 0.4
"""A sign this strong is taken in full by what supports it."""
LIFECYCLE: Final = frozenset({"cancelled", "preempted", "job_timeout"})
LINK_DOWN: Final = frozenset({"link.down", "nic.port_state"})
UNDATED: Final = 0.65
"""How well an undated sign fits where other things are dated."""
MOST: Final = 20_000
"""Candidates that are weighed."""
GOES_ON: Final = 3
"""Steps of the same attempt below an undated line that say it was survived; fewer may be printed late."""
OTHER_RUN: Final = timedelta(hours=6)
"""Between two faults of a machine's log that shows no job: longer, and they are of different runs."""
PLAIN: Final = 0.75
"""A first-hand sign this strong ends a run by itself."""
MANAGEMENT: Final = r"^(?:mgmt|Management|me[0-9]|em[01]|fxp|MgmtEth|eth0$|docker|veth|br-|lo$|bond_mgmt)"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One episode seen as one cause."""

    episode: int
    cause: str
    tier: str
    weight: float
    event_id: int
    event: str
    host: str | None
    entity: str | None
    code: str | None
    severity: str
    first: datetime | None
    last: datetime | None
    count: int
    in_job: bool | None
    back: datetime | None
    is_switch: bool
    leads_to_job: bool | None
    port_host: str | None
    port_dev: str | None
    cables: int
    is_back: bool | None
    knows_back: bool
    blamed: int
    blamed_total: int
    is_deliberate: bool
    knows_cables: bool
    is_borrowed: bool
    file: str
    is_log_start: bool
    knows_job: bool
    steps_below: int | None
    """Steps of the failed attempt that its file prints below it; None where the file prints none."""
    relevance: float = 0.0
    """0 to 1: how well its time and place fit the end of the job."""
    why_not: str = ""
    p: float = 0.0
    features: tuple[tuple[str, float], ...] = ()

    @property
    def where(self) -> str | None:
        """The node or switch that stands for it when episodes are grouped."""
        return self.host


@dataclass(frozen=True, slots=True)
class Edge:
    """`cause` explains `effect` (episode numbers)."""

    cause: int
    effect: int
    rule: str
    lag_s: float
    strength: float


def load_candidates(con: duckdb.DuckDBPyConnection) -> list[Candidate]:
    """Rows of the table `candidates`, at most `MOST`, earliest first; `left_out` says what is missing."""
    rows = con.execute(f"""
        SELECT episode, cause, tier, weight, event_id, event, host, entity, code, severity, first_ts, last_ts, count, in_job, back_ts, coalesce(role = 'switch', false),
               leads_to_job, port_host, port_dev, cables, is_back, coalesce(knows_back, false), blamed, blamed_total,
               is_deliberate OR regexp_matches(coalesce(entity, ''), '{MANAGEMENT}'), knows_cables AND NOT on_job_switch, event_id IN (FROM borrowed), file,
               coalesce(is_log_start, false), EXISTS (FROM job_nodes), steps_below
        FROM candidates ORDER BY first_ts NULLS LAST, episode, cause LIMIT {MOST}""").fetchall()
    return [Candidate(*row) for row in rows]


def left_out(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """One sentence where there are more candidates than are weighed, else none."""
    count, since = con.execute(
        "SELECT (SELECT count(*) FROM candidates), (SELECT first_ts FROM candidates ORDER BY first_ts NULLS LAST, episode, cause LIMIT 1 OFFSET ?)",
        [MOST],
    ).fetchone() or (0, None)
    if count <= MOST:
        return ()
    rest = f"those from {since:%Y-%m-%d %H:%M:%S} UTC on" if since else "those without a time"
    return (f"Of {count:,} possible causes the earliest {MOST:,} were weighed; {rest} were not.",)


def load_edges(con: duckdb.DuckDBPyConnection) -> list[Edge]:
    """All edges, in a stable order."""
    return [
        Edge(*row)
        for row in con.execute(
            "SELECT cause_episode, effect_episode, rule, lag_s, strength FROM edges ORDER BY ALL"
        ).fetchall()
    ]


def _time_fit(c: Candidate, times: JobTimes, is_ended_later: bool) -> tuple[float, str]:
    """How well the time fits: 1 within the window of the fault, less before (survived) and after (consequence).

    `is_ended_later`: its file has another sign below its last step, by which the job may have ended.
    """
    low, high = times.window
    if c.first is None:
        if is_ended_later and c.steps_below is not None and c.steps_below >= GOES_ON:
            return 0.3, "the job made progress after it; it was survived"
        # Where nothing is dated there is nothing to compare with: the excerpt is of the failure. So is what stands below the last step.
        return (1.0 if (low is None and high is None) or c.steps_below == 0 else UNDATED), ""
    skew = timedelta(seconds=SKEW_S)
    if times.next_start is not None and c.first > times.next_start + skew:
        return 0.0, "it came after the job had been started again"
    if times.start is not None and (c.last or c.first) < times.start - timedelta(seconds=120):
        return 0.02, "it was over before the job began"
    if times.end is not None and c.first > times.end + timedelta(seconds=120):
        return 0.02, "it came after the job had ended"
    if low is None and high is None:
        return 1.0, ""
    if (
        c.cause == "host_crash"
        and c.tier == "direct"
        and times.last_progress is not None
        and c.first < times.last_progress - timedelta(seconds=60)
    ):
        return 0.08, "the job made progress after it"
    if low is None and high is not None and c.first < high - timedelta(hours=6):
        return 0.3, ""
    if low is not None and (c.last or c.first) < low:
        if c.back is not None and c.back <= low + timedelta(seconds=30):
            return 0.04, "the job made progress after it; it was survived"
        return 0.08, "the job made progress for long after it"
    if low is not None and c.first < low:
        # Congestion builds up: steps get slow before they stop.
        return (1.0 if c.cause == "congestion" else 0.7), ""
    if _was_over(c, times):
        return 0.2, "it was over before the job failed"
    if high is not None and c.first > high:
        late = (c.first - high).total_seconds()
        return (
            (0.45, "")
            if late <= 30
            else (0.2, "it came after the job already failed")
            if late <= 300
            else (0.06, "it came long after the job failed")
        )
    return 1.0, ""


def _was_over(c: Candidate, times: JobTimes) -> bool:
    """A file server that answered again before anything failed, and not while a collective was stuck: survived (A4)."""
    if c.event != "host.storage_stall" or c.back is None or times.detected is None or times.watchdog_onset is not None:
        return False
    return c.back <= times.detected - timedelta(seconds=SKEW_S)


def place_fit(c: Candidate) -> tuple[float, str]:
    """How well the place fits: on the job's own hosts, on the network of its collectives."""
    if c.is_deliberate:
        return 0.05, "it was done on purpose or on a management port"
    if c.is_switch:
        if c.leads_to_job:
            return 1.0, ""
        if c.cables or c.leads_to_job is False:
            return 0.05, "no host of the job hangs on this port"
        if c.knows_cables:
            return 0.08, "no host of the job hangs on this switch"
        return (0.6 if c.knows_job else 1.0), ""
    if c.in_job is False:
        return 0.02, "the host is not in the job"
    if c.is_back is False and c.knows_back and c.event in {"link.down", "nic.module", "nic.tx_timeout", "nic.reset"}:
        return 0.1, "the interface is not of the training network"
    return (1.0, "") if c.in_job or not c.knows_job else (0.85, "")


def place_in_time(candidates: list[Candidate], edges: list[Edge], times: JobTimes) -> list[Candidate]:
    """Candidates with their relevance; a precursor is as relevant as what it led to (F7, F9, F10, F13, F16)."""
    out: list[Candidate] = []
    latest = _latest(candidates) if times.window == (None, None) else None
    ended = {
        c.file
        for c in candidates
        if c.steps_below == 0 and c.weight >= FIRM_SIGN and c.tier in {"direct", "told", "own"}
    }
    for c in candidates:
        when, why_when = _time_fit(c, times, c.file in ended)
        where, why_where = place_fit(c)
        if latest is not None and (c.last or c.first or latest) < latest - OTHER_RUN:
            when, why_when = min(when, 0.3), "it was over long before the last fault"
        out.append(replace(c, relevance=when * where, why_not=why_where if where < when else why_when))
    by_episode: dict[int, float] = {}
    for c in out:
        if c.tier == "direct":
            by_episode[c.episode] = max(by_episode.get(c.episode, 0.0), c.relevance)
    leads: dict[int, float] = {}
    # A file server that answers again hangs no task afterwards: a task is named two minutes after it stopped.
    over = {
        c.episode: (c.back - c.first).total_seconds() + 150
        for c in out
        if c.event == "host.storage_stall" and c.first and c.back
    }
    for edge in edges:
        if edge.lag_s > over.get(edge.cause, math.inf):
            continue
        if edge.effect in by_episode and edge.rule.startswith(("F7", "F9", "F10", "F13", "F16")):
            leads[edge.cause] = max(leads.get(edge.cause, 0.0), 0.98 * by_episode[edge.effect])
    return [
        replace(c, relevance=leads[c.episode] * place_fit(c)[0] ** 0.5, why_not="")
        if c.tier == "direct" and leads.get(c.episode, 0.0) > c.relevance
        else c
        for c in out
    ]


def _latest(candidates: list[Candidate]) -> datetime | None:
    """When the last plain fault of a log without a job began: what lies long before it was of another run."""
    return max((c.first for c in candidates if c.first and c.tier == "direct" and c.weight >= PLAIN), default=None)


def _in_context(candidates: list[Candidate], times: JobTimes) -> list[Candidate]:
    """Weights that depend on what else happened.

    A file server that only a data loader waits for is a data stall; congestion is judged by the whole time a switch was
    congested (storms less than five minutes apart are one), since seconds of it slow nothing down. A link that went down
    once, where nothing is seen that suffered from it, is a fact rather than a cause; so is a boot that only begins a log.
    """
    loaders = {c.host for c in candidates if c.cause == "data_stall"}
    stalled = {c.host for c in candidates if c.cause == "storage_stall" and c.event == "host.storage_stall"}
    downs: dict[tuple[str | None, str | None], int] = {}
    for c in candidates:
        if c.cause == "link_flap" and c.event in LINK_DOWN:
            downs[c.host, c.entity] = downs.get((c.host, c.entity), 0) + c.count
    jams = _jams([c for c in candidates if c.cause == "congestion"])
    out = []
    for c in candidates:
        if c.cause == "storage_stall" and c.host in loaders and len(stalled) <= 1:
            c = replace(c, weight=c.weight * 0.4)
        elif c.event in LINK_DOWN and c.cause == "link_flap" and not c.knows_job and not times.has_failure:
            c = replace(c, weight=c.weight * (0.6 if downs[c.host, c.entity] < 2 else 1.0))
        elif c.is_log_start and c.cause == "host_crash":
            c = replace(c, weight=c.weight * 0.2)
        elif c.episode in jams and c.cause == "congestion":
            first, last = jams[c.episode]
            length = (last - first).total_seconds()
            c = replace(c, first=first, last=last, weight=c.weight * min(1.2, max(0.3, length / 90)))
        out.append(c)
    return out


def _jams(candidates: list[Candidate]) -> dict[int, tuple[datetime, datetime]]:
    """(begin, end) of the jam that each congestion episode is part of."""
    out: dict[int, tuple[datetime, datetime]] = {}
    by_host: dict[str | None, list[Candidate]] = {}
    for c in candidates:
        if c.first is not None:
            by_host.setdefault(c.host, []).append(c)
    for group in by_host.values():
        group.sort(key=lambda c: (c.first or datetime.min, c.episode))
        chains: list[list[Candidate]] = []
        for c in group:
            ended = max((x.last or datetime.min for x in chains[-1]), default=datetime.min) if chains else datetime.min
            if chains and (c.first or datetime.min) - ended <= timedelta(minutes=5):
                chains[-1].append(c)
            else:
                chains.append([c])
        for chain in chains:
            ends = (min(x.first for x in chain if x.first), max(x.last or datetime.min for x in chain))
            out |= {x.episode: ends for x in chain}
    return out


def score(
    candidates: list[Candidate],
    edges: list[Edge],
    times: JobTimes,
    sources: set[str],
    slowed: Callable[[datetime], bool] = lambda _: False,
) -> list[Candidate]:
    """Candidates with `p` and `features`, best first. `slowed(t)`: the job's steps took longer from `t` on."""
    base = place_in_time(_in_context(candidates, times), edges, times)
    signs = {id(c): c.weight * c.relevance for c in base}
    strong = [c for c in base if signs[id(c)] >= 0.35 and c.tier in {"direct", "told", "own"}]
    first = min((c.first for c in strong if c.first is not None), default=None)
    ahead: dict[str, Candidate] = {}
    for c in sorted(strong, key=lambda c: c.event_id):
        ahead.setdefault(c.file, c)
    best_of: dict[int, float] = {}
    for c in base:
        if c.tier in {"direct", "told", "own"}:
            best_of[c.episode] = max(best_of.get(c.episode, 0.0), signs[id(c)])
    explained: dict[tuple[int, str], float] = {}
    causes_of: dict[int, set[str]] = {}
    for c in base:
        causes_of.setdefault(c.episode, set()).add(c.cause)
    chains: dict[int, float] = {}
    for edge in edges:
        cause_sign = best_of.get(edge.cause, 0.0)
        if cause_sign >= 0.35:
            for cause in causes_of.get(edge.effect, ()):
                # An earlier sign of the same cause makes it no less likely.
                if cause not in causes_of.get(edge.cause, ()):
                    explained[edge.effect, cause] = max(
                        explained.get((edge.effect, cause), 0.0), edge.strength * min(1.0, cause_sign / 0.6)
                    )
        chains[edge.cause] = max(chains.get(edge.cause, 0.0), edge.strength)
    others = Others(base, signs)
    out = []
    for c in base:
        # Coming first and fitting a chain make a sign stronger; they do not make one of something that hardly is a sign.
        firm = min(1.0, signs[id(c)] / FIRM_SIGN)
        features = {
            "sign": signs[id(c)],
            "strong": min(1.0, max(0.0, (signs[id(c)] - 0.5) / 0.3)),
            "order": _order(c, first, ahead) * firm,
            "chain": chains.get(c.episode, 0.0) * c.relevance * firm,
            "corrob": max(others.corroborated(c), _bears_out(c, slowed)) * min(1.0, c.relevance * 1.5) * firm,
            "explained": explained.get((c.episode, c.cause), 0.0),
            "gap": 1.0 if c.tier in {"told", "victim"} and "kernel" not in sources else 0.0,
            "undated": 1.0 if c.first is None else 0.0,
        }
        # A deliberate end is a statement, not a sign: whether it counts is decided by what failed before it.
        p = c.weight if c.tier == "lifecycle" else chance(features)
        out.append(replace(c, p=p, features=tuple(sorted(features.items()))))
    return sorted(out, key=lambda c: (-c.p, c.first or datetime.max, c.episode, c.cause))


def _bears_out(c: Candidate, slowed: Callable[[datetime], bool]) -> float:
    """1 where the trainer's own steps got slow when a jam began."""
    return float(c.cause == "congestion" and c.first is not None and c.relevance >= 0.3 and slowed(c.first))


def _order(c: Candidate, first: datetime | None, ahead: dict[str, Candidate]) -> float:
    """1 when nothing as strong came before, 0.5 when that can't be told, 0 when something did.

    `ahead` has the first strong sign of each file: without times the lines of a file are in order all the same.
    """
    if c.relevance < 0.3 or c.tier in {"victim", "lifecycle"}:
        return 0.0
    before = ahead.get(c.file, c)
    if c.first is None:
        if before.event_id < c.event_id:
            return 0.0
        return 1.0 if len(ahead) <= 1 else 0.5
    if first is None or (before.first is None and before.event_id < c.event_id):
        return 0.5
    late = (c.first - first).total_seconds()
    return 1.0 if late <= SKEW_S / 2 else 0.5 if late <= 2 * SKEW_S else 0.0


def is_rival(other: Candidate, best: Candidate, joined: set[tuple[int, int]]) -> bool:
    """Another explanation: not the same rows, no forerunner or consequence, no other word for the same broken thing."""
    if other.tier == "victim" or other.cause in LIFECYCLE:
        return False
    if other.episode == best.episode:
        # Two readings of one line: the weaker is no rival unless they are about as strong.
        return other.event_id == best.event_id and other.weight >= 0.8 * best.weight
    if (best.episode, other.episode) in joined:
        return False
    family = FAMILY.get(best.cause)
    at = {best.host, best.port_host} - {None}
    return family is None or FAMILY.get(other.cause) != family or not at & {other.host, other.port_host}
