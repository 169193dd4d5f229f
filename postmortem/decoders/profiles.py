"""Timings: NCCL's example profiler trace (`Qp` events), NCCL Inspector, generic step tables.

The trace is written as a Chrome trace, one object per line ending in a comma, the closing bracket missing when the process was
killed (NCCL plugins/profiler/example/print_event.cc). Inspector prints one JSON object per line (NCCL plugins/profiler/inspector).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl

from postmortem.decoders.rows import Decoded, MemberLike, event_frame, read_text
from postmortem.lines.blocks import read_blocks

_QP: Final = r'"name": ?"Qp", ?"cat": ?"NET_IB", ?"ph": ?"(?P<ph>[be])", ?"id": ?(?P<id>-?[0-9]+), ?"pid": ?(?P<pid>[0-9]+), ?"tid": ?[0-9]+, ?"ts": ?(?P<ts>[0-9.]+)'
_ARGS: Final = r'"device": ?(?P<dev>[0-9]+), ?"qp_num": ?(?P<qpn>[0-9]+).*?"size": ?(?P<size>[0-9]+)'
MAX_TABLE: Final = 64 << 20


def looks_like_trace(head: bytes) -> bool:
    """Begins like a Chrome trace array of NCCL events."""
    return head.lstrip()[:1] == b"[" and any(m in head for m in (b'"cat": "NET_IB"', b'"cat": "PROXY"', b'"cat": "COLL"', b'"cat": "GROUP"', b'"cat":"NET_IB"', b'"cat":"COLL"'))


def looks_like_inspector(head: bytes) -> bool:
    """Lines of NCCL Inspector."""
    return head.lstrip()[:1] == b"{" and b'"coll_perf"' in head[:8192] and b'"header"' in head[:8192]


def decode_trace(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `qp_samples`: one per `Qp` begin whose end is there; `dev` is the device index as printed."""
    decoded = Decoded()
    # `<dump>_<CommHash decimal>_<rank>.json` from NCCL 2.27 on
    named = re.search(r"_[0-9]{12,20}_([0-9]{1,6})\.(?:json|txt)(?:\.[a-z0-9]+)?$", member.name)
    rank = int(named[1]) if named else None
    begins: list[pl.DataFrame] = []
    ends: list[pl.DataFrame] = []
    for block in read_blocks(member.stream):
        decoded.lines += len(block.text)
        decoded.bytes += block.byte_count
        frame = pl.DataFrame({"t": block.text}).with_columns(line=pl.int_range(pl.len(), dtype=pl.Int64) + block.first_line)
        frame = frame.filter(pl.col("t").str.contains('"Qp"', literal=True))
        if not frame.height:
            continue
        parts = frame.select("line", "t", g=pl.col("t").str.extract_groups(_QP)).unnest("g").filter(pl.col("ph").is_not_null())
        parts = parts.with_columns(pl.col("id", "pid").cast(pl.Int64, strict=False), ts=pl.col("ts").cast(pl.Float64, strict=False))
        begin = parts.filter(pl.col("ph") == "b").with_columns(a=pl.col("t").str.extract_groups(_ARGS)).unnest("a")
        begins.append(begin.select("line", "id", "pid", "ts", "dev", pl.col("qpn", "size").cast(pl.Int64, strict=False)))
        ends.append(parts.filter(pl.col("ph") == "e").select("id", "pid", end="ts"))
    if begins:
        both = pl.concat(begins).join(pl.concat(ends).unique(["pid", "id"], keep="first", maintain_order=True), on=["pid", "id"], how="inner", maintain_order="left")
        rows = both.filter(pl.col("qpn").is_not_null() & (pl.col("end") >= pl.col("ts"))).select(
            pl.col("ts").alias("t_us"), pl.lit(host_hint, dtype=pl.String).alias("host"), "pid", "dev", "qpn", "size",
            (pl.col("end") - pl.col("ts")).alias("latency_us"), pl.lit(rank, dtype=pl.Int64).alias("rank"), pl.lit(member.name).alias("file"), "line",
        )
        if rows.height:
            decoded.tables["qp_samples"] = rows
    return decoded


