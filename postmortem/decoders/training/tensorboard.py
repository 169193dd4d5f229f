"""TensorBoard event files -> events `train.step` (and `train.nan`): figures of a step under whatever tag the trainer gave them.

`events.out.tfevents.<epoch s>.<host>.<pid>.<n>` is a TFRecord file: each record is its length (8 bytes, little endian), a masked CRC32C
of the length, the payload, a masked CRC32C of the payload. The payload is a protobuf, written by a reader of our own:

    Event{wall_time=1 double, step=2 int64, file_version=3 string, summary=5 Summary}
    Summary{value=1 repeated Value}   Value{tag=1 string, simple_value=2 float, tensor=8 TensorProto}
    TensorProto{dtype=1, tensor_content=4 bytes, float_val=5, double_val=6}

Read from tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto and lib/io/record_writer.cc. Tags as in
`postmortem.decoders.training.step_names`; most writers put each figure of a step into an event of its own. The last record of a crashed job
is often cut.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from functools import lru_cache
from typing import Final

from postmortem.decoders.base import EPOCH, Decoded, Format, Hints, MemberLike, Row, evidence, stamp
from postmortem.decoders.training.step_names import role
from postmortem.patterns import later

MAX_STEPS: Final = 1_000_000
MAX_RECORD: Final = 1 << 20
"""Larger records hold images or histograms and are passed over."""

MAX_OPEN: Final = 64
"""Steps whose figures are still being put together; figures of a step stand close to one another."""

_CHUNK: Final = 1 << 20
_FRAME: Final = 12
_POLYNOMIAL: Final = 0x82F63B78
_MASK: Final = 0xA282EAD8
_FLOAT, _DOUBLE = 1, 2
_HOST: Final = later(
    r"tfevents\.[0-9]{9,11}\.(?P<host>[A-Za-z][A-Za-z0-9-]*)(?:\.[^/!]*?)?\.(?P<pid>[0-9]{1,8})\.[0-9]+(?:\.v2)?$"
)


def _table() -> tuple[int, ...]:
    out = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        out.append(byte)
    return tuple(out)


_CRC: Final = _table()


def masked_crc(raw: bytes) -> int:
    """TFRecord's masked CRC32C."""
    crc = 0xFFFFFFFF
    for byte in raw:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def looks_like_events(head: bytes) -> bool:
    """A first record whose length has the right checksum and which is an event that names the format's version."""
    return (
        len(head) > _FRAME + 4
        and _length(head[:_FRAME]) is not None
        and b"\x1a\x0dbrain.Event:" in head[_FRAME : _FRAME + 64]
    )


@lru_cache(maxsize=4096)
def _length(frame: bytes) -> int | None:
    size, crc = struct.unpack("<QI", frame)
    return size if crc == masked_crc(frame[:8]) else None


@dataclass(slots=True)
class _Step:
    """Figures of one step that have come so far, from the record `line` on."""

    line: int
    time: float
    figures: dict[str, float] = field(default_factory=dict)
    scopes: set[str] = field(default_factory=set)
    tags: dict[str, float] = field(default_factory=dict)


