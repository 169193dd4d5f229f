"""Slurm host lists: `node-[01-03,07],login1` -> names (slurm/src/common/hostlist.c)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from postmortem.patterns import later

MAX_HOSTS: Final = 65_536
"""As many as Slurm itself allows in one range."""

_MAX_BRACKETS: Final = 8
"""Clusters have one or two (`rack[1-4]node[01-16]`); a text with more of them is no list."""

_BRACKETS: Final = later(r"\[([^\[\]]*)\]")
_RANGE: Final = later(r"([0-9]{1,9})-([0-9]{1,9})")


def expand_hostlist(text: str) -> list[str]:
    """Names of a host list in order, each once, from its first 65,536; text that is no list comes back as one name.

    >>> expand_hostlist("node-[01-03,07],login1")
    ['node-01', 'node-02', 'node-03', 'node-07', 'login1']
    """
    names = itertools.chain.from_iterable(map(_expand, _split(text)))
    return list(dict.fromkeys(itertools.islice(names, MAX_HOSTS)))


def _split(text: str) -> list[str]:
    """Parts between the commas that stand outside of brackets."""
    shielded = _BRACKETS.sub(lambda found: found[0].replace(",", "\0"), text)
    return [part.strip().replace("\0", ",") for part in shielded.split(",") if part.strip()]


def _expand(part: str) -> list[str]:
    """Every combination of the brackets of one part, the first varying slowest."""
    brackets = list(itertools.islice(_BRACKETS.finditer(part), _MAX_BRACKETS + 1))
    if len(brackets) > _MAX_BRACKETS:
        return [part]
    names = [""]
    end = 0
    for found in brackets:
        literal = part[end : found.start()]
        end = found.end()
        items = list(_items(found[1]))
        names = [name + literal + item for name in names[: MAX_HOSTS // max(len(items), 1) + 1] for item in items]
    return [name + part[end:] for name in names[:MAX_HOSTS]]


def _items(inside: str) -> Iterator[str]:
    left = MAX_HOSTS
    for item in inside.split(","):
        found = _RANGE.fullmatch(item.strip())
        if found is None:
            yield item.strip()
            continue
        low, high, width = int(found[1]), int(found[2]), len(found[1])
        for number in range(low, min(high, low + left - 1) + 1):
            yield str(number).zfill(width)
        left = max(1, left - max(0, high - low))
