"""Recognising decoders: ordinary logs are left alone, and no bytes whatever make a decoder raise."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest
from decoder_samples import Member, run
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import DECODERS, decode, sniff
from postmortem.decoders.base import schema_of

ORDINARY = [
    "[2026-01-02 03:04:05] step 17: loss 2.1\n",
    "[rank0]: Traceback (most recent call last):\n",
    "[    0.000000] Linux version 5.15.0\n",
    "Jan  2 03:04:05 node-1 kernel: NVRM: Xid (PCI:0000:01:00): 79\n",
    "iteration 17, time 2.5, loss 3\n",
    "Name: a line of a program that says Name\n",
    '{"log":"step 17: loss 2.1\\n","stream":"stdout","time":"2026-01-02T03:04:05.1Z"}\n',
    '{"__REALTIME_TIMESTAMP":"1789159158211000","_HOSTNAME":"node-1","MESSAGE":"NVRM: Xid"}\n',
    '{"apiVersion":"v1","kind":"Event","reason":"Scheduled","message":"assigned","lastTimestamp":"2026-02-17T00:22:45Z"}\n',
    '{"level":"info","step":17,"step_time_ms":12.5,"msg":"done"}\n',
    '{"step":17}\nnot json\n',
    "switch leaf-1 port 1\nSwitch: everything is fine\n",
    "0x7ffe segfault\n",
    "",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_lines_have_no_decoder(text: str) -> None:
    assert sniff("node-1/nccl_trace_rank_0.log", text.encode()) is None
    assert sniff("x.log", (text * 50).encode()) is None


def test_a_log_line_that_quotes_a_dump_is_no_dump() -> None:
    quoted = json.dumps({"log": json.dumps({"entries": [{"profiling_name": "nccl:all_reduce"}], "pg_config": {}})})
    assert sniff("x.log", quoted.encode()) is None


def test_every_decoder_has_a_description() -> None:
    assert all(f.about and f.program and f.reference for f in DECODERS.values())
    assert len({f.about for f in DECODERS.values()}) == len(DECODERS)


@pytest.mark.parametrize("decoder", DECODERS)
def test_an_empty_member_gives_no_rows(decoder: str) -> None:
    assert run(decoder, "x", b"").tables == {}


@pytest.mark.parametrize("decoder", DECODERS)
@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(decoder: str, raw: bytes) -> None:
    run(decoder, "leaf-1-lldp", raw, host="node-1", rank=0)
    run(decoder, "x", b"\x80\x02" + raw)
    sniff("nccl_trace_rank_1", raw)


SEEDS = [
    b"JobID|State|NodeList|Start|End\n1|FAILED|n[1-2]|2026-04-20T20:57:05|2026-04-20T20:57:05\n",
    b"Device ID  Local Intf  Hold-time  Capability  Port ID\nnode-1  Eth1/1  120  S  ens1\n",
    b"step,rank,time,step_time_ms\n1,0,1789159158.2,20\n",
    b'Switch\t64 "S-fc6a1c03006f0080"\t# "leaf-1" enhanced\n[1]\t"H-b8599f036f000000"[1](b8) # "node-4 mlx5_0" lid 2\n',
    b"Name: w\nNode: n/1\nContainers:\n  c:\n    State: Terminated\n      Reason: OOMKilled\n      Finished: Tue, 28 Jul 2026 08:42:58 +0000\n",
    b'{"lldp": {"interface": [{"swp1": {"chassis": {"n": {}}, "port": {"id": {"value": "p"}}}}]}}',
    b"#StartDevice,StartPort,EndDevice,EndPort\na,a x,b,Port 1\n",
]


@settings(max_examples=150, deadline=None)
@given(seed=st.sampled_from(SEEDS), number=st.integers(0, 2**32))
def test_damaged_files_are_read_without_an_exception(seed: bytes, number: int) -> None:
    chance = random.Random(number)
    raw = bytearray(seed)
    for _ in range(chance.randrange(1, 6)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    content = bytes(raw[: chance.randrange(len(raw) + 1)])
    for decoder in DECODERS:
        run(decoder, "leaf-1-lldp", content)


def test_tables_have_the_columns_of_the_schema(shared: Path) -> None:
    """Every shared file that a decoder recognises gives frames that fit the public tables."""
    seen = set[str]()
    for folder in ("corpus", "data", "cases"):
        for path in sorted(p for p in (shared / folder).rglob("*") if p.is_file() and p.stat().st_size < 1 << 20):
            raw = path.read_bytes()
            decoder = sniff(path.name, raw[: 64 << 10])
            if decoder is None:
                continue
            seen.add(decoder)
            decoded = decode(decoder, Member(path.name, raw), host_hint="host-1", rank_hint=None)
            for table, frame in decoded.tables.items():
                known = schema_of(table)
                assert set(frame.columns) <= set(known), (path.name, table)
                for name, kind in frame.schema.items():
                    narrower = kind.is_integer() and known[name].is_integer()
                    assert narrower or kind in (known[name], pl.Null), (path.name, table, name)
    assert "flight_recorder" in seen
