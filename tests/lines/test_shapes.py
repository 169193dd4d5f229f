"""Dense lines by position: the numbers are those that a regular expression reads, and lines that only look alike are left."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import numpy as np
import pytest

from postmortem.lines.shapes import Run, runs

HEAD = "node-01:4000:4900 [3] NCCL INFO "
TAIL = " datatype 9 op 0 root 0 comm 0x55d0a1b2c3d4 [nranks=64] stream 0x55d1c0de0001"


def _call(seq: int, count: int, op: str = "AllReduce", head: str = HEAD, tail: str = TAIL) -> str:
    return f"{head}{op}: opCount {seq:x} sendbuff 0x7f0123456789 recvbuff 0x7fabcdef0123 count {count}{tail}"


def _runs(lines: list[str]) -> list[Run]:
    data = "".join(f"{line}\n" for line in lines).encode()
    starts = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])]).astype(np.int64)
    return list(runs(data, starts))


def _claimed(lines: list[str]) -> dict[int, tuple[int, int]]:
    return {
        int(i): (int(s), int(c))
        for run in _runs(lines)
        if "seq" in run.values
        for i, s, c in zip(run.index, run.values["seq"], run.values["numel"], strict=True)
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
    assert sorted(sorted(run.index.tolist()) for run in _runs(lines)) == [[0, 1], [2], [3], [4]]


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
    found = [run for run in _runs(lines) if "qpn" in run.values]
    assert [(run.index.tolist(), run.values["qpn"].tolist()) for run in found] == [([0, 1], [15297, 7])]


def test_the_end_of_a_block_is_not_read_past() -> None:
    line = _call(3, 4096)
    for cut in (1, 20, 60, 100, len(line)):
        lines = [_call(1, 1), line[:cut]]
        assert set(_claimed(lines)) <= {0, 1}
    assert all(a < b for a, b in pairwise(sorted(_claimed([line] * 5))))
