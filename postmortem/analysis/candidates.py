"""Candidate causes and their scores: evidence makes the score, never the number of lines (rules D5, K).

logit p = BASE + Σ weight · x over the features of `Score`. The weights are the start values of the method, adjusted on
the labelled cases; they stand in one table (WEIGHTS) so that a fit can replace them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import duckdb

from postmortem.analysis.windows import SKEW_S, JobTimes

WEIGHTS: Final[dict[str, float]] = {
    "base": -1.7,
    "sign": 3.2,
    "order": 0.9,
    "chain": 0.9,
    "corrob": 0.9,
    "explained": -2.2,
    "gap": -0.3,
}
FIRM_SIGN: Final = 0.4
"""A sign this strong is taken in full by what supports it."""
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
    """Rows of the table `candidates` near the job, at most 20,000, earliest first."""
    rows = con.execute(f"""
        SELECT episode, cause, tier, weight, event_id, event, host, entity, code, severity, first_ts, last_ts, count, in_job, back_ts, coalesce(role = 'switch', false),
               leads_to_job, port_host, port_dev, cables, is_back, coalesce(knows_back, false), blamed, blamed_total,
               is_deliberate OR regexp_matches(coalesce(entity, ''), '{MANAGEMENT}'), knows_cables AND NOT on_job_switch, event_id IN (FROM borrowed)
        FROM candidates LIMIT 20000""").fetchall()
    return [Candidate(*row) for row in rows]


def load_edges(con: duckdb.DuckDBPyConnection) -> list[Edge]:
    """All edges, in a stable order."""
    return [
        Edge(*row)
        for row in con.execute(
            "SELECT cause_episode, effect_episode, rule, lag_s, strength FROM edges ORDER BY ALL"
        ).fetchall()
    ]


def _time_fit(c: Candidate, times: JobTimes) -> tuple[float, str]:
    """How well the time fits: 1 within the window of the fault, less before (survived) and after (consequence)."""
    if c.first is None:
        return 0.6, ""
    low, high = times.window
    skew = timedelta(seconds=SKEW_S)
    if times.next_start is not None and c.first > times.next_start + skew:
        return 0.0, "it came after the job had been started again"
    if times.start is not None and (c.last or c.first) < times.start - timedelta(seconds=120):
        return 0.02, "it was over before the job began"
    if times.end is not None and c.first > times.end + timedelta(seconds=120):
        return 0.02, "it came after the job had ended"
    if low is None:
        return 0.8, ""
    if (c.last or c.first) < low:
        if c.back is not None and c.back <= low + timedelta(seconds=30):
            return 0.04, "the job made progress after it; it was survived"
        return 0.08, "the job made progress for long after it"
    if c.first < low:
        return 0.7, ""
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


def _place_fit(c: Candidate) -> tuple[float, str]:
    """How well the place fits: on the job's own hosts, on the network of its collectives."""
    if c.is_deliberate:
        return 0.05, "it was done on purpose or on a management port"
    if c.is_switch:
        if c.leads_to_job:
            return 1.0, ""
        if c.cables or c.leads_to_job is False:
            return 0.05, "no host of the job hangs on this port"
        return (0.08, "no host of the job hangs on this switch") if c.knows_cables else (0.6, "")
    if c.in_job is False:
        return 0.02, "the host is not in the job"
    if c.is_back is False and c.knows_back and c.event in {"link.down", "nic.module", "nic.tx_timeout", "nic.reset"}:
        return 0.1, "the interface is not of the training network"
    return (1.0, "") if c.in_job else (0.85, "")


def place_in_time(candidates: list[Candidate], edges: list[Edge], times: JobTimes) -> list[Candidate]:
    """Candidates with their relevance; a precursor is as relevant as what it led to (F7, F9, F10, F13, F16)."""
    out: list[Candidate] = []
    for c in candidates:
        when, why_when = _time_fit(c, times)
        where, why_where = _place_fit(c)
        out.append(replace(c, relevance=when * where, why_not=why_where if where < when else why_when))
    by_episode: dict[int, float] = {}
    for c in out:
        if c.tier == "direct":
            by_episode[c.episode] = max(by_episode.get(c.episode, 0.0), c.relevance)
    leads: dict[int, float] = {}
    for edge in edges:
        if edge.effect in by_episode and edge.rule.startswith(("F7", "F9", "F10", "F13", "F16")):
            leads[edge.cause] = max(leads.get(edge.cause, 0.0), 0.98 * by_episode[edge.effect])
    return [
        replace(c, relevance=leads[c.episode] * _place_fit(c)[0] ** 0.5, why_not="")
        if c.tier == "direct" and leads.get(c.episode, 0.0) > c.relevance
        else c
        for c in out
    ]


