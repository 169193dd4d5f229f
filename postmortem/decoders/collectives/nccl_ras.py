"""What `ncclras -f json` prints -> events `nccl.ras`: ranks that are missing, failed or behind, as the text form names them.

    {"nccl_version": "2.29.1", "timestamp": "2025-12-19 13:06:53", "communicators": [{"hash": "0xae94…", "size": 2,
      "ranks": [{"rank": 0, "host": "172.16.64.245", "pid": 1524344, "cuda_dev": 0, "status": {"init_state": 0, …},
                 "collective_counts": {"AllReduce": 0, …}}],
      "missing_ranks": [{"rank": 1, …, "status": {"unresponsive": true, "considered_dead": false}}]}], "ras": {…}}
    {"timestamp": "…", "group": "LIFECYCLE", "event": "PEER_DEAD", "peer": {"host": "…", "pid": 1, "cuda_devs": [1]}, "details": ""}

NCCL 2.28.7 and later (src/ras/client_support.cc, docs/userguide/source/troubleshooting/ras.rst); the second form is that of monitor mode
(2.29). Objects are printed over many lines, several queries after one another in one file. Times are local and carry no zone.
Ranks are those of the communicator; hosts are addresses.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text, stamp, whole
from postmortem.patterns import later

MAX_ROWS: Final = 100_000
MAX_COLLECTIVES: Final = 32
MAX_DAMAGED: Final = 20
"""Objects that could not be read after which the rest of a file is left."""

_STATUS: Final = later(r'\{\s*"nccl_version"\s*:\s*"[^"]{1,60}"\s*,\s*"cuda_runtime_version"\s*:')
_CHANGE: Final = later(
    r'\{\s*"timestamp"\s*:\s*"[^"]{1,40}"\s*,\s*"group"\s*:\s*"(?:LIFECYCLE|TRACE)"\s*,\s*"event"\s*:\s*"PEER_'
)
_BANNER: Final = later(r"\s*(?:RAS Monitor Mode[^\n]*\n=+\s*|OK\s+|SERVER PROTOCOL [0-9]+\s+)*")
_BEGIN: Final = later(rf"{_STATUS.pattern}|{_CHANGE.pattern}")
_LIST: Final = later(r'"communicators"\s*:\s*\[\s*')
_TIME: Final = later(r'"timestamp"\s*:\s*"([^"]{1,40})"')
_RANK: Final = later(r'"rank"\s*:\s*[0-9]')
_DECODER: Final = json.JSONDecoder()
_BETWEEN: Final = later(r"[\s,]*")
_SETTLED: Final = frozenset({"PEER_NEW", "PEER_CONNECTING", "PEER_CONNECTED", "PEER_RECOVERED"})
_RESULTS: Final = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
    8: "Timeout",
}
_FINE: Final = (0, 7)
"""ncclSuccess and ncclInProgress."""

_DETAILED: Final = 10
_OUTLIER: Final = 0.25
"""A group of ranks counts as one that stands out as in the text form: alone, or at most ten and at most this share."""


def looks_like_ras(head: str) -> bool:
    """The first object is a status with communicators, or a change that monitor mode prints."""
    at = _BANNER.match(head)
    start = at.end() if at else 0
    if _CHANGE.match(head, start):
        return True
    return _STATUS.match(head, start) is not None and _LIST.search(head, start, start + 2000) is not None


def decode_ras(member: MemberLike) -> Decoded:
    """Rows of events. A status without trouble gives none; a file that was cut off keeps the communicators before the cut."""
    decoded = Decoded()
    text = read_text(member, decoded)
    breaks = [m.start() for m in re.finditer("\n", text)]
    rows: list[Row] = []
    damaged = 0
    for part in _parts(text):
        if part.content is None:
            damaged += 1
        elif len(rows) < MAX_ROWS:
            when = stamp(_time(part.time))
            for found in _change(part.content) if "event" in part.content else _communicator(part, text):
                where = evidence(
                    member, bisect_right(breaks, found.at or part.start) + 1, json.dumps(found.shown), "nccl"
                )
                rows.append({"event": "nccl.ras", "severity": "warning", **where, **when, **found.row})
        if damaged > MAX_DAMAGED:
            break
    if damaged:
        decoded.notes.append(f"{damaged} RAS objects that are cut off or damaged")
    if len(rows) >= MAX_ROWS:
        decoded.notes.append(f"only the first {MAX_ROWS} findings of RAS were kept")
    decoded.put("events", rows[:MAX_ROWS])
    return decoded


@dataclass(frozen=True, slots=True)
class _Part:
    """A communicator or a change: where its text begins and ends, its content (None: cut off), the printed time."""

    start: int
    end: int
    content: dict[str, Any] | None
    time: str


@dataclass(frozen=True, slots=True)
class _Found:
    """Columns of an event, the part of the JSON that shows it, and where that begins (0: with the part it is in)."""

    row: Row
    shown: object
    at: int = 0


def _parts(text: str) -> Iterator[_Part]:
    """Communicators and changes one by one, so that a cut loses only the last. A Python loop: JSON nests."""
    at = 0
    while begin := _BEGIN.search(text, at):
        start = begin.start()
        printed = _TIME.search(text, start, start + 500)
        time = printed[1] if printed else ""
        at = begin.end()
        if _CHANGE.match(text, start):
            yield (part := _one(text, start, time))
            at = max(at, part.end)
        elif listed := _LIST.search(text, start, start + 2000):
            at = listed.end()
            while text[at : at + 1] == "{":
                yield (part := _one(text, at, time))
                if part.content is None:
                    break
                after = _BETWEEN.match(text, part.end)
                at = after.end() if after else part.end
        else:
            yield _Part(start, at, None, time)


def _one(text: str, at: int, time: str) -> _Part:
    try:
        found, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return _Part(at, at + 1, None, time)
    return _Part(at, end, found if isinstance(found, dict) else None, time)


def _time(printed: str) -> datetime | None:
    try:
        return datetime.strptime(printed, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None


def _change(found: dict[str, Any]) -> list[_Found]:
    """A peer of monitor mode that came, went or did not answer."""
    peer = _of(found, "peer")
    code, devices = _word(found.get("event")), peer.get("cuda_devs")
    address = _word(peer.get("host")) or re.sub(r"<[0-9]+>$", "", _word(peer.get("addr")) or "")
    row: Row = {
        "code": code,
        "severity": "info" if code in _SETTLED else "warning",
        "peer": address or None,
        "pid": whole(peer.get("pid")),
        "gpu": whole(devices[0]) if isinstance(devices, list) and devices else None,
        "reason": _word(found.get("details")) or None,
    }
    return [_Found(row, found)]


def _communicator(part: _Part, text: str) -> list[_Found]:
    """What stands out in one communicator: a row for each kind of trouble, as in the text form's table, then one per rank."""
    whole_part = part.content or {}
    ranks, missing = _listed(whole_part.get("ranks")), _listed(whole_part.get("missing_ranks"))
    places = dict(zip(map(id, [*ranks, *missing]), _places(text, part), strict=False))
    printed = re.fullmatch("0x([0-9a-f]{1,16})", str(whole_part.get("hash")))
    comm = printed[1].zfill(16) if printed else None
    rows = [(rank, _missing(rank)) for rank in missing] + _failed(ranks) + _unlike(ranks) + _behind(ranks)
    kinds = dict.fromkeys("INCOMPLETE" if row["code"] == "DEAD" else row["code"] for _, row in rows)
    head = {
        key: whole_part.get(key) for key in ("hash", "secondary_hash", "size", "ranks_count", "missing_ranks_count")
    }
    summary = [_Found({"code": k, "comm": comm, "nranks": whole(whole_part.get("size"))}, head) for k in kinds]
    return summary + [_Found({**row, **_who(rank), "comm": comm}, rank, places.get(id(rank), 0)) for rank, row in rows]


