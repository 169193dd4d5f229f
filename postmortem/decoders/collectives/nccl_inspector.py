"""NCCL Inspector -> `coll_samples`: one JSON object per line and timed collective; its Prometheus text -> `counters`.

    {"header":{"id":"0x7f8c","rank":2,"n_ranks":8},"metadata":{"dump_timestamp_us":1748030377748202,"hostname":"h","pid":1},
     "coll_perf":{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,"coll_busbw_gbs":485.1}}

(on one line; NCCL 2.28 and later, plugins/profiler/inspector). `p2p_perf` with `p2p_…` keys is the same for send and receive.
NCCL_INSPECTOR_PROM_DUMP=1 (2.29.7 and later, inspector_prom.cc) writes means over the last interval instead, a file per GPU:

    nccl_bus_bandwidth_gbs{version="v5.1",…,node="node-1",gpu="GPU0",comm_name="DP Group 0",…,collective="AllReduce",message_size="4-5GB",…} 678.263
"""

from __future__ import annotations

from typing import Final

import polars as pl

from postmortem.decoders.base import (
    MAX_SAMPLE_EVENTS,
    MAX_TEXT,
    Decoded,
    Format,
    MemberLike,
    Row,
    numbered,
    read_text,
    real,
    same_stamp,
)
from postmortem.lines.blocks import read_blocks
from postmortem.patterns import later

MAX_SAMPLES: Final = 5_000_000
MAX_PROM_LINES: Final = 100_000
_METRICS: Final = (
    "nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds", "nccl_p2p_bus_bandwidth_gbs", "nccl_p2p_exec_time_microseconds",
)  # fmt: skip
_PROM: Final = later(rf"({'|'.join(_METRICS)})\{{([^}}]*)\}} (\S+)(?: [0-9]+)?\s*$")
_LABEL: Final = later(r'([a-z_0-9]+)="([^"]*)"')
_SHOWN: Final = ("comm_name", "collective", "p2p_operation", "message_size", "algo_proto")
_HEAD: Final = later(rb'\s*\{\s*"(?:header|metadata)"\s*:\s*\{')


def looks_like_inspector(head: bytes) -> bool:
    """The first object has the Inspector's header and a measured operation."""
    first = head.lstrip()[:8192]
    return _HEAD.match(first) is not None and (b'"coll_perf"' in first or b'"p2p_perf"' in first)


