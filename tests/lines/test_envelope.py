"""JSON objects of collectors: the program's own line inside them, with the envelope's host and time."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from postmortem.lines.envelope import unwrap
from postmortem.lines.peel import peel

XID = "NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus."


def opened(document: object) -> dict[str, Any]:
    line = document if isinstance(document, str) else json.dumps(document)
    headers = peel(pl.Series("seg", [line])).rename({"rest": "message"})
    frame = pl.DataFrame({"seg": [line]}).hstack(headers)
    (row,) = unwrap(frame, peel).to_dicts()
    return {k: v for k, v in row.items() if v is not None and k != "seg"}


def test_docker() -> None:
    inner = "node-7:1:2 [0] NCCL INFO x"
    row = opened({"log": inner + "\n", "stream": "stderr", "time": "2026-02-03T14:02:11.123456Z"})
    assert (row["message"], row["host"], row["is_unwrapped"]) == ("x", "node-7", True)
    assert (row["stamp_us"], row["stamp_zone_s"]) == (1_770_127_331_123_456, 0)


def test_journald_of_the_kernel() -> None:
    row = opened(
        {
            "MESSAGE": XID,
            "_HOSTNAME": "node-7",
            "_TRANSPORT": "kernel",
            "__REALTIME_TIMESTAMP": "1770127331123456",
            "_SOURCE_MONOTONIC_TIMESTAMP": "98500000",
        }
    )
    assert (row["message"], row["host"], row["uptime_s"]) == (XID, "node-7", 98.5)
    assert row["stamp_us"] == 1_770_127_331_123_456
    assert "|syslog_kernel|" in row["headers"]


def test_redfish() -> None:
    row = opened({"Created": "2026-02-03T14:02:11+00:00", "Severity": "Critical", "Message": XID, "Id": "28"})
    assert (row["message"], row["stamp_us"], row["stamp_zone_s"]) == (XID, 1_770_127_331_000_000, 0)


def test_journald_gives_bytes_when_the_text_is_not_utf8() -> None:
    row = opened({"MESSAGE": list(b"killed \xff process"), "_PID": "321", "SYSLOG_IDENTIFIER": "kubelet"})
    assert (row["message"], row["pid"], row["tag"]) == ("killed \ufffd process", 321, "kubelet")


@pytest.mark.parametrize("is_watched", [True, False])
def test_kubernetes_event_of_a_node(is_watched: bool) -> None:
    event = {
        "kind": "Event",
        "reason": "NodeNotReady",
        "message": "Node node-7 status is now: NodeNotReady",
        "involvedObject": {"kind": "Node", "name": "node-7"},
        "lastTimestamp": "2026-02-03T14:02:11Z",
    }
    row = opened({"type": "ADDED", "object": event} if is_watched else event)
    assert row["message"] == "NodeNotReady: Node node-7 status is now: NodeNotReady"
    assert (row["host"], row["stamp_us"]) == ("node-7", 1_770_127_331_000_000)
    assert "|k8s_event|" in row["headers"]


def test_kubernetes_event_of_a_pod() -> None:
    row = opened(
        {"kind": "Event", "reason": "OOMKilling", "note": "x", "regarding": {"kind": "Pod", "name": "train-0"}}
    )
    assert (row["pod"], row["message"]) == ("train-0", "OOMKilling: x")
    assert "host" not in row


def test_error_file_of_torch() -> None:
    row = opened(
        {"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1770127331", "py_callstack": "…"}}}
    )
    assert (row["message"], row["stamp_us"]) == ("ValueError: x", 1_770_127_331_000_000)


def test_the_time_inside_is_the_program_s_own() -> None:
    row = opened({"log": "2026-02-03 15:02:10 x", "time": "2026-02-03T14:02:11Z"})
    assert (row["stamp_us"], row["stamp2_us"], row["stamp2_zone_s"]) == (
        1_770_130_930_000_000,
        1_770_127_331_000_000,
        0,
    )


@pytest.mark.parametrize(
    "seconds", [1_770_127_331, 1_770_127_331_000, 1_770_127_331_000_000, 1_770_127_331_000_000_000]
)
def test_epochs_in_any_unit(seconds: int) -> None:
    assert opened({"message": "x", "ts": seconds})["stamp_us"] == 1_770_127_331_000_000


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 3, "loss": 2.0, "message": "x"}',
        '{"a": 1}',
        '{"message": 5}',
        '{"message": "cut off',
        "{not json}",
        "[" * 5000 + "{}" + "]" * 5000,
        "{" + '"a":{' * 2000 + "}" * 2001,
        '{"message": "x", "ts": 1e400, "_SOURCE_MONOTONIC_TIMESTAMP": 5, "_PID": [1], "host": {"name": 4}}',
        '{"message": "x", "time": "2026-99-99T00:00:00Z", "timestamp": true}',
        '{"kind": "Event", "reason": null, "involvedObject": [1]}',
        '{"message": [300, -1]}',
        '{"message": "x", "_PID": "' + "9" * 30 + '", "_SOURCE_MONOTONIC_TIMESTAMP": "' + "9" * 30 + '"}',
        '{"message": "x", "_PID": "²", "ts": "²", "_SOURCE_MONOTONIC_TIMESTAMP": "²"}',
        '{"message": "x", "ts": "' + "9" * 400 + '"}',
    ],
)
def test_odd_objects_raise_nothing(line: str) -> None:
    row = opened(line)
    assert "stamp_us" not in row


def test_what_wraps_nothing_stays_as_it_is() -> None:
    line = '{"step": 3, "loss": 2.0}'
    row = opened(line)
    assert (row["message"], row["is_unwrapped"]) == (line, False)
