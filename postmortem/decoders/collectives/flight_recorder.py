"""PyTorch flight-recorder dumps: pickle and JSON, versions 1 to 2.10 -> `collectives` and `groups`.

Top level: `{version, pg_config {name: {name, desc, ranks: "[0, 1]"}}, pg_status {id: {last_enqueued_collective, …}},
entries [{record_id, process_group (name, desc), collective_seq_id, profiling_name "nccl:all_reduce", …}], …}`; version 1
(nightlies of 2.2) is a bare list of entries. Format read from PyTorch 2.11,
torch/csrc/distributed/c10d/FlightRecorder*.{hpp,cpp}. JSON has numbers of the status as text, 0 where the pickle has None, and no frames.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final

from postmortem.decoders.base import EPOCH, Decoded, Format, MemberLike, Row, read_bytes, real, whole
from postmortem.decoders.collectives.process_groups import group_name, group_rows, own_rank
from postmortem.decoders.collectives.safe_pickle import DAMAGED, Cut, RefusedPickleError, load_cut, load_plain
from postmortem.patterns import later

MAX_PICKLE_BYTES: Final = 256 << 20
MAX_JSON_BYTES: Final = 64 << 20
"""Small objects of JSON take twenty times their text in memory; a full buffer of 20,000 entries is 10 MB."""

MAX_ENTRIES: Final = 200_000
MAX_FRAMES: Final = 3
_MAX_TEXT: Final = 300

_STRONG_KEYS: Final = (b"pg_config", b"pg_status", b"profiling_name", b"collective_seq_id")
_FIRST_JSON_KEY: Final = later(
    rb'\s*(?:\{\s*"(?:comm_lib_version|nccl_version|nccl_comm_state|version|entries|pg_config|pg_status|host_name)"\s*:'
    rb'|\[\s*\{\s*"(?:record_id|pg_id|pg_name|process_group|seq_id|collective_seq_id|profiling_name|frames)"\s*:)'
)
_JSON_KEYS: Final = (b'"pg_config"', b'"pg_status"', b'"profiling_name"', b'"collective_seq_id"')
_DUMP_NAME: Final = later(r"(?:trace_rank|_dump|flight)[^/]*$", re.IGNORECASE)
_TRAILING_RANK: Final = later(r"(?:trace|rank|dump)[^/]*?[_.-]([0-9]{1,7})(?:\.(?:json|pkl|pickle|gz|zst|xz|bz2))*$")

_KEY: Final = later(r'[\s,]*(?:"([^"\\]{1,200})"\s*:\s*)?')
_CUT: Final = f"a flight-recorder dump, {DAMAGED}: what stands before that was kept"

_OPERATIONS: Final = (
    "allgather", "allreduce", "alltoall", "reducescatter", "broadcast", "barrier", "reduce", "gather", "scatter", "send",
    "recv", "coalesced",
)  # fmt: skip


def looks_like_dump(name: str, head: bytes) -> bool:
    """A pickle that holds a dump's keys (or is named as one), or a JSON document that begins with them."""
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return any(key in head for key in _STRONG_KEYS) or _DUMP_NAME.search(name) is not None
    return _FIRST_JSON_KEY.match(head) is not None and any(key in head for key in _JSON_KEYS)


