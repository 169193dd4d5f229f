"""Trace of NCCL's example profiler plug-in -> `qp_samples`, `coll_samples`, `proxy_steps`.

A Chrome trace that is often no JSON: `[`, then one object per line ending in a comma, the closing bracket missing when the
process was killed, some values bare words (NCCL 2.23 to 2.30, plugins/profiler/example/print_event.cc):

    {"name": "Qp", "cat": "NET_IB", "ph": "b", "id": 7, "pid": 79, "tid": 1, "ts": 201.5, "args": {"device": 0, "qp_num": 47, "size": 8}},
    {"name": "Qp", "cat": "NET_IB", "ph": "e", "id": 7, "pid": 79, "tid": 1, "ts": 209.5},

So lines are read, never a document. `ts` are microseconds since the plug-in started: they have no date.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from postmortem.decoders.base import MAX_SAMPLE_EVENTS, MAX_TEXT, Decoded, Format, MemberLike, numbered
from postmortem.decoders.collectives.proxy_steps import WANTED, ProxySteps
from postmortem.lines.blocks import read_blocks
from postmortem.patterns import later

MAX_SAMPLES: Final = 5_000_000
"""Timings kept of one file, about 700 MB while it is read; the rest is counted in a note."""

MAX_OPEN: Final = 1_000_000
"""Begins without an end that are carried on to the next block."""

_CATEGORIES: Final = rb"GROUP|GROUP_API|KERNEL_LAUNCH|COLL|COLL_API|P2P|P2P_API|PROXY|PROXY_STEP|NET|NET_IB|NET_SOCK|GPU|CE_COLL|CE_SYNC|CE_BATCH"
_HEAD: Final = later(
    rb'\s*(?:\[\s*)?\{\s*"name"\s*:\s*"[^"]{1,80}"\s*,\s*"cat"\s*:\s*"(?:'
    + _CATEGORIES
    + rb')"\s*,\s*"ph"\s*:\s*"[a-zA-Z]"'
)
_KEYS: Final = ("pid", "tid", "cat", "id")
_RANK_IN_NAME: Final = later(r"_([0-9]{5,20})_([0-9]{1,7})\.(?:json|txt)(?:\.(?:gz|zst|xz))?$")


def looks_like_trace(head: bytes) -> bool:
    """The first object of the file is an event of the plug-in, by name, category and phase."""
    return _HEAD.match(head) is not None


@dataclass(slots=True)
class _Trace:
    """What is known so far: finished samples, and begins that wait for their end."""

    qp: list[pl.DataFrame] = field(default_factory=list)
    coll: list[pl.DataFrame] = field(default_factory=list)
    open_qp: pl.DataFrame | None = None
    open_coll: pl.DataFrame | None = None
    kept: int = 0
    dropped: int = 0


def decode_trace(member: MemberLike, host_hint: str | None, rank_hint: int | None) -> Decoded:
    """Rows of `qp_samples` (a `Qp` begin with its end), `coll_samples` (a collective with nested network or kernel events) and `proxy_steps`.

    `dev` is the device's index as printed. `rank` is that of the file's name, if it has one. A collective without nested
    events is its enqueue, not the transfer (nccl issue 1765): its `elapsed_us` is null. Small traces also give events.
    """
    decoded = Decoded()
    trace, steps = _Trace(), ProxySteps()
    for block in read_blocks(member.stream):
        decoded.count(block)
        lines = numbered(block)
        _take_qp(trace, _fields(lines.filter(pl.col("t").str.contains('"Qp"', literal=True))))
        _take_collectives(trace, lines.filter(pl.col("t").str.contains(r'"cat"\s*:\s*"(?:COLL|PROXY|GPU)"')))
        steps.take(_step_fields(lines.filter(pl.col("t").str.contains(WANTED))))
    if trace.open_coll is not None:
        trace.coll.append(_collectives(trace.open_coll))
    if trace.dropped:
        decoded.notes.append(f"only the first {trace.kept} timings of queue pairs were kept, {trace.dropped} were not")
    named = _RANK_IN_NAME.search(member.name)
    rank = rank_hint if rank_hint is not None else int(named[2]) if named else None
    _put_qp(decoded, trace, member.name, host_hint, rank)
    _put_collectives(decoded, trace, member.name, host_hint)
    sends = steps.table(member.name, host_hint)
    if sends is not None:
        decoded.tables["proxy_steps"] = sends
    return decoded


def _number(key: str, kind: type[pl.DataType] = pl.Int64) -> pl.Expr:
    """The number after `key`; null where there is none, where it is no number, or does not fit."""
    return pl.col("t").str.extract(rf'"{key}"\s*:\s*"?(-?[0-9.]+)').cast(kind, strict=False).alias(key)


def _word(key: str) -> pl.Expr:
    return pl.col("t").str.extract(rf'"{key}"\s*:\s*"([^"]*)"').alias(key)


def _fields(lines: pl.DataFrame) -> pl.DataFrame:
    """What every event has, in columns; lines without phase, process or time are left out."""
    rows = lines.with_columns(_word("ph"), _word("cat"), *map(_number, ("id", "pid", "tid")), _number("ts", pl.Float64))
    return rows.filter(pl.col("ph").is_in(["b", "e"]) & pl.col("ts").is_finite() & pl.col("pid").is_not_null())


def _step_fields(lines: pl.DataFrame) -> pl.DataFrame:
    """The columns that `ProxySteps` takes."""
    return _fields(lines).select(
        "pid",
        "id",
        "line",
        "ph",
        "ts",
        _word("name").alias("op"),
        *map(_number, ("Channel", "Peer", "ChunkSize", "Rank")),
    )


# ---- queue pairs -----------------------------------------------------------------------------------------------------


def _take_qp(trace: _Trace, rows: pl.DataFrame) -> None:
    """Join the begins of this block, and those still open, with the ends that follow them."""
    if not rows.height:
        return
    rows = rows.select(
        *_KEYS, "line", "ph", "ts", *map(_number, ("device", "qp_num", "opcode", "size")),
        pl.col("t").str.slice(0, MAX_TEXT),
    )  # fmt: skip
    if trace.open_qp is not None:
        rows = pl.concat([trace.open_qp, rows])
    rows = rows.sort(*_KEYS, "line").with_columns(
        pl.col("ph").shift(-1).over(_KEYS).alias("next"), pl.col("ts").shift(-1).over(_KEYS).alias("end")
    )
    begins = rows.filter(pl.col("ph") == "b")
    trace.open_qp = begins.filter(pl.col("next").is_null()).drop("next", "end").tail(MAX_OPEN)
    done = begins.filter((pl.col("next") == "e") & (pl.col("end") >= pl.col("ts")) & pl.col("qp_num").is_not_null())
    room = MAX_SAMPLES - trace.kept
    trace.dropped += max(0, done.height - room)
    done = done.sort("line").head(room)
    # The text is kept for as long as the trace is small enough to give events.
    if trace.kept + done.height > MAX_SAMPLE_EVENTS:
        done = done.with_columns(t=pl.lit(None, dtype=pl.String))
    trace.kept += done.height
    trace.qp.append(done)


def _put_qp(decoded: Decoded, trace: _Trace, file: str, host: str | None, rank: int | None) -> None:
    if not trace.kept:
        return
    rows = pl.concat(trace.qp).sort("line")
    decoded.tables["qp_samples"] = rows.select(
        pl.col("ts").alias("t_us"),
        pl.lit(host, dtype=pl.String).alias("host"),
        "pid",
        pl.lit(rank, dtype=pl.Int64).alias("rank"),
        pl.col("device").cast(pl.String).alias("dev"),
        pl.col("qp_num").alias("qpn"),
        "size",
        (pl.col("end") - pl.col("ts")).alias("latency_us"),
        pl.lit(file).alias("file"),
        "line",
    )
    if rows.height <= MAX_SAMPLE_EVENTS:
        _add_events(
            decoded,
            rows.select(
                *_event_columns("qp.sample", file, host),
                "pid",
                pl.lit(rank, dtype=pl.Int64).alias("rank"),
                pl.col("device").cast(pl.String).alias("dev"),
                pl.col("qp_num").alias("qpn"),
                "opcode",
                ((pl.col("end") - pl.col("ts")) / 1000).alias("elapsed_ms"),
            ),
        )


# ---- collectives -----------------------------------------------------------------------------------------------------


def _take_collectives(trace: _Trace, lines: pl.DataFrame) -> None:
    """Collectives that ended before the last one of their process began; the last waits for the next block.

    The plug-in prints a finished tree: a collective's begin, all that is nested in it, its end, then the next one.
    """
    rows = _fields(lines).select(
        *_KEYS, "line", "ph", "ts", _word("name").alias("op"), _number("SeqNum"), _number("CommHash", pl.UInt64), _number("Rank"),
        _number("Count"), _number("StartGpuClk"),
        pl.when(pl.col("cat") == "COLL").then(pl.col("t").str.slice(0, MAX_TEXT)).alias("t"),
    )  # fmt: skip
    if trace.open_coll is not None:
        rows = pl.concat([trace.open_coll, rows])
    if not rows.height:
        return
    opens = (pl.col("cat") == "COLL") & (pl.col("ph") == "b")
    rows = rows.with_columns(opens.cast(pl.Int64).cum_sum().over("pid").alias("tree"))
    is_last = pl.col("tree") == pl.col("tree").max().over("pid")
    trace.open_coll = rows.filter(is_last).drop("tree").head(MAX_OPEN)
    done = _collectives(rows.filter(~is_last).drop("tree"))
    room = MAX_SAMPLES - sum(part.height for part in trace.coll)
    trace.coll.append(done.head(room))


def _collectives(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per collective begin that ended: times, arguments, whether anything was nested, the kernel's clock."""
    opens = (pl.col("cat") == "COLL") & (pl.col("ph") == "b")
    first = pl.all().filter(opens).first()
    rows = rows.with_columns(opens.cast(pl.Int64).cum_sum().over("pid").alias("tree")).filter(pl.col("tree") > 0)
    ends = (pl.col("cat") == "COLL") & (pl.col("ph") == "e") & (pl.col("id") == pl.col("id").filter(opens).first())
    # After a collective's end there may be the transfers of a send or receive before the next collective begins.
    nested, is_within = pl.col("cat").is_in(["PROXY", "GPU"]), pl.col("line") < pl.col("line").filter(ends).first()
    return (
        rows.group_by("pid", "tree", maintain_order=True)
        .agg(
            first,
            pl.col("ts").filter(ends).first().alias("end"),
            (nested & is_within).any().alias("is_nested"),
            pl.col("StartGpuClk").filter((pl.col("StartGpuClk") > 0) & is_within).min().alias("gpu_ns"),
        )
        .drop("tree", "StartGpuClk")
        .filter(pl.col("end") >= pl.col("ts"))
    )


