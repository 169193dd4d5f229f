"""A job of Slurm, however a tool printed it -> events and facts.

States are those of slurm/src/common/slurm_protocol_defs.c (`job_state_string`): `CANCELLED by 1007`, `CANCELLED+`, `NODE_FAIL`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Final

from postmortem.decoders.base import Decoded, Row, stamp, whole
from postmortem.decoders.schedulers.hostlist import expand_hostlist
from postmortem.patterns import later

MAX_NODES: Final = 1_000_000
"""Names of nodes that all `job.nodes` of a file hold together; a job beyond that gets none."""

STATES: Final[dict[str, tuple[str, str]]] = {
    "COMPLETED": ("job.end", "info"),
    "FAILED": ("job.end", "error"),
    "CANCELLED": ("job.cancelled", "info"),
    "REVOKED": ("job.cancelled", "info"),
    "TIMEOUT": ("job.timeout", "warning"),
    "DEADLINE": ("job.timeout", "warning"),
    "NODE_FAIL": ("job.node_fail", "error"),
    "BOOT_FAIL": ("job.node_fail", "error"),
    "LAUNCH_FAILED": ("job.end", "error"),
    "PREEMPTED": ("job.preempted", "warning"),
    "REQUEUED": ("job.requeue", "warning"),
    "OUT_OF_MEMORY": ("host.oom_kill", "error"),
}
_NOT_STARTED: Final = frozenset({"PENDING", "CONFIGURING", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_TIME: Final = later(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[. ]?(UTC|Z|[+-][0-9]{2}:?[0-9]{2}))?"
)
_GPUS: Final = later(r"(?:^|,)gres/gpu=([0-9]{1,9})")
_GPU_KINDS: Final = later(r"(?:^|,)gres/gpu:[^=,]+=([0-9]{1,9})")
_OOM_SIGNAL: Final = 125
_NEVER: Final = datetime(9999, 1, 1)


@dataclass(frozen=True, slots=True)
class Job:
    """One job: nodes are a host list, times are local where they carry no zone, `gpus` is 0 when not printed."""

    job_id: str
    state: str = ""
    start: datetime | None = None
    end: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: str = ""
    failed_node: str = ""
    reason: str = ""
    gpus: int = 0


@dataclass(slots=True)
class Jobs:
    """Rows of a file's jobs, as they come together."""

    events: list[Row] = field(default_factory=list)
    facts: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _spans: list[tuple[int, int, str]] = field(default_factory=list)
    _named: int = 0

    def add(self, job: Job, base: Row) -> None:
        """Events `job.start` and, by state, `job.end`, `job.cancelled`, …; facts `job.gpus` and `job.nodes`.

        Every end other than by `job.end` itself is followed by a `job.end` of the same line when its time is printed, so that
        a job has one whatever its state. `value` is the state without who did it, `exit_code` is null when it says 0 of a job
        that did not complete. A job that has not started only has a time when it may.
        """
        base = {**base, "job_id": job.job_id}
        state = re.split(r"[ +,]", job.state.strip(), maxsplit=1)[0].upper()
        if state in _NOT_STARTED:
            return
        nodes = expand_hostlist(_printed(job.nodes)) if self._named < MAX_NODES else []
        self._named += len(nodes)
        self.events += _events(job, state, base, nodes)
        self.facts += _facts(job, base, nodes)
        if job.start is not None:
            self._spans.append((_instant(job.start), _instant(job.end or _NEVER), job.job_id.split("+")[0]))

    def fill(self, decoded: Decoded) -> None:
        """Put the rows into `decoded`. Of jobs that ran at the same time nobody says which is meant: they state no nodes and GPUs.

        Attempts of one job follow each other, so a list of them is no such case; parts of one that is heterogeneous share its number.
        """
        if self._named >= MAX_NODES:
            self.notes.append(f"more than {MAX_NODES} nodes, the later jobs' were left out")
        spans = sorted(self._spans)
        if any(a[1] > b[0] and a[2] != b[2] for a, b in pairwise(spans)):
            self.notes.append(
                "jobs of this list ran at the same time: their nodes and GPUs are not taken for the job's"
            )
            self.facts.clear()
        decoded.notes += self.notes
        decoded.put("events", self.events)
        decoded.put("facts", self.facts)


def slurm_time(text: str) -> datetime | None:
    """A time as Slurm's tools print it (`Unknown`, `None` and `N/A` are none); a zone is printed only by SLURM_TIME_FORMAT."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    try:
        when = datetime.fromisoformat(f"{found[1]}T{found[2]}")
        return when.replace(tzinfo=_zone(found[3])) if found[3] else when
    except ValueError:
        return None


def _zone(text: str) -> timezone:
    if text in {"UTC", "Z"}:
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def epoch(seconds: int | None) -> datetime | None:
    """Seconds since 1970 as a time in UTC; 0 and what no clock shows are none."""
    if not seconds or not 0 < seconds < 2**33:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def exit_pair(text: str) -> tuple[int | None, int | None]:
    """`<code>:<signal>` as numbers."""
    code, _, signal = text.partition(":")
    return whole(code), whole(signal)


def gpus_in(tres: str) -> int:
    """GPUs of a list of resources (`billing=576,gres/gpu=24,gres/gpu:h100=24`); 0 when it names none or was cut off."""
    if tres.endswith("+"):
        return 0
    found = _GPUS.search(tres)
    return int(found[1]) if found else sum(int(n) for n in _GPU_KINDS.findall(tres))


def _printed(nodes: str) -> str:
    """The host list, unless it says that there is none or a column cut it off."""
    nodes = nodes.strip()
    return "" if nodes in {"None assigned", "(null)", "None", "N/A"} or nodes.endswith("+") else nodes


def _instant(when: datetime) -> int:
    """Microseconds, to compare times of one list with each other."""
    printed = stamp(when)
    return (whole(printed["stamp_us"]) or 0) - (whole(printed["stamp_zone_s"]) or 0) * 1_000_000


def _events(job: Job, state: str, base: Row, nodes: list[str]) -> list[Row]:
    events: list[Row] = []
    if job.start is not None:
        events.append({**base, **stamp(job.start), "event": "job.start", "severity": "info", "sub": 0})
    if state not in STATES:
        return events
    event, severity = STATES[state]
    failed = _printed(job.failed_node)
    place = failed if event == "job.node_fail" else nodes[0] if event == "host.oom_kill" and len(nodes) == 1 else ""
    common = {**base, **stamp(job.end), **_exit(job, state), "value": state}
    if job.reason not in {"", "None", "(null)"}:
        common["reason"] = job.reason
    events.append({**common, "event": event, "severity": severity, "host": place or None, "sub": 1})
    if event != "job.end" and job.end is not None:
        events.append({**common, "event": "job.end", "severity": "info", "host": None, "sub": 2})
    return events


def _exit(job: Job, state: str) -> Row:
    """Columns of the exit; signal 125 is Slurm's own sign for a lack of memory, no signal of Linux."""
    code = None if job.exit_code == 0 and state not in {"COMPLETED", "FAILED"} else job.exit_code
    return {"exit_code": code, "signal": job.signal if job.signal and job.signal != _OOM_SIGNAL else None}


def _facts(job: Job, base: Row, nodes: list[str]) -> list[Row]:
    common = {**base, **stamp(job.start), "severity": "info"}
    facts: list[Row] = []
    if job.gpus:
        facts.append({"fact": "job.gpus", **common, "value": str(job.gpus), "sub": 3})
    if nodes:
        facts.append({"fact": "job.nodes", **common, "value": ",".join(nodes), "sub": 4})
    return facts