def decode_inspector(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `coll_samples`; lines that are no whole record are counted in a note. Small files also give events.

    `ts` is the start of the operation where the verbose trace prints it, else when the record was written.
    """
    decoded = Decoded()
    parts: list[pl.DataFrame] = []
    kept = odd = 0
    for block in read_blocks(member.stream):
        decoded.count(block)
        rows = _records(numbered(block), host_hint)
        whole = rows.filter(pl.col("seq").is_not_null() & pl.col("elapsed_us").is_not_null())
        odd += rows.height - whole.height + max(0, whole.height - (MAX_SAMPLES - kept))
        whole = whole.head(MAX_SAMPLES - kept)
        kept += whole.height
        if kept > MAX_SAMPLE_EVENTS:
            whole = whole.with_columns(t=pl.lit(None, dtype=pl.String))
        parts.append(whole)
    if odd:
        decoded.notes.append(f"{odd} lines that are no whole record, or beyond the first {MAX_SAMPLES}")
    if not kept:
        return decoded
    rows = pl.concat(parts).with_columns(pl.lit(member.name).alias("file"))
    decoded.tables["coll_samples"] = rows.drop("t", "nranks")
    if kept <= MAX_SAMPLE_EVENTS:
        decoded.tables["events"] = rows.select(
            "file", "line", pl.lit(0, dtype=pl.Int64).alias("offset"), pl.col("t").alias("text"), pl.col("t").alias("message"),
            "host", "pid", "rank", "nranks", "comm_hash", "op", "seq",
            pl.lit("profiler").alias("source"), pl.lit("coll.sample").alias("event"), pl.lit("debug").alias("severity"),
            (pl.col("elapsed_us") / 1000).alias("elapsed_ms"), *same_stamp(pl.col("ts").dt.epoch("us")),
        )  # fmt: skip
    return decoded


def _records(lines: pl.DataFrame, host_hint: str | None) -> pl.DataFrame:
    """The columns of each line that is not empty; null where a line has no such key."""
    text = pl.col("t")

    def number(key: str, kind: type[pl.DataType] = pl.Int64) -> pl.Expr:
        return text.str.extract(rf'"{key}"\s*:\s*"?(-?[0-9.]+)').cast(kind, strict=False)

    def word(key: str) -> pl.Expr:
        return text.str.extract(rf'"{key}"\s*:\s*"([^"]+)"')

    stamp_us = pl.coalesce(number("coll_start_ts"), number("p2p_start_ts"), number("dump_timestamp_us"))
    return lines.filter(text.str.strip_chars() != "").select(
        pl.when(stamp_us.is_between(10**12, 4_102_444_800_000_000)).then(stamp_us).cast(pl.Datetime("us")).alias("ts"),
        pl.coalesce(word("hostname"), pl.lit(host_hint, dtype=pl.String)).alias("host"),
        number("pid").alias("pid"),
        number("rank").alias("rank"),
        number("n_ranks").alias("nranks"),
        word("id").str.to_lowercase().alias("comm_hash"),
        word("(?:coll|p2p)").str.to_lowercase().alias("op"),
        number("(?:coll|p2p)_sn").alias("seq"),
        number("(?:coll|p2p)_msg_size_bytes").alias("bytes"),
        number("(?:coll|p2p)_exec_time_us", pl.Float64).alias("elapsed_us"),
        number("(?:coll|p2p)_busbw_gbs", pl.Float64).alias("bus_gbps"),
        "line",
        text.str.slice(0, MAX_TEXT),
    )


def looks_like_prometheus(head: str) -> bool:
    """The first line that is no comment is one of the Inspector's metrics."""
    first = next((line for line in head.split("\n", 50)[:50] if line.strip() and not line.startswith("#")), "")
    return _PROM.match(first) is not None


def decode_prometheus(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `counters`: means over an interval of about 30 s per GPU; the counter's name has the labels that tell rows apart.

    A Python loop: a file is rewritten at each interval and holds some hundred lines.
    """
    decoded = Decoded()
    rows: list[Row] = []
    for number, line in enumerate(read_text(member, decoded).split("\n")[:MAX_PROM_LINES], 1):
        found = _PROM.match(line)
        labels = dict(_LABEL.findall(found[2])) if found else {}
        try:
            value = real(float(found[3])) if found else None
        except ValueError:
            value = None
        if found is None or value is None:
            continue
        shown = ",".join(f"{key}={labels[key]}" for key in _SHOWN if labels.get(key, "unknown") != "unknown")
        node = labels.get("node", "unknown")
        rows.append(
            {
                "host": host_hint if node == "unknown" else node,
                "dev": labels.get("gpu"),
                "counter": f"{found[1]}{{{shown}}}"[:MAX_TEXT],
                "value": value,
                "program": "NCCL Inspector",
                "file": member.name,
                "line": number,
            }
        )
    decoded.put("counters", rows)
    return decoded


FORMATS: Final = (
    Format(
        "nccl_inspector",
        "Inspector, one JSON object per line: timings of collectives",
        "NCCL 2.28 and later",
        "NVIDIA/nccl plugins/profiler/inspector",
        lambda head: looks_like_inspector(head.raw),
        lambda member, hints: decode_inspector(member, hints.host),
    ),
    Format(
        "nccl_inspector_prom",
        "Inspector, Prometheus text: bandwidth and duration of collectives per GPU, means over an interval",
        "NCCL 2.29.7 and later",
        "NVIDIA/nccl plugins/profiler/inspector/inspector_prom.cc",
        lambda head: looks_like_prometheus(head.text),
        lambda member, hints: decode_prometheus(member, hints.host),
    ),
)