def decode_events(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of events; `line` is the number of the first record of a step. A Python loop: records are framed one by one."""
    decoded = Decoded()
    named = _HOST.search(member.name)
    base: Row = {
        "host": hints.host or (named["host"] if named else None),
        "pid": int(named["pid"]) if named else None,
        "rank": hints.rank,
    }
    open_steps: dict[int, _Step] = {}
    rows: list[Row] = []
    for number, payload in enumerate(_records(member, decoded), 1):
        decoded.lines = number
        for step, time, tag, value in _scalars(payload):
            known = role(tag)
            if known is None or known.column in {"step", "rank", "time", "host"}:
                continue
            if step in open_steps and known.column in open_steps[step].figures:
                if tag not in open_steps[step].tags:
                    continue
                # The same tag again: the step was run once more after a restart.
                rows += _rows(step, open_steps.pop(step), base, member)
            if len(open_steps) >= MAX_OPEN and step not in open_steps:
                first = next(iter(open_steps))
                rows += _rows(first, open_steps.pop(first), base, member)
            current = open_steps.setdefault(step, _Step(number, time))
            current.figures[known.column] = value * known.factor
            current.scopes |= {known.scope} if known.scope else set()
            current.tags[tag] = value
        if len(rows) >= MAX_STEPS:
            decoded.notes.append(f"only the first {MAX_STEPS} steps were kept")
            break
    for step, current in open_steps.items():
        rows += _rows(step, current, base, member)
    decoded.put("events", rows)
    return decoded


def _rows(step: int, found: _Step, base: Row, member: MemberLike) -> list[Row]:
    """The step, and its NaN beside it when the loss is none."""
    shown = " ".join(f"{tag[:80]}={value:.6g}" for tag, value in found.tags.items())
    where = evidence(member, found.line, f"step {step}: {shown}", "trainer")
    figures: Row = {k: v for k, v in found.figures.items() if math.isfinite(v) and abs(v) < 1e300}
    if "total_steps" in figures:
        figures["total_steps"] = int(found.figures["total_steps"])
    when = EPOCH.replace(tzinfo=UTC) + timedelta(seconds=found.time) if 1e6 < found.time < 4.1e9 else None
    row: Row = {**base, **where, **stamp(when, 1_000), "step": step, "sub": 0}
    scope = next(iter(found.scopes)) if len(found.scopes) == 1 else None
    rows: list[Row] = [{**row, **figures, "scope": scope, "event": "train.step", "severity": "info"}]
    if math.isnan(found.figures.get("loss", 0.0)):
        rows.append({**row, "event": "train.nan", "severity": "error", "sub": 1})
    return rows


def _records(member: MemberLike, decoded: Decoded) -> Iterator[bytes]:
    """Payloads of records up to `MAX_RECORD`; a cut or damaged one ends the file with a note."""
    held = bytearray()
    at = 0

    def fill(size: int) -> bool:
        """Have `size` bytes from `at` on in `held`."""
        nonlocal at
        while len(held) - at < size:
            data = member.stream.read(max(_CHUNK, size))
            if not data:
                return False
            decoded.bytes += len(data)
            del held[:at]
            at = 0
            held.extend(data)
        return True

    while fill(1):
        if not fill(_FRAME):
            decoded.notes.append("a TensorBoard file that is cut off in a record")
            return
        size = _length(bytes(held[at : at + _FRAME]))
        if size is None:
            decoded.notes.append("a TensorBoard file that is damaged: the rest was not read")
            return
        at += _FRAME
        is_kept = size <= MAX_RECORD
        left = size + 4
        while left and (part := min(left, _CHUNK if not is_kept else left)):
            if not fill(part):
                decoded.notes.append("a TensorBoard file that is cut off in a record")
                return
            if is_kept:
                yield bytes(held[at : at + size])
            at += part
            left -= part


def _scalars(payload: bytes) -> Iterator[tuple[int, float, str, float]]:
    """(step, wall time, tag, value) of each number in an event; an event that is no protobuf gives none."""
    step, time = 0, 0.0
    summaries: list[bytes] = []
    for number, value in _fields(payload):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            time = struct.unpack("<d", value)[0]
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    if not 0 <= step < 2**53:
        return
    for summary in summaries:
        for number, body in _fields(summary):
            if number == 1 and isinstance(body, bytes):
                tag, figure = _value(body)
                if tag and figure is not None:
                    yield step, time, tag, figure


def _value(body: bytes) -> tuple[str, float | None]:
    tag, figure = "", None
    for number, value in _fields(body):
        if number == 1 and isinstance(value, bytes):
            tag = value[:300].decode("utf-8", "replace")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            figure = struct.unpack("<f", value)[0]
        elif number == 8 and isinstance(value, bytes):
            figure = _tensor(value)
    return tag, figure


def _tensor(body: bytes) -> float | None:
    """The number in a tensor of one float or double."""
    kind, content = 0, b""
    for number, value in _fields(body):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in {4, 5, 6} and isinstance(value, bytes):
            content = value
    if kind == _FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    return float(struct.unpack("<d", content)[0]) if kind == _DOUBLE and len(content) == 8 else None


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: integers of varints, bytes of all else; ends where it is damaged."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(raw, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(raw, at)
        else:
            size = {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or at + size > len(raw):
            return
        yield key >> 3, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends); a number that is cut off or too long ends the message."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            break
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, len(raw)


FORMATS: Final = (
    Format(
        "tensorboard",
        "TensorBoard event file: loss, durations and rates of steps",
        "TensorBoard, torch.utils.tensorboard, tensorboardX",
        "tensorflow/tensorflow core/util/event.proto, core/framework/summary.proto, core/lib/io/record_writer.cc",
        lambda head: looks_like_events(head.raw),
        decode_events,
    ),
)
