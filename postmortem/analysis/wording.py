"""What to do next, and what to collect: texts from causes.toml with the culprit's names filled in."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from postmortem.analysis.model import Culprit
from postmortem.prepared import prepared_toml


@lru_cache(maxsize=1)
def cause_texts() -> dict[str, dict[str, Any]]:
    """Words, next steps and what to collect, per cause class, as causes.toml has them."""
    loaded: dict[str, dict[str, Any]] = prepared_toml("postmortem.analysis", "causes.toml")
    return loaded


def _listed(ranks: tuple[int, ...], most: int = 8) -> str:
    more = f" and {len(ranks) - most:,} more" if len(ranks) > most else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks[:most]))}{more}"


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
        "ranks": _listed(culprit.ranks),
        "qpn": "" if culprit.qpn is None else culprit.qpn,
        "peer": culprit.peer or "that serves it",
    }
    return " ".join(text.format(**names).split())


def next_steps(cause: str, culprit: Culprit) -> tuple[str, ...]:
    """What to do next for a cause, with the culprit's names filled in."""
    texts = cause_texts().get(cause, {})
    known = texts.get("next_ranks") if culprit.ranks else None
    return tuple(_fill(text, culprit) for text in known or texts.get("next", []))


def collect(cause: str) -> tuple[str, ...]:
    """What to collect when the cause is not established."""
    return tuple(cause_texts().get(cause, {}).get("collect", []))
