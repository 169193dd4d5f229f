"""`sacct --parsable[2]`: job rows -> start, end with state, GPUs and nodes of the allocation.

Format: a header row of field names split by `|` (slurm/src/sacct/sacct.c), then a row per job and step. Times are local and
carry no zone. Step rows (`1234.0`, `1234.batch`) only count when their job's own row is missing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from postmortem.decoders.rows import Decoded, MemberLike, event_frame, read_text
from postmortem.decoders.hostlist import expand_hostlist

STATES: Final[dict[str, tuple[str, str]]] = {
    "COMPLETED": ("job.end", "info"), "FAILED": ("job.end", "error"), "CANCELLED": ("job.cancelled", "info"), "TIMEOUT": ("job.timeout", "warning"),
    "NODE_FAIL": ("job.node_fail", "error"), "PREEMPTED": ("job.preempted", "warning"), "OUT_OF_MEMORY": ("host.oom_kill", "error"),
    "BOOT_FAIL": ("job.node_fail", "error"), "DEADLINE": ("job.timeout", "warning"), "REQUEUED": ("job.requeue", "warning"),
}
_TIME: Final = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")


def _stamp(text: str) -> int | None:
    if not _TIME.match(text):
        return None
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000
    except ValueError:
        return None


def is_sacct(head: str) -> bool:
    """The first line is a header of sacct fields."""
    first = head.split("\n", 1)[0].strip().strip("|").split("|")
    return len(first) >= 3 and "State" in first and any(f in first for f in ("JobID", "JobIDRaw"))


def decode_sacct(member: MemberLike) -> Decoded:
    """Events at the start and end of each job, facts job.gpus and job.nodes. Odd rows are skipped and counted in a note."""
    decoded = Decoded()
    lines = read_text(member, decoded).split("\n")
    names = lines[0].strip().strip("|").split("|")
    jobs: list[tuple[int, dict[str, str], str]] = []
    odd = 0
    # A Python loop: a table of jobs, not a log.
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        cells = line.rstrip("\r").split("|")
        if len(cells) < len(names):
            odd += 1
            continue
        jobs.append((number, dict(zip(names, cells, strict=False)), line))
    if odd:
        decoded.notes.append(f"{odd} rows with too few fields")
    whole = {r.get("JobID", r.get("JobIDRaw", "")) for _, r, _ in jobs}
    events: list[dict[str, object]] = []
    facts: list[dict[str, object]] = []
    for number, row, line in jobs:
        job = row.get("JobID") or row.get("JobIDRaw") or ""
        if "." in job and job.split(".")[0] in whole:
            continue
        base = {"file": member.name, "line": number, "offset": 0, "source": "scheduler", "message": line[:400], "text": line[:4096], "job_id": job.split(".")[0],
                "stamp_has_year": True, "stamp_res_us": 1_000_000}
        events += _row_events(row, base)
        gpus = re.search(r"gres/gpu(?::[^=,]+)?=(\d+)", row.get("AllocTRES", ""))
        if gpus:
            facts.append({**base, "event": "job.gpus", "severity": "info", "value": gpus[1], "is_fact": True})
        nodes = row.get("NodeList", "")
        if nodes and "assigned" not in nodes:
            facts.append({**base, "event": "job.nodes", "severity": "info", "value": ",".join(expand_hostlist(nodes)), "is_fact": True})
    decoded.tables = {k: v for k, v in {"events": event_frame(events), "facts": event_frame(facts)}.items() if v.height}
    return decoded


def _row_events(row: dict[str, str], base: dict[str, object]) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    start, end = _stamp(row.get("Start", "")), _stamp(row.get("End", ""))
    if start is not None:
        out.append({**base, "event": "job.start", "severity": "info", "stamp_us": start, "sub": 0})
    state = row.get("State", "").split(" ")[0].rstrip("+").upper()
    if state not in STATES:
        return out
    event, severity = STATES[state]
    code = row.get("ExitCode", "").partition(":")
    exit_code = int(code[0]) if code[0].isdigit() else None
    signal = int(code[2]) if code[2].isdigit() and code[2] != "0" else None
    common = {**base, "stamp_us": end, "value": state, "exit_code": exit_code, "signal": signal}
    failed = row.get("FailedNode") or None
    out.append({**common, "event": event, "severity": severity, "sub": 1, "host": failed if event == "job.node_fail" else None})
    if event != "job.end":
        out.append({**common, "event": "job.end", "severity": "info", "sub": 2})
    return out
