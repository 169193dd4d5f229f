"""Dense lines of NCCL by position: collective calls and queue pairs, nearly all bytes of an INFO log with COLL, without a regular expression.

Such lines differ in a few numbers only. What is left of a line without its numbers and pointers is its template; the catalogue reads one line
of each template, the numbers of the others are read here with numpy, eight bytes at a time. A line that fits no shape byte for byte is
left to the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

MARK: Final = b"NCCL INFO "
PAD: Final = bytes(256)
"""Windows may be read past the last line."""

MAX_PREFIXES: Final = 16
"""Different headers in one block that are looked at; lines of further ones are left to the catalogue."""

MAX_TEMPLATES: Final = 256
MAX_SIZES: Final = 4
OPS: Final = (
    b"AllReduce", b"AllGather", b"ReduceScatter", b"Broadcast", b"Reduce", b"Send", b"Recv", b"AlltoAll", b"AllToAll", b"Gather", b"Scatter",
)  # fmt: skip

_OP_SIZES: Final = np.array([0, *map(len, OPS)])
_DIGITS: Final = np.full(256, 255, dtype=np.uint8)
_DIGITS[48:58] = np.arange(10)
_DIGITS[0] = 0  # what is shifted in before a number; a block with NUL bytes never comes here
_HEX: Final = _DIGITS.copy()
_HEX[97:103] = np.arange(10, 16)
_PLAIN: Final = np.zeros(256, dtype=bool)
_PLAIN[list(b"0123456789abcdefABCDEFGIDxctsioRLkeymu()/=: .")] = True
_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
_SPACES: Final = np.uint64(0x2020202020202020)
_FACTORS: Final = np.random.default_rng(7).integers(1 << 32, 1 << 63, 32, dtype=np.uint64) | np.uint64(1)
_POWERS: Final = 10 ** np.arange(9, dtype=np.int64)
_STEPS: Final = ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF))


@dataclass(frozen=True, slots=True)
class Run:
    """Lines of one template: indices of the lines in their block, and the column → value of each that differ."""

    key: tuple[bytes, ...]
    index: Ints
    values: dict[str, Ints]


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text[:8].ljust(8, b"\0"), "little"))


def _mask(size: int) -> np.uint64:
    return np.uint64((1 << (8 * size)) - 1)


class Window:
    """Equally many bytes from each of several places, copied together: `n` rows of `width` bytes."""

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self._rows = rows
        self.count = len(rows)
        self._width = rows.dtype.itemsize

    def word(self, offset: int) -> Words:
        """The eight bytes at `offset` of each row."""
        if not self.count:
            return np.empty(0, dtype=np.uint64)
        return np.ndarray((self.count,), dtype="<u8", buffer=self._rows, offset=offset, strides=(self._width,))

    def holds(self, offset: int, text: bytes) -> Flags:
        """Whether `text` stands at `offset` of each row."""
        found = np.ones(self.count, dtype=bool)
        for k in range(0, len(text), 8):
            part = text[k : k + 8]
            word = self.word(offset + k)
            found &= (word if len(part) == 8 else word & _mask(len(part))) == _word(part)
        return found

    def blank(self, offset: int) -> Ints:
        """How far the next blank is from `offset`: 0 to 7, 8 when there is none."""
        word = self.word(offset) ^ _SPACES
        # The lowest flag is exact; its position is the count of bits below it.
        zero = (word - _ONES) & ~word & _HIGHS
        return np.bitwise_count((zero & (~zero + np.uint64(1))) - np.uint64(1)).astype(np.int64) >> 3

    def number(self, offset: int, size: Ints, digits: npt.NDArray[np.uint8], base: int) -> tuple[Ints, Flags]:
        """(the number of `size` ≤ 8 digits at `offset`, whether all of it are digits)."""
        word = self.word(offset) << ((8 - np.maximum(size, 1)) << 3).astype(np.uint64)
        value = digits[np.ascontiguousarray(word).view(np.uint8)].view(np.uint64)
        fits = ((value & _HIGHS) == 0) & (size > 0)
        factor = base
        for shift, keep in _STEPS:
            value = (value * np.uint64(factor) + (value >> np.uint64(shift))) & np.uint64(keep)
            factor *= factor
        return value.astype(np.int64), fits

    def decimal(self, offset: int) -> tuple[Ints, Ints, Flags]:
        """(number up to a blank, its size ≤ 15, whether it is one) at `offset`."""
        size = self.blank(offset)
        value, fits = self.number(offset, size, _DIGITS, 10)
        long = np.flatnonzero(size == 8)
        if len(long):
            rest = Window(self._rows[long])
            more = rest.blank(offset + 8)
            low, low_fits = rest.number(offset + 8, more, _DIGITS, 10)
            value[long] = value[long] * _POWERS[more] + np.where(more > 0, low, 0)
            fits[long] &= ((more == 0) | low_fits) & (more < 8)
            size[long] += more
        return value, size, fits

    def bytes(self) -> npt.NDArray[np.uint8]:
        """Rows and columns of bytes."""
        return self._rows.view(np.uint8).reshape(self.count, self._width)

    def hashed(self, size: int) -> Words:
        """A number for the first `size` ≥ 8 bytes of each row; equal bytes, equal number."""
        mixed = np.full(self.count, size, dtype=np.uint64)
        for k in range(0, size, 8):
            mixed += self.word(min(k, size - 8)) * _FACTORS[k >> 3]
        return mixed


class Lines:
    """The lines of a block as numbers: `starts` and `ends` (without line feed) in `data`."""

    def __init__(self, data: bytes, starts: Ints) -> None:
        self.data = data
        self.starts = starts
        self.ends = np.append(starts[1:], len(data)) - 1
        self._padded = data + PAD

    def window(self, at: Ints, width: int) -> Window:
        """`width` ≤ len(PAD) bytes from each place; past the last line there are zero bytes."""
        count = len(self._padded) - width + 1
        view = np.ndarray((count,), dtype=f"V{width}", buffer=self._padded, strides=(1,))
        return Window(view[at])


@dataclass(frozen=True, slots=True)
class _Messages:
    """Lines with a known header: their numbers in the block, where the message begins, which header, the first eight bytes."""

    prefixes: list[bytes]
    index: Ints
    at: Ints
    prefix: Ints
    key: Words


def runs(data: bytes, starts: Ints) -> Iterator[Run]:
    """Runs of the dense lines in a block of whole lines (`data` ends with a line feed, `starts` of each line)."""
    lines = Lines(data, starts)
    found = list(_prefixes(lines))
    if not found:
        return
    at = np.concatenate([f[2] for f in found])
    messages = _Messages(
        [f[0] for f in found],
        np.concatenate([f[1] for f in found]),
        at,
        np.repeat(np.arange(len(found)), [len(f[1]) for f in found]),
        lines.window(at, 40).word(0),
    )
    yield from _collectives(lines, messages)
    yield from _queue_pairs(lines, messages)


def _prefixes(lines: Lines) -> Iterator[tuple[bytes, Ints, Ints]]:
    """(header up to and with MARK, lines that begin with it, where their messages begin)."""
    left = np.flatnonzero(lines.ends - lines.starts > 40)
    begin = 0
    for _ in range(MAX_PREFIXES):
        place = lines.data.find(MARK, begin)
        if place < 0 or not len(left):
            return
        first = int(np.searchsorted(lines.starts, place, side="right")) - 1
        start = int(lines.starts[first])
        size = place + len(MARK) - start
        if size > 200:
            begin = int(lines.ends[first])
            continue
        prefix = lines.data[start : start + size]
        # The end of a header tells most of them apart: thread, GPU, MARK.
        near = lines.window(lines.starts[left] + max(size - 24, 0), 40).holds(0, prefix[-24:])
        some = left[near]
        index = some[lines.window(lines.starts[some], -(-size // 8) * 8).holds(0, prefix)]
        left = np.setdiff1d(left, index, assume_unique=True) if len(index) < len(left) else left[:0]
        if len(index):
            yield prefix, index, lines.starts[index] + size
        below = int(np.searchsorted(left, first, side="right"))
        if below >= len(left):
            return
        begin = int(lines.starts[left[below]])


def _templates(keys: Words) -> Iterator[Ints]:
    """Positions of equal keys, for the first MAX_TEMPLATES of them."""
    left = np.arange(len(keys))
    for _ in range(MAX_TEMPLATES):
        if not len(left):
            return
        same = keys[left] == keys[left[0]]
        yield left[same]
        left = left[~same]


def _collectives(lines: Lines, messages: _Messages) -> Iterator[Run]:
    """`AllReduce: opCount 1a sendbuff 0x7f… recvbuff 0x7f… count 4096 datatype 9 …` (NCCL's enqueue.cc)."""
    ops = np.zeros(len(messages.key), dtype=np.int64)
    for number, op in enumerate(OPS, 1):
        ops[messages.key == _word(op + b": opCount ")] = number
    some = np.flatnonzero(ops)
    if not len(some):
        return
    ops = ops[some]
    place = messages.at[some] + _OP_SIZES[ops]
    window = lines.window(place, 32)
    size = window.blank(10)
    seq, fits = window.number(10, size, _HEX, 16)
    fits &= (size < 8) & window.holds(0, b": opCount ")
    # Pointers of 14 characters: ` sendbuff 0x` twelve digits ` recvbuff 0x` twelve digits ` count `.
    place = place + 10 + size
    window = lines.window(place, 72)
    fits &= window.holds(0, b" sendbuff 0x") & window.holds(24, b" recvbuff 0x") & window.holds(48, b" count ")
    count, size, is_number = window.decimal(55)
    fits &= is_number
    place = place + 55 + size
    sizes = lines.ends[messages.index[some]] - place
    fits &= (sizes >= 16) & (sizes <= 160)
    for tail_size in np.flatnonzero(np.bincount(sizes[fits], minlength=1)).tolist():
        good = np.flatnonzero(fits & (sizes == tail_size))
        key = lines.window(place[good], 160).hashed(tail_size)
        key += messages.prefix[some[good]].astype(np.uint64) * _FACTORS[30] + ops[good].astype(np.uint64) * _FACTORS[31]
        for same in _templates(key):
            rows = good[same]
            first = int(rows[0])
            begin = int(place[first])
            key_of = (
                messages.prefixes[int(messages.prefix[some[first]])],
                OPS[ops[first] - 1],
                lines.data[begin : begin + tail_size],
            )
            yield Run(key_of, messages.index[some[rows]], {"seq": seq[rows], "numel": count[rows]})


def _queue_pairs(lines: Lines, messages: _Messages) -> Iterator[Run]:
    """`NET/IB: ncclIbConnect: NCCL Dev 4 IbDev 4 Port 1 qp_num 15297 mtu 5 GID 3 (…) ctsFifoRkey=0x… …` (NCCL's transport/net_ib)."""
    left = np.flatnonzero(messages.key == _word(b"NET/IB: "))
    left = left[lines.window(messages.at[left], 32).holds(8, b"ncclIbConnect: NCCL Dev ")]
    for _ in range(MAX_SIZES):
        if not len(left):
            return
        begin = int(messages.at[left[0]])
        size = lines.data.find(b" qp_num ", begin, begin + 96) + 8 - begin
        if size < 8:
            return
        window = lines.window(messages.at[left], 136)
        same = window.holds(size - 8, b" qp_num ")
        qpn, width, fits = window.decimal(size)
        fits &= same
        place = messages.at[left] + size + width
        rest = lines.ends[messages.index[left]] - place
        fits &= (rest > 5) & (rest <= 120) & lines.window(place, 40).holds(0, b" mtu ")
        good = np.flatnonzero(fits)
        tail = lines.window(place[good], 120).bytes()
        good = good[(_PLAIN[tail] | (np.arange(120) >= rest[good][:, None])).all(axis=1)]
        key = window.hashed(size)[good] + messages.prefix[left[good]].astype(np.uint64) * _FACTORS[30]
        for equal in _templates(key):
            rows = good[equal]
            first = left[rows[0]]
            start = int(messages.at[first])
            name = (messages.prefixes[int(messages.prefix[first])], lines.data[start : start + size])
            yield Run(name, messages.index[left[rows]], {"qpn": qpn[rows]})
        left = left[~same]
