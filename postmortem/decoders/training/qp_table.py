"""Latencies of queue pairs from any program, as a table with names -> `qp_samples`: CSV, TSV, JSON lines (Parquet: `parquet_table`).

ts,host,dev,qpn,peer,size,latency_us                                        docs/queue-pair-table.md has columns and units
2026-03-01T10:11:12.000125Z,node-017,mlx5_3,1187,10.0.3.21,131072,41.7
{"ts": 1772359872.000125, "host": "node-017", "dev": "mlx5_3", "qpn": 1187, "peer": "10.0.3.21", "size": 131072, "latency_us": 41.7}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import polars as pl

from postmortem.decoders.base import Decoded, Format, Hints, MemberLike, numbered
from postmortem.decoders.training.cells import (
    Layout,
    are_json_lines,
    count,
    header_names,
    layout_of,
    real,
    separator_of,
    stamps,
)
from postmortem.lines.blocks import read_blocks
from postmortem.patterns import later

MAX_SAMPLES: Final = 5_000_000
_MAX_TEXT: Final = 200

_NAMES: Final[dict[str, str]] = {
    "ts": "ts timestamp time start start_time begin datetime",
    "host": "host hostname node node_name src_host",
    "pid": "pid",
    "rank": "rank global_rank",
    "dev": "dev device hca ib_dev ibdev rdma_dev ib_device nic",
    "qpn": "qpn qp qp_num qpnum local_qpn src_qp src_qpn queue_pair",
    "peer": "peer remote dst remote_host dst_host remote_addr peer_addr dst_ip peer_host destination",
    "size": "size bytes length msg_size size_bytes message_size",
    "latency": "latency lat duration elapsed completion_time",
}
_BY_NAME: Final = {name: column for column, names in _NAMES.items() for name in names.split()}
_UNITS: Final = {"ns": 1e-3, "us": 1.0, "usec": 1.0, "ms": 1e3, "s": 1e6, "sec": 1e6}
_LATENCY: Final = later(r"(?:latency|lat|duration|elapsed|completion_time)_?\(?(ns|us|usec|ms|s|sec)\)?")


def column_of(name: str) -> tuple[str, float] | None:
    """(column, factor) of a name; null when it is none. A latency has its unit in its name, without one it is in microseconds.

    >>> column_of("latency_ns")
    ('latency', 0.001)
    """
    bare = re.sub(r"[-_ .]+", "_", name.strip().lower())
    if found := _LATENCY.fullmatch(bare):
        return "latency", _UNITS[found[1]]
    known = _BY_NAME.get(bare)
    return (known, 1.0) if known else None


def are_qp_columns(names: Iterable[str]) -> bool:
    """Whether a table with these columns has a queue pair and a latency in every row."""
    return {"qpn", "latency"} <= {found[0] for n in names if (found := column_of(n))}


def looks_like_qp_table(head: str) -> bool:
    """A CSV header with a queue pair's number and a latency and a fitting row below it, or JSON lines that all have both."""
    text = head.removeprefix("\ufeff").lstrip()
    if text[:1] == "{":
        return are_json_lines(text, _is_sample)
    lines = text.split("\n", 2)
    names = header_names(lines[0])
    if not are_qp_columns(names):
        return False
    cells = lines[1].split(separator_of(lines[0])) if len(lines) > 1 and lines[1].strip() else []
    return not cells or len(cells) == len(names)


def _is_sample(found: dict[str, Any]) -> bool:
    return are_qp_columns(found) and not set(found) & {"message", "msg", "log", "level"}


class QpRows:
    """Collects the samples of a table part by part; at most `MAX_SAMPLES`."""

    def __init__(self, file: str, hints: Hints) -> None:
        self._file = file
        self._hints = hints
        self._parts: list[pl.DataFrame] = []
        self._kept = 0
        self._odd = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more is kept."""
        return self._kept >= MAX_SAMPLES

    def add(self, lines: pl.DataFrame, layout: Layout) -> None:
        """Take the rows of `lines` (column `line` and what `Layout.prepare` adds) that have a number and a latency."""
        rows = lines.select("line", *self._columns(layout), *stamps(layout.first(_is("ts"))))
        good = rows.filter(pl.col("qpn").is_not_null() & (pl.col("latency_us") >= 0))
        room = MAX_SAMPLES - self._kept
        self._odd += rows.height - min(good.height, room)
        good = good.head(room)
        self._kept += good.height
        utc = pl.col("stamp_us") - pl.col("stamp_zone_s").fill_null(0).cast(pl.Int64) * 1_000_000
        dated = good.with_columns(utc.cast(pl.Datetime("us")).alias("ts"), utc.cast(pl.Float64).alias("t_us"))
        self._parts.append(dated.select(pl.exclude("^stamp_.*$")))

    def put(self, decoded: Decoded) -> None:
        """Rows of `qp_samples`, and a note on rows that were left out."""
        if self._odd:
            decoded.notes.append(
                f"{self._odd} rows without a queue pair or a latency, or beyond the first {MAX_SAMPLES}"
            )
        if self._kept:
            decoded.tables["qp_samples"] = pl.concat(self._parts).with_columns(pl.lit(self._file).alias("file"))

    def _columns(self, layout: Layout) -> list[pl.Expr]:
        factors = [(i, f[1]) for i, n in enumerate(layout.names) if (f := column_of(n)) and f[0] == "latency"]
        latency = pl.coalesce([real(layout.cell(i)) * factor for i, factor in factors])
        texts = [layout.first(_is(c)).str.slice(0, _MAX_TEXT).alias(c) for c in ("host", "dev", "peer")]
        numbers = [count(layout.first(_is(c))).alias(c) for c in ("pid", "rank", "qpn", "size")]
        host, dev, peer = texts
        pid, rank, qpn, size = numbers
        return [
            pl.coalesce(host, pl.lit(self._hints.host, dtype=pl.String)).alias("host"),
            pid,
            pl.coalesce(rank, pl.lit(self._hints.rank, dtype=pl.Int64)).alias("rank"),
            dev,
            qpn,
            peer.str.replace(r"<[0-9]+>$", ""),
            size,
            latency.alias("latency_us"),
        ]


def _is(column: str) -> Callable[[str], bool]:
    return lambda name: (found := column_of(name)) is not None and found[0] == column


def decode_qp_table(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `qp_samples`; `t_us` is the time as epoch microseconds, a time without a zone is taken as UTC."""
    decoded = Decoded()
    samples = QpRows(member.name, hints)
    layout: Layout | None = None
    for block in read_blocks(member.stream):
        decoded.count(block)
        lines = numbered(block).filter(pl.col("t").str.strip_chars() != "")
        if layout is None and lines.height:
            layout, lines = layout_of(lines)
            layout = layout if layout is not None and are_qp_columns(layout.names) else None
        if layout is not None and lines.height:
            samples.add(layout.prepare(lines), layout)
    samples.put(decoded)
    return decoded


FORMATS: Final = (
    Format(
        "qp_table",
        "table of latencies of queue pairs, CSV, TSV or JSON lines",
        "any program; columns in docs/queue-pair-table.md",
        "docs/queue-pair-table.md",
        lambda head: looks_like_qp_table(head.text),
        decode_qp_table,
    ),
)
