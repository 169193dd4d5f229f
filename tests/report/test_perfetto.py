"""The Perfetto trace, read back with Perfetto's own protobuf module."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from report_samples import ONSET, after, crash, insert, tables

from postmortem.report import perfetto_wire as wire
from postmortem.report.perfetto import Written, write_file, write_trace

ORIGIN_NS = 1_767_323_045 * 10**9
"""ONSET"""


@dataclass(slots=True)
class Read:
    """A trace by track: slices (begin, end or None, name), instants and counter values, each with its time in ns."""

    slices: dict[str, list[tuple[int, int | None, str]]] = field(default_factory=dict)
    instants: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    flows: dict[int, list[tuple[int, str, bool]]] = field(default_factory=dict)
    packets: int = 0


def note(annotation: Any) -> Any:
    kind = next(
        name for name in ("string_value", "int_value", "double_value", "bool_value") if annotation.HasField(name)
    )
    return getattr(annotation, kind)


def read(data: bytes) -> Read:
    """Read a trace as the viewer does: descriptors before events, slices of one track as a stack in the order of time."""
    trace = Trace()
    trace.ParseFromString(data)
    size = trace.ByteSize()
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == size, "a field that Perfetto does not know"
    names: dict[int, str] = {}
    found = Read(packets=len(trace.packet))
    events = []
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            assert described.uuid not in names
            parent = names[described.parent_uuid] if described.HasField("parent_uuid") else None
            is_top = parent is None or parent == ""
            names[described.uuid] = (
                "" if parent is None else described.name if is_top else f"{parent} / {described.name}"
            )
        elif packet.HasField("track_event"):
            assert packet.track_event.track_uuid in names, "an event comes before its track"
            events.append((packet.timestamp, packet.track_event))
    stacks: dict[int, list[tuple[int, str]]] = {}
    for at, event in sorted(events, key=lambda pair: pair[0]):  # stable, as in the trace processor
        track = names[event.track_uuid]
        notes = {one.name: note(one) for one in event.debug_annotations}
        if event.name:
            found.notes[f"{track}: {event.name}"] = notes
        for flows, is_end in ((event.flow_ids, False), (event.terminating_flow_ids, True)):
            for flow in flows:
                found.flows.setdefault(flow, []).append((at, event.name, is_end))
        match event.type:
            case TrackEvent.TYPE_SLICE_BEGIN:
                stack = stacks.setdefault(event.track_uuid, [])
                assert not stack, "slices of one track overlap"
                stack.append((at, event.name))
            case TrackEvent.TYPE_SLICE_END:
                begin, name = stacks[event.track_uuid].pop()
                found.slices.setdefault(track, []).append((begin, at, name))
            case TrackEvent.TYPE_INSTANT:
                found.instants.setdefault(track, []).append((at, event.name))
            case TrackEvent.TYPE_COUNTER:
                found.counters.setdefault(track, []).append((at, event.double_counter_value))
    for uuid, stack in stacks.items():
        for begin, name in stack:
            found.slices.setdefault(names[uuid], []).append((begin, None, name))
    return found


def write(con: duckdb.DuckDBPyConnection, **options: Any) -> tuple[Read, Written]:
    out = io.BytesIO()
    written = write_trace(con, out, **options)
    found = read(out.getvalue())
    assert found.packets == written.packets
    return found, written


def ns(seconds: float) -> int:
    return ORIGIN_NS + round(seconds * 1e9)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tables() as con:
        insert(
            con,
            "hosts",
            "host, node, role",
            [("n1", None, "compute"), ("leaf-1", None, "switch"), ("pod-a", "n2", "compute")],
        )
        insert(
            con,
            "ranks",
            "rank, host, node, pid, gpu, pci",
            [(0, "n1", "n1", 71, 0, "0000:1b:00.0"), (1, "pod-a", "n2", 7, None, None)],
        )
        insert(con, "gpus", "host, pci, gpu", [("n1", "0000:1b:00.0", 0)])
        insert(con, "nics", "host, dev, ifname, pci", [("n1", "mlx5_0", "ib0", "0000:1c:00.0")])
        yield con


EVENT = "event_id, ts, host, source, event, severity, file, line, rank, pid, pci, dev, ifname, port, xid, message"


def row(
    number: int, at: float | None, host: str | None, source: str, event: str, severity: str = "error", **rest: Any
) -> list[Any]:
    values = {
        "rank": None,
        "pid": None,
        "pci": None,
        "dev": None,
        "ifname": None,
        "port": None,
        "xid": None,
        "message": "m",
        **rest,
    }
    return [number, None if at is None else after(at), host, source, event, severity, "a.log", number, *values.values()]


def test_each_fault_is_an_instant_on_the_track_of_its_thing(con: duckdb.DuckDBPyConnection) -> None:
    rows = [
        row(1, 0, "n1", "kernel", "gpu.xid", pci="0000:1b:00.0", xid=79, message="NVRM: Xid 79"),
        row(2, 1, "n1", "kernel", "link.down", ifname="ib0"),
        row(3, 2, "n1", "kernel", "pcie.aer_fatal", pci="0000:00:01.0"),
        row(4, 3, "leaf-1", "switch", "link.down", ifname="Ethernet1/1"),
        row(5, 4, "leaf-1", "switch", "switch.reboot"),
        row(6, 5, "n1", "nccl", "nccl.remote_closed", pid=71, dev="mlx5_0"),
        row(7, 6, "pod-a", "torch", "torch.abort", rank=1),
        row(8, 7, "n1", "kernel", "host.oom_kill"),
        row(9, 8, None, "scheduler", "job.end", "info"),
        row(10, 9, None, "torch", "torch.exception"),
        row(11, 10, "n9", "kernel", "host.panic", "fatal"),
        row(12, 11, "n1", "nccl", "nccl.channel", "info"),
        row(13, None, "n1", "kernel", "host.mce"),
    ]
    insert(con, "events", EVENT, rows)
    found, written = write(con)
    assert found.instants == {
        "host n1 / GPU 0 (0000:1b:00.0)": [(ns(0), "gpu.xid 79")],
        "host n1 / NIC mlx5_0": [(ns(1), "link.down")],
        "host n1 / device 0000:00:01.0": [(ns(2), "pcie.aer_fatal")],
        "switch leaf-1 / port Ethernet1/1": [(ns(3), "link.down")],
        "switch leaf-1": [(ns(4), "switch.reboot")],
        "host n1 / GPU 0 (0000:1b:00.0) / rank 0": [(ns(5), "nccl.remote_closed")],
        "host n2 / rank 1": [(ns(6), "torch.abort")],
        "host n1": [(ns(7), "host.oom_kill")],
        "job": [(ns(8), "job.end")],
        "place not known": [(ns(9), "torch.exception")],
        "host n9": [(ns(10), "host.panic")],
    }
    notes = found.notes["host n1 / GPU 0 (0000:1b:00.0): gpu.xid 79"]
    assert {"severity": "error", "file": "a.log", "line": 1, "message": "NVRM: Xid 79"}.items() <= notes.items()
    assert written.left_out == (("events", 1),), "the fault without a time is counted"


def test_times_are_those_of_the_common_clock(con: duckdb.DuckDBPyConnection) -> None:
    insert(con, "events", EVENT, [row(1, 0, "n1", "kernel", "host.panic")])
    con.execute("UPDATE events SET ts_aligned = ts + INTERVAL 250 MILLISECOND")
    assert write(con)[0].instants == {"host n1": [(ns(0.25), "host.panic")]}


def test_arrows_go_from_causes_to_effects_and_along_the_proof(con: duckdb.DuckDBPyConnection) -> None:
    rows = [
        row(1, 0, "n1", "kernel", "link.down"),
        row(2, 5, "n1", "nccl", "nccl.remote_closed"),
        row(3, 6, "n1", "torch", "torch.abort"),
    ]
    insert(con, "events", EVENT, [*rows, row(4, -9, "n1", "trainer", "train.step", "info")])
    insert(
        con,
        "episodes",
        "episode, event, event_id, first_ts, count",
        [(10, "a", 1, ONSET, 3), (11, "b", 2, after(5), 1), (12, "c", 3, after(6), 1)],
    )
    insert(
        con,
        "edges",
        "cause_episode, effect_episode, rule, strength",
        [(10, 11, "r", 0.9), (10, 11, "s", 0.5), (12, 11, "back", 0.8)],
    )
    insert(
        con,
        "evidence",
        "finding, role, event_id",
        [(1, "cause", 1), (1, "effect", 3), (1, "context", 4), (2, "cause", 2)],
    )
    found, _ = write(con)
    assert sorted(found.flows.values()) == [
        [(ns(0), "link.down", False), (ns(5), "nccl.remote_closed", True)],
        [(ns(0), "link.down", False), (ns(6), "torch.abort", True)],
    ], "one arrow per pair, none back in time; the proof begins with its cause"
    assert found.notes["host n1: link.down"]["evidence"] == "cause of finding 1"
    assert found.notes["host n1: link.down"]["times"] == 3
    assert (ns(-9), "train.step") in found.instants["host n1"], (
        "a line that proves something is drawn whatever its severity"
    )


def test_steps_are_slices_and_numbers_are_counters(con: duckdb.DuckDBPyConnection) -> None:
    steps = [
        (0, 1, None, after(10), 4000.0, True, 2.5, "t", 1), (0, 2, None, after(20), None, True, float("nan"), "t", 2),
        (0, 3, None, after(25), 9000.0, True, 2.0, "t", 3), (0, 3, 1, after(25), 1000.0, False, 2.0, "u", 1),
        (0, 4, None, None, 1000.0, True, 1.0, "t", 4),
    ]  # fmt: skip
    insert(con, "steps", "attempt, step, rank, ts, step_time_ms, is_main, loss, file, line", steps)
    insert(
        con,
        "checkpoints",
        "attempt, step, kind, ts, elapsed_ms, file, line",
        [(0, 2, "done", after(24), 3000.0, "t", 9)],
    )
    insert(
        con,
        "attempts",
        "attempt, start, finish, outcome",
        [(0, after(0), after(30), "crashed"), (1, after(40), None, "unknown")],
    )
    found, written = write(con)
    # The duration of step 2 is not printed, that of step 3 is longer than the gap: both begin where the step before ended.
    assert found.slices["job / steps"] == [
        (ns(6), ns(10), "step 1"),
        (ns(10), ns(20), "step 2"),
        (ns(20), ns(25), "step 3"),
    ]
    assert found.slices["host n2 / rank 1 / steps"] == [(ns(24), ns(25), "step 3")]
    assert found.slices["job / checkpoints"] == [(ns(21), ns(24), "checkpoint done 2")]
    assert found.slices["job"] == [(ns(0), ns(30), "attempt 0: crashed"), (ns(40), None, "attempt 1: unknown")]
    assert found.counters["job / loss"] == [(ns(10), 2.5), (ns(25), 2.0)]
    assert found.counters["job / step time, ms"] == [(ns(10), 4000.0), (ns(25), 9000.0)]
    assert dict(written.left_out) == {"steps": 1}


def test_collectives_overlap_and_hang(con: duckdb.DuckDBPyConnection) -> None:
    calls = [
        (after(0), 0, "dp", "all_reduce", 1, "completed", 5000.0, 1), (after(2), 0, "dp", "all_reduce", 2, "completed", 1000.0, 2),
        (after(5), 0, "dp", "all_gather", 3, "started", None, 3), (after(6), 0, "dp", "all_gather", 4, "scheduled", None, 4),
        (after(7), 0, None, "send", 1, None, None, 5),
    ]  # fmt: skip
    insert(con, "collectives", "ts, rank, pg, op, seq, state, elapsed_ms, line", calls)
    found, _ = write(con)
    name = "host n1 / GPU 0 (0000:1b:00.0) / rank 0 / collectives"
    assert sorted(found.slices[f"{name} of group dp"], key=lambda s: s[0]) == [
        (ns(0), ns(5), "all_reduce 1"), (ns(2), ns(3), "all_reduce 2"), (ns(5), None, "all_gather 3"), (ns(6), None, "all_gather 4"),
    ]  # fmt: skip
    assert found.slices[name] == [(ns(7), ns(7), "send 1")]


def test_timed_transfers_and_counters_of_ports(con: duckdb.DuckDBPyConnection) -> None:
    insert(con, "qp_samples", "ts, t_us, host, dev, qpn, peer, latency_us, line", [
        (after(0), 5.0, "n1", "mlx5_0", 9, "n2", 1500.0, 1), (None, 100.0, "n1", "mlx5_0", 9, "n2", 20.0, 2), (None, 130.0, "n1", "mlx5_0", 9, "n2", 20.0, 3),
    ])  # fmt: skip
    insert(
        con,
        "coll_samples",
        "ts, rank, comm_hash, op, seq, elapsed_us",
        [(after(1), 1, "0xab", "all_reduce", 7, 2000.0)],
    )
    insert(con, "counters", "ts, host, dev, port, counter, value, line", [
        (after(0), "n1", "mlx5_0", None, "rx", 1.0, 1), (after(9), "n1", "mlx5_0", None, "rx", 8.0, 2), (None, "n1", "mlx5_0", None, "rx", 9.0, 3),
        (after(0), "leaf-1", None, "Eth1", "drops", 2.0, 4),
    ])  # fmt: skip
    insert(con, "events", EVENT, [row(1, -60, "n1", "kernel", "host.panic")])
    found, written = write(con)
    assert found.slices["host n1 / NIC mlx5_0 / queue pair 9"] == [(ns(0), ns(0.0015), "to n2")]
    own = "queue pairs, on the clock of their trace / host n1 / NIC mlx5_0 / queue pair 9"
    assert found.slices[own] == [(ns(-60), ns(-60) + 20_000, "to n2"), (ns(-60) + 30_000, ns(-60) + 50_000, "to n2")]
    assert found.slices["host n2 / rank 1 / timed collectives of 0xab"] == [(ns(1), ns(1.002), "all_reduce 7")]
    assert found.counters == {
        "host n1 / NIC mlx5_0 / rx": [(ns(0), 1.0), (ns(9), 8.0)],
        "switch leaf-1 / port Eth1 / drops": [(ns(0), 2.0)],
    }
    assert written.left_out == (("counters", 1),)


def test_operations_are_laid_end_to_end(con: duckdb.DuckDBPyConnection) -> None:
    insert(con, "op_times", "rank, stage, step, op, start_s, duration_s, line", [
        (0, 0, 5, "forward", 10.0, 2.0, 1), (0, 0, 5, "backward", 12.0, 1.0, 2), (0, 0, 6, "forward", 0.0, 2.0, 3),
    ])  # fmt: skip
    insert(con, "events", EVENT, [row(1, 0, "n1", "kernel", "host.panic")])
    assert write(con)[0].slices == {
        "operations, steps laid end to end / stage 0 / rank 0": [
            (ns(0), ns(2), "forward"), (ns(2), ns(3), "backward"), (ns(3), ns(5), "forward"),
        ]
    }  # fmt: skip


def test_the_verdict_has_a_track(con: duckdb.DuckDBPyConnection) -> None:
    found, _ = write(con, analysis=crash())
    assert found.instants["verdict"] == [
        (ns(-9000), "started"), (ns(-3), "last progress"), (ns(0), "onset"), (ns(30.1), "detected"), (ns(620), "ended"),
    ]  # fmt: skip
    assert found.slices["verdict / onset between"] == [(ns(0), ns(0.5), "onset")]
    assert found.instants["verdict / finding 1"] == [(ns(0), "1. Device left the PCIe bus")]
    assert found.notes["verdict / finding 1: 1. Device left the PCIe bus"]["culprit"] == "GPU 0000:1b:00.0 of node-7"


def test_the_limit_keeps_what_proves_something_and_the_worst(con: duckdb.DuckDBPyConnection) -> None:
    insert(con, "events", EVENT, [row(n, n, "n1", "kernel", "host.edac", "warning") for n in range(1, 20)])
    insert(
        con,
        "events",
        EVENT,
        [row(20, 3, "n1", "kernel", "host.panic", "fatal"), row(21, 1, "n1", "trainer", "train.step", "info")],
    )
    insert(con, "evidence", "finding, role, event_id", [(1, "cause", 21)])
    insert(con, "counters", "ts, host, counter, value, line", [(after(n), "n1", "c", float(n), n) for n in range(30)])
    found, written = write(con, limit=3)
    assert found.instants["host n1"] == [(ns(1), "train.step"), (ns(3), "host.panic"), (ns(19), "host.edac")]
    assert found.counters["host n1 / counters / c"] == [(ns(27), 27.0), (ns(28), 28.0), (ns(29), 29.0)]
    assert dict(written.left_out) == {"events": 18, "counters": 27}


def test_odd_numbers_and_times_do_no_harm(con: duckdb.DuckDBPyConnection) -> None:
    bad = float("inf")
    late, early = after(0).replace(year=9999), after(0).replace(year=1601)
    insert(con, "events", EVENT, [row(1, 0, "n1", "kernel", "host.panic", message="\x00\ud7ff" * 900)])
    insert(
        con,
        "events",
        "event_id, ts, host, source, event, severity",
        [(2, late, "n1", "kernel", "host.panic", "fatal"), (3, early, "n1", "kernel", "host.panic", "fatal")],
    )
    insert(
        con,
        "steps",
        "step, ts, step_time_ms, is_main, loss",
        [(1, after(0), bad, True, bad), (2, late, 1.0, True, 1.0), (3, after(1), -5.0, True, -bad)],
    )
    insert(
        con,
        "collectives",
        "ts, rank, op, elapsed_ms, state",
        [(after(0), 0, "x", bad, "completed"), (after(0), 0, "x", -bad, "completed")],
    )
    insert(
        con,
        "qp_samples",
        "ts, t_us, latency_us",
        [(None, bad, 1.0), (None, float("nan"), 1.0), (after(0), 1.0, float("nan"))],
    )
    insert(con, "op_times", "step, start_s, duration_s", [(1, bad, bad), (2, float("nan"), 1.0), (None, 1.0, 1.0)])
    insert(con, "counters", "ts, counter, value", [(after(0), "c", bad), (after(0), None, 1.0)])
    insert(con, "attempts", "attempt, start, finish", [(0, after(5), after(1)), (1, early, late)])
    found, _ = write(con)
    times = [at for rows in found.slices.values() for begin, end, _ in rows for at in (begin, end) if at is not None]
    assert all(0 <= at < 2**63 for at in times)
    assert not any(name.startswith("job /") for name in found.counters if "loss" in name)


def test_an_empty_incident_is_a_trace(con: duckdb.DuckDBPyConnection) -> None:
    with tables() as empty:
        found, written = write(empty)
    assert (found.slices, found.instants, found.counters, written.left_out) == ({}, {}, {}, ())


def test_the_same_tables_give_the_same_bytes(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    insert(con, "events", EVENT, [row(n, n % 7, "n1", "kernel", "host.panic") for n in range(200)])
    write_file(con, tmp_path / "a.pftrace")
    write_file(con, tmp_path / "b.pftrace.gz")
    write_file(con, tmp_path / "c.pftrace.gz")
    plain = (tmp_path / "a.pftrace").read_bytes()
    assert gzip.decompress((tmp_path / "b.pftrace.gz").read_bytes()) == plain
    assert (tmp_path / "b.pftrace.gz").read_bytes() == (tmp_path / "c.pftrace.gz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pftrace", "b.pftrace.gz", "c.pftrace.gz"]


VALUES = st.one_of(st.text(max_size=50), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))


@given(
    st.integers(0, 2**63 - 1), st.integers(1, 2**64 - 1), st.text(max_size=20), st.lists(st.tuples(st.text(max_size=9), VALUES), max_size=5),
    st.lists(st.integers(0, 2**64 - 1), max_size=4),
)  # fmt: skip
def test_events_come_back_as_they_were(
    at: int, uuid: int, name: str, notes: list[tuple[str, Any]], flows: list[int]
) -> None:
    trace = Trace()
    trace.ParseFromString(wire.event(wire.INSTANT, uuid, at, name, "c", notes, flows, flows[:1]))
    (packet,) = trace.packet
    event = packet.track_event
    assert (packet.timestamp, event.track_uuid, event.name, list(event.categories)) == (at, uuid, name, ["c"])
    assert [(one.name, note(one)) for one in event.debug_annotations] == notes
    assert (list(event.flow_ids), list(event.terminating_flow_ids)) == (flows, flows[:1])


def test_long_and_broken_text_is_cut_and_escaped() -> None:
    trace = Trace()
    trace.ParseFromString(wire.event(wire.INSTANT, 1, 1, "\udc80", "", [("message", "x" * 10_000)]))
    event = trace.packet[0].track_event
    assert event.name == "\\udc80"
    assert event.debug_annotations[0].string_value == "x" * (wire.TEXT_LIMIT - 1) + "…"


def test_the_clock_is_wall_time() -> None:
    trace = Trace()
    trace.ParseFromString(wire.clock_snapshot(ORIGIN_NS))
    clocks = {clock.clock_id: clock.timestamp for clock in trace.packet[0].clock_snapshot.clocks}
    assert clocks == {wire.REALTIME: ORIGIN_NS, wire.BOOTTIME: ORIGIN_NS}
    assert ONSET + timedelta(0) == after(0)
