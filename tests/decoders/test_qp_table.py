"""Tables of latencies of queue pairs, and Parquet tables of any kind."""

from __future__ import annotations

import io
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from decoder_samples import ROOT, pick, rows, run, sniffed

from postmortem.decoders import sniff
from postmortem.decoders.training.qp_table import column_of

COLUMNS = ("ts", "host", "rank", "dev", "qpn", "peer", "size", "latency_us", "line")
WHEN = datetime(2026, 3, 1, 10, 11, 12, 125)
CSV = """ts,host,rank,dev,qpn,peer,size,latency_us
2026-03-01T10:11:12.000125Z,node-017,136,mlx5_3,1187,10.0.3.21,131072,41.7
2026-03-01T10:11:12.000125Z,node-017,136,mlx5_3,,10.0.3.22,131072,1893.2
2026-03-01T10:11:12.000125Z,node-017,136,mlx5_3,1188,10.0.3.22,131072,1893.2
"""
JSON = '{"timestamp": 1772359872.000125, "hostname": "node-017", "hca": "mlx5_3", "qp_num": "0x4a3", "dst": "10.0.3.21<4791>", "bytes": 131072, "latency_ns": 41700}\n'


def parquet(**columns: Any) -> bytes:
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


def test_a_csv_with_the_documented_columns() -> None:
    decoded = sniffed("probe.csv", CSV)
    assert pick(rows(decoded, "qp_samples"), *COLUMNS) == [
        (WHEN, "node-017", 136, "mlx5_3", 1187, "10.0.3.21", 131072, 41.7, 2),
        (WHEN, "node-017", 136, "mlx5_3", 1188, "10.0.3.22", 131072, 1893.2, 4),
    ]
    assert decoded.notes == ["1 rows without a queue pair or a latency, or beyond the first 5000000"]


def test_json_lines_with_other_names_and_units() -> None:
    (row,) = rows(sniffed("probe.jsonl", JSON, host="other", rank=7), "qp_samples")
    assert tuple(row[c] for c in COLUMNS) == (WHEN, "node-017", 7, "mlx5_3", 1187, "10.0.3.21", 131072, 41.7, 1)
    assert row["t_us"] == 1772359872000125.0


@pytest.mark.parametrize(
    "text",
    [
        "Timestamp\tNode\tDevice\tQP\tSize\tLatency (ms)\n2026-03-01 10:11:12.000125\tnode-017\tmlx5_3\t1187\t4096\t0.5\n",
        "time;host;dev;qpn;bytes;lat_us\n1772359872000;node-017;mlx5_3;1187;4096;500\n",
        "qpn,latency_us,ts,host,dev,size\n1187,500,2026-03-01T18:11:12.000125+08:00,node-017,mlx5_3,4096\n",
    ],
)
def test_other_spellings(text: str) -> None:
    (row,) = rows(sniffed("x.txt", text), "qp_samples")
    assert (row["host"], row["dev"], row["qpn"], row["size"], row["latency_us"]) == (
        "node-017",
        "mlx5_3",
        1187,
        4096,
        500,
    )
    assert abs(row["ts"] - WHEN) < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("latency", 1.0), ("Latency_us", 1.0), ("lat_ns", 1e-3), ("duration_ms", 1e3), ("latency (s)", 1e6)],
)
def test_units_of_a_latency(name: str, expected: float) -> None:
    assert column_of(name) == ("latency", expected)


def test_the_example_of_the_documentation_is_read() -> None:
    blocks = (ROOT / "docs" / "queue-pair-table.md").read_text().split("```")
    first, second = (rows(sniffed("x", block.lstrip("\n")), "qp_samples") for block in (blocks[1], blocks[3]))
    assert pick(first, "qpn", "latency_us") == [(1187, 41.7), (1188, 1893.2)]
    assert {k: v for k, v in first[0].items() if k not in {"rank", "line", "file"}} == {
        k: v for k, v in second[0].items() if k not in {"rank", "line", "file"}
    }


def test_a_table_cut_in_a_row_keeps_the_rows_before() -> None:
    for size in range(len(CSV) - 30, len(CSV)):
        assert len(rows(run("qp_table", "x", CSV[:size]), "qp_samples")) in {1, 2}


def test_other_tables_and_logs_are_no_samples() -> None:
    assert sniff("x.csv", b"qp,comment\n1,slow\n") is None
    assert sniff("x.jsonl", b'{"qpn": 7, "latency_us": 3.5, "message": "slow"}\n') is None
    assert sniff("x.log", b"qpn, latency and size follow\n1, 2\n") is None


def test_a_parquet_table_of_samples() -> None:
    raw = parquet(
        timestamp=[WHEN.replace(tzinfo=UTC)] * 3,
        host=["node-017", "node-018", None],
        device=pl.Series(["mlx5_3"] * 3, dtype=pl.Categorical),
        qp=[1187, None, 1189],
        size=[4096] * 3,
        latency_ms=[0.5] * 3,
        histogram=[[1]] * 3,
    )
    decoded = sniffed("probe.parquet", raw, host="fallback", rank=3)
    assert pick(rows(decoded, "qp_samples"), *COLUMNS) == [
        (WHEN, "node-017", 3, "mlx5_3", 1187, None, 4096, 500.0, 1),
        (WHEN, "fallback", 3, "mlx5_3", 1189, None, 4096, 500.0, 3),
    ]
    assert decoded.lines == 3


def test_a_parquet_table_of_steps() -> None:
    raw = parquet(step=[1, 2], rank=[4, 4], loss=[1.5, float("nan")], step_time=[0.5, 0.625])
    assert pick(
        rows(sniffed("steps.parquet", raw), "events"), "event", "step", "rank", "step_time_ms", "loss", "line"
    ) == [
        ("train.step", 1, 4, 500.0, 1.5, 1),
        ("train.step", 2, 4, 625.0, None, 2),
        ("train.nan", 2, 4, None, None, 2),
    ]


def test_a_parquet_table_that_nothing_reads_is_named() -> None:
    decoded = sniffed("x.parquet", parquet(a=[1], b=["x"]))
    assert decoded.tables == {}
    assert decoded.notes == ["a Parquet table that nothing reads, with columns a, b"]


def test_a_trace_of_operations_is_known(shared: Path) -> None:
    path = shared / "data" / "straggler" / "trace-ST.parquet"
    if not path.is_file():
        pytest.skip("no traces of operations among the shared cases")
    decoded = sniffed(path.name, path.read_bytes())
    assert decoded.notes == []
    assert decoded.tables["op_times"].height == 6784


def test_a_damaged_parquet_table_gives_a_note() -> None:
    raw = parquet(qpn=[1], latency_us=[2.0], host=["h"])
    for size in range(4, len(raw), 17):
        decoded = run("parquet_table", "x", raw[:size])
        assert decoded.tables == {}
        assert decoded.notes == ["a Parquet table that is cut off or damaged"]
    chance = random.Random(5)
    for _ in range(300):
        broken = bytearray(raw)
        for _ in range(3):
            broken[chance.randrange(4, len(broken))] = chance.randrange(256)
        run("parquet_table", "x", bytes(broken))
