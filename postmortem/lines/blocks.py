"""Bytes of a stream → blocks of whole lines, with their line numbers and byte offsets.

Memory is bounded by the block size whatever the stream holds: of a line that is longer than a block (and than
MAX_LINE) the first MAX_LINE bytes and the offset are kept, the rest is skipped and the line is reported as odd.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

BLOCK_BYTES: Final = 4 << 20
MAX_LINE: Final = 64 << 10


PROBE_BYTES: Final = 64 << 10
"""What is read before room for a whole block is made: most files are small."""

PAD: Final = bytes(256)
"""What follows the bytes of a block, so that fixed numbers of them can be looked at from any place."""


class Readable(Protocol):
    """Anything that gives bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        ...


@dataclass(slots=True)
class Block:
    """Whole lines of one file.

    `text` has one string per line without its line end; `offsets` the byte offset of each line in
    the uncompressed file; `first_line` the 1-based number of the first. `odd` lists
    (line, why, beginning) of lines that are no text or were cut. Records of a document
    (`postmortem.lines.documents`) also have `line_numbers` of their own, `framed` (the record as one line of
    JSON) and `line_count`, the lines of the document that were read. `raw` are the bytes of plain ASCII lines, which at
    least PAD follows, and `ends` the places of their line feeds in it; of such a block `text` is made when it is first asked for.
    """

    made: pl.Series | None
    offsets: npt.NDArray[np.int64]
    first_line: int
    byte_count: int
    odd: tuple[tuple[int, str, str], ...]
    odd_count: int
    line_numbers: npt.NDArray[np.int64] | None = None
    framed: pl.Series | None = None
    line_count: int | None = None
    raw: bytes | bytearray | None = None
    ends: npt.NDArray[np.int64] | None = None

    @property
    def text(self) -> pl.Series:
        """One string per line without its line end."""
        if self.made is None:
            assert self.raw is not None
            assert self.ends is not None
            self.made = _strings(self.raw, self.ends)
        return self.made

    def pick(self, where: npt.NDArray[np.intp]) -> pl.Series:
        """The texts of a few lines, copied: polars would keep all bytes of the block for them."""
        if self.made is None and self.raw is not None and self.ends is not None:
            # A Python loop, since making all texts takes longer than slicing some out.
            begins = (self.offsets[where] - self.offsets[0]).tolist()
            spans = zip(begins, self.ends[where].tolist(), strict=True)
            return pl.Series("text", [self.raw[a:b].decode("ascii").rstrip("\r\n") for a, b in spans], dtype=pl.String)
        return pl.Series("text", self.text.gather(where).to_list(), dtype=pl.String)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """1-based number of each line."""
        if self.line_numbers is not None:
            return self.line_numbers
        return np.arange(self.first_line, self.first_line + len(self.offsets), dtype=np.int64)

    @property
    def lines(self) -> int:
        """Physical lines of the file that the block covers."""
        return len(self.offsets) if self.line_count is None else self.line_count


