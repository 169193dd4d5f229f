"""Causes and culprits in words, and what to do next: texts from causes.toml with the culprit's names filled in."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from postmortem.analysis.model import Culprit


@lru_cache(maxsize=1)
def cause_texts() -> dict[str, dict[str, Any]]:
    """Title, next steps and what to collect, per cause class."""
    return tomllib.loads(files("postmortem.analysis").joinpath("causes.toml").read_text(encoding="utf-8"))


def _fill(text: str, culprit: Culprit) -> str:
    """`text` with the culprit's names, or what stands for a name that is not known."""
    number = f"GPU {culprit.gpu}" if culprit.gpu is not None else "the GPU"
    names = {
        "host": culprit.host or "the host",
        "pci": culprit.pci or "the device",
        "gpu": f"GPU {culprit.pci}" if culprit.pci else number,
        "nic": culprit.dev or culprit.ifname or (f"NIC {culprit.pci}" if culprit.pci else "the NIC"),
        "switch": culprit.switch or "the switch",
        "switch_port": culprit.switch_port or "port",
        "rank": "the late rank" if culprit.rank is None else f"rank {culprit.rank}",
        "qpn": "" if culprit.qpn is None else culprit.qpn,
        "peer": culprit.peer or "that serves it",
    }
    return " ".join(text.format(**names).split())


def title(cause: str) -> str:
    """A cause class in words."""
    return str(cause_texts().get(cause, {}).get("title", cause.replace("_", " ")))


def next_steps(cause: str, culprit: Culprit) -> tuple[str, ...]:
    """What to do next for a cause, with the culprit's names filled in."""
    return tuple(_fill(text, culprit) for text in cause_texts().get(cause, {}).get("next", []))


def collect(cause: str) -> tuple[str, ...]:
    """What to collect when the cause is not established."""
    return tuple(cause_texts().get(cause, {}).get("collect", []))


def describe(culprit: Culprit) -> str:
    """The culprit in a few words, empty when nobody is named."""
    parts = []
    if culprit.switch and not culprit.host:
        parts.append(f"switch {culprit.switch}" + (f" port {culprit.switch_port}" if culprit.switch_port else ""))
    if culprit.dev or (culprit.ifname and culprit.host):
        parts.append(f"{culprit.dev or culprit.ifname}")
    elif culprit.pci:
        parts.append(f"GPU {culprit.gpu} ({culprit.pci})" if culprit.gpu is not None else culprit.pci)
    if culprit.qpn is not None:
        parts.append(f"queue pair {culprit.qpn}")
    if culprit.rank is not None and not culprit.dev:
        parts.append(
            "ranks " + ", ".join(map(str, culprit.ranks[:8])) if len(culprit.ranks) > 1 else f"rank {culprit.rank}"
        )
    if culprit.host:
        parts.append(f"on {culprit.host}" if parts else culprit.host)
    if culprit.switch and culprit.host:
        parts.append(f"(at {culprit.switch} {culprit.switch_port or ''})".replace(" )", ")"))
    if culprit.peer:
        parts.append(f"peer {culprit.peer}")
    return " ".join(parts)
