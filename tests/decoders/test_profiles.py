"""Timings: the example profiler's trace, the Inspector, and tables of steps."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from decoder_samples import pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import sniff
from postmortem.decoders.base import MAX_SAMPLE_EVENTS


def qp(phase: str, number: int, ts: float, qpn: int = 47, pid: int = 79) -> str:
    args = (
        f', "args": {{"device": 2, "qp_num": {qpn}, "opcode": 1, "wr_id": 0, "size": 131072}}' if phase == "b" else ""
    )
    return f'{{"name": "Qp", "cat": "NET_IB", "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": 1, "ts": {ts:.6f}{args}}},'


COLL = (
    '{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 79, "tid": 1, "ts": 100.0, "args": {"SeqNum": 5, '
    '"CommHash": 16476959620319067765, "Rank": 3, "Count": 2097152, "Datatype": "ncclFloat32", "nChannels": 24}},'
)
COLL_END = '{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 0, "pid": 79, "tid": 1, "ts": 190.5},'
KERNEL = (
    '{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 0, "pid": 79, "tid": 1, "ts": 110.0, '
    '"args": {"Channel": 0, "StartGpuClk": 1756135989724672000, "StopGpuClk": 1756135989732831232}},'
)
BARE = '{"name": "AllReduce", "cat": "COLL_API", "ph": "b", "id": 0, "pid": 79, "tid": 1, "ts": 0.0, "args": {"datatype": ncclFloat32, "Stream": 0x5020000567d0}},'
COLUMNS = ("t_us", "host", "pid", "dev", "qpn", "size", "latency_us", "line")


def test_begin_and_end_of_a_queue_pair_make_a_sample() -> None:
    lines = ["[", qp("b", 0, 100.5), qp("b", 1, 101.0, qpn=50), qp("e", 1, 110.0), qp("e", 0, 108.75), "{}]"]
    found = rows(sniffed("ncclprof-node-1-79.txt", "\n".join(lines), host="node-1"), "qp_samples")
    assert pick(found, *COLUMNS) == [
        (100.5, "node-1", 79, "2", 47, 131072, 8.25, 2),
        (101.0, "node-1", 79, "2", 50, 131072, 9.0, 3),
    ]


def test_a_number_used_again_joins_with_the_end_that_follows() -> None:
    lines = ["[", qp("b", 0, 1.0), qp("e", 0, 3.0), qp("b", 0, 10.0), qp("e", 0, 15.0), qp("b", 0, 20.0)]
    assert pick(rows(sniffed("t", "\n".join(lines)), "qp_samples"), "t_us", "latency_us") == [(1.0, 2.0), (10.0, 5.0)]


def test_processes_are_kept_apart() -> None:
    lines = ["[", qp("b", 0, 1.0, pid=1), qp("b", 0, 2.0, pid=2), qp("e", 0, 5.0, pid=2), qp("e", 0, 9.0, pid=1)]
    assert pick(rows(sniffed("t", "\n".join(lines)), "qp_samples"), "pid", "latency_us") == [(1, 8.0), (2, 3.0)]


def test_begin_and_end_far_apart_meet_over_blocks() -> None:
    filler = [qp(phase, n, n + (phase == "e"), qpn=9) for n in range(1, 40_000) for phase in "be"]
    found = rows(sniffed("t", "\n".join(["[", qp("b", 0, 1.0), *filler, qp("e", 0, 70.0)])), "qp_samples")
    assert len(found) == 40_000
    assert pick(found[:1], "qpn", "latency_us", "line") == [(47, 69.0, 2)]


def test_a_trace_cut_in_an_event_keeps_what_is_whole() -> None:
    text = "\n".join(["[", qp("b", 0, 1.0), qp("e", 0, 3.0), qp("b", 1, 5.0), qp("e", 1, 9.0)])
    for size in range(len(text) - 40, len(text)):
        assert len(rows(run("nccl_profiler", "t", text[:size]), "qp_samples")) in {1, 2}


def test_the_rank_comes_from_the_name_of_newer_traces() -> None:
    text = "\n".join(["[", qp("b", 0, 1.0), qp("e", 0, 3.0)])
    assert pick(rows(sniffed("prof_1493613951195738943_12.json", text), "qp_samples"), "rank") == [(12,)]


def test_a_small_trace_gives_events_too() -> None:
    (event,) = rows(sniffed("t", "\n".join([qp("b", 7, 201900.5), qp("e", 7, 202400.5)])), "events")
    assert (event["event"], event["pid"], event["qpn"], event["opcode"], event["elapsed_ms"]) == (
        "qp.sample",
        79,
        47,
        1,
        0.5,
    )
    many = [qp(phase, n, n + (phase == "e")) for n in range(MAX_SAMPLE_EVENTS + 1) for phase in "be"]
    assert "events" not in sniffed("t", "\n".join(many)).tables


def test_a_collective_with_nested_events_has_a_duration() -> None:
    text = "\n".join(["[", BARE, COLL, KERNEL, COLL_END, "{}]"])
    (row,) = rows(sniffed("t", text), "coll_samples")
    assert row["ts"] == datetime(2025, 8, 25, 15, 33, 9, 724672)
    assert (row["op"], row["seq"], row["rank"], row["comm_hash"]) == ("allreduce", 5, 3, "0xe4a9eb79db92be75")
    assert (row["elapsed_us"], row["line"]) == (90.5, 3)


def test_a_collective_alone_is_its_enqueue() -> None:
    decoded = sniffed("t", "\n".join([COLL, COLL_END]))
    assert pick(rows(decoded, "coll_samples"), "elapsed_us", "ts") == [(None, None)]
    assert pick(rows(decoded, "events"), "event", "pid", "rank", "op", "seq", "numel") == [
        ("coll.sample", 79, 3, "allreduce", 5, 2097152)
    ]


def test_the_trace_in_the_documentation_of_nccl_is_read(shared: Path) -> None:
    path = shared / "corpus" / "nccl" / "example-profiler-trace-2.28.json"
    if not path.is_file():
        pytest.skip("no example trace among the shared cases")
    decoded = sniffed(path.name, path.read_bytes())
    assert decoded.notes == []
    assert decoded.lines > 40


INSPECTED = (
    '{"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0",'
    '"git_rev":"","rec_mechanism":"profiler_plugin","dump_timestamp_us":1748030377748202,"hostname":"example-hostname",'
    '"pid":1639453},"coll_perf":{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,'
    '"coll_algobw_gbs":277.210914,"coll_busbw_gbs":485.119099}}'
)


def test_a_record_of_the_inspector_becomes_a_sample() -> None:
    decoded = sniffed("h-pid1.log", INSPECTED + "\n" + INSPECTED[:300])
    assert rows(decoded, "coll_samples") == [
        {
            "ts": datetime(2025, 5, 23, 19, 59, 37, 748202),
            "host": "example-hostname",
            "pid": 1639453,
            "rank": 2,
            "comm_hash": "0x7f8c496ae9f661",
            "op": "allreduce",
            "seq": 1407,
            "bytes": 17179869184,
            "elapsed_us": 61974.0,
            "bus_gbps": 485.119099,
            "line": 1,
            "file": "h-pid1.log",
        }
    ]
    assert len(decoded.notes) == 1
    assert pick(rows(decoded, "events"), "event", "nranks", "elapsed_ms", "stamp_us", "stamp_zone_s") == [
        ("coll.sample", 8, 61.974, 1748030377748202, 0)
    ]


def test_the_verbose_trace_says_when_the_operation_began() -> None:
    verbose = INSPECTED.replace("}}", ',"event_trace_ts":{"coll_start_ts":1748030377000001}}}')
    assert pick(rows(sniffed("x", verbose), "coll_samples"), "ts") == [(datetime(2025, 5, 23, 19, 59, 37, 1),)]


STEPS = ("line", "rank", "step", "step_time_ms", "data_time_ms", "loss", "stamp_us", "stamp_zone_s")


def test_a_long_table_of_steps() -> None:
    text = "rank,step,time,step_time_ms,data_time_ms\n0,17,1789159158.211,7579.5,24.06\n1,17,1789159158.211,7583.6,\n,,,,\n"
    decoded = sniffed("steps.csv", text)
    assert pick(rows(decoded, "events"), *STEPS) == [
        (2, 0, 17, 7579.5, 24.06, None, 1789159158211000, 0),
        (3, 1, 17, 7583.6, None, None, 1789159158211000, 0),
    ]
    assert {row["event"] for row in rows(decoded, "events")} == {"train.step"}
    assert decoded.notes == ["1 rows that are no steps, or beyond the first 1000000"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("iteration;seconds;loss\r\n5;0.25;2.5\r\n", (5, 250.0, None, 2.5)),
        ("step\ttimestamp\telapsed\n5\t2026-01-02T03:04:05.5+08:00\t1.5\n", (5, 1500.0, 28800, None)),
        ("step,time,step_time\n5,1789159158211,2\n", (5, 2000.0, 0, None)),
        ('"step","time_ms"\n"5","20"\n', (5, 20.0, None, None)),
        ('{"step": 5, "step_time_ms": 20.5, "loss": 1e-3}\n{"step": 6, "step_time_ms": 21}\n', (5, 20.5, None, 0.001)),
    ],
)
def test_forms_of_step_tables(text: str, expected: tuple[object, ...]) -> None:
    found = rows(sniffed("steps_rank4.csv", text, rank=4), "events")
    assert pick(found[:1], "step", "step_time_ms", "stamp_zone_s", "loss") == [expected]
    assert found[0]["rank"] == 4


def test_a_wide_table_has_a_column_per_rank() -> None:
    found = rows(sniffed("steps.csv", "step,rank_0,rank_1,rank_2\n17,7.5,7.25,\n18,7.5,9,7\n"), "events")
    assert pick(found, "line", "sub", "rank", "step", "step_time_ms") == [
        (2, 0, 0, 17, 7500.0),
        (2, 1, 1, 17, 7250.0),
        (3, 0, 0, 18, 7500.0),
        (3, 1, 1, 18, 9000.0),
        (3, 2, 2, 18, 7000.0),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "step,rank0_ms,rank1_ms\n1,90,95\n"),
        ("step_times_ms.csv", "step,rank0,rank1\n1,90,95\n"),
        ("x.csv", "step,rank0,rank1\n1,7500,7400\n"),
    ],
)
def test_a_wide_table_in_milliseconds(name: str, text: str) -> None:
    found = rows(sniffed(name, text), "events")
    assert found[0]["step_time_ms"] in {90.0, 7500.0}


@settings(max_examples=25, deadline=None)
@given(st.text(alphabet='[]{}":,.-0123456789eE\nbQpNETIBCOLphidstangrk ', max_size=400))
def test_texts_of_the_right_letters_never_raise(text: str) -> None:
    for decoder in ("nccl_profiler", "nccl_inspector", "step_csv"):
        run(decoder, "x", text)
        run(decoder, "x", qp("b", 0, 1.0) + "\n" + COLL + "\n" + INSPECTED + text)
        run(decoder, "x", "step,rank,time,step_time_ms\n" + text)


def test_ordinary_tables_and_json_logs_are_no_steps() -> None:
    assert sniff("x.csv", b"name,step,comment\nx,1,y\n") is None
    assert sniff("x.csv", b"step,time\nfirst step, done in time\n") is None
    assert sniff("x.jsonl", b'{"step": 1, "message": "hello", "time": 3}\n') is None
    assert sniff("x.log", b"step, time and loss are printed below\n") is None
