"""Slow channels by NCCL's proxy steps: the case, and beside it the near misses."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Analyse

RANKS, CHANNELS, SENDS = 4, 2, 400


def line(name: str, cat: str, phase: str, number: int, pid: int, ts: float, args: str = "") -> str:
    more = f', "args": {{{args}}}' if args else ""
    return f'{{"name": "{name}", "cat": "{cat}", "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": 1, "ts": {ts:f}{more}}},'


def trace(rank: int, slow: set[tuple[int, int, int]], name: str = "SendWait", parts: int = 20, every: int = 10) -> str:
    """Sends of `rank` to the two ranks after it, 10 µs each; of those in `slow` (rank, peer, channel) every tenth takes 800 µs, in so many twentieths."""
    out, number = ["["], 0
    for n in range(SENDS):
        at, pid = n * 5000.0, 100 + rank
        args = f'"SeqNum": {n}, "CommHash": 77, "Rank": {rank}, "Count": 8'
        out.append(line("AllReduce", "COLL", "b", n, pid, at, args))
        for peer in ((rank + 1) % RANKS, (rank + 2) % RANKS):
            for channel in range(CHANNELS):
                hit = (rank, peer, channel) in slow and n % every == 0 and n < SENDS * parts // 20
                took = 800.0 if hit else 10.0 + n % 3
                out.append(
                    line(
                        "ProgressSend",
                        "PROXY",
                        "b",
                        number,
                        pid,
                        at,
                        f'"Channel": {channel}, "Peer": {peer}, "Steps": 1, "ChunkSize": 32768',
                    )
                )
                out.append(line(name, "NET", "b", number, pid, at + 1, '"Step": 0'))
                out.append(line(name, "NET", "e", number, pid, at + 1 + took))
                out.append(line("ProgressSend", "PROXY", "e", number, pid, at + 2 + took))
                number += 1
        out.append(line("AllReduce", "COLL", "e", n, pid, at + 2000))
    return "\n".join(out) + "\n{}]\n"


def traces(slow: set[tuple[int, int, int]], **more: Any) -> dict[str, str]:
    return {f"profiler/trace-node-{rank}-{100 + rank}.txt": trace(rank, slow, **more) for rank in range(RANKS)}


def summaries(analyse: Analyse, files: dict[str, str]) -> list[str]:
    return [f.summary for f in analyse(files).analysis.findings if f.cause == "qp_straggler"]


def test_sends_to_one_peer_on_one_channel_that_stay_on_the_wire_are_named(analyse: Analyse) -> None:
    incident = analyse(traces({(1, 2, 0)}))
    (finding,) = [f for f in incident.analysis.findings if f.cause == "qp_straggler"]
    assert finding.culprit.rank == 1
    assert finding.summary.startswith("Sends of rank 1 to rank 2 on channel 0: 1 % stayed on the wire for 800 µs")
    assert finding.summary.endswith("the path between the two, for other channels are not slow.")
    assert {e.file for e in finding.evidence} == {"profiler/trace-node-1-101.txt"}
    assert incident.con.execute(
        "SELECT count(*), count(DISTINCT (rank, peer_rank, channel)) FROM proxy_steps"
    ).fetchone() == (
        RANKS * 2 * CHANNELS * SENDS,
        RANKS * 2 * CHANNELS,
    )


def test_all_channels_to_one_rank_are_the_far_end(analyse: Analyse) -> None:
    (said,) = summaries(analyse, traces({(1, 2, 0), (1, 2, 1), (0, 2, 0), (0, 2, 1)}))
    assert said.endswith("4 of 4 channels to that rank are slow: the NIC or link at the far end.")


EVERY = {(r, (r + d) % RANKS, c) for r in range(RANKS) for d in (1, 2) for c in range(CHANNELS)}


@pytest.mark.parametrize(
    "files",
    [
        traces({(1, 2, 0)}, parts=2),
        traces({(1, 2, 0)}, name="SendPeerWait"),
        traces({(1, 2, 0)}, every=400),
        traces(EVERY),
    ],
    ids=["two windows", "the receiver is late", "one send", "all alike"],
)
def test_no_channel_is_named(analyse: Analyse, files: dict[str, str]) -> None:
    assert not summaries(analyse, files)
