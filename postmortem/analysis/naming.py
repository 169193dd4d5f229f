"""Causes in words (of causes.toml) and the culprit's name as a cause sees it: the one place that names culprits, for verdicts and all reports.

Names come out as the logs have them; what prints them makes odd characters visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from postmortem.analysis.model import Culprit
from postmortem.analysis.wording import cause_texts

Subject = Literal[
    "link", "port", "switch", "gpu", "nic", "queue pair", "rank", "ranks of a host", "host", "storage", "device",
    "a link of the host", "a network adapter of the host", "a GPU of the host", "a queue pair of the host",
]  # fmt: skip

ANY_SUBJECT: tuple[Subject, ...] = ("gpu", "queue pair", "link", "rank", "switch", "host")


@dataclass(frozen=True, slots=True)
class CauseWords:
    """Title of a cause; what its culprit did; the sentence when no culprit is known."""

    title: str
    did: str
    anonymous: str
    subjects: tuple[Subject, ...] = ()


@cache
def cause_words() -> dict[str, CauseWords]:
    """The words of every cause class and of `none`, from causes.toml."""
    return {
        cause: CauseWords(about["title"], about.get("did", ""), about["unnamed"], tuple(about.get("subjects", ())))
        for cause, about in cause_texts().items()
    }


def cause_title(cause: str) -> str:
    """Title of a cause class; a class without words gets its own name."""
    words = cause_words().get(cause)
    return words.title if words else cause.replace("_", " ").capitalize()


def within(title: str) -> str:
    """A title as part of a sentence: its first letter is small unless it begins an abbreviation."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _joined(head: str | None, host: str | None) -> str | None:
    if head is None:
        return None
    return f"{head} of {host}" if host else head


def _gpu(c: Culprit) -> str | None:
    name = f"GPU {c.pci}" if c.pci else f"GPU {c.gpu}" if c.gpu is not None else None
    return _joined(name, c.host)


def _nic(c: Culprit) -> str | None:
    return _joined(c.dev or c.ifname, c.host)


def _port(c: Culprit) -> str | None:
    return f"port {c.switch_port} of {c.switch}" if c.switch and c.switch_port else None


def _link(c: Culprit) -> str | None:
    near, far = _nic(c), (f"{c.switch} {c.switch_port}" if c.switch_port else c.switch)
    if near and far:
        return f"the link {near} to {far}"
    if near or far:
        return f"the link {near or far}"
    return None


def _rank(c: Culprit) -> str | None:
    if len(c.ranks) > 1:
        shown = ", ".join(str(rank) for rank in c.ranks[:4])
        more = f" and {len(c.ranks) - 4:,} more" if len(c.ranks) > 4 else ""
        return f"ranks {shown}{more}"
    rank = c.rank if c.rank is not None else next(iter(c.ranks), None)
    if rank is None:
        return None
    return f"rank {rank} on {c.host}" if c.host else f"rank {rank}"


def _device(c: Culprit) -> str | None:
    # A NIC leaves the bus too: with no sign of a GPU the device's own name says which it was.
    if c.gpu is None and c.rank is None and c.dev:
        return _nic(c)
    return _gpu(c) or _nic(c) or c.host


def _storage(c: Culprit) -> str | None:
    return f"storage {c.peer}" if c.peer else f"storage of {c.host}" if c.host else None


def _queue_pair(c: Culprit) -> str | None:
    if c.qpn is None:
        return None
    far = f" to {c.peer}" if c.peer else ""
    return f"{_joined(f'queue pair {c.qpn} on {c.dev}' if c.dev else f'queue pair {c.qpn}', c.host)}{far}"


def _subject(kind: Subject, c: Culprit) -> str | None:
    match kind:
        case "gpu":
            return _gpu(c)
        case "nic":
            return _nic(c) or _joined(f"NIC {c.pci}" if c.pci else None, c.host)
        case "port":
            return _port(c)
        case "link":
            return _link(c)
        case "rank":
            return _rank(c)
        case "ranks of a host":
            return f"{_rank(c)} on {c.host}" if len(c.ranks) > 1 and c.host else None
        case "device":
            return _device(c)
        case "storage":
            return _storage(c)
        case "queue pair":
            return _queue_pair(c)
        case "switch":
            return f"switch {c.switch}" if c.switch else None
        case "host":
            return c.host or c.pod
        case _:
            # Which of its parts is not known; that the host itself went down must not be read out of it.
            where = c.host or c.pod
            return f"{kind.removesuffix('the host')}{where}" if where else None


def culprit_name(culprit: Culprit, cause: str = "") -> str | None:
    """Short name of the culprit as this cause sees it, as the logs have it; None when nothing is known of it."""
    words = cause_words().get(cause)
    order = (*(words.subjects if words else ()), *ANY_SUBJECT)
    return next((name for kind in order if (name := _subject(kind, culprit))), culprit.peer)


def what_happened(cause: str, culprit: Culprit) -> str:
    """What the culprit did, without time and confidence, such as `GPU 3 of n7 left the PCIe bus`."""
    words = cause_words().get(cause)
    if words is None:
        return f"the cause is {cause}"
    subject = next((name for kind in words.subjects if (name := _subject(kind, culprit))), None)
    return f"{subject} {words.did}" if subject else words.anonymous


def opened(what: str, culprit: Culprit) -> str:
    """`what` as the beginning of a sentence; a name of the logs keeps its small letter."""
    own = (culprit.host, culprit.pod, culprit.dev, culprit.ifname, culprit.switch, culprit.peer)
    return what if what.startswith(tuple(name for name in own if name)) else f"{what[:1].upper()}{what[1:]}"