def _in_context(candidates: list[Candidate]) -> list[Candidate]:
    """Weights that depend on what else happened.

    A file server that only a data loader waits for is a data stall; congestion is judged by the whole time a switch was
    congested (storms less than five minutes apart are one), since seconds of it slow nothing down.
    """
    loaders = {c.host for c in candidates if c.cause == "data_stall"}
    stalled = {c.host for c in candidates if c.cause == "storage_stall" and c.event == "host.storage_stall"}
    jams = _jams([c for c in candidates if c.cause == "congestion"])
    out = []
    for c in candidates:
        if c.cause == "storage_stall" and c.host in loaders and len(stalled) <= 1:
            c = replace(c, weight=c.weight * 0.5)
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


def logistic(x: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, x))))


def score(candidates: list[Candidate], edges: list[Edge], times: JobTimes, sources: set[str]) -> list[Candidate]:
    """Candidates with `p` and `features`, best first."""
    base = place_in_time(_in_context(candidates), edges, times)
    signs = {id(c): c.weight * c.relevance for c in base}
    strong = [c for c in base if signs[id(c)] >= 0.35 and c.tier in {"direct", "told", "own"}]
    first = min((c.first for c in strong if c.first is not None), default=None)
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
    out = []
    for c in base:
        # Coming first and fitting a chain make a sign stronger; they do not make one of something that hardly is a sign.
        firm = min(1.0, signs[id(c)] / FIRM_SIGN)
        features = {
            "sign": signs[id(c)],
            "order": _order(c, first) * firm,
            "chain": chains.get(c.episode, 0.0) * c.relevance * firm,
            "corrob": _corroborated(c, base, signs) * min(1.0, c.relevance * 1.5) * firm,
            "explained": explained.get((c.episode, c.cause), 0.0),
            "gap": 1.0 if c.tier in {"told", "victim"} and "kernel" not in sources else 0.0,
        }
        logit = WEIGHTS["base"] + sum(WEIGHTS[k] * v for k, v in features.items())
        # A deliberate end is a statement, not a sign: whether it counts is decided by what failed before it.
        p = c.weight if c.tier == "lifecycle" else logistic(logit)
        out.append(replace(c, p=p, features=tuple(sorted(features.items()))))
    return sorted(out, key=lambda c: (-c.p, c.first or datetime.max, c.episode, c.cause))


def _order(c: Candidate, first: datetime | None) -> float:
    """1 when nothing as strong came before, 0.5 when that can't be told, 0 when something did."""
    if c.relevance < 0.3 or c.tier in {"victim", "lifecycle"}:
        return 0.0
    if c.first is None or first is None:
        return 0.5
    ahead = (c.first - first).total_seconds()
    return 1.0 if ahead <= SKEW_S / 2 else 0.5 if ahead <= 2 * SKEW_S else 0.0


_FAMILY: Final[dict[str, str]] = {
    "link_flap": "link",
    "optic_fault": "link",
    "switch_failure": "link",
    "nic_fault": "link",
    "link_degraded": "link",
    "pcie_drop": "pcie",
    "gpu_memory": "gpu",
    "gpu_fault": "gpu",
    "nvlink_fault": "nvlink",
    "gpu_software": "soft",
    "host_oom": "oom",
    "gpu_oom": "oom2",
}


def _corroborated(c: Candidate, others: list[Candidate], signs: dict[int, float]) -> float:
    """1 when another kind of source says the same of the same thing at about the same time, or, of a program's own failure,
    when others wait for it in vain."""
    if c.tier == "own" and any(o.tier == "victim" and o.episode != c.episode for o in others):
        return 1.0
    if c.first is None or c.tier in {"victim", "lifecycle"}:
        return 0.0
    family = _FAMILY.get(c.cause, c.cause)
    for o in others:
        if (
            o.episode == c.episode
            or o.first is None
            or signs[id(o)] < 0.1
            or _FAMILY.get(o.cause, o.cause) != family
            or (o.event == c.event and o.host == c.host)
        ):
            continue
        same_place = o.host == c.host or o.port_host == c.host or c.port_host == o.host
        if same_place and abs((o.first - c.first).total_seconds()) <= 60 + SKEW_S:
            return 1.0
    return 0.5 if c.blamed and c.blamed >= 0.8 * c.blamed_total else 0.0