def decode_flight_recorder(member: MemberLike, rank_hint: int | None) -> Decoded:
    """Rows of `collectives` (one per entry) and `groups` (one per process group); notes say what was damaged.

    `rank` is the one rank that is in every group of the dump where that is one, else `rank_hint`, else the number that ends the
    file's name: a dump does not say whose it is. `line` counts entries.
    """
    decoded = Decoded()
    loaded = _load(member, decoded)
    if loaded is None:
        return decoded
    document = loaded.value
    named = rank_hint if rank_hint is not None else _rank_of(member.name)
    rank = own_rank(document, named, _last_number(member.name))
    listed = document if isinstance(document, list) else document.get("entries")
    entries = (
        [e for e in listed if isinstance(e, dict) and id(e) not in loaded.is_open] if isinstance(listed, list) else []
    )
    decoded.lines = len(entries)
    first = max(0, len(entries) - MAX_ENTRIES)
    if first:
        decoded.notes.append(f"only the last {MAX_ENTRIES} of {len(entries)} entries were kept")
    sizes = _Sizes()
    rows = [_entry(e, n, member.name, rank, sizes) for n, e in enumerate(entries[first:], first + 1)]
    decoded.put("collectives", rows)
    counts = Counter(name for row in rows if isinstance(name := row["pg"], str))
    groups = group_rows(document, entries[first:], counts) if isinstance(document, dict) else []
    decoded.put("groups", [{"rank": rank, "file": member.name, **row} for row in groups])
    if not rows and not decoded.notes:
        decoded.notes.append("a flight-recorder dump without entries")
    return decoded


def _load(member: MemberLike, decoded: Decoded) -> Cut | None:
    """The dump, or of one that was cut off what stands before the cut; None with a note when that is nothing."""
    raw, is_whole = read_bytes(member, MAX_PICKLE_BYTES)
    decoded.bytes = len(raw)
    is_pickle = raw[:1] == b"\x80"
    if not is_whole or (not is_pickle and len(raw) > MAX_JSON_BYTES):
        limit = MAX_PICKLE_BYTES if is_pickle else MAX_JSON_BYTES
        decoded.notes.append(f"a flight-recorder dump larger than {limit >> 20} MB, not read")
        return None
    if not raw:
        decoded.notes.append("an empty flight-recorder dump")
        return None
    try:
        loaded = _pickled(raw, decoded) if is_pickle else _json(raw, decoded)
    except RefusedPickleError as error:
        decoded.notes.append(f"a flight-recorder dump, {error}")
        return None
    if loaded is None:
        decoded.notes.append(f"a flight-recorder dump, {DAMAGED}")
    elif not isinstance(loaded.value, dict | list):
        decoded.notes.append("a flight-recorder dump without entries")
        return None
    return loaded


def _pickled(raw: bytes, decoded: Decoded) -> Cut | None:
    try:
        return Cut(load_plain(raw))
    except RefusedPickleError as error:
        if str(error) != DAMAGED:
            raise
    found = load_cut(raw)
    if found is not None:
        decoded.notes.append(_CUT)
    return found


def _json(raw: bytes, decoded: Decoded) -> Cut | None:
    try:
        return Cut(json.loads(raw))
    except (ValueError, RecursionError):
        found = _before_cut(raw.decode("utf-8", "replace").lstrip())
    if found:
        decoded.notes.append(_CUT)
    return Cut(found) if found else None


def _before_cut(text: str, at: int = 0, depth: int = 0) -> Any:
    """The members of a list or an object that stand whole before the cut; of the one that was cut its own, two levels deep."""
    decoder = json.JSONDecoder()
    found: Any = [] if text[at : at + 1] == "[" else {}
    at += 1
    while step := _KEY.match(text, at):
        if (step[1] is None) == isinstance(found, dict):
            break
        try:
            value, at = decoder.raw_decode(text, step.end())
        except (ValueError, RecursionError):
            if step[1] is not None and depth < 2 and text[step.end() : step.end() + 1] in {"[", "{"}:
                found[step[1]] = _before_cut(text, step.end(), depth + 1)
            break
        if step[1] is None:
            found.append(value)
        else:
            found[step[1]] = value
    return found


def _rank_of(name: str) -> int | None:
    found = _TRAILING_RANK.search(name.rsplit("/", 1)[-1])
    return int(found[1]) if found else None


def _last_number(name: str) -> int | None:
    """The last number of a file's name, which may be anything."""
    found = re.findall(r"[0-9]+", name.rsplit("/", 1)[-1])
    return int(found[-1]) if found and len(found[-1]) < 8 else None