def _places(text: str, part: _Part) -> list[int]:
    return [m.start() for m in _RANK.finditer(text, part.start, part.end)]


def _who(rank: dict[str, Any]) -> Row:
    host = _word(rank.get("host"))
    pid = whole(rank.get("pid"))
    return {
        "rank": whole(rank.get("rank")),
        "peer": None if host == "unknown" else host,
        "pid": pid if pid is not None and pid >= 0 else None,
        "gpu": whole(rank.get("cuda_dev")),
    }


def _missing(rank: dict[str, Any]) -> Row:
    status = _of(rank, "status")
    if status.get("considered_dead") is True:
        return {"code": "DEAD", "reason": "considered dead"}
    unresponsive = status.get("unresponsive") is True
    return {"code": "INCOMPLETE", "reason": "unresponsive" if unresponsive else "not a member of the communicator"}


def _failed(ranks: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Row]]:
    """Ranks whose set-up or whose asynchronous state is an error."""
    return [
        (rank, {"code": "ERROR", "status": str(result), "reason": _RESULTS.get(result, "Unexpected error")})
        for rank in ranks
        for key in ("init_state", "async_error")
        if (result := whole(_of(rank, "status").get(key))) is not None and result not in _FINE
    ]


def _unlike(ranks: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Row]]:
    """Ranks in another state than most."""
    return [(rank, {"code": "MISMATCH", "reason": f"has status {state}"}) for state, rank in _outliers(ranks, _state)]


def _behind(ranks: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Row]]:
    """Ranks that have launched another number of a collective than most: `seq` is theirs."""
    counts = [_of(rank, "collective_counts") for rank in ranks]
    by_rank = dict(zip(map(id, ranks), counts, strict=True))
    names = list(dict.fromkeys(name for count in counts for name in count))[:MAX_COLLECTIVES]
    return [
        (rank, {"code": "MISMATCH", "op": name.lower()[:40], "seq": whole(count)})
        for name in names
        for count, rank in _outliers(ranks, lambda r, n=name: str(by_rank[id(r)].get(n)))  # type: ignore[misc]
    ]


def _outliers(ranks: list[dict[str, Any]], of: Callable[[dict[str, Any]], str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(value, rank) of those that the text form would name: alone with their value, or few among many."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rank in ranks:
        groups[of(rank)].append(rank)
    if len(groups) > 1:
        for value, group in groups.items():
            if len(group) == 1 or len(group) <= min(_DETAILED, len(ranks) * _OUTLIER):
                yield from ((value, rank) for rank in group)


def _state(rank: dict[str, Any]) -> str:
    """The word that the text form has for the flags of a rank."""
    status = _of(rank, "status")
    if status.get("abort_flag") is True:
        return "ABORT"
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return "FINALIZE"
    return "RUNNING" if status.get("init_state") == 0 else "INIT"


def _of(found: dict[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) else None


FORMATS: Final = (
    Format(
        "nccl_ras",
        "status and monitor events of NCCL's RAS as JSON: ranks that are missing, failed or behind",
        "ncclras -f json, NCCL 2.28.7 and later",
        "NVIDIA/nccl src/ras/client_support.cc; docs/userguide/source/troubleshooting/ras.rst",
        lambda head: looks_like_ras(head.text),
        lambda member, hints: decode_ras(member),
        in_section=True,
    ),
)
