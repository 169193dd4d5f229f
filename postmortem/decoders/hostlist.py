"""Slurm host lists: `node-[01-03,07],login1` -> names."""

from __future__ import annotations

import re
from typing import Final

MAX_HOSTS: Final = 65_536
_PART: Final = re.compile(r"[^,\[\]]*(?:\[[^\]]*\][^,\[\]]*)*")
_RANGE: Final = re.compile(r"^(\d+)-(\d+)$")


def expand_hostlist(text: str) -> list[str]:
    """Names of a host list in order, without doubles; text that is no list comes back as one name. At most 65,536 names."""
    out: dict[str, None] = {}
    for part in (m.group(0).strip() for m in _PART.finditer(text)):
        if part:
            for name in _expand(part):
                if len(out) >= MAX_HOSTS:
                    return list(out)
                out[name] = None
    return list(out)


def _expand(part: str) -> list[str]:
    open_at = part.find("[")
    close_at = part.find("]", open_at)
    if open_at < 0 or close_at < 0:
        return [part]
    head, inside, tail = part[:open_at], part[open_at + 1 : close_at], part[close_at + 1 :]
    middles: list[str] = []
    for item in inside.split(","):
        found = _RANGE.match(item.strip())
        if found:
            low, high, width = int(found[1]), int(found[2]), len(found[1])
            middles += [str(n).zfill(width) for n in range(low, min(high, low + MAX_HOSTS) + 1)]
        else:
            middles.append(item.strip())
    tails = _expand(tail) if tail else [""]
    return [head + m + t for m in middles for t in tails][:MAX_HOSTS]