def _when(value: Any) -> datetime | None:
    """UTC of epoch nanoseconds; null for 0, None and what is no time before the year 2100."""
    nanos = whole(value)
    if nanos is None or not 0 < nanos < 4_102_444_800_000_000_000:
        return None
    return EPOCH + timedelta(microseconds=nanos // 1000)


class _Sizes:
    """Elements of lists of tensor sizes, each list counted once: a hostile dump may hold one huge list many times."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}

    def elements(self, sizes: Any) -> int | None:
        """Elements of all tensors together; null when there are none or they are no sizes."""
        if not isinstance(sizes, list) or not sizes:
            return None
        key = id(sizes)
        if key not in self._known:
            self._known[key] = _elements(sizes)
        return self._known[key]


def _elements(sizes: list[Any]) -> int | None:
    total = 0
    for shape in sizes:
        if not isinstance(shape, list | tuple) or len(shape) > 64:
            return None
        count = 1
        for length in shape:
            size = whole(length)
            if size is None or size < 0:
                return None
            count *= size
        total += count
    return whole(total)


def operation(name: Any) -> tuple[str | None, int | None]:
    """(operation in the vocabulary's spelling, peer's rank within the group) of a profiling name.

    >>> operation("nccl:_reduce_scatter_base")
    ('reducescatter', None)
    >>> operation("nccl:recv 2<-3")
    ('recv', 3)
    """
    if not isinstance(name, str):
        return None, None
    word, _, way = name[:_MAX_TEXT].rpartition(":")[2].strip().partition(" ")
    bare = word.replace("_", "").lower()
    known = next((op for op in _OPERATIONS if bare.startswith(op)), bare or None)
    peer = whole(re.split(r"->|<-", way)[-1]) if known in {"send", "recv"} and way else None
    return known, peer


def _entry(e: dict[str, Any], number: int, file: str, rank: int | None, sizes: _Sizes) -> Row:
    name, peer = operation(e.get("profiling_name"))
    is_p2p = e.get("is_p2p") is True or name in {"send", "recv"}
    sequence = e.get("p2p_seq_id") if is_p2p and "p2p_seq_id" in e else e.get("collective_seq_id", e.get("seq_id"))
    types = e.get("input_dtypes")
    return {
        "ts": _when(e.get("time_created_ns")),
        "rank": rank,
        "pg": group_name(e),
        "op": name,
        "seq": whole(sequence),
        "is_p2p": is_p2p,
        "numel_in": sizes.elements(e.get("input_sizes")),
        "numel_out": sizes.elements(e.get("output_sizes")),
        "dtype": _text(types[0]) if isinstance(types, list) and types else None,
        "state": _text(e.get("state")),
        "peer_rank": peer,
        "elapsed_ms": real(e.get("duration_ms")),
        "timeout_ms": real(e.get("timeout_ms")),
        "frames": _frames(e.get("frames")),
        "file": file,
        "line": number,
    }


def _text(value: Any) -> str | None:
    return value[:_MAX_TEXT] if isinstance(value, str) else None


def _frames(frames: Any) -> str | None:
    """The innermost frames, innermost first: `all_reduce (distributed_c10d.py:3068) < step (train.py:188)`."""
    if not isinstance(frames, list):
        return None
    kept = [f for f in frames[:MAX_FRAMES] if isinstance(f, dict)]
    texts = [f"{_text(f.get('name')) or '?'} ({_text(f.get('filename')) or '?'}:{whole(f.get('line'))})" for f in kept]
    return " < ".join(texts) or None


FORMATS: Final = (
    Format(
        "flight_recorder",
        "flight-recorder dump, pickle or JSON: collectives and process groups of one rank",
        "PyTorch 2.2 to 2.11, versions 1 to 2.10 of the dump, NCCL and gloo",
        "pytorch/pytorch torch/csrc/distributed/c10d/FlightRecorder*.{hpp,cpp}",
        lambda head: looks_like_dump(head.name, head.raw),
        lambda member, hints: decode_flight_recorder(member, hints.rank),
    ),
)
