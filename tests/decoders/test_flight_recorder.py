"""Flight-recorder dumps: both forms and all versions give the same rows, hostile ones give a note."""

from __future__ import annotations

import json
import os
import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from decoder_samples import DATA, Member, pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import Decoded, decode, sniff
from postmortem.decoders.collectives.flight_recorder import operation
from postmortem.decoders.collectives.safe_pickle import RefusedPickleError, load_plain

DUMPS = DATA / "flight_recorder"
GLOO = DUMPS / "nccl_trace_rank_2"


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "record_id": 0,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 7,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_782_885_633_981_352_960,
        "input_sizes": [[4096, 2], [8]],
        "output_sizes": [[4096, 2], [8]],
        "input_dtypes": ["BFloat16"],
        "state": "scheduled",
        "timeout_ms": 600000,
        "is_p2p": False,
        "frames": [{"name": f"f{i}", "filename": "train.py", "line": i} for i in range(5)],
        **changes,
    }


def dump(*entries: Any, **changes: Any) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {
            "0": {"last_enqueued_collective": 7, "last_started_collective": -1, "last_completed_collective": 6}
        },
        "entries": list(entries),
        **changes,
    }


def read(document: object, name: str = "fr/nccl_trace_rank_3") -> Decoded:
    return run("flight_recorder", name, pickle.dumps(document, protocol=2), rank=3)


def test_an_entry_becomes_a_row() -> None:
    (row,) = rows(read(dump(entry())), "collectives")
    assert row == {
        "ts": datetime(2026, 7, 1, 6, 0, 33, 981352),
        "rank": 3,
        "pg": "0",
        "op": "allreduce",
        "seq": 7,
        "is_p2p": False,
        "numel_in": 8200,
        "numel_out": 8200,
        "dtype": "BFloat16",
        "state": "scheduled",
        "peer_rank": None,
        "elapsed_ms": None,
        "timeout_ms": 600000.0,
        "frames": "f0 (train.py:0) < f1 (train.py:1) < f2 (train.py:2)",
        "file": "fr/nccl_trace_rank_3",
        "line": 1,
    }


