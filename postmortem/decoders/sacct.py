"""`sacct --parsable` and `--parsable2` -> start and end of each job, its GPUs and nodes.

    JobID|State|ExitCode|DerivedExitCode|NodeList|Start|End|Elapsed|Timelimit|AllocTRES
    8907460|FAILED|1:0|0:0|node-[06,08-09]|2026-04-20T20:57:05|2026-04-20T21:06:30|00:09:25|2-00:00:00|billing=576,gres/gpu=24,node=3

A header of field names, then a row per job and per step (slurm/src/sacct/sacct.c; `--parsable` ends each row with a bar). Times are
local to the cluster and carry no zone. Rows of steps (`8907460.batch`) count only when their job's own row is missing.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text, stamp, whole
from postmortem.decoders.hostlist import expand_hostlist

MAX_ROWS: Final = 100_000
MAX_NODES: Final = 1_000_000
"""Names of nodes that all `job.nodes` of a file hold together; a job beyond that gets none."""

STATES: Final[dict[str, tuple[str, str]]] = {
    "COMPLETED": ("job.end", "info"),
    "FAILED": ("job.end", "error"),
    "CANCELLED": ("job.cancelled", "info"),
    "TIMEOUT": ("job.timeout", "warning"),
    "DEADLINE": ("job.timeout", "warning"),
    "NODE_FAIL": ("job.node_fail", "error"),
    "BOOT_FAIL": ("job.node_fail", "error"),
    "PREEMPTED": ("job.preempted", "warning"),
    "REQUEUED": ("job.requeue", "warning"),
    "OUT_OF_MEMORY": ("host.oom_kill", "error"),
}
_IDS: Final = ("JobID", "JobIDRaw")
_FIELDS: Final = frozenset(
    "State ExitCode DerivedExitCode NodeList Start End Elapsed Timelimit AllocTRES NNodes JobName Partition Account User "
    "Submit Reason FailedNode AllocCPUS NCPUS ReqTRES Restarts".split()
)
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_GPUS: Final = re.compile(r"(?:^|,)gres/gpu=([0-9]{1,9})")
_GPU_KINDS: Final = re.compile(r"(?:^|,)gres/gpu:[^=,]+=([0-9]{1,9})")
_OOM_SIGNAL: Final = 125


def looks_like_sacct(head: str) -> bool:
    """The first line is a header: a job id and at least two more of sacct's fields between bars."""
    names = set(head.split("\n", 1)[0].strip().strip("|").split("|"))
    return bool(names & set(_IDS)) and len(names & _FIELDS) >= 2 and len(names) >= 3


def decode_sacct(member: MemberLike) -> Decoded:
    """Events `job.start` and, by state, `job.end`, `job.cancelled`, …; facts `job.gpus` and `job.nodes`.

    Every end other than by `job.end` itself is followed by a `job.end` of the same line when its time is printed, so that
    a job has one whatever its state. `value` is the state without who did it, `exit_code` is null when it says 0 of a job that did not complete.
    """
    decoded = Decoded()
    rows, odd = _table(read_text(member, decoded))
    jobs = {row["id"] for _, _, row in rows if "." not in row["id"]}
    events: list[Row] = []
    facts: list[Row] = []
    named = 0
    for number, line, row in rows[:MAX_ROWS]:
        job, _, step = row["id"].partition(".")
        if step and (job in jobs or step == "extern"):
            continue
        base: Row = {**evidence(member, number, line, "scheduler"), "job_id": job}
        nodes = expand_hostlist(row.get("NodeList", "")) if named < MAX_NODES else []
        named += len(nodes)
        events += _events(row, base, nodes)
        facts += _facts(row, base, nodes)
    if named >= MAX_NODES:
        decoded.notes.append(f"more than {MAX_NODES} nodes, the later jobs' were left out")
    if odd:
        decoded.notes.append(f"{odd} rows with too few fields")
    if len(rows) > MAX_ROWS:
        decoded.notes.append(f"only the first {MAX_ROWS} of {len(rows)} rows were read")
    decoded.put("events", events)
    decoded.put("facts", facts)
    return decoded


def _table(text: str) -> tuple[list[tuple[int, str, dict[str, str]]], int]:
    """(line number, line, fields) of each row, and how many rows are cut. A Python loop: a table of jobs, not a log."""
    header, _, body = text.partition("\n")
    names = header.strip().strip("|").split("|")
    rows: list[tuple[int, str, dict[str, str]]] = []
    odd = 0
    for number, raw in enumerate(body.split("\n"), 2):
        line = raw.rstrip("\r")
        cells = line.split("|")
        if not line.strip():
            continue
        if len(cells) < len(names):
            odd += 1
            continue
        fields = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        fields["id"] = next((fields[k] for k in _IDS if fields.get(k)), "")
        rows.append((number, line, fields))
    return rows, odd


def _when(text: str) -> datetime | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _events(row: dict[str, str], base: Row, nodes: list[str]) -> list[Row]:
    events: list[Row] = []
    start = _when(row.get("Start", ""))
    if start is not None:
        events.append({**base, **stamp(start), "event": "job.start", "severity": "info", "sub": 0})
    state = re.split(r"[ +]", row.get("State", ""), maxsplit=1)[0].upper()
    if state not in STATES:
        return events
    event, severity = STATES[state]
    failed = row.get("FailedNode", "")
    place = failed if event == "job.node_fail" else nodes[0] if event == "host.oom_kill" and len(nodes) == 1 else ""
    end = _when(row.get("End", ""))
    common = {**base, **stamp(end), **_exit(row.get("ExitCode", ""), state), "value": state}
    reason = row.get("Reason", "")
    if reason not in {"", "None"}:
        common["reason"] = reason
    events.append({**common, "event": event, "severity": severity, "host": place or None, "sub": 1})
    if event != "job.end" and end is not None:
        events.append({**common, "event": "job.end", "severity": "info", "host": None, "sub": 2})
    return events


def _exit(text: str, state: str) -> Row:
    """`<code>:<signal>` as columns; signal 125 is Slurm's own sign for a lack of memory, no signal of Linux."""
    code, _, number = text.partition(":")
    exit_code, signal = whole(code), whole(number)
    if exit_code == 0 and state not in {"COMPLETED", "FAILED"}:
        exit_code = None
    return {"exit_code": exit_code, "signal": signal if signal and signal != _OOM_SIGNAL else None}


def _facts(row: dict[str, str], base: Row, nodes: list[str]) -> list[Row]:
    when = stamp(_when(row.get("Start", "")))
    tres = row.get("AllocTRES", "")
    found = _GPUS.search(tres)
    gpus = int(found[1]) if found else sum(int(n) for n in _GPU_KINDS.findall(tres))
    facts: list[Row] = []
    if gpus:
        facts.append({"fact": "job.gpus", **base, **when, "severity": "info", "value": str(gpus), "sub": 3})
    if nodes and nodes != ["None assigned"]:
        facts.append({"fact": "job.nodes", **base, **when, "severity": "info", "value": ",".join(nodes), "sub": 4})
    return facts


FORMATS: Final = (
    Format(
        "sacct",
        "sacct --parsable: start, end, state, nodes and GPUs of jobs",
        "Slurm 17 and later",
        "SchedMD/slurm src/sacct",
        lambda head: looks_like_sacct(head.text),
        lambda member, hints: decode_sacct(member),
    ),
)
