"""Dense lines by position: the numbers are those that a regular expression reads, and lines that only look alike are left."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from postmortem.lines.shapes import CHANNEL, Keyed, is_channel, keyed
from postmortem.lines.windows import Lines

HEAD = "node-01:4000:4900 [3] NCCL INFO "
TAIL = " datatype 9 op 0 root 0 comm 0x55d0a1b2c3d4 [nranks=64] stream 0x55d1c0de0001"


def _call(seq: int, count: int, op: str = "AllReduce", head: str = HEAD, tail: str = TAIL) -> str:
    return f"{head}{op}: opCount {seq:x} sendbuff 0x7f0123456789 recvbuff 0x7fabcdef0123 count {count}{tail}"


def _lines(lines: list[str]) -> Lines:
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = np.cumsum([len(line) + 1 for line in lines]).astype(np.int64) - 1
    return Lines(data + bytes(256), np.append(0, ends[:-1] + 1), ends)


def _keyed(lines: list[str]) -> Keyed:
    return keyed(_lines(lines), [])


def _claimed(lines: list[str]) -> dict[int, tuple[int, int]]:
    found = _keyed(lines)
    return {
        i: (int(found.values["seq"][i]), int(found.values["numel"][i]))
        for i in np.flatnonzero(found.kind == 1).tolist()
    }


def test_numbers_are_those_of_the_pattern() -> None:
    rng = random.Random(7)
    lines = [
        _call(
            rng.randrange(16 ** rng.randrange(1, 8)),
            rng.randrange(10 ** rng.randrange(1, 15)),
            rng.choice(["AllReduce", "ReduceScatter", "Send"]),
        )
        for _ in range(500)
    ]
    found = _claimed(lines)
    for number, line in enumerate(lines):
        want = re.search(r"opCount ([0-9a-f]+) .* count ([0-9]+) ", line)
        assert want
        assert found[number] == (int(want[1], 16), int(want[2]))


def test_a_template_is_one_header_operation_and_tail() -> None:
    other = TAIL.replace("stream 0x55d1c0de0001", "stream 0x55d1c0de0002")
    lines = [
        _call(1, 8),
        _call(2, 8),
        _call(3, 8, tail=other),
        _call(4, 8, op="AllGather"),
        _call(5, 8, head=HEAD.replace("4900", "4901")),
    ]
    found = _keyed(lines)
    assert found.kind.tolist() == [1] * 5
    assert found.key[0] == found.key[1]
    assert len(set(found.key.tolist())) == 4


@pytest.mark.parametrize(
    "line",
    [
        _call(1, 8).replace("sendbuff 0x7f0123456789", "sendbuff (nil)"),
        _call(1, 8).replace("opCount 1 ", "opCount 1g "),
        _call(1, 8).replace("opCount 1 ", "opCount  "),
        _call(1, 8).replace("count 8 ", "count 8x "),
        _call(1, 8).replace("recvbuff", "recvbufF"),
        _call(1, 8)[:70],
        HEAD + "AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..31}",
        _call(1, 8).replace("NCCL INFO", "NCCL WARN"),
        _call(16**8, 8),
    ],
)
def test_what_differs_is_left_to_the_catalogue(line: str) -> None:
    lines = [_call(1, 8), line, _call(2, 8)]
    assert _claimed(lines) == {0: (1, 8), 2: (2, 8)}


def test_queue_pairs_and_torn_ones() -> None:
    line = "NET/IB: ncclIbConnect: NCCL Dev 4 IbDev 4 Port 1 qp_num {} mtu 5 GID 3 (44A6CB5383D2/17FDFC5B2143EF81) ctsFifoRkey=0x199ef9 ctsFifoLkey=0xb064df"
    lines = [
        HEAD + line.format(15297),
        HEAD + line.format(7),
        HEAD + line.format(9)[:90] + HEAD + "Channel 00",
        HEAD + line.format("x"),
    ]
    found = _keyed(lines)
    assert found.kind.tolist() == [2, 2, 0, 0]
    assert found.values["qpn"][:2].tolist() == [15297, 7]
    assert found.key[0] == found.key[1]


def test_the_end_of_a_block_is_not_read_past() -> None:
    line = _call(3, 4096)
    for cut in (1, 20, 60, 100, len(line)):
        lines = [_call(1, 1), line[:cut]]
        assert set(_claimed(lines)) <= {0, 1}
    assert all(a < b for a, b in pairwise(sorted(_claimed([line] * 5))))


def test_equal_texts_have_equal_numbers_and_others_do_not() -> None:
    rng = random.Random(3)
    texts = ["", "a", "b", "ab", "a" * 12, "a" * 13, "a" * 12 + "b", HEAD, HEAD + "x" * 3000]
    texts += ["".join(rng.choices("ab", k=rng.randrange(40))) for _ in range(500)]
    lines = [*texts, *rng.sample(texts, len(texts))]
    found = _keyed(lines)
    by_key: dict[int, set[str]] = {}
    for key, line in zip(found.key.tolist(), lines, strict=True):
        by_key.setdefault(key, set()).add(line)
    assert all(len(same) == 1 for same in by_key.values())
    assert len(by_key) == len(set(lines))


def test_texts_of_lines_are_those_of_the_block() -> None:
    rng = random.Random(5)
    lines = ["".join(rng.choices("xyz ", k=rng.randrange(30))) + "\r" * rng.randrange(3) for _ in range(300)]
    index = np.array([0, 299, *rng.sample(range(300), 50)])
    assert _lines(lines).texts(index).to_list() == [lines[i].rstrip("\r") for i in index.tolist()]


def test_a_channel_is_told_without_its_number() -> None:
    lines = [f"{HEAD}Channel {k:02d}/0 : 23[7] -> 31[7] [receive] via NET/IB/6/GDRDMA" for k in range(64)]
    lines += [
        f"{HEAD}Channel 03 : 23[7] -> 31[7] via NET/IB/6",
        f"{HEAD}Channel 03/0 : 23[7] -> 32[7] [receive] via NET/IB/6/GDRDMA",
    ]
    found = _keyed(lines)
    assert found.kind.tolist() == [CHANNEL] * 66
    assert found.values["channel"].tolist() == [*range(64), 3, 3]
    assert [len(set(found.key[:64].tolist())), len(set(found.key.tolist()))] == [1, 3]


@pytest.mark.parametrize("number", ["3/0", "003/0", "0a/0", "03-0", "03"])
def test_another_number_of_a_channel_is_a_text(number: str) -> None:
    found = _keyed([f"{HEAD}Channel {number}: 23[7] -> 31[7] [receive] via NET/IB/6/GDRDMA"])
    assert found.kind.tolist() == [0]


def test_lists_of_ranks_are_no_channels() -> None:
    texts = pl.Series(
        [f"{HEAD}Channel 00/02 :    0   1   2   3", f"{HEAD}Channel 00/0 : 3[3] -> 11[3] [send] via NET/IB/1"]
    )
    assert is_channel(texts).to_list() == [False, True]
