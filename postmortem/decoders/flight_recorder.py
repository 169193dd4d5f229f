"""PyTorch flight-recorder dumps: pickle and JSON, versions 1 to 2.10 -> `collectives`, `groups`.

The pickle is what TorchScript's Pickler writes (protocol 2): dictionaries, lists, text and numbers. It is read by an unpickler
that knows no classes at all, after every opcode has been held against an allow-list: nothing in a bundle is ever run.
Top level: {version, pg_config {name: {name, desc, ranks}}, pg_status {id: {last_*}}, entries [...]} or, in version 1, a bare list of
entries. Format read from PyTorch 2.11 torch/csrc/distributed/c10d/FlightRecorder*.{hpp,cpp}.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl

from postmortem.decoders.base import Decoded, MemberLike

MAX_BYTES: Final = 256 << 20
MAX_ENTRIES: Final = 200_000
OPCODES: Final = frozenset({
    "PROTO", "MARK", "STOP", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "BINPUT", "LONG_BINPUT", "BINGET",
    "LONG_BINGET", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "NONE", "NEWTRUE", "NEWFALSE",
    "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "MEMOIZE", "FRAME",
})
_OPS: Final = {
    "all_reduce": "allreduce", "allreduce": "allreduce", "all_gather": "allgather", "all_gather_base": "allgather", "all_gather_into_tensor_coalesced": "allgather",
    "reduce_scatter": "reducescatter", "reduce_scatter_base": "reducescatter", "reduce_scatter_tensor_coalesced": "reducescatter", "all_to_all": "alltoall",
    "all_to_all_base": "alltoall", "broadcast_oop": "broadcast", "all_reduce_barrier": "barrier", "allreduce_coalesced": "allreduce", "reduce_oop": "reduce",
}


class _Refused(Exception):
    """The dump holds something that no dump holds."""


class _Unpickler(pickle.Unpickler):
    """Knows no classes: every attempt to name one is refused."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise _Refused(f"it names the class {module_name}.{global_name}"[:120])

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("it refers to objects outside of itself")


def load_pickle(raw: bytes) -> Any:
    """The object in `raw`, made of dictionaries, lists, text and numbers only.

    Raises ValueError with a sentence when it is cut off, damaged or holds any other opcode.
    """
    try:
        for opcode, _, position in pickletools.genops(raw):
            if opcode.name not in OPCODES:
                raise ValueError(f"refused: opcode {opcode.name} at byte {position} is not one that dumps hold")
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith("refused") else "cut off or damaged") from error
    except (IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError("cut off or damaged") from error
    try:
        return _Unpickler(io.BytesIO(raw)).load()
    except _Refused as error:
        raise ValueError(f"refused: {error}") from error
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, ValueError, OverflowError, AttributeError, MemoryError) as error:
        raise ValueError("cut off or damaged") from error


def looks_like_dump(name: str, head: bytes) -> bool:
    """A protocol 2 pickle whose first kilobytes hold a dump's keys, or JSON with them."""
    if head[:2] == b"\x80\x02":
        return any(key in head for key in (b"pg_config", b"entries", b"record_id", b"pg_status", b"nccl_version", b"comm_lib_version"))
    text = head.lstrip()
    return text[:1] == b"{" and (b'"pg_config"' in head or b'"pg_status"' in head) and (b'"entries"' in head or b'"version"' in head)


