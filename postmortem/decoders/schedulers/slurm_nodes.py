"""A node of Slurm, however a tool printed it -> events.

States are a base and flags (slurm/src/common/slurm_protocol_defs.c, `node_state_string*`): `DOWN*+DRAIN` and `down*` until 20.11,
`DOWN+DRAIN+NOT_RESPONDING` since, a list of words in JSON; `sinfo` shortens them (`drng`, `failg`, `inval`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from postmortem.decoders.base import Row, stamp
from postmortem.patterns import later

MAX_ROWS: Final = 100_000
"""Rows of nodes per file."""

_DOWN: Final = frozenset({"DOWN", "ERROR", "ERR"})
_DRAINED: Final = frozenset("DRAIN DRAINED DRAINING DRNG FAIL FAILG FAILING INVAL INVALID INVALID_REG".split())
_SHORT: Final = later(r"[^A-Z_]+")
_REBOOTED: Final = later(r"(?i)node unexpectedly re")
_SILENT: Final = later(r"(?i)^not responding")
_OWN: Final = later(
    r"(?i)^(?:kill task failed|prolog|epilog|batch job complete failure|duplicate jobid|low (?:realmemory|cpus|tmpdisk|socket)|"
    r"gres/|health ?check|nhc|resumetimeout|resume failed|node .* failed|step[ _]|slurmd|not responding|hold)"
)
"""Beginnings of reasons that Slurm itself or a health check gives (slurmctld, slurmstepd, nhc)."""

_PROGRAMS: Final = frozenset({"slurm", "root", "slurmadm", "(null)", "Unknown", ""})


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its state's words, why and since when it is so, and when it booted."""

    host: str
    states: frozenset[str]
    reason: str = ""
    by: str = ""
    when: datetime | None = None
    boot: datetime | None = None


def states_of(text: str) -> frozenset[str]:
    """The words of a printed state, upper case; the sign `*` is the word NOT_RESPONDING.

    >>> sorted(states_of("DOWN*+DRAIN"))
    ['DOWN', 'DRAIN', 'NOT_RESPONDING']
    """
    words = {_SHORT.sub("", word.upper()) for word in text.split("+")} - {""}
    return frozenset(words | {"NOT_RESPONDING"} if "*" in text else words)


def node_rows(node: Node, base: Row, boot_base: Row | None = None) -> list[Row]:
    """`node.down`, `node.drain` or, when the reason is that it rebooted, `host.boot`; besides `host.boot` (info) with `boot_base`.

    `ts` is when the reason was set. A state without reason or time says how the node is now, not how it was: `warning`.
    """
    rows: list[Row] = []
    common = {"host": node.host, "reason": node.reason or None, "status": "+".join(sorted(node.states)) or None}
    kind = _kind(node)
    if kind is not None:
        event, severity = kind
        rows.append({**base, **stamp(node.when), **common, "event": event, "severity": severity, "sub": 0})
    if boot_base is not None and node.boot is not None:
        rows.append(
            {**boot_base, **stamp(node.boot), "host": node.host, "event": "host.boot", "severity": "info", "sub": 1}
        )
    return rows


def _kind(node: Node) -> tuple[str, str] | None:
    is_down, is_drained = bool(node.states & _DOWN), bool(node.states & _DRAINED)
    if _REBOOTED.search(node.reason) and (is_down or is_drained or not node.states):
        return "host.boot", "error"
    if is_down or (not node.states and _SILENT.search(node.reason)):
        return "node.down", "fatal" if node.reason or node.when else "warning"
    if is_drained or (not node.states and node.reason):
        is_own = _OWN.search(node.reason) and node.by.partition("(")[0] in _PROGRAMS
        return "node.drain", "error" if is_own else "warning"
    if "NOT_RESPONDING" in node.states and not any(
        "POWER" in word or word in {"FUTURE", "UNK", "UNKNOWN"} for word in node.states
    ):
        return "node.down", "warning"
    return None
