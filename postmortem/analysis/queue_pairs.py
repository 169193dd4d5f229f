"""Slow queue pairs: who they are, what they have in common, and the throughput that the job lost to them (rule I8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import duckdb

from postmortem.analysis.derived import Derived, table_rows
from postmortem.analysis.model import Culprit, Loss, SlowQueuePair, Span
from postmortem.analysis.model_slow import QueuePairs
from postmortem.analysis.proxy_steps import slow_channels
from postmortem.tables.statements import run

MOST: Final = 8
"""More slow queue pairs than these, not all on one NIC, are no straggler but a fabric that is slow as a whole."""

TOGETHER: Final = 0.8
"""Share of the slow queue pairs on one NIC or switch from which on that is what they have in common."""

CONFIDENCE: Final = 0.9
Row = dict[str, Any]


def measure_queue_pairs(con: duckdb.DuckDBPyConnection) -> tuple[Derived | None, QueuePairs]:
    """(the slow queue pairs as a computed candidate, the picture of all); fills `qp_windows`. Needs `slow.sql` and the names."""
    for name in ("queue_pairs.sql", "queue_pair_onsets.sql", "proxy_steps.sql"):
        run(con, "postmortem.analysis", name)
    slow = table_rows(con, "SELECT * FROM slow_qps ORDER BY p99_us DESC, file, qpn")
    places = table_rows(con, "SELECT * FROM qp_places ORDER BY file, dev, qpn") if slow else []
    counts = con.execute("SELECT count(*), count(DISTINCT coalesce(node, host, file)) FROM qp_places").fetchone()
    assert counts is not None
    where, said = common_ground(slow, places)
    picture = QueuePairs(int(counts[0]), len(slow), int(counts[1]), where, said)
    if slow:
        worst = max(slow, key=lambda r: r["extra_s"])
        picture = replace(
            picture,
            extra_us=round(float(worst["extra_us"] or 0.0), 2),
            traced_share=round(worst["extra_s"] / worst["span_s"], 9) if worst["span_s"] else None,
        )
    if not slow:
        return slow_channels(con), picture
    if len(slow) > MOST and where not in {"nic", "peer nic"}:
        return None, picture
    return _candidate(con, slow, said), picture


def common_ground(slow: list[Row], places: list[Row]) -> tuple[str, str]:
    """(kind, sentence) of what the slow queue pairs share: a NIC, the NIC at the far end, a switch, a path, or nothing.

    Rows are those of `slow_qps` and `qp_places`. A NIC is named where it has at least 80 % of the slow ones and half of its own
    queue pairs are slow; a single slow one among others of its NIC that are not is its path's fault.
    """
    if not slow:
        return "none", ""
    total = len(slow)
    near, near_all = _top(slow, places, lambda r: (r["node"], r["nic"]))
    far, far_all = _top(slow, places, lambda r: (r["peer_host"], r["peer_nic"]) if r["peer_host"] else None)
    if near and near[1] >= TOGETHER * total:
        node, nic = near[0]
        others = near_all - near[1]
        if near_all >= 2 and near[1] * 2 > near_all:
            return (
                "nic",
                f"{near[1]} of {near_all} measured queue pairs of {nic} on {node} are slow: the NIC or its link",
            )
        if others:
            return "path", (
                f"{others} other queue pair{'s' if others > 1 else ''} of {nic} on {node} {'are' if others > 1 else 'is'} not slow: "
                "the path of the slow one (a peer, an ECMP collision, a spine port), not the NIC"
            )
    if far and far[1] >= TOGETHER * total and far_all >= 2 and far[1] * 2 > far_all:
        return (
            "peer nic",
            f"{far[1]} of {total} slow queue pairs lead to {far[0][1]} of {far[0][0]}: the NIC at the far end or its link",
        )
    for kind, key, words in (
        ("path", lambda r: (r["switch"], r["peer_switch"]) if r["switch"] and r["peer_switch"] and r["switch"] != r["peer_switch"] else None, "between {0} and {1}: the links between these switches"),
        ("switch", lambda r: (r["switch"],) if r["switch"] else None, "hang on {0}: the switch, or congestion there"),
        ("switch", lambda r: (r["peer_switch"],) if r["peer_switch"] else None, "lead to {0}: the switch, or congestion there"),
    ):  # fmt: skip
        top, _ = _top(slow, places, key)
        if top and total >= 2 and top[1] >= TOGETHER * total:
            return kind, f"{top[1]} of {total} slow queue pairs {words.format(*top[0])}"
    if total == 1:
        return "pair", "no other queue pair of its NIC was measured: the pair, its NIC or its path"
    return (
        "spread",
        f"{total} slow queue pairs share no NIC and no switch: collisions of their paths (ECMP), or a fabric that is slow as a whole",
    )


def _top(
    slow: list[Row], places: list[Row], key: Callable[[Row], tuple[Any, ...] | None]
) -> tuple[tuple[tuple[Any, ...], int] | None, int]:
    """((the key most slow ones have, how many), how many of all measured ones have it)."""
    counts = Counter(k for r in slow if (k := key(r)) is not None and all(v is not None for v in k))
    if not counts:
        return None, 0
    best = min(counts.items(), key=lambda item: (-item[1], tuple(map(str, item[0]))))
    return best, sum(key(r) == best[0] for r in places)


def _since(con: duckdb.DuckDBPyConnection, pair: Row) -> tuple[datetime | None, str, tuple[tuple[str, int], ...]]:
    """(onset, the words for it, its line) of a slow queue pair; no onset where it was slow from its first sample on or its clock has no date."""
    found = table_rows(
        con,
        "SELECT ts, at_s, line FROM qp_onsets WHERE file = ? AND dev IS NOT DISTINCT FROM ? AND qpn = ?",
        [pair["file"], pair["dev"], pair["qpn"]],
    )
    if not found:
        return None, "from its first sample on", ()
    first = found[0]
    place = ((pair["file"], int(first["line"])),) if first["line"] is not None else ()
    if first["ts"] is None:
        return None, f"since {first['at_s']:.0f} s after its first sample (its clock has no date)", place
    return first["ts"], f"since {first['ts']:%H:%M:%S} UTC", place


def _candidate(con: duckdb.DuckDBPyConnection, slow: list[Row], said: str) -> Derived:
    worst = slow[0]
    node, nic = worst["node"], worst["nic"]
    onset, since, begun = _since(con, worst)
    about = table_rows(
        con, "SELECT ifname, pci FROM nics WHERE host = ? AND dev = ? ORDER BY ifname, pci LIMIT 1", [node, nic]
    )
    is_pod = con.execute("SELECT bool_or(is_pod) FROM pod_node WHERE pod = ?", [worst["host"]]).fetchone()
    rank = worst["rank"]
    return Derived(
        "qp_straggler",
        CONFIDENCE,
        Culprit(
            host=node,
            pod=worst["host"] if is_pod and is_pod[0] else None,
            gpu=worst["gpu"],
            rank=rank,
            ranks=(rank,) if rank is not None else (),
            pid=worst["pid"],
            dev=nic,
            qpn=int(worst["qpn"]),
            pci=about[0]["pci"] if about else None,
            ifname=about[0]["ifname"] if about else None,
            switch=worst["switch"],
            switch_port=worst["switch_port"],
        ),
        f"Queue pair {worst['qpn']} of {nic} on {node}: 1 % of its requests took {worst['p99_us']:.0f} µs and more, its peers stay far below; slow {since}; {said}.",
        onset,
        places=tuple(
            dict.fromkeys((*begun, *((r["file"], int(r["line"])) for r in slow[:4] if r["line"] is not None)))
        ),
        queue_pairs=tuple(
            SlowQueuePair(
                r["node"] or r["host"],
                r["nic"],
                int(r["qpn"]),
                r["peer"],
                round(r["p50_us"], 2),
                round(r["p99_us"], 2),
                int(r["samples"]),
                CONFIDENCE,
                port=r["dev_port"],
                rank=r["rank"],
                windows=int(r["windows"]),
                switch=r["switch"],
                switch_port=r["switch_port"],
            )
            for r in slow[:MOST]
        ),
    )


def with_lost_throughput(picture: QueuePairs, loss: Loss) -> QueuePairs:
    """The picture with the share of the job's throughput that went to its slow queue pairs.

    Best: what the step lines show to be lost (1 - healthy / mean step time, lost_compute.md section 4). Low: the traced requests' own
    excess over the time of the trace, which leaves out all that was not traced. `per_step` is how many requests a step would have to wait
    for, one after another, to lose what the step lines show.
    """
    if not picture.slow or picture.traced_share is None:
        return picture
    low = min(1.0, picture.traced_share)
    share = loss.throughput_loss if loss.throughput_basis != "trace" else None
    if share is None or not 0 < share < 1:
        return replace(picture, lost=Span(low, low, low), lost_basis="the traced requests alone: a lower bound")
    per_step = None
    if loss.healthy_step_s and picture.extra_us > 0:
        per_step = round(loss.healthy_step_s * share / (1 - share) / (picture.extra_us * 1e-6))
    return replace(
        picture,
        lost=Span(min(low, share), share, share),
        lost_basis="step times while they were degraded",
        per_step=per_step,
    )
