"""Dense lines of NCCL by position: collective calls, queue pairs and channels, nearly all bytes of an INFO log with COLL, without a regular expression.

Such lines differ in a few numbers only. What is left of a line without its numbers and pointers is its template; the catalogue reads one line
of each template, the numbers of the others are read here with numpy, eight bytes at a time. A line that fits no shape byte for byte is
a text like any other, of which equal ones are found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines.windows import HEX, Ints, Lines, Words, mixed, word

MARK: Final = b"NCCL INFO "

MAX_PREFIXES: Final = 16
"""Different headers in one file that are looked at; lines of further ones are texts."""

MAX_SIZES: Final = 4
"""Lengths of what stands before the number of a queue pair that are looked at in one block."""

OPS: Final = (
    b"AllReduce", b"AllGather", b"ReduceScatter", b"Broadcast", b"Reduce", b"Send", b"Recv", b"AlltoAll", b"AllToAll", b"Gather", b"Scatter",
)  # fmt: skip

CALL: Final = 1
QUEUE_PAIR: Final = 2
CHANNEL: Final = 3

_OP_SIZES: Final = np.array([0, *map(len, OPS)])
_MARKS: Final = np.arange(4, dtype=np.uint64) << np.uint64(32)
_OP_MARKS: Final = _MARKS[CALL] + np.arange(len(OPS) + 1, dtype=np.uint64)
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


def keyed(lines: Lines, headers: list[bytes], *, use_shapes: bool = True) -> Keyed:
    """The numbers of `lines`. `headers` of the file that are known by now; new ones are added."""
    count = len(lines.starts)
    out = Keyed(np.empty(count, dtype=np.uint64), np.zeros(count, dtype=np.uint8))
    if use_shapes:
        found = _headers(lines, headers)
        if found:
            index = np.concatenate([index for _, index in found])
            at = np.concatenate([lines.starts[index] + len(header) for header, index in found])
            header = np.concatenate(
                [
                    lines.hashed(lines.starts[index[:1]], np.array([len(header)]))[np.zeros(len(index), dtype=np.intp)]
                    for header, index in found
                    if len(index)
                ]
            )
            messages = _Messages(index, at, lines.window(at, 8).word(0), header)
            _calls(lines, messages, out)
            _queue_pairs(lines, messages, out)
            _channels(lines, messages, out)
    rest = np.flatnonzero(out.kind == 0)
    starts = lines.starts[rest]
    out.key[rest] = lines.hashed(starts, lines.ends[rest] - starts)
    return out


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
        if len(header) <= 200 and header not in known:
            known.append(header)
            claim(header)
    return found


def _calls(lines: Lines, messages: _Messages, out: Keyed) -> None:
    """`AllReduce: opCount 1a sendbuff 0x7f… recvbuff 0x7f… count 4096 datatype 9 …` (NCCL's enqueue.cc)."""
    ops = np.zeros(len(messages.key), dtype=np.int64)
    for number, op in enumerate(OPS, 1):
        ops[messages.key == word(op + b": opCount ")] = number
    some = np.flatnonzero(ops)
    if not len(some):
        return
    ops = ops[some]
    place = messages.at[some] + _OP_SIZES[ops]
    window = lines.window(place, 32)
    size = window.blank(10)
    seq, fits = window.number(10, size, HEX, 16)
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
    index = messages.index[some[good]]
    kind = messages.header[some[good]] + _OP_MARKS[ops[good]]
    out.key[index] = mixed(kind, lines.hashed(place[good], sizes[good]))
    _put(out, CALL, index, {"seq": seq[good], "numel": count[good]})


def _queue_pairs(lines: Lines, messages: _Messages, out: Keyed) -> None:
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
        at = messages.at[left[good]]
        index = messages.index[left[good]]
        out.key[index] = mixed(
            messages.header[left[good]] + _MARKS[QUEUE_PAIR], lines.hashed(at, np.full(len(at), size))
        )
        _put(out, QUEUE_PAIR, index, {"qpn": qpn[good]})
        left = left[~same]


def _channels(lines: Lines, messages: _Messages, out: Keyed) -> None:
    """`Channel 03/0 : 47[7] -> 39[7] [receive] via NET/IB/2/GDRDMA` (NCCL's transports). Other lines that begin like it are told by `is_channel`."""
    left = np.flatnonzero(messages.key == word(b"Channel "))
    if not len(left):
        return
    place = messages.at[left] + 8
    octets = lines.window(place, 4).bytes()
    digits = octets[:, :2] - np.uint8(48)
    # NCCL prints two digits, and has not more channels than they can say.
    good = np.flatnonzero((digits < 10).all(axis=1) & ((octets[:, 2] == 47) | (octets[:, 2] == 32)))
    left, place = left[good], place[good] + 2
    index = messages.index[left]
    out.key[index] = mixed(messages.header[left] + _MARKS[CHANNEL], lines.hashed(place, lines.ends[index] - place))
    numbers = digits[good].astype(np.int64)
    _put(out, CHANNEL, index, {"channel": numbers[:, 0] * 10 + numbers[:, 1]})


def is_channel(texts: pl.Series) -> pl.Series:
    """Which of the texts of kind CHANNEL are what their shape says."""
    return texts.str.contains("] via ", literal=True)


def _put(out: Keyed, kind: int, index: Ints, values: dict[str, Ints]) -> None:
    out.kind[index] = kind
    for name, numbers in values.items():
        every = out.values.setdefault(name, np.zeros(len(out.key), dtype=np.int64))
        every[index] = numbers
