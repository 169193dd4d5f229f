"""`kubectl describe pod` -> where each pod ran, and how its containers ended.

    Name:             llm-worker-0
    Node:             node-11/10.20.55.12
    Status:           Failed
    Containers:
      pytorch:
        State:          Terminated
          Reason:       OOMKilled
          Exit Code:    137
          Started:      Tue, 28 Jul 2026 07:57:58 +0000
          Finished:     Tue, 28 Jul 2026 08:42:58 +0000

(kubernetes/kubectl, pkg/describe/describe.go). Several pods follow each other. Some collectors sort such a file by key, so that
all pods' heads come first and then all their states: the n-th of each then belongs to the n-th pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text, stamp, whole
from postmortem.decoders.schedulers.kubernetes_objects import EXIT_REASONS, STATUS_REASONS
from postmortem.patterns import later

_FIELD: Final = later(r"^( *)([A-Z][A-Za-z ]{1,30}):(?: +(\S.*))?$")
_STATES: Final = ("State", "Last State")
_PARTS: Final = ("Reason", "Exit Code", "Started", "Finished", "Message")
_EVENT: Final = later(
    r"^ {2}(Normal|Warning) {1,30}([A-Za-z]+) +([0-9<][^ ]*(?: \(x[0-9]+ over [^)]*\))?) +(\S+) +(\S.*)$"
)
_EVENTS: Final[dict[str, tuple[str, str]]] = {
    "Evicted": ("pod.evicted", "error"),
    "OOMKilling": ("host.oom_kill", "error"),
    "SystemOOM": ("host.oom_kill", "error"),
    "Preempted": ("job.preempted", "error"),
    "Preempting": ("job.preempted", "error"),
    "NodeNotReady": ("node.down", "error"),
}
"""Reasons of the table `Events:` that mean one thing whatever the message says; it prints ages, so they have no time."""


@dataclass(slots=True)
class _Pod:
    name: str
    line: int
    node: str | None = None
    node_line: int = 0
    start: str = ""
    reason: tuple[int, str] | None = None
    message: str | None = None


@dataclass(slots=True)
class _State:
    """One `State:` or `Last State:` and what is printed under it: key -> (line, value)."""

    pod: _Pod | None
    parts: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Read:
    pods: list[_Pod] = field(default_factory=list)
    states: list[_State] = field(default_factory=list)
    events: list[tuple[int, str, str, _Pod | None]] = field(default_factory=list)
    loose: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Every part in the order of the text, for files that are sorted by key."""


def looks_like_describe(head: str) -> bool:
    """The first line is `Name:`, and a node and containers follow."""
    return (
        re.match(r"\s*Name: +[a-z0-9][a-z0-9.-]*[ \t]*\r?\n", head) is not None
        and re.search(r"^Node: ", head, re.MULTILINE) is not None
        and re.search(r"^(?:Init )?Containers:\s*$", head, re.MULTILINE) is not None
    )


def decode_describe(member: MemberLike) -> Decoded:
    """Facts `pod.node`; events `pod.oom_killed`, `pod.evicted`, `process.exit` (ended with `Error`), and what `Events:` names.

    `host` is the node. Times are those of `Finished`, of the facts those of the pod's start.
    """
    decoded = Decoded()
    lines = read_text(member, decoded).split("\n")
    read = _read(lines)
    _settle_sorted(read)
    facts = [_fact(member, lines, read, pod) for pod in read.pods if pod.node]
    events = [row for state in read.states for row in _ended(member, lines, state)]
    events += [row for pod in read.pods for row in _evicted(member, lines, pod)]
    events += [row for found in read.events for row in _listed(member, lines, found)]
    decoded.put("facts", facts)
    decoded.put("events", sorted(events, key=_line_of))
    return decoded


def _line_of(row: Row) -> int:
    return whole(row["line"]) or 0


def _read(lines: list[str]) -> _Read:
    """Pods, states and events in their order. A Python loop: fields belong to the pod and the state above them."""
    read = _Read()
    in_events = False
    for number, raw in enumerate(lines, 1):
        line = raw[:4096].rstrip()
        found = _FIELD.match(line)
        if found is None:
            event = _EVENT.match(line) if in_events else None
            if event:
                read.events.append((number, event[2], event[5], read.pods[-1] if read.pods else None))
            continue
        depth, key, value = len(found[1]), found[2], found[3] or ""
        if depth == 0:
            in_events = key == "Events"
            _pod_field(read, number, key, value)
        elif key in _STATES:
            read.states.append(_State(read.pods[-1] if read.pods else None))
        elif key in _PARTS and read.states:
            read.states[-1].parts.setdefault(key, (number, value))
            read.loose.setdefault(key, []).append((number, value))
    return read