def _read(member: MemberLike) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= MAX_BYTES and (data := member.stream.read(4 << 20)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def decode_flight_recorder(member: MemberLike, rank_hint: int | None) -> Decoded:
    """Rows of `collectives` (one per entry) and `groups` (one per process group); notes say what was damaged."""
    decoded = Decoded()
    raw = _read(member)
    decoded.bytes = len(raw)
    if len(raw) > MAX_BYTES:
        decoded.notes.append(f"flight-recorder dump larger than {MAX_BYTES >> 20} MB, not read")
        return decoded
    try:
        doc = load_pickle(raw) if raw[:1] == b"\x80" else json.loads(raw)
    except (ValueError, RecursionError) as error:
        text = str(error)
        decoded.notes.append("flight-recorder dump " + (text if text.startswith(("cut", "refused")) else "cut off or damaged"))
        return decoded
    entries = doc if isinstance(doc, list) else doc.get("entries") if isinstance(doc, dict) else None
    entries = [e for e in (entries if isinstance(entries, list) else []) if isinstance(e, dict)]
    if len(entries) > MAX_ENTRIES:
        decoded.notes.append(f"only the last {MAX_ENTRIES} of {len(entries)} entries were kept")
        entries = entries[-MAX_ENTRIES:]
    decoded.lines = len(entries)
    rows = [_entry(e, number, member.name, rank_hint) for number, e in enumerate(entries, 1)]
    if rows:
        decoded.tables["collectives"] = pl.DataFrame(rows, infer_schema_length=None)
    groups = _groups(doc, entries, member.name, rank_hint) if isinstance(doc, dict) else []
    if groups:
        decoded.tables["groups"] = pl.DataFrame(groups, infer_schema_length=None)
    elif not rows:
        decoded.notes.append("flight-recorder dump without entries")
    return decoded


def _int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _when(value: Any) -> datetime | None:
    nanos = _int(value)
    if not nanos or not 0 < nanos < 4_102_444_800_000_000_000:
        return None
    return datetime(1970, 1, 1) + timedelta(microseconds=nanos // 1000)


def _numel(sizes: Any) -> int | None:
    """Elements of all tensors of a size list; null when it is none."""
    if not isinstance(sizes, list):
        return None
    total = 0
    for shape in sizes:
        count = 1
        for n in shape if isinstance(shape, (list, tuple)) else []:
            count *= n if isinstance(n, int) and n >= 0 else 1
        total += count
    return total if total < 2**63 else None


def _operation(name: Any) -> tuple[str | None, int | None]:
    """(collective in the vocabulary's spelling, peer rank within the group)."""
    if not isinstance(name, str):
        return None, None
    bare = name.partition(":")[2] or name
    word, _, way = bare.partition(" ")
    if word in {"send", "recv"}:
        peer = way.split("->")[-1] if "->" in way else way.split("<-")[-1]
        return word, _int(peer.strip())
    word = word.strip("_")
    return _OPS.get(word, word.replace("_", "")), None


def _group(entry: dict[str, Any]) -> tuple[str | None, str | None]:
    pair = entry.get("process_group")
    if isinstance(pair, (list, tuple)) and len(pair) == 2:
        return str(pair[0]), str(pair[1])
    found = entry.get("pg_name", entry.get("pg_id"))
    return (str(found) if found is not None else None), None


def _entry(e: dict[str, Any], number: int, file: str, rank: int | None) -> dict[str, Any]:
    op, peer = _operation(e.get("profiling_name"))
    is_p2p = bool(e.get("is_p2p")) or op in {"send", "recv"}
    sequence = e.get("p2p_seq_id") if is_p2p and "p2p_seq_id" in e else e.get("collective_seq_id", e.get("seq_id"))
    types = e.get("input_dtypes")
    frames = e.get("frames")
    stack = [f"{f.get('name')} ({f.get('filename')}:{f.get('line')})" for f in frames[:3] if isinstance(f, dict)] if isinstance(frames, list) else []
    duration, timeout = e.get("duration_ms"), e.get("timeout_ms")
    return {
        "ts": _when(e.get("time_created_ns")), "rank": rank, "pg": _group(e)[0], "op": op, "seq": _int(sequence), "is_p2p": is_p2p, "numel_in": _numel(e.get("input_sizes")),
        "numel_out": _numel(e.get("output_sizes")), "dtype": str(types[0]) if isinstance(types, list) and types else None,
        "state": str(e["state"]) if isinstance(e.get("state"), str) else None, "peer_rank": peer,
        "elapsed_ms": float(duration) if isinstance(duration, (int, float)) and not isinstance(duration, bool) else None,
        "timeout_ms": float(timeout) if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) else None,
        "frames": " < ".join(stack)[:1000] or None, "file": file, "line": number,
    }


def _members(value: Any) -> str | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list) and all(isinstance(v, int) for v in value):
        return json.dumps(value)
    return None


def _groups(doc: dict[str, Any], entries: list[dict[str, Any]], file: str, rank: int | None) -> list[dict[str, Any]]:
    """One row per group. Status is keyed by an id that is local to the rank: entries tell which name an id has."""
    config = doc.get("pg_config") if isinstance(doc.get("pg_config"), dict) else {}
    status = doc.get("pg_status") if isinstance(doc.get("pg_status"), dict) else {}
    names: dict[str, str] = {}
    described: dict[str, str] = {}
    counts: dict[str, int] = {}
    for e in entries:
        name, text = _group(e)
        if name is None:
            continue
        counts[name] = counts.get(name, 0) + 1
        if e.get("pg_id") is not None:
            names.setdefault(str(e["pg_id"]), name)
        if text:
            described.setdefault(name, text)
    members: dict[str, str | None] = {}
    for key, body in config.items():
        if isinstance(body, dict):
            name = str(body.get("name") or key)
            members[name] = _members(body.get("ranks"))
            if body.get("desc"):
                described.setdefault(name, str(body["desc"]))
    states = {names.get(str(k), str(k)): v for k, v in status.items() if isinstance(v, dict)}
    out = []
    for name in sorted({*counts, *members, *states} - {""}):
        s = states.get(name, {})
        out.append({
            "rank": rank, "pg": name, "description": described.get(name), "members": members.get(name), "last_enqueued": _int(s.get("last_enqueued_collective")),
            "last_started": _int(s.get("last_started_collective")), "last_completed": _int(s.get("last_completed_collective")), "entries": counts.get(name, 0), "file": file,
        })
    return out
