"""`scontrol show job|node` and `sinfo` -> jobs, and the nodes that are down, drained or silent.

    NodeName=node-17 Arch=x86_64 CoresPerSocket=32
       State=DOWN+NOT_RESPONDING ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
       BootTime=2025-10-24T11:23:24 SlurmdStartTime=2026-07-07T13:36:57
       Reason=Not responding [slurm@2026-07-25T11:59:01]

    JobId=2563198 JobName=bash
       JobState=NODE_FAIL Reason=NodeDown FailedNode=node-17 Dependency=(null)
       Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=1:0
       StartTime=2024-06-10T22:40:02 EndTime=2024-06-10T22:42:03 Deadline=N/A
       NodeList=node-[01-17]

(slurm/src/api/node_info.c, src/scontrol/info_job.c; with `--oneliner` a record is one line.) `sinfo` prints a row per group of nodes:

    PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST              NODELIST   NODES PARTITION  STATE CPUS …  REASON
    gpu          up 7-00:00:00      2  down* node-[17-18]          node-17        1       gpu  down*   96 …  Not responding

    REASON               USER      TIMESTAMP           NODELIST
    gres/gpu count repor slurm     2025-04-02T15:47:44 node-18

(src/sinfo/opts.c; `-R` cuts reasons to 20 characters). Times are local to the cluster and carry no zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text
from postmortem.decoders.schedulers.hostlist import expand_hostlist
from postmortem.decoders.schedulers.slurm_jobs import Job, Jobs, exit_pair, gpus_in, slurm_time
from postmortem.decoders.schedulers.slurm_nodes import MAX_ROWS, Node, node_rows, states_of
from postmortem.patterns import later

_RECORD: Final = later(r"[ \t]*(JobId|NodeName)=([^\s=]+) ")
_ANY_LINE: Final = later(r"\s*(?:$|[A-Z][A-Za-z0-9_/:]*=| {7,}\S)")
_PAIR: Final = later(r"(?:^|\s)([A-Z][A-Za-z_]*)=(\S*(?: [0-9]{2}:[0-9]{2}:[0-9]{2}\S*)?)")
_KEYS: Final = frozenset(
    "JobState FailedNode ExitCode StartTime EndTime NodeList TRES AllocTRES State BootTime Reason".split()
)
_REASON: Final = later(r"(?:^|\s)Reason=(?P<rest>.*)$")
_SET_BY: Final = later(r"^(?P<reason>.*?) ?\[(?P<by>[^\[\]@]*)@(?P<when>[^\]]*)\]")

_SINFO: Final = later(r"(?:PARTITION +AVAIL|NODELIST +NODES|REASON +USER|NODELIST +STATE|NODELIST +PARTITION) .*")
_DATE_LINE: Final = later(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\s*")
_WORD: Final = later(
    r"(?:alloc|allocated|blocked|boot|comp|completing|down|drain|drained|draining|drng|err|error|fail|failed|failg|failing|future|"
    r"futr|idle|inval|maint|maintenance|mix|mixed|plnd|planned|npc|perfctrs|pow_dn|pow_up|powering_down|powered_down|powering_up|power_down|"
    r"reboot\??|rebootissued|resv|reserved|unk|unknown|unknwn)[*~#!%$@^+-]*"
)
_HOSTS: Final = later(r"[A-Za-z0-9][A-Za-z0-9_.,\[\]-]*")
_REASON_ROW: Final = later(
    r"(?P<reason>\S.*?) +(?P<by>[^ ]+) +(?P<when>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][^ ]+|Unknown|None|N/A) +(?:(?P<state>[a-z_]+[^ A-Za-z0-9]*) +)?"
    r"(?P<nodes>[A-Za-z0-9][^ ]*) *"
)


def looks_like_scontrol(head: str) -> bool:
    """The first line begins a record, all others hold pairs, and a job or node says its state."""
    lines = head.lstrip("\n").split("\n")
    return (
        _RECORD.match(lines[0]) is not None
        and re.search(r"\b(?:JobState|State)=[A-Z]", head) is not None
        and all(_ANY_LINE.match(line) for line in lines[:-1])
    )


def looks_like_sinfo(head: str) -> bool:
    """A header of `sinfo`, and below it only rows of it; a date may stand above."""
    lines = [line.rstrip() for line in head.split("\n")]
    while lines and (not lines[0] or _DATE_LINE.fullmatch(lines[0])):
        lines.pop(0)
    if not lines or not _SINFO.fullmatch(lines[0] + " "):
        return False
    table = _Sinfo(lines[0])
    for line in lines[1:-1]:
        if _SINFO.fullmatch(line + " "):
            table = _Sinfo(line)
        elif line and not _DATE_LINE.fullmatch(line) and (not table.is_known or table.row(line) is None):
            return False
    return table.is_known


def decode_scontrol(member: MemberLike) -> Decoded:
    """Rows of `Jobs.add` for jobs, of `node_rows` for nodes with `host.boot` of their boot time."""
    decoded = Decoded()
    jobs = Jobs()
    for record in _records(read_text(member, decoded)):
        if record.kind == "JobId":
            jobs.add(record.job(), record.evidence(member, "JobState"))
        elif len(jobs.events) < MAX_ROWS:
            base = record.evidence(member, "Reason" if "Reason" in record.pairs else "State")
            jobs.events += node_rows(record.node(), base, record.evidence(member, "BootTime"))
    jobs.fill(decoded)
    return decoded


class _Record:
    """One job or node: of its keys the first value and the line where it stands."""

    def __init__(self, kind: str, name: str, number: int, line: str) -> None:
        self.kind, self.name = kind, name
        self.pairs: dict[str, tuple[str, int, str]] = {}
        self._first = (number, line)

    def take(self, number: int, line: str) -> None:
        for found in _PAIR.finditer(line):
            if found[1] in _KEYS:
                self.pairs.setdefault(found[1], (found[2], number, line))
        if self.kind == "NodeName" and (reason := _REASON.search(line)) and self.pairs["Reason"][1] == number:
            self.pairs["Reason"] = (reason["rest"], number, line)

    def get(self, key: str) -> str:
        return self.pairs.get(key, ("", 0, ""))[0]

    def evidence(self, member: MemberLike, key: str) -> Row:
        _, number, line = self.pairs.get(key, ("", *self._first))
        return evidence(member, number, line, "scheduler")

    def job(self) -> Job:
        code, signal = exit_pair(self.get("ExitCode"))
        return Job(
            self.name,
            self.get("JobState"),
            slurm_time(self.get("StartTime")),
            slurm_time(self.get("EndTime")),
            code,
            signal,
            self.get("NodeList"),
            self.get("FailedNode"),
            self.get("Reason"),
            gpus_in(self.get("AllocTRES") or self.get("TRES")),
        )

    def node(self) -> Node:
        text = self.get("Reason").strip()
        found = _SET_BY.search(text)
        reason, by, when = (found["reason"], found["by"], slurm_time(found["when"])) if found else (text, "", None)
        boot = slurm_time(self.get("BootTime"))
        return Node(self.name, states_of(self.get("State")), reason.strip(), by, when, boot)


def _records(text: str) -> Iterator[_Record]:
    """Records in their order. A Python loop: lines belong to the record above them, and a cluster has few."""
    record: _Record | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:8192].rstrip()
        begins = _RECORD.match(line + " ")
        if begins:
            if record is not None:
                yield record
            record = _Record(begins[1], begins[2], number, line)
        if record is not None:
            record.take(number, line)
    if record is not None:
        yield record


class _Sinfo:
    """The columns that a header of `sinfo` names, and how a row is read by them."""

    def __init__(self, header: str) -> None:
        names = header.split()
        self.is_reasons = names[:2] == ["REASON", "USER"] and "NODELIST" in names
        self._names = names
        self.is_known = self.is_reasons or ("STATE" in names and "NODELIST" in names)

    def row(self, line: str) -> tuple[str, Node] | None:
        """(host list, what it says of each of them); None when it is no row of this table."""
        if self.is_reasons:
            found = _REASON_ROW.fullmatch(line.strip())
            if found is None:
                return None
            since = slurm_time(found["when"])
            return found["nodes"], Node("", states_of(found["state"] or ""), found["reason"], found["by"], since)
        cells = line.split()
        state_at, nodes_at = self._names.index("STATE"), self._names.index("NODELIST")
        if state_at >= len(cells):
            return None
        if cells[state_at] == "n/a":  # a partition without nodes
            return "", Node("", frozenset())
        # The column before the last may be empty (RESERVATION of `sinfo -l`).
        is_last = nodes_at == len(self._names) - 1
        state, nodes = cells[state_at], cells[-1 if is_last else nodes_at]
        if not _WORD.fullmatch(state) or not _HOSTS.fullmatch(nodes) or len(cells) <= min(nodes_at, state_at + 1):
            return None
        reason = " ".join(cells[len(self._names) - 1 :]) if self._names[-1] == "REASON" else ""
        return nodes, Node("", states_of(state), "" if reason.lower() in {"none", "(null)", "n/a"} else reason)


def decode_sinfo(member: MemberLike) -> Decoded:
    """Rows of `node_rows` for each node that is not well. A Python loop over a table of groups of nodes."""
    decoded = Decoded()
    events: list[Row] = []
    seen: set[tuple[str, frozenset[str], str]] = set()
    table: _Sinfo | None = None
    odd = 0
    for number, raw in enumerate(read_text(member, decoded).split("\n"), 1):
        line = raw[:8192].rstrip()
        if _SINFO.fullmatch(line + " "):
            table = _Sinfo(line)
        elif line and table is not None and not _DATE_LINE.fullmatch(line):
            found = table.row(line) if table.is_known else None
            odd += found is None
            if found is None or len(events) >= MAX_ROWS:
                continue
            nodes, said = found
            for host in expand_hostlist(nodes):
                # A node is listed once for each of its partitions.
                if (host, said.states, said.reason) not in seen:
                    seen.add((host, said.states, said.reason))
                    node = Node(host, said.states, said.reason, said.by, said.when)
                    events += node_rows(node, evidence(member, number, line, "scheduler"))
    if odd:
        decoded.notes.append(f"{odd} lines are no rows of this table")
    decoded.put("events", events[:MAX_ROWS])
    return decoded


FORMATS: Final = (
    Format(
        "scontrol",
        "scontrol show job|node: jobs, nodes that are down or drained and why, boot times",
        "Slurm 14 and later",
        "SchedMD/slurm src/api/node_info.c, src/scontrol/info_job.c",
        lambda head: looks_like_scontrol(head.text),
        lambda member, hints: decode_scontrol(member),
        in_section=True,
    ),
    Format(
        "sinfo",
        "sinfo, sinfo -R, sinfo -N -l: nodes that are down or drained and why",
        "Slurm 14 and later",
        "SchedMD/slurm src/sinfo/opts.c",
        lambda head: looks_like_sinfo(head.text),
        lambda member, hints: decode_sinfo(member),
        in_section=True,
    ),
)
