"""Sends of NCCL's proxy threads in a trace of the example profiler plug-in -> `proxy_steps`.

    {"name": "ProgressSend", "cat": "PROXY", "ph": "b", …, "args": {"Channel": 0, "Peer": 2, "Steps": 14, "ChunkSize": 32768, …}},
    {"name": "SendWait", "cat": "NET", "ph": "b", "id": 14, …, "ts": 769594.6, "args": {"Step": 0}},
    {"name": "SendWait", "cat": "NET", "ph": "e", "id": 14, …, "ts": 769618.9},

(a line each; NVIDIA/nccl plugins/profiler/example/print_event.cc). A step names neither peer nor channel: they are those of the operation printed
last before it, and the rank is that of the collective, send or receive around it. SendWait is the time that a send was on the wire, which a
stock build of NCCL prints while it prints no queue pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

MAX_STEPS: Final = 5_000_000
MAX_OPEN: Final = 100_000
WANTED: Final = r'"SendWait"|"cat"\s*:\s*"(?:PROXY|COLL|P2P)"'
_AROUND: Final = ("Channel", "Peer", "ChunkSize", "Rank")


@dataclass(slots=True)
class ProxySteps:
    """What is known so far: finished sends; begins that wait for their end, and what was printed last of each process."""

    done: list[pl.DataFrame] = field(default_factory=list)
    carried: pl.DataFrame | None = None
    kept: int = 0

    def take(self, rows: pl.DataFrame) -> None:
        """`rows`: pid, id, line, ph, ts, op, Channel, Peer, ChunkSize, Rank of the lines of a block that `WANTED` picks."""
        rows = rows.filter((pl.col("ph") == "b") | (pl.col("op") == "SendWait"))
        if self.carried is not None:
            rows = pl.concat([self.carried, rows])
        if not rows.height:
            return
        rows = rows.sort("line").with_columns(pl.col(c).forward_fill().over("pid") for c in _AROUND)
        sends = rows.filter(pl.col("op") == "SendWait").sort("pid", "id", "line")
        sends = sends.with_columns(
            pl.col("ph").shift(-1).over("pid", "id").alias("next"),
            pl.col("ts").shift(-1).over("pid", "id").alias("end"),
        ).filter(pl.col("ph") == "b")
        whole = sends.filter(
            (pl.col("next") == "e")
            & (pl.col("end") >= pl.col("ts"))
            & pl.col("Peer").is_not_null()
            & pl.col("Channel").is_not_null()
        ).head(MAX_STEPS - self.kept)
        self.kept += whole.height
        self.done.append(whole)
        still = sends.filter(pl.col("next").is_null()).drop("next", "end").tail(MAX_OPEN)
        last = rows.group_by("pid", maintain_order=True).last().select(rows.columns).with_columns(op=pl.lit("around"))
        self.carried = pl.concat([last, still])

    def table(self, file: str, host: str | None) -> pl.DataFrame | None:
        """Rows of `proxy_steps`; None without any."""
        if not self.kept:
            return None
        return (
            pl.concat(self.done)
            .sort("line")
            .select(
                pl.col("ts").alias("t_us"),
                pl.lit(host, dtype=pl.String).alias("host"),
                "pid",
                pl.col("Rank").alias("rank"),
                pl.col("Peer").alias("peer_rank"),
                pl.col("Channel").alias("channel"),
                pl.col("ChunkSize").alias("size"),
                (pl.col("end") - pl.col("ts")).alias("wait_us"),
                pl.lit(file).alias("file"),
                "line",
            )
        )
