"""The report's part on stragglers: drawings, tables, sentences, hostile names, empty tables."""

from __future__ import annotations

import re
from dataclasses import replace

import duckdb
from report_samples import VERSION, crash, insert, quiet, tables

from postmortem.analysis.model import Analysis, SlowQueuePair, Span
from postmortem.analysis.model_slow import Congestion, QueuePairs, TraceView
from postmortem.report.html import render
from postmortem.report.svg_qp import Strips, Tail, strips
from postmortem.report.svg_ranks import Worker, rank_strips
from postmortem.report.view_slow import slow_view


def part(page: str) -> str:
    found = re.search(r'<section id="stragglers".*?</section>', page, re.DOTALL)
    assert found
    return found[0]


def measured(host: str = "node-7") -> duckdb.DuckDBPyConnection:
    """Two hosts with two queue pairs each; 1032 of the first is slow in four windows."""
    con = tables()
    columns = "file, line, host, dev, qpn, size, latency_us, t_us"
    samples = []
    windows = []
    for number, (name, qpn) in enumerate(((host, 1032), (host, 1033), ("node-8", 1032), ("node-8", 1040))):
        file = f"probe-{number // 2}.csv"
        for n in range(40):
            slow = qpn == 1032 and number == 0 and n % 10 == 0
            samples.append((file, 2 + n, name, "mlx5_4", qpn, 8192, 480.0 if slow else 5.0 + n % 3, float(n)))
        for win in range(20):
            slow = number == 0 and win < 4
            windows.append(
                (
                    name,
                    "mlx5_4",
                    qpn,
                    number,
                    win,
                    8192,
                    2,
                    5.0,
                    450.0 if slow else 7.0,
                    480.0 if slow else 7.0,
                    slow,
                    file,
                    2 + win,
                )
            )
    insert(con, "qp_samples", columns, samples)
    insert(
        con, "qp_windows", "host, dev, qpn, rank, win, size, n, p50_us, p99_us, max_us, is_flagged, file, line", windows
    )
    return con


def with_pairs(host: str = "node-7", peer: str = "10.0.3.21") -> Analysis:
    slow = SlowQueuePair(
        host,
        "mlx5_4",
        1032,
        peer,
        5.0,
        460.0,
        40,
        0.9,
        port="1",
        rank=59,
        windows=4,
        switch="leaf-3",
        switch_port="Ethernet1/17",
    )
    pairs = QueuePairs(
        4,
        1,
        2,
        "path",
        "1 other queue pair is not slow",
        440.0,
        0.01,
        Span(0.01, 0.2, 0.2),
        "step times while they were degraded",
        2273,
    )
    return replace(crash(), slow_queue_pairs=(slow,), queue_pairs=pairs)


def test_slow_queue_pairs_are_drawn_and_named() -> None:
    page = part(render(with_pairs(), measured(), VERSION))
    assert page.count('<svg class="plot qps"') == 1
    assert "queue pair 1032, mlx5_4 port 1, leaf-3 Ethernet1/17 to 10.0.3.21" in page
    assert page.count('class="reach"') == 1
    assert (
        "Throughput lost to them: 20.0 %, from step times while they were degraded (1.0 % by the traced requests alone)."
        in page
    )
    assert "2,270 of them one after another" in page
    assert "node-8" in page


def test_the_drawing_stands_as_a_table_too() -> None:
    view = slow_view(with_pairs(), measured())
    assert [(row[0], row[1], row[2], row[6]) for row in view.hosts.rows] == [
        ("node-7", "80", "2", "1"),
        ("node-8", "80", "2", "0"),
    ]


def test_no_slow_queue_pair_no_name() -> None:
    con = measured()
    con.execute("UPDATE qp_windows SET is_flagged = win < 2 AND is_flagged")
    page = part(render(replace(with_pairs(), slow_queue_pairs=()), con, VERSION))
    assert 'class="plot qps"' in page
    assert 'class="reach"' not in page
    assert "No slow queue pair." in page


def test_names_cannot_leave_the_drawing() -> None:
    evil = '</svg><img src=x onerror="x">'
    page = part(render(with_pairs(evil, evil), measured(evil), VERSION))
    assert "<img" not in page
    assert "&lt;img" in page


def test_many_hosts_are_cut_and_counted() -> None:
    con = tables()
    for n in range(60):
        insert(con, "qp_samples", "file, line, host, qpn, latency_us", [(f"f{n}", 1, f"node-{n:02}", 7, 5.0)])
    view = slow_view(quiet(), con)
    assert len(view.hosts.rows) == 16
    assert view.hosts.more == 44
    assert "60 hosts" in (view.pairs.words if view.pairs else "")


def test_a_single_latency_can_be_drawn() -> None:
    tail = Tail("h", "", 1, 5.0, 5.0, 5.0, 0, 1, 5.0, None, "f")
    for number in (-40, 0, 13, 200):
        assert strips(Strips({"h": {number: 1}}, (tail,))).endswith("</svg>")


def test_workers_are_drawn_by_stage() -> None:
    con = tables()
    rows = [("t.parquet", s * 4 + r, s, r, 40, 1.0, 1.2 if (s, r) == (1, 2) else 1.0, 1.1 if (s, r) == (1, 2) else None, 120, "compute" if (s, r) == (1, 2) else None) for s in range(2) for r in range(4)]  # fmt: skip
    insert(con, "rank_times", "trace, rank, stage, dp_rank, steps, work_s, ratio, slowdown, since_step, kind", rows)
    trace = TraceView("t.parquet", 8, 2, 40, 1.1, 1.0, 1.1, 0.09, 0.98, 1, 1.01, 0.1, 0.2, "rank", "Rank 6 is slow.")
    page = part(render(replace(crash(), traces=(trace,)), con, VERSION))
    assert page.count('<svg class="plot ranks"') == 1
    assert "rank 6, 1.20 times" in page
    assert "t.parquet: Rank 6 is slow." in page
    assert "1.100" in page


def test_equal_workers_can_be_drawn() -> None:
    drawing = rank_strips(tuple(Worker("t", r, 0, 1.0, None, None, "") for r in range(3)), 0)
    assert "sev-error" not in drawing


def test_congestion_and_what_to_collect() -> None:
    now = crash().job.start
    assert now is not None
    place = Congestion("leaf-3", 6, 58, 0, 2, 0, 1, 3, now, now, 1.0, 0.1, 2.5, "steps slow down with it")
    page = part(
        render(replace(quiet(), congestion=(place,), to_name_a_rank=("Times of each rank.",)), tables(), VERSION)
    )
    assert "leaf-3" in page
    assert "steps slow down with it" in page
    assert "Times of each rank." in page


def test_nothing_slow_is_said_in_a_sentence() -> None:
    page = part(render(quiet(), tables(), VERSION))
    assert "No rank and no queue pair was found slower than its peers." in page
    assert "<table" not in page
