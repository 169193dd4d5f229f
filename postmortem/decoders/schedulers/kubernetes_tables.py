"""`kubectl get pods` and `kubectl get nodes` as tables -> nodes of pods, what their states say.

    NAME           READY   STATUS      RESTARTS      AGE   IP            NODE      NOMINATED NODE   READINESS GATES
    llm-worker-3   0/1     OOMKilled   1 (20m ago)   3h    10.244.3.17   node-17   <none>           <none>

    NAME      STATUS                        ROLES    AGE   VERSION   INTERNAL-IP    EXTERNAL-IP   OS-IMAGE   …
    node-17   NotReady,SchedulingDisabled   <none>   12d   v1.29.4   10.20.55.12    <none>        …

(kubernetes/kubernetes pkg/printers/internalversion/printers.go; columns are three blanks apart, `-o wide` adds those from IP on,
`-A` puts NAMESPACE first.) Such tables print ages, so their rows have no time.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text
from postmortem.decoders.schedulers.kubernetes_objects import SYSTEM_NAMESPACE
from postmortem.patterns import later

MAX_ROWS: Final = 100_000

_PODS: Final = later(r"(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS +AGE(?: .*)?")
_NODES: Final = later(r"NAME +STATUS +ROLES +AGE +VERSION(?: .*)?")
_GAP: Final = later(r" {2,}|\t+")
_READY: Final = later(r"[0-9]+/[0-9]+")
_AGE: Final = later(r"[0-9][0-9smhdy]*|<[a-z]+>")
_SERVICE_NAME: Final = later(r".+-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}")
"""Names that a Deployment gives: `<name>-<hash of its template>-<random>`."""

_STATUS: Final[dict[str, tuple[str, str]]] = {
    "Evicted": ("pod.evicted", "error"),
    "OOMKilled": ("pod.oom_killed", "error"),
    "Error": ("process.exit", "error"),
    "ContainerStatusUnknown": ("process.exit", "warning"),
    "CrashLoopBackOff": ("pod.restarted", "warning"),
    "Preempting": ("job.preempted", "error"),
    "NodeLost": ("node.down", "error"),
    "DeadlineExceeded": ("job.timeout", "error"),
}


def looks_like_table(head: str) -> bool:
    """A header of pods or nodes, and below it only rows of that table."""
    lines = [line.rstrip() for line in head.lstrip("\n").split("\n")]
    if not (_PODS.fullmatch(lines[0]) or _NODES.fullmatch(lines[0])):
        return False
    names: list[str] = []
    for line in lines[:-1]:
        if _PODS.fullmatch(line) or _NODES.fullmatch(line):
            names = _GAP.split(line)
        elif line and _cells(names, line) is None:
            return False
    return True


def _cells(names: list[str], line: str) -> dict[str, str] | None:
    """The cells of a row by their columns' names; None when it is no row of this table."""
    cells = dict(zip(names, _GAP.split(line.strip()), strict=False))
    is_row = _AGE.fullmatch(cells.get("AGE", "")) and (
        _READY.fullmatch(cells["READY"]) if "READY" in cells else "VERSION" in cells
    )
    return cells if is_row else None


def decode_table(member: MemberLike) -> Decoded:
    """Facts `pod.node`, addresses, and events by the column STATUS. A Python loop over a table of pods or nodes.

    Pods of system namespaces and, where namespaces are shown, those of Deployments are passed over: they belong to no job.
    """
    decoded = Decoded()
    events: list[Row] = []
    facts: list[Row] = []
    addresses: list[Row] = []
    names: list[str] = []
    odd = 0
    for number, raw in enumerate(read_text(member, decoded).split("\n")[:MAX_ROWS], 1):
        line = raw[:4096].rstrip()
        if _PODS.fullmatch(line) or _NODES.fullmatch(line):
            names = _GAP.split(line)
            continue
        cells = _cells(names, line) if line else {}
        odd += cells is None
        if not cells:
            continue
        base = {**evidence(member, number, line, "scheduler"), "severity": "info"}
        if "READY" in cells:
            _pod(cells, base, events, facts, addresses)
        else:
            _node(cells, base, events, addresses)
    if odd:
        decoded.notes.append(f"{odd} lines are no rows of this table")
    decoded.put("events", events)
    decoded.put("facts", facts)
    decoded.put("addresses", addresses)
    return decoded


def _pod(cells: dict[str, str], base: Row, events: list[Row], facts: list[Row], addresses: list[Row]) -> None:
    name, namespace = cells["NAME"], cells.get("NAMESPACE", "")
    if SYSTEM_NAMESPACE.fullmatch(namespace) or (namespace and _SERVICE_NAME.fullmatch(name)):
        return
    node = cells.get("NODE", "<none>")
    host = None if node == "<none>" else node
    if host:
        facts.append({**base, "fact": "pod.node", "pod": name, "host": host})
        addresses += _address(cells.get("IP", ""), name, base)
    event, severity = _STATUS.get(cells["STATUS"].removeprefix("Init:"), ("", ""))
    restarts = cells["RESTARTS"].split(" ")[0]
    place: Row = {"pod": name, "host": host, "reason": cells["STATUS"]}
    if event:
        value = restarts if event == "pod.restarted" else None
        events.append({**base, **place, "event": event, "severity": severity, "value": value, "sub": 0})
    elif restarts.isdigit() and int(restarts) > 0:
        events.append({**base, **place, "event": "pod.restarted", "severity": "warning", "value": restarts, "sub": 0})


def _node(cells: dict[str, str], base: Row, events: list[Row], addresses: list[Row]) -> None:
    """A state without a time says how the node is now, not how it was: `warning`."""
    name, states = cells["NAME"], cells["STATUS"].split(",")
    place: Row = {"host": name, "status": cells["STATUS"], "severity": "warning"}
    if {"NotReady", "Unknown"} & set(states):
        events.append({**base, **place, "event": "node.down", "sub": 0})
    if "SchedulingDisabled" in states:
        events.append({**base, **place, "event": "node.drain", "sub": 1})
    for column in ("INTERNAL-IP", "EXTERNAL-IP"):
        addresses += _address(cells.get(column, ""), name, base)


def _address(text: str, host: str, base: Row) -> list[Row]:
    try:
        return [{"address": str(ip_address(text)), "host": host, "file": base["file"], "line": base["line"]}]
    except ValueError:
        return []


FORMATS: Final = (
    Format(
        "kubectl_table",
        "kubectl get pods|nodes: nodes and addresses of pods, pods that were killed or evicted, nodes that are not ready",
        "kubectl 1.12 and later",
        "kubernetes/kubernetes pkg/printers/internalversion/printers.go",
        lambda head: looks_like_table(head.text),
        lambda member, hints: decode_table(member),
        in_section=True,
    ),
)