def _pod_field(read: _Read, number: int, key: str, value: str) -> None:
    if key == "Name" and value:
        read.pods.append(_Pod(value, number))
    elif read.pods:
        pod = read.pods[-1]
        if key == "Node" and value not in {"", "<none>"}:
            pod.node, pod.node_line = value.partition("/")[0], number
        elif key == "Start Time":
            pod.start = value
        elif key == "Reason":
            pod.reason = (number, value)
        elif key == "Message":
            pod.message = value


def _settle_sorted(read: _Read) -> None:
    """Hand out states by their order where all of them follow the last pod's head.

    Where the number of a part's values is not that of the pods, nobody can say whose they are: such states name no pod.
    """
    count = len(read.pods)
    if count < 2 or any(state.pod is not read.pods[-1] for state in read.states):
        return
    fits = len(read.states) == count and all(len(found) == count for found in read.loose.values())
    for at, state in enumerate(read.states):
        state.pod = read.pods[at] if fits else None
        if fits:
            state.parts = {key: found[at] for key, found in read.loose.items()}


def _when(text: str) -> datetime | None:
    """An RFC 1123 date with its zone; null when it is none."""
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _fact(member: MemberLike, lines: list[str], read: _Read, pod: _Pod) -> Row:
    starts = [state.parts["Started"][1] for state in read.states if state.pod is pod and "Started" in state.parts]
    when = min((w for text in [pod.start, *starts] if (w := _when(text)) and w.utcoffset() is not None), default=None)
    where = evidence(member, pod.node_line, lines[pod.node_line - 1], "scheduler")
    return {"fact": "pod.node", **where, **stamp(when), "severity": "info", "host": pod.node, "pod": pod.name}


def _ended(member: MemberLike, lines: list[str], state: _State) -> list[Row]:
    """The event of a container that did not end well; 137 with `Error` is a kill, but no proof of a lack of memory."""
    number, reason = state.parts.get("Reason", (0, ""))
    event, severity = EXIT_REASONS.get(reason, ("", ""))
    if not event:
        return []
    row: Row = {
        **evidence(member, number, lines[number - 1], "scheduler"),
        **stamp(_when(state.parts.get("Finished", (0, ""))[1])),
        **_place(state.pod),
        "event": event,
        "severity": severity,
        "exit_code": whole(state.parts.get("Exit Code", (0, ""))[1]),
        "reason": reason,
    }
    return [row]


def _evicted(member: MemberLike, lines: list[str], pod: _Pod) -> list[Row]:
    number, reason = pod.reason or (0, "")
    event, severity = STATUS_REASONS.get(reason, ("", ""))
    if not event:
        return []
    where = evidence(member, number, lines[number - 1], "scheduler")
    return [{**where, **stamp(None), **_place(pod), "event": event, "severity": severity, "value": pod.message}]


def _listed(member: MemberLike, lines: list[str], found: tuple[int, str, str, _Pod | None]) -> list[Row]:
    number, reason, message, pod = found
    event, severity = _EVENTS.get(reason, ("", ""))
    if reason == "BackOff" and message.startswith("Back-off restarting failed container"):
        event, severity = "pod.restarted", "warning"
    elif reason == "Killing" and message.startswith("Stopping container"):
        event, severity = "job.cancelled", "info"
    if not event:
        return []
    where = evidence(member, number, lines[number - 1], "scheduler")
    return [{**where, **stamp(None), **_place(pod), "event": event, "severity": severity, "reason": message}]


def _place(pod: _Pod | None) -> Row:
    return {"host": pod.node if pod else None, "pod": pod.name if pod else None}


FORMATS: Final = (
    Format(
        "kubectl_describe",
        "kubectl describe pod: nodes of pods, how containers ended",
        "kubectl 1.18 and later",
        "kubernetes/kubectl pkg/describe/describe.go",
        lambda head: looks_like_describe(head.text),
        lambda member, hints: decode_describe(member),
    ),
)
