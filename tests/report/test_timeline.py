"""Which lanes the timeline gives to the culprit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import after, crash, insert, tables

from postmortem.analysis.model import Culprit
from postmortem.report.timeline import build


@pytest.mark.parametrize(
    ("culprit", "lanes"),
    [
        (Culprit(host="node-7", pod="job-worker-3"), ["node-7"]),
        (Culprit(host="node-9", pod="pod-with-lines"), ["pod-with-lines"]),
        (Culprit(host="silent", pod="silent-too"), ["silent"]),
        (Culprit(host="node-7", switch="leaf-1", peer="192.0.2.7"), ["node-7", "leaf-1"]),
        (Culprit(host="node-7", switch="silent-leaf"), ["node-7"]),
        (Culprit(host="silent", switch="leaf-1"), ["silent", "leaf-1"]),
        (Culprit(switch="silent-leaf"), ["silent-leaf"]),
        (Culprit(peer="192.0.2.7"), ["192.0.2.7"]),
    ],
)
def test_the_culprits_lanes(culprit: Culprit, lanes: list[str]) -> None:
    con = tables()
    rows = [
        (number, after(number), host, "kernel", "gpu.xid", "error", "x.log", number)
        for number, host in enumerate(("node-7", "pod-with-lines", "leaf-1"), start=1)
    ]
    insert(con, "events", "event_id, ts, host, source, event, severity, file, line", rows)
    analysis = crash()
    found = build(replace(analysis, verdict=replace(analysis.verdict, culprit=culprit), findings=()), con)
    assert found is not None
    assert found.culprits == set(lanes)
    assert [lane.name for lane in found.lanes][: len(lanes)] == lanes
