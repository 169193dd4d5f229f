"""How much a word looks like the name of a machine."""

from __future__ import annotations

import re
from enum import IntEnum

from postmortem.bundle.host_words import GPU_MODELS, JOB_WORDS, MACHINE_WORDS, NEVER_WORDS, POD_WORDS
from postmortem.patterns import later

_TOKEN = later(r"^[a-z](?:[a-z0-9.-]*[a-z0-9])?$")
_SEGMENT = later(r"^(?P<word>[a-z]*)(?P<number>[0-9]*)(?P<tail>[a-z0-9]*)$")
_ADDRESS = later(r"^ip-[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,3}$")
_INSTANCE = later(r"^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$")
_DATE = later(r"20[0-9]{2}-?[01][0-9]-?[0-3][0-9]")
_VERSION = later(r"(?:^|[.-])v?[0-9]+\.[0-9]+")
_LAST_NUMBER = later(r"[0-9][a-z]?$")
_POD = later(r"-(?:worker|master|launcher)-[0-9]+$")
_GLUED = later(r"^[a-z]{2,}[0-9]{2,}[a-z]?$")
_LOOSE = later(r"^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$")
_SMALL_GPU = later(r"^gpu-?[0-9]$")
_MIN_WORD = 4


class Shape(IntEnum):
    """Order matters: each includes what the ones below it need."""

    NONE = 0
    WORD = 1
    """Could be anything: `athena`, `login`."""
    LOOSE = 2
    """A word with a number at its end: `odin3`, `odin-3`."""
    NUMBERED = 3
    """A word with two digits or more right behind it: `jz023`."""
    NAMED = 4
    """A word for machines with a number: `node-3`, `h200-0017`, `leaf-1a`, `ip-10-33-0-4`, `pretrain-worker-0`."""


def shape_of(token: str) -> Shape:
    """The shape of `token`; a domain behind the first dot is not looked at.

    Underscores, which no host name has, dates, versions and words like `rank3` or `attempt1` are none.
    """
    lowered = token.lower()
    if len(lowered) > 253 or not _TOKEN.match(lowered) or "-to-" in lowered or ".." in lowered:
        return Shape.NONE
    if _DATE.search(lowered) or _VERSION.search(lowered):
        return Shape.NONE
    host = lowered.split(".", 1)[0]
    if _ADDRESS.match(host) or _INSTANCE.match(host):
        return Shape.NAMED
    segments = [match for part in host.split("-") if (match := _SEGMENT.match(part))]
    words = [match["word"] for match in segments]
    never = NEVER_WORDS - POD_WORDS if _POD.search(host) else NEVER_WORDS
    if words[0] == "ip" or any(word in never for word in words):
        return Shape.NONE
    is_job = any(word in JOB_WORDS for word in words)
    if _LAST_NUMBER.search(host):
        if _names_machine(host, segments):
            return Shape.NAMED
        if is_job:
            return Shape.NONE
        if _GLUED.match(host):
            return Shape.NUMBERED
        if len(words[0]) > 1 and _LOOSE.match(host):
            return Shape.LOOSE
        return Shape.NONE
    return Shape.NONE if is_job or len(host) < _MIN_WORD else Shape.WORD


def _names_machine(host: str, segments: list[re.Match[str]]) -> bool:
    """Whether a machine's word comes before, or with, the number at the end: `worker-0`, `gpu-host-003`, `leaf1a`.

    A GPU model (`h200-0017`, `dgx-a100-05`) needs a number beside its own, and `gpu3` is a GPU, not a host.
    """
    if _SMALL_GPU.match(host):
        return False
    *earlier, last = segments
    return (
        (last["word"] in MACHINE_WORDS and last["number"] != "")
        or any(segment["word"] in MACHINE_WORDS for segment in earlier)
        or any(segment[0] in GPU_MODELS for segment in earlier)
    )