def _put_collectives(decoded: Decoded, trace: _Trace, file: str, host: str | None) -> None:
    rows = pl.concat(trace.coll).sort("line") if trace.coll else None
    if rows is None or not rows.height:
        return
    # %globaltimer of a GPU reads as epoch nanoseconds; anything outside 2015 to 2100 is some other clock.
    dated = pl.col("gpu_ns").is_between(1_420_070_400 * 10**9, 4_102_444_800 * 10**9)
    hashes = rows["CommHash"].unique().drop_nulls().to_list()
    names = pl.DataFrame(
        {"CommHash": hashes, "comm_hash": [f"{h:#x}" for h in hashes]},
        schema={"CommHash": pl.UInt64, "comm_hash": pl.String},
    )
    rows = rows.join(names, on="CommHash", how="left", maintain_order="left").with_columns(
        pl.when("is_nested").then(pl.col("end") - pl.col("ts")).alias("elapsed_us"),
        pl.col("op").str.to_lowercase().str.replace_all("[^a-z]", "").alias("op"),
        pl.when(dated).then((pl.col("gpu_ns") // 1000).cast(pl.Datetime("us"))).alias("began"),
    )
    decoded.tables["coll_samples"] = rows.select(
        pl.col("began").alias("ts"),
        pl.lit(host, dtype=pl.String).alias("host"),
        "pid",
        pl.col("Rank").alias("rank"),
        "comm_hash",
        "op",
        pl.col("SeqNum").alias("seq"),
        "elapsed_us",
        pl.lit(file).alias("file"),
        "line",
    )
    if rows.height <= MAX_SAMPLE_EVENTS:
        _add_events(
            decoded,
            rows.select(
                *_event_columns("coll.sample", file, host),
                "pid",
                pl.col("Rank").alias("rank"),
                "comm_hash",
                "op",
                pl.col("SeqNum").alias("seq"),
                pl.col("Count").alias("numel"),
                (pl.col("elapsed_us") / 1000).alias("elapsed_ms"),
            ),
        )


def _event_columns(event: str, file: str, host: str | None) -> list[pl.Expr]:
    return [
        pl.lit(file).alias("file"),
        pl.col("line"),
        pl.lit(0, dtype=pl.Int64).alias("offset"),
        pl.col("t").alias("text"),
        pl.col("t").alias("message"),
        pl.lit(host, dtype=pl.String).alias("host"),
        pl.lit("profiler").alias("source"),
        pl.lit(event).alias("event"),
        pl.lit("debug").alias("severity"),
    ]


def _add_events(decoded: Decoded, rows: pl.DataFrame) -> None:
    known = decoded.tables.get("events")
    decoded.tables["events"] = rows if known is None else pl.concat([known, rows], how="diagonal_relaxed")


FORMATS: Final = (
    Format(
        "nccl_profiler",
        "trace of the example profiler plug-in: timings of queue pairs, proxy steps and collectives",
        "NCCL 2.23 to 2.30",
        "NVIDIA/nccl plugins/profiler/example/print_event.cc",
        lambda head: looks_like_trace(head.raw),
        lambda member, hints: decode_trace(member, hints.host, hints.rank),
    ),
)
