"""Messages of a Perfetto trace as bytes: the few of perfetto/trace/*.proto that a timeline needs.

A writer of our own, for a dozen fields: the protobuf library and Perfetto's generated module would be dependencies of everybody for what
one command writes. Field numbers: protos/perfetto/trace/{trace_packet,clock_snapshot}.proto and
track_event/{track_event,track_descriptor,counter_descriptor,debug_annotation}.proto of Perfetto, unchanged since 2021 but for the ordering of
tracks (2025, skipped by older readers).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

VARINT, FIXED64, BYTES = 0, 1, 2
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
"""TrackEvent.Type"""
BY_RANK: Final = 3
"""TrackDescriptor.ChildTracksOrdering.EXPLICIT"""
REALTIME, BOOTTIME = 1, 6
"""BuiltinClock"""
SEQUENCE: Final = 1
TEXT_LIMIT: Final = 600
Value = str | int | float | bool


def varint(value: int) -> bytes:
    """A varint; negative numbers as 64 bits, as int64 has them."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=256)
def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def whole(number: int, value: int) -> bytes:
    """A field of an integer type."""
    return _key(number, VARINT) + varint(value)


def nested(number: int, payload: bytes) -> bytes:
    """A field that holds a message."""
    return _key(number, BYTES) + varint(len(payload)) + payload


def text(number: int, value: str) -> bytes:
    """A string field; what is no UTF-8 is written as escapes."""
    return nested(number, value.encode("utf-8", "backslashreplace"))


@lru_cache(maxsize=20_000)
def _name(number: int, value: str) -> bytes:
    return text(number, value)


def packet(content: bytes, at_ns: int | None = None) -> bytes:
    """One TracePacket of the trace: `content` is its field of data, `at_ns` its time in ns since 1970."""
    time = b"" if at_ns is None else whole(8, at_ns)
    return nested(1, time + whole(10, SEQUENCE) + content)


def clock_snapshot(at_ns: int) -> bytes:
    """Says that times are those of a wall clock (UTC), so that the viewer can show them as such."""
    both = b"".join(nested(1, whole(1, clock) + whole(2, at_ns)) for clock in (BOOTTIME, REALTIME))
    return packet(nested(6, both), at_ns)


def track(uuid: int, name: str, parent: int | None, rank: int = 0, unit: str | None = None) -> bytes:
    """TrackDescriptor: siblings are shown by `rank`; with `unit` (which may be empty) it is a counter's track."""
    payload = whole(1, uuid) + text(2, name)
    if parent is not None:
        payload += whole(5, parent)
    if unit is not None:
        payload += nested(8, text(6, unit) if unit else b"")
    return packet(nested(60, payload + whole(11, BY_RANK) + whole(12, rank)))


def annotation(name: str, value: Value) -> bytes:
    """DebugAnnotation: a named value of an event."""
    match value:
        case bool():
            content = whole(2, int(value))
        case int():
            content = whole(4, value)
        case float():
            content = _key(5, FIXED64) + struct.pack("<d", value)
        case _:
            content = text(6, value if len(value) <= TEXT_LIMIT else f"{value[: TEXT_LIMIT - 1]}…")
    return nested(4, content + _name(10, name))


def event(
    kind: int,
    uuid: int,
    at_ns: int,
    name: str = "",
    category: str = "",
    notes: Iterable[tuple[str, Value]] = (),
    flows: Iterable[int] = (),
    last_flows: Iterable[int] = (),
) -> bytes:
    """TrackEvent: begin or end of a slice, or an instant; `flows` go on or begin here, `last_flows` end here."""
    payload = whole(9, kind) + whole(11, uuid)
    if category:
        payload += _name(22, category)
    if name:
        payload += _name(23, name)
    payload += b"".join(annotation(key, value) for key, value in notes)
    payload += b"".join(_key(47, FIXED64) + struct.pack("<Q", flow) for flow in flows)
    payload += b"".join(_key(48, FIXED64) + struct.pack("<Q", flow) for flow in last_flows)
    return packet(nested(11, payload), at_ns)


def count(uuid: int, at_ns: int, value: float) -> bytes:
    """One reading of a counter; empty for a value that is not finite."""
    if not math.isfinite(value):
        return b""
    payload = whole(9, COUNTER) + whole(11, uuid) + _key(44, FIXED64) + struct.pack("<d", value)
    return packet(nested(11, payload), at_ns)
