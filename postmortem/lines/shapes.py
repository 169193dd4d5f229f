"""Dense lines of NCCL by position: collective calls, queue pairs and channels, nearly all bytes of an INFO log with COLL, without a regular expression.

Such lines differ in a few numbers only. What is left of a line without its numbers and pointers is its template; the catalogue reads one line
of each template, the numbers of the others are read here with numpy, eight bytes at a time. A line that fits no shape byte for byte is
a text like any other, of which equal ones are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines.windows import Ints, Lines, Words, mixed, number_of, word

MARK: Final = b"NCCL INFO "

MAX_PREFIXES: Final = 16
"""Different headers in one file that are looked for one after the other; in a file with more, the output of a whole job, say, each line's own is."""

LONGEST: Final = 200
"""Bytes of a header."""

MAX_SIZES: Final = 4
"""Lengths of what stands before the number of a queue pair that are looked at in one block."""

OPS: Final = (
    b"AllReduce", b"AllGather", b"ReduceScatter", b"Broadcast", b"Reduce", b"Send", b"Recv", b"AlltoAll", b"AllToAll", b"Gather", b"Scatter",
)  # fmt: skip

CALL: Final = 1
QUEUE_PAIR: Final = 2
CHANNEL: Final = 3

_OP_SIZES: Final = np.array([*map(len, OPS)])
_MARKS: Final = np.arange(4, dtype=np.uint64) << np.uint64(32)
_OP_MARKS: Final = _MARKS[CALL] + np.arange(len(OPS), dtype=np.uint64)
"""What is added to the number of a header for each kind of line and operation."""

_PLAIN: Final = np.zeros(256, dtype=bool)
_PLAIN[list(b"0123456789abcdefABCDEFGIDxctsioRLkeymu()/=: .")] = True