def test_a_group_becomes_a_row() -> None:
    assert rows(read(dump(entry(), entry())), "groups") == [
        {
            "rank": 3,
            "file": "fr/nccl_trace_rank_3",
            "pg": "0",
            "description": "default_pg",
            "members": "[0, 1]",
            "last_enqueued": 7,
            "last_started": -1,
            "last_completed": 6,
            "entries": 2,
        }
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nccl:all_reduce", ("allreduce", None)),
        ("nccl:_all_gather_base", ("allgather", None)),
        ("nccl:all_gather_into_tensor_coalesced", ("allgather", None)),
        ("nccl:_reduce_scatter_base", ("reducescatter", None)),
        ("nccl:_reduce_oop", ("reduce", None)),
        ("nccl:_broadcast_oop", ("broadcast", None)),
        ("nccl:all_to_all", ("alltoall", None)),
        ("nccl:all_reduce_barrier", ("allreduce", None)),
        ("nccl:coalesced", ("coalesced", None)),
        ("gloo:barrier", ("barrier", None)),
        ("nccl:send 0->3", ("send", 3)),
        ("nccl:recv 2<-3", ("recv", 3)),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_operations_have_the_spelling_of_the_vocabulary(name: object, expected: tuple[str | None, int | None]) -> None:
    assert operation(name) == expected


def test_send_and_receive_are_numbered_apart() -> None:
    sent = entry(profiling_name="nccl:send 0->1", is_p2p=True, p2p_seq_id=31, collective_seq_id=5)
    assert pick(rows(read(dump(sent)), "collectives"), "seq", "is_p2p", "peer_rank") == [(31, True, 1)]


def test_pickle_and_json_give_equal_rows() -> None:
    plain = rows(sniffed("a/nccl_trace_rank_2", GLOO.read_bytes(), rank=2), "collectives")
    text = rows(sniffed("a/nccl_trace_rank_2", GLOO.with_suffix(".json").read_bytes(), rank=2), "collectives")
    assert len(plain) == 8
    assert [{**row, "frames": None} for row in plain] == text
    assert all(row["frames"] for row in plain)


def test_gloo_names_its_group_in_the_entries_only() -> None:
    found = rows(sniffed("nccl_trace_rank_2", GLOO.read_bytes()), "groups")
    assert pick(found, "rank", "pg", "description", "members", "last_enqueued") == [
        (2, "0", "default_pg", "[0, 1, 2, 3]", 8)
    ]


def test_a_number_without_entries_gets_the_name_that_the_order_of_names_gives() -> None:
    waiting = {r["pg"]: r for r in rows(sniffed("_dump_0", (DUMPS / "_dump_0").read_bytes()), "groups")}
    assert waiting["35"]["description"] == "TENSOR_MODEL_PARALLEL_GROUP"
    assert (waiting["35"]["last_enqueued"], waiting["35"]["entries"]) == (84925, 6)
    stopped = {r["pg"]: r for r in rows(sniffed("_dump_9", (DUMPS / "_dump_9").read_bytes()), "groups")}
    # No entry at all, so only the order tells that this process calls group 37 number 5.
    assert (stopped["37"]["rank"], stopped["37"]["last_enqueued"], stopped["37"]["entries"]) == (9, 88683, 0)
    assert stopped["0"]["last_enqueued"] == 14145


def test_a_status_that_no_name_fits_is_left_out() -> None:
    status = {"0": {"last_enqueued_collective": 1}, "1": {"last_enqueued_collective": 99}}
    config = {str(n): {"name": str(n), "desc": "", "ranks": "[0]"} for n in (0, 4, 8)}
    found = rows(read(dump(pg_config=config, pg_status=status)), "groups")
    assert pick(found, "pg", "last_enqueued") == [("0", None), ("4", None), ("8", None)]


def test_version_one_is_a_bare_list() -> None:
    old = {"pg_id": 1, "seq_id": 4, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "state": "started"}
    found = rows(sniffed("nccl_trace_rank_0", pickle.dumps([old], protocol=2)), "collectives")
    assert pick(found, "rank", "pg", "seq", "numel_in", "state") == [(0, "1", 4, 4, "started")]


def test_rank_is_the_number_that_ends_the_name() -> None:
    decoded = sniffed("fr/nccl_trace_rank_container-node02_5", pickle.dumps(dump(entry()), protocol=2))
    assert pick(rows(decoded, "collectives"), "rank") == [(5,)]


def test_json_with_entries_larger_than_the_head_is_recognised() -> None:
    document = json.dumps({"comm_lib_version": "2.29", "entries": [entry()] * 200, "pg_config": {}})
    assert sniff("x.json", document.encode()[:65536]) == "flight_recorder"


def test_a_dump_without_entries_gives_a_note() -> None:
    decoded = read(dump())
    assert decoded.notes == ["a flight-recorder dump without entries"]
    assert len(rows(decoded, "groups")) == 1


class Malice:
    """Pickles as a call of os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_malicious_pickle_is_not_run(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "ran"
    raw = pickle.dumps(dump(entry(frames=Malice(f"touch {mark}"))), protocol=protocol)
    assert sniff("nccl_trace_rank_0", raw) == "flight_recorder"
    decoded = run("flight_recorder", "nccl_trace_rank_0", raw)
    assert not mark.exists()
    assert decoded.tables == {}
    assert len(decoded.notes) == 1
    assert "refused" in decoded.notes[0]
    pickle.loads(raw)  # The proof that it would have been run.
    assert mark.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x02cos\nsystem\nq\x00.",
        b"\x80\x02X\x02\x00\x00\x00osq\x00X\x06\x00\x00\x00systemq\x01\x93.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02P7\n.",
        b"\x80\x02\x82\x01.",
    ],
    ids=["GLOBAL", "STACK_GLOBAL", "BINPERSID", "PERSID", "EXT1"],
)
def test_opcodes_that_reach_outside_are_refused(raw: bytes) -> None:
    with pytest.raises(RefusedPickleError, match="refused"):
        load_plain(raw)


def test_a_memo_index_that_would_take_all_memory_is_refused() -> None:
    with pytest.raises(RefusedPickleError):
        load_plain(b"\x80\x02}r\xff\xff\xff\xff.")


def test_structures_that_hold_themselves_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    wide: list[Any] = [1]
    for _ in range(60):
        wide = [wide, wide]
    config = {"0": {"name": "0", "desc": wide, "ranks": wide}}
    decoded = read(
        dump(entry(input_sizes=wide, process_group=(wide, wide), profiling_name=wide), loop, pg_config=config)
    )
    assert pick(rows(decoded, "collectives"), "op", "numel_in") == [(None, None)]


def test_numbers_beyond_64_bits_are_null() -> None:
    decoded = read(dump(entry(collective_seq_id=2**70, input_sizes=[[2**62, 8]], timeout_ms=10**400)))
    assert pick(rows(decoded, "collectives"), "seq", "numel_in", "timeout_ms") == [(None, None, None)]


def check_cut(name: str, raw: bytes, size: int) -> None:
    """Of a cut dump the entries before the cut are kept as they are in the whole one, and a note says that it was cut."""
    whole = rows(run("flight_recorder", name, raw, rank=2), "collectives")
    decoded = run("flight_recorder", name, raw[:size], rank=2)
    kept = rows(decoded, "collectives")
    assert kept == whole[: len(kept)]
    assert len(decoded.notes) == 1


@settings(deadline=None)
@given(st.integers(0, len(GLOO.read_bytes()) - 1))
def test_a_cut_pickle_keeps_what_stands_before_the_cut(size: int) -> None:
    check_cut("nccl_trace_rank_2", GLOO.read_bytes(), size)


@settings(deadline=None)
@given(st.integers(0, len(GLOO.with_suffix(".json").read_bytes()) - 1))
def test_cut_json_keeps_what_stands_before_the_cut(size: int) -> None:
    check_cut("nccl_trace_rank_2.json", GLOO.with_suffix(".json").read_bytes(), size)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_cut_pickle_of_any_protocol_keeps_its_entries(data: st.DataObject) -> None:
    document = dump(*[entry(record_id=n, collective_seq_id=n, frames=[]) for n in range(5)])
    raw = pickle.dumps(document, protocol=data.draw(st.sampled_from([2, 3, 4, 5])))
    check_cut("trace", raw, data.draw(st.integers(0, len(raw) - 1)))


@pytest.mark.parametrize("path", [GLOO, GLOO.with_suffix(".json")], ids=["pickle", "json"])
def test_a_dump_cut_near_its_end_keeps_what_came_before(path: Path) -> None:
    raw = path.read_bytes()
    decoded = run("flight_recorder", path.name, raw[: len(raw) * 4 // 5])
    assert 4 <= len(rows(decoded, "collectives")) < 8
    assert "cut off" in decoded.notes[0]


def test_a_cut_pickle_that_is_more_than_data_is_refused() -> None:
    raw = pickle.dumps(dump(entry(frames=Malice("true")), entry()), protocol=2)
    decoded = run("flight_recorder", "nccl_trace_rank_0", raw[:-20])
    assert decoded.tables == {}
    assert "refused" in decoded.notes[0]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_pickle_never_raises(data: st.DataObject) -> None:
    raw = bytearray((DUMPS / "_dump_0").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
    run("flight_recorder", "_dump_0", bytes(raw))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(entry())), JSON_VALUES), JSON_VALUES, JSON_VALUES)
def test_entries_of_any_shape_never_raise(changes: dict[str, Any], config: Any, status: Any) -> None:
    read(dump(entry(**changes), pg_config=config, pg_status=status))
    read(dump(entry(**changes), pg_config={"0": config}, pg_status={"0": status}))


def test_real_dumps_of_a_job_are_read(shared: Path) -> None:
    folder = shared / "data" / "flight_recorder"
    dumps = sorted(folder.glob("*/_dump_*"))
    if not dumps:
        pytest.skip("no flight-recorder dumps among the shared cases")
    for path in dumps:
        raw = path.read_bytes()
        assert sniff(path.name, raw) == "flight_recorder"
        decoded = decode("flight_recorder", Member(path.name, raw), host_hint=None, rank_hint=None)
        found = rows(decoded, "groups")
        assert {row["rank"] for row in found} == {int(path.name.rpartition("_")[2])}
        assert all(row["last_enqueued"] is not None for row in found if row["entries"])
