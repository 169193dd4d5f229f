"""The rank that a file belongs to, as its name says."""

from __future__ import annotations

from postmortem.bundle.names import ARCHIVE_SEPARATOR
from postmortem.patterns import later

_MAX_RANK = 10_000_000

_FILE_PATTERNS = (
    # rank_00003.log, rank3.out, nccl_trace_rank_12. Not local_rank0, node_rank1, rank0-7, rank_0_to_7.
    later(
        r"(?<![a-z])(?<!local[_.-])(?<!node[_.-])(?<!group[_.-])rank[_.-]?([0-9]+)"
        r"(?![0-9a-z])(?!-[0-9]{1,5}(?![0-9]))(?![_.-]to[_.-]?(?:rank)?[0-9])"
    ),
    # A flight recorder's dump without the word: <prefix>_dump_12.
    later(r"(?<![a-z])dump[_.-]([0-9]+)(?:\.(?:json|pkl|pickle|gz|zst|xz|bz2))*$"),
)
_FOLDER_PATTERN = later(r"^(?:global[_.-]?)?rank[_.-]?([0-9]+)$")


def rank_hint(name: str) -> int | None:
    """Global rank named by the file or, if it names none, by the nearest folder; None when nothing does.

    The folders of torchrun's `--log-dir` are called after the local rank alone (`attempt_0/3/stdout.log`): no hint.
    """
    *folders, file = name.replace(ARCHIVE_SEPARATOR, "/").lower().split("/")
    for pattern in _FILE_PATTERNS:
        numbers = {int(found) for found in pattern.findall(file) if len(found) < 9}
        if len(numbers) == 1:
            return _bounded(numbers.pop())
        if numbers:
            return None
    for folder in reversed(folders):
        match = _FOLDER_PATTERN.match(folder)
        if match and len(match[1]) < 9:
            return _bounded(int(match[1]))
    return None


def _bounded(rank: int) -> int | None:
    return rank if rank < _MAX_RANK else None