@dataclass(slots=True)
class Keyed:
    """One number for each line of a block: lines with equal ones are of one template.

    Of dense lines the numbers that differ are left out of it and are in `values` (column → one for each line); `kind` is 0 for texts, CALL,
    QUEUE_PAIR or CHANNEL.
    """

    key: Words
    kind: npt.NDArray[np.uint8]
    values: dict[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Messages:
    """Lines with a known header: their numbers in the block, where the message begins, its first eight bytes, the number of the header's text."""

    index: Ints
    at: Ints
    key: Words
    header: Words


@dataclass(frozen=True, slots=True)
class _Told:
    """Lines of one kind: their numbers in the block, what is known of their template, and where the rest of it stands."""

    kind: int
    index: Ints
    known: Words
    at: Ints
    sizes: Ints
    values: dict[str, Ints]


def keyed(lines: Lines, headers: list[bytes], *, use_shapes: bool = True) -> Keyed:
    """The numbers of `lines`. `headers` of the file that are known by now; new ones are added."""
    count = len(lines.starts)
    out = Keyed(np.empty(count, dtype=np.uint64), np.zeros(count, dtype=np.uint8))
    told: list[_Told] = []
    messages = _messages(lines, headers) if use_shapes else None
    if messages is not None:
        told = [*_calls(lines, messages), *_queue_pairs(lines, messages), *_channels(lines, messages)]
    for one in told:
        out.kind[one.index] = one.kind
        for name, numbers in one.values.items():
            every = out.values.setdefault(name, np.zeros(count, dtype=np.int64))
            every[one.index] = numbers
    rest = np.flatnonzero(out.kind == 0)
    starts = lines.starts[rest]
    told.append(_Told(0, rest, np.zeros(len(rest), dtype=np.uint64), starts, lines.ends[rest] - starts, {}))
    # All at once: to begin hashing costs more than a thousand lines.
    hashed = lines.hashed(np.concatenate([one.at for one in told]), np.concatenate([one.sizes for one in told]))
    out.key[np.concatenate([one.index for one in told])] = mixed(np.concatenate([one.known for one in told]), hashed)
    return out


def _messages(lines: Lines, headers: list[bytes]) -> _Messages | None:
    """The lines with a header; None when there is none."""
    found = _headers(lines, headers) if len(headers) < MAX_PREFIXES else []
    if len(headers) >= MAX_PREFIXES:
        index, at = _marked(lines)
        header = lines.hashed(lines.starts[index], at - lines.starts[index])
        return _Messages(index, at, lines.window(at, 8).word(0), header) if len(index) else None
    if not found:
        return None
    index = np.concatenate([index for _, index in found])
    at = np.concatenate([lines.starts[index] + len(header) for header, index in found])
    header = np.repeat([number_of(header) for header, _ in found], [len(index) for _, index in found])
    return _Messages(index, at, lines.window(at, 8).word(0), header)


def _marked(lines: Lines) -> tuple[Ints, Ints]:
    """(lines that hold MARK behind a header, where their messages begin)."""
    end = int(lines.ends[-1]) if len(lines.ends) else 0
    words = np.ndarray((end,), dtype="<u8", buffer=lines.data, strides=(1,))
    place = np.flatnonzero(words == word(MARK))
    place = place[lines.window(place, 16).holds(0, MARK)]
    index, first = np.unique(np.searchsorted(lines.starts, place, side="right") - 1, return_index=True)
    at = place[first] + len(MARK)
    fits = (
        (at <= lines.ends[index])
        & (at - lines.starts[index] <= LONGEST)
        & (lines.ends[index] - lines.starts[index] > 40)
    )
    return index[fits], at[fits]


def _headers(lines: Lines, known: list[bytes]) -> list[tuple[bytes, Ints]]:
    """(header up to and with MARK, lines that begin with it)."""
    left = np.flatnonzero(lines.ends - lines.starts > 40)
    found: list[tuple[bytes, Ints]] = []

    def claim(header: bytes) -> None:
        nonlocal left
        fits = lines.window(lines.starts[left], -(-len(header) // 8) * 8).holds(0, header)
        found.append((header, left[fits]))
        left = left[~fits]

    for header in known:
        claim(header)
    begin = 0
    for _ in range(MAX_PREFIXES - len(known)):
        below = int(np.searchsorted(lines.starts[left], begin))
        place = lines.data.find(MARK, int(lines.starts[left[below]])) if below < len(left) else -1
        if place < 0:
            break
        first = int(np.searchsorted(lines.starts, place, side="right")) - 1
        start, begin = int(lines.starts[first]), int(lines.ends[first])
        header = bytes(lines.data[start : place + len(MARK)])
        if len(header) <= LONGEST and header not in known:
            known.append(header)
            claim(header)
    # Those of most lines come first in the next block: then few lines are left for the others.
    found.sort(key=lambda one: -len(one[1]))
    known[:] = [header for header, _ in found]
    return found


def _calls(lines: Lines, messages: _Messages) -> Iterator[_Told]:
    """`AllReduce: opCount 1a sendbuff 0x7f… recvbuff 0x7f… count 4096 datatype 9 …` (NCCL's enqueue.cc)."""
    found = [np.flatnonzero(messages.key == word(op + b": opCount ")) for op in OPS]
    some = np.concatenate(found)
    if not len(some):
        return
    ops = np.repeat(np.arange(len(OPS)), [len(f) for f in found])
    place = messages.at[some] + _OP_SIZES[ops]
    is_call = lines.window(place, 8).holds(0, b": opCoun")
    some, ops, place = some[is_call], ops[is_call], place[is_call]
    window = lines.window(place, 32)
    size = window.blank(10)
    seq, fits = window.number(10, size, 16)
    fits &= (size < 8) & window.holds(0, b": opCount ")
    # Pointers of 14 characters: ` sendbuff 0x` twelve digits ` recvbuff 0x` twelve digits ` count `.
    place = place + 10 + size
    window = lines.window(place, 72)
    fits &= window.holds(0, b" sendbuff 0x") & window.holds(24, b" recvbuff 0x") & window.holds(48, b" count ")
    count, size, is_number = window.decimal(55)
    place = place + 55 + size
    sizes = lines.ends[messages.index[some]] - place
    fits &= is_number & (sizes >= 16) & (sizes <= 160)
    good = np.flatnonzero(fits)
    known = messages.header[some[good]] + _OP_MARKS[ops[good]]
    values = {"seq": seq[good], "numel": count[good]}
    yield _Told(CALL, messages.index[some[good]], known, place[good], sizes[good], values)


def _queue_pairs(lines: Lines, messages: _Messages) -> Iterator[_Told]:
    """`NET/IB: ncclIbConnect: NCCL Dev 4 IbDev 4 Port 1 qp_num 15297 mtu 5 GID 3 (…) ctsFifoRkey=0x… …` (NCCL's transport/net_ib)."""
    left = np.flatnonzero(messages.key == word(b"NET/IB: "))
    left = left[lines.window(messages.at[left], 32).holds(8, b"ncclIbConnect: NCCL Dev ")]
    for _ in range(MAX_SIZES):
        if not len(left):
            return
        begin = int(messages.at[left[0]])
        size = lines.data.find(b" qp_num ", begin, begin + 96) + 8 - begin
        if size < 8:
            return
        window = lines.window(messages.at[left], -(-size // 8) * 8 + 16)
        same = window.holds(size - 8, b" qp_num ")
        qpn, width, fits = window.decimal(size)
        fits &= same
        place = messages.at[left] + size + width
        rest = lines.ends[messages.index[left]] - place
        fits &= (rest > 5) & (rest <= 120) & lines.window(place, 8).holds(0, b" mtu ")
        good = np.flatnonzero(fits)
        wide = int(rest[good].max(initial=0))
        tail = lines.window(place[good], -(-wide // 8) * 8).bytes()
        good = good[(_PLAIN.take(tail) | (np.arange(tail.shape[1]) >= rest[good][:, None])).all(axis=1)]
        known = messages.header[left[good]] + _MARKS[QUEUE_PAIR]
        at = messages.at[left[good]]
        yield _Told(QUEUE_PAIR, messages.index[left[good]], known, at, np.full(len(at), size), {"qpn": qpn[good]})
        left = left[~same]


def _channels(lines: Lines, messages: _Messages) -> Iterator[_Told]:
    """`Channel 03/0 : 47[7] -> 39[7] [receive] via NET/IB/2/GDRDMA` (NCCL's transports). Other lines that begin like it are told by `is_channel`."""
    left = np.flatnonzero(messages.key == word(b"Channel "))
    if not len(left):
        return
    place = messages.at[left] + 8
    begin = lines.window(place, 8).word(0)
    tens, ones, after = ((begin >> np.uint64(8 * k)) & np.uint64(255) for k in range(3))
    tens, ones = tens - np.uint64(48), ones - np.uint64(48)
    # NCCL prints two digits, and has not more channels than they can say.
    good = np.flatnonzero((tens < 10) & (ones < 10) & ((after == 47) | (after == 32)))
    left, place = left[good], place[good] + 2
    index = messages.index[left]
    values = {"channel": (tens[good] * np.uint64(10) + ones[good]).astype(np.int64)}
    yield _Told(CHANNEL, index, messages.header[left] + _MARKS[CHANNEL], place, lines.ends[index] - place, values)


def is_channel(texts: pl.Series) -> pl.Series:
    """Which of the texts of kind CHANNEL are what their shape says."""
    return texts.str.contains("] via ", literal=True)