class ArrowArray:
    """An Arrow array by its C interface alone: as such polars takes it without importing half of pyarrow."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        capsules: tuple[object, object] = self._array.__arrow_c_array__(requested_schema)
        return capsules


def _strings(data: bytes | bytearray, ends: npt.NDArray[np.int64]) -> pl.Series:
    """One string per line of `data` (`ends` are its line feeds; what follows the last is left out) without copying it."""
    # Arrow strings lie end to end, so the line feed belongs to its line and is stripped after.
    bounds = np.concatenate(([0], ends + 1)).astype(np.int64)
    array = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(bounds.tobytes()), pa.py_buffer(data))
    return pl.Series("text", ArrowArray(array)).str.strip_chars_end("\r\n")


LEAST_KEPT: Final = 1 << 20
"""Room for less is not worth keeping."""


class _Scratch(threading.local):
    """Room for one flag per byte of a block, and for a block; to get new room for each block takes as long as to fill it."""

    def __init__(self) -> None:
        self.rooms: list[bytearray] = []
        self.flags = np.empty(0, dtype=bool)


_SCRATCH: Final = _Scratch()
_ONE: Final = np.uint64(1)


def _feeds(data: bytes | bytearray, size: int) -> npt.NDArray[np.int64]:
    """Places of the line feeds in the first `size` bytes."""
    room = -(-size // 8) * 8
    if len(_SCRATCH.flags) < room:
        _SCRATCH.flags = np.empty(room, dtype=bool)
    flags = _SCRATCH.flags[:room]
    np.equal(np.frombuffer(data, dtype=np.uint8, count=size), 10, out=flags[:size])
    flags[size:] = False
    # Eight bytes at a time, since most have no line feed among them: half the time of looking at each.
    eights = flags.view("<u8")
    index = np.flatnonzero(eights != 0)
    held = eights[index]
    if np.count_nonzero(held & (held - _ONE)) * 8 > len(held):
        return np.flatnonzero(flags)
    found: list[npt.NDArray[np.int64]] = []
    while len(index):
        lowest = held & (~held + _ONE)
        found.append((index << 3) + (np.bitwise_count(lowest - _ONE).astype(np.int64) >> 3))
        held = held ^ lowest
        more = np.flatnonzero(held)
        index, held = index[more], held[more]
    if len(found) == 1:
        return found[0]
    ends: npt.NDArray[np.int64] = np.sort(np.concatenate(found), kind="stable") if found else index
    return ends


def _line_ends(data: bytes) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10).astype(np.int64)


def _block(padded: bytes | bytearray, size: int, offset: int, line: int, cut: bool) -> Block:
    """The block of the first `size` bytes of `padded`, which end with a line feed and are followed by len(PAD) bytes more."""
    ends = _feeds(padded, size)
    starts = np.empty(len(ends), dtype=np.int64)
    starts[:1] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    odd: list[tuple[int, str, str]] = []
    odd_count = 0
    if cut:
        odd.append(
            (line, f"line longer than {MAX_LINE} bytes, its end was skipped", padded[:120].decode("utf-8", "replace"))
        )
        odd_count = 1
    if not cut and padded.find(b"\0", 0, size) < 0 and padded.isascii():
        return Block(None, starts + offset, line, size, tuple(odd), odd_count, raw=padded, ends=ends)
    data = padded[:size]
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text or "\0" in text:
        # A damaged byte never turns into a line feed, so the lines stay the same lines.
        fixed = text.replace("\0", "").encode()
        series = _strings(fixed, _line_ends(fixed))
        bad = pl.Series(
            "bad", _strings(text.replace("\0", "\ufffd").encode(), _line_ends(text.replace("\0", "\ufffd").encode()))
        )
        flags = bad.str.contains("\ufffd", literal=True)
        odd_count += int(flags.sum())
        odd += [(line + int(i), "not valid text", str(series[int(i)])[:120]) for i in flags.arg_true()[:20]]
        return Block(series, starts + offset, line, len(data), tuple(odd), odd_count)
    return Block(_strings(data, ends), starts + offset, line, len(data), tuple(odd), odd_count)


def read_blocks(stream: Readable, block_bytes: int = BLOCK_BYTES, *, offset: int = 0, line: int = 1) -> Iterator[Block]:
    """Blocks of `stream` in order; a last line without line feed counts as a line.

    `offset` and `line` are those of the first byte in its file. Damaged UTF-8 is replaced, NUL bytes are dropped, offsets stay those of the bytes.
    """
    carry = b""
    while head := stream.read(min(PROBE_BYTES, block_bytes)):
        buffer, filled = _filled(stream, carry, head, block_bytes)
        size = buffer.rfind(b"\n", 0, filled) + 1
        if not size:
            carry = bytes(buffer[:filled])
            if filled <= max(MAX_LINE, block_bytes):
                continue
            block, skipped = _long_line(carry, stream, offset, line, block_bytes)
            yield block
            offset, line, carry = offset + skipped[0], line + 1, skipped[1]
            continue
        block = _block(buffer, size, offset, line, False)
        _keep(buffer, is_ascii=block.raw is not None)
        yield block
        offset += size
        line += len(block.offsets)
        carry = bytes(buffer[size:filled])
    if carry:
        # What follows an over-long line may hold whole lines already.
        yield _whole(carry if carry.endswith(b"\n") else carry + b"\n", offset, line, False)


def _filled(stream: Readable, carry: bytes, head: bytes, count: int) -> tuple[bytearray, int]:
    """(`carry`, `head` and what of `stream` makes `count` bytes with it, followed by at least PAD; how many of these bytes are of the stream).

    Large blocks are read into their place: copying them takes as long as reading.
    """
    begin = len(carry) + len(head)
    left = count - len(head) if len(head) >= PROBE_BYTES else 0
    buffer = _room(begin + max(left, 0) + len(PAD))
    buffer[:begin] = carry + head
    filled = begin
    if left > 0:
        with memoryview(buffer)[begin : begin + left] as free:
            if hasattr(stream, "readinto"):
                filled += int(stream.readinto(free) or 0)
            else:
                data = stream.read(left)
                free[: len(data)] = data
                filled += len(data)
    buffer[filled : filled + len(PAD)] = PAD
    return buffer, filled


def _room(size: int) -> bytearray:
    """At least `size` bytes: those of an earlier block once nothing refers to them any more, since to clear new ones takes as long as to read them."""
    rooms = _SCRATCH.rooms
    for k in range(len(rooms)):
        if size <= len(rooms[k]) <= size * 2 and _references(rooms, k) == _ALONE:
            return rooms[k]
    return bytearray(size)


def _references(rooms: list[bytearray], k: int) -> int:
    return sys.getrefcount(rooms[k])


_ALONE: Final = _references([bytearray()], 0)
"""What is counted where only the list refers to a room; measured, since versions of Python count the call's own in different ways."""


def _keep(room: bytearray, *, is_ascii: bool) -> None:
    """Let `room` be that of a later block, unless bytes are left in it that would make that one look like other than ASCII.

    Two take turns: a block is still looked at while the next one is read.
    """
    others = [old for old in _SCRATCH.rooms if old is not room]
    _SCRATCH.rooms = [room, *others[:1]] if is_ascii and len(room) > LEAST_KEPT else others


def _whole(data: bytes, offset: int, line: int, cut: bool) -> Block:
    return _block(data + PAD, len(data), offset, line, cut)


def _long_line(
    buffer: bytes, stream: Readable, offset: int, line: int, block_bytes: int
) -> tuple[Block, tuple[int, bytes]]:
    """The kept head of an over-long line, and (bytes it took in the file, what follows it)."""
    taken = len(buffer)
    while True:
        data = stream.read(block_bytes)
        if not data:
            return _whole(buffer[:MAX_LINE] + b"\n", offset, line, True), (taken, b"")
        end = data.find(b"\n")
        if end >= 0:
            rest = data[end + 1 :]
            return _whole(buffer[:MAX_LINE] + b"\n", offset, line, True), (taken + end + 1, rest)
        taken += len(data)