def decode_inspector(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `coll_samples`; `ts` is when the record was dumped."""
    decoded = Decoded()
    frames: list[pl.DataFrame] = []

    def number(pattern: str, kind: type[pl.DataType]) -> pl.Expr:
        return pl.col("t").str.extract(pattern).cast(kind, strict=False)

    for block in read_blocks(member.stream):
        decoded.lines += len(block.text)
        decoded.bytes += block.byte_count
        frame = pl.DataFrame({"t": block.text}).with_columns(line=pl.int_range(pl.len(), dtype=pl.Int64) + block.first_line)
        frames.append(frame.filter(pl.col("t").str.contains('"coll_perf"', literal=True)).select(
            number(r'"dump_timestamp_us": ?([0-9]+)', pl.Int64).cast(pl.Datetime("us")).alias("ts"),
            pl.coalesce(pl.col("t").str.extract(r'"hostname": ?"([^"]*)"'), pl.lit(host_hint, dtype=pl.String)).alias("host"),
            number(r'"pid": ?([0-9]+)', pl.Int64).alias("pid"), number(r'"rank": ?([0-9]+)', pl.Int64).alias("rank"),
            pl.col("t").str.extract(r'"id": ?"([^"]*)"').alias("comm_hash"), pl.col("t").str.extract(r'"coll": ?"([^"]*)"').str.to_lowercase().alias("op"),
            number(r'"coll_sn": ?([0-9]+)', pl.Int64).alias("seq"), number(r'"coll_msg_size_bytes": ?([0-9]+)', pl.Int64).alias("bytes"),
            number(r'"coll_exec_time_us": ?([0-9.]+)', pl.Float64).alias("elapsed_us"), number(r'"coll_busbw_gbs": ?([0-9.]+)', pl.Float64).alias("bus_gbps"),
            pl.lit(member.name).alias("file"), "line", "t",
        ).filter(pl.col("seq").is_not_null()))
    rows = pl.concat(frames) if frames else pl.DataFrame()
    if not rows.height:
        return decoded
    decoded.tables["coll_samples"] = rows.drop("t")
    if rows.height <= 2000:
        # Small records are events too; large ones stay a table of their own.
        decoded.tables["events"] = rows.select(
            "file", "line", pl.lit(0, dtype=pl.Int64).alias("offset"), pl.col("t").str.slice(0, 4096).alias("text"), pl.col("t").str.slice(0, 400).alias("message"), "host", "pid", "rank",
            "comm_hash", "op", "seq", pl.lit("coll.sample").alias("event"), pl.lit("debug").alias("severity"), pl.lit("profiler").alias("source"),
            (pl.col("elapsed_us") / 1000).alias("elapsed_ms"), pl.col("ts").dt.epoch("us").alias("stamp_us"), pl.lit(True).alias("stamp_has_year"),
            pl.lit(0, dtype=pl.Int32).alias("stamp_zone_s"), pl.lit(1, dtype=pl.Int64).alias("stamp_res_us"),
        )
    return decoded


# ---- step tables -------------------------------------------------------------------------------------------------

_STEP: Final = ("step", "iteration", "iter", "global_step")
_MS: Final = ("step_time_ms", "time_ms", "iteration_time_ms")
_S: Final = ("step_time", "step_time_s", "seconds", "elapsed")
_WHEN: Final = ("time", "timestamp", "ts", "wall_time")


def looks_like_steps(head: bytes) -> bool:
    """A CSV header with a step column and a duration or time."""
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().lower()
    if "," not in first or len(first) > 1000:
        return False
    names = {c.strip().strip('"') for c in first.split(",")}
    return bool(names & set(_STEP)) and bool(names & {*_MS, *_S, *_WHEN}) and all(re.fullmatch(r"[a-z_][a-z0-9_ /()%.-]*", n) for n in names)


def _float(row: dict[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        try:
            value = float(row[name])
        except (KeyError, ValueError, TypeError):
            continue
        if value == value and abs(value) < 1e300:
            return value
    return None


def _stamp(row: dict[str, str]) -> tuple[int, int | None] | None:
    value = _float(row, _WHEN)
    if value is not None:
        seconds = value / 1000 if value > 1e11 else value
        return (int(seconds * 1e6), 0) if 0 < seconds < 4.1e9 else None
    text = next((row[n] for n in _WHEN if row.get(n)), "")
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    offset = when.utcoffset()
    naive = when.replace(tzinfo=None)
    return int((naive - datetime(1970, 1, 1)) / timedelta(microseconds=1)), None if offset is None else int(offset.total_seconds())


def _csv_rows(text: str) -> Iterator[tuple[int, dict[str, str], str]]:
    lines = text.split("\n")
    names = [c.strip().lower() for c in next(csv.reader(io.StringIO(lines[0])), [])]
    for number, line in enumerate(lines[1:], 2):
        cells = line.rstrip("\r").split(",")
        if len(cells) == len(names):
            yield number, dict(zip(names, (c.strip().strip('"') for c in cells), strict=True)), line


def decode_steps(member: MemberLike, host_hint: str | None, rank_hint: int | None) -> Decoded:
    """Rows of events `train.step`, with the rank of the column `rank` or of the file's name.

    A Python loop over a table that somebody exported: a few hundred thousand rows at most, bounded by MAX_TABLE bytes.
    """
    decoded = Decoded()
    text = read_text(member, decoded, MAX_TABLE)
    rows: list[dict[str, Any]] = []
    for number, row, line in _csv_rows(text):
        step = _float(row, _STEP)
        if step is None:
            continue
        seconds = _float(row, _S)
        data_s = _float(row, ("data_time", "data_time_s"))
        rank = _float(row, ("rank", "global_rank"))
        stamp = _stamp(row)
        ms = _float(row, _MS)
        data_ms = _float(row, ("data_time_ms",))
        rows.append({
            "file": member.name, "line": number, "offset": 0, "text": line[:4096], "message": line[:400], "event": "train.step", "severity": "info", "source": "trainer",
            "host": row.get("host") or None, "step": int(step), "step_time_ms": ms if ms is not None else seconds * 1000 if seconds is not None else None,
            "data_time_ms": data_ms if data_ms is not None else data_s * 1000 if data_s is not None else None, "loss": _float(row, ("loss", "lm_loss")),
            "rank": int(rank) if rank is not None else rank_hint, "stamp_us": stamp[0] if stamp else None, "stamp_has_year": True if stamp else None,
            "stamp_zone_s": stamp[1] if stamp else None, "stamp_res_us": 1000,
        })
    if rows:
        decoded.tables["events"] = event_frame(rows)
    return decoded
