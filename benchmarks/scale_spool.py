"""The Parquet spool of a seeded incident of any size, as parsing would have left it; used by scale.py.

Every rank prints its set-up, a line per step and how it aborts; every host has a launcher and a kernel log; leaf switches have ports that flap
and a cable list. One NIC's link goes down after the last step and takes the job with it.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import polars as pl

from postmortem.catalogue.matcher import ROW_SCHEMA
from postmortem.tables.ingest import FILE_SCHEMA

PER_HOST: Final = 8
PORTS: Final = 32
"""Hosts below one leaf switch; each host has eight NICs, one per rail, so a group of hosts has eight leaves."""
BEGIN_US: Final = int(datetime(2026, 3, 4, 10).timestamp()) * 1_000_000
STEP_US: Final = 10_000_000
SCHEMA: Final[dict[str, Any]] = {**ROW_SCHEMA, "from_neighbour": pl.Boolean}
FIXED: Final = {
    "sub": 0,
    "is_fact": False,
    "definition": 1,
    "needs_parts": False,
    "within": 20,
    "from_neighbour": False,
}


class Spool:
    """Parquet files as parsing leaves them, a few hundred thousand rows each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = self._number = 0
        self._held: list[pl.DataFrame] = []

    def rows(self, frame: pl.DataFrame, **constant: object) -> None:
        """Rows of events: columns of the frame and constants; `us` is the time after the start, `msg` the line."""
        fixed = {**FIXED, "stamp_has_year": True, "stamp_zone_s": 0, "stamp_res_us": 1000, "headers": "|", **constant}
        out = frame.with_columns(
            stamp_us=pl.col("us").cast(pl.Int64) + BEGIN_US,
            message=pl.col("msg"),
            text=pl.col("msg"),
            offset=pl.col("line") * 100,
        ).drop("us", "msg")
        out = out.with_columns(pl.lit(value).alias(name) for name, value in fixed.items() if name not in out.columns)
        missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in SCHEMA.items() if name not in out.columns]
        self._held.append(out.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()))
        self.events += frame.height

    def flush(self) -> None:
        """Write the rows since the last call in the order of their files, as a unit of work does."""
        self.table("events", pl.concat(self._held).sort("file", "line", "sub"))
        self._held.clear()

    def table(self, kind: str, frame: pl.DataFrame) -> None:
        """Rows of a table that decoders fill, of `files` or of `events`."""
        (self.folder / kind).mkdir(exist_ok=True)
        for part in frame.iter_slices(250_000):
            self._number += 1
            part.write_parquet(self.folder / kind / f"{self._number:05}.parquet")


def _per_rank(ranks: int) -> pl.DataFrame:
    """One row per rank: its host, process and file."""
    rank = pl.int_range(0, ranks, eager=True).alias("rank")
    return (
        pl.DataFrame([rank])
        .with_columns(
            number=pl.col("rank") // PER_HOST,
            local_rank=pl.col("rank") % PER_HOST,
            pid=4000 + pl.col("rank") % PER_HOST * 7,
        )
        .with_columns(
            host=pl.format("node-{}", pl.col("number").cast(pl.String).str.zfill(4)),
            file=pl.format("ranks/rank_{}.log", pl.col("rank").cast(pl.String).str.zfill(5)),
            pci=pl.format(
                "0000:{}:00.0",
                (pl.col("local_rank") * 16 + 0x1B).map_elements(lambda n: f"{n:02x}", return_dtype=pl.String),
            ),
        )
    )


def _setup(spool: Spool, ranks: pl.DataFrame, world: int) -> None:
    """What NCCL prints when it starts: version, settings, networks, HCAs, the communicator."""
    nccl = ranks.select("rank", "host", "pid", "file", "pci", "number", gpu="local_rank")
    plain = nccl.drop("rank", "pci", "number")
    place = pl.format("{}:{}:{} [{}] NCCL INFO ", "host", "pid", "pid", "gpu")
    for line, event, msg, more in (
        (1, "nccl.version", "NCCL version 2.26.2+cuda12.4", {"value": "2.26.2+cuda12.4"}),
        (2, "nccl.env", "NCCL_IB_TIMEOUT set by environment to 22.", {"code": "NCCL_IB_TIMEOUT", "value": "22"}),
    ):
        spool.rows(
            plain.with_columns(line=line, us=pl.lit(0), msg=place + pl.lit(msg)),
            source="nccl",
            event=event,
            severity="info",
            **more,
        )
    address = pl.format("10.{}.{}.3", pl.col("number") // 250, pl.col("number") % 250)
    spool.rows(
        nccl.with_columns(line=3, us=pl.lit(0), value=address, local_addr=address, msg=place + pl.format("Bootstrap: Using eth0:{}<0>", address)).drop("rank", "pci", "number"),
        source="nccl", event="nccl.net", severity="info", ifname="eth0",
    )  # fmt: skip
    hcas = " ".join(f"[{n}]mlx5_{n}:1/RoCE" for n in range(PER_HOST))
    for n in range(PER_HOST):
        spool.rows(
            plain.with_columns(line=4, us=pl.lit(0), msg=place + pl.lit(f"NET/IB : Using {hcas} [RO]; OOB eth0")),
            source="nccl",
            event="nccl.ib_device",
            severity="info",
            dev=f"mlx5_{n}",
            port="1",
            value="RoCE",
            sub=n,
        )
    spool.rows(
        nccl.drop("number").with_columns(line=5, us=pl.lit(1_000_000), msg=place + pl.format(f"ncclCommInitRankConfig comm 0x55d0 rank {{}} nranks {world} cudaDev {{}} nvmlDev {{}} busId 1b000 commId 0x5f1d - Init COMPLETE", "rank", "gpu", "gpu")),
        source="nccl", event="nccl.init_done", severity="info", nranks=world, comm="0x55d0", comm_hash="0x5f1d", value="0x5f1d",
    )  # fmt: skip


def _steps(spool: Spool, ranks: pl.DataFrame, steps: int) -> None:
    """A step line of every rank, in its own file."""
    step = pl.DataFrame([pl.int_range(1, steps + 1, eager=True).alias("step")])
    rows = ranks.select("rank", "file", "host").join(step, how="cross").with_columns(line=pl.col("step") + 5)
    rows = rows.with_columns(step_time_ms=10_000 + (pl.col("rank") * 7919 + pl.col("step") * 104_729) % 400 / 10.0)
    rows = rows.with_columns(us=pl.col("step") * STEP_US + pl.col("rank") % 1000, loss=8.0 - pl.col("step") / steps)
    text = "iteration {}/ 50000 | elapsed time per iteration (ms): {} | lm loss: {} |"
    rows = rows.with_columns(msg=pl.format(text, "step", "step_time_ms", "loss"))
    spool.rows(rows, source="trainer", event="train.step", severity="info", total_steps=50_000)


def _abort(spool: Spool, ranks: pl.DataFrame, steps: int, dead: int, world: int) -> None:
    """How the ranks end: connections to the host `dead` fail, all time out and abort, launchers report every process."""
    at = (steps + 1) * STEP_US
    line = steps + 10
    own = ranks.select("rank", "host", "file", "pid")
    broken = own.filter(pl.col("rank") // PER_HOST == dead + 1)
    spool.rows(
        broken.drop("rank").with_columns(line=line, us=at + 60_000_000, msg=pl.lit("transport/net_ib.cc:1695 NCCL WARN NET/IB : Got completion from peer 10.0.0.3<58626> with status=12 opcode=0 len=0 vendor err 129 (Send)")),
        source="nccl", event="nccl.ib_completion_error", severity="error", status="12", peer=f"10.{dead // 250}.{dead % 250}.3", dev="mlx5_3",
    )  # fmt: skip
    late = at + 600_000_000 + pl.col("rank") % 997 * 1000
    text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=53510, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600016 milliseconds before timing out."
    spool.rows(
        own.with_columns(line=line + 1, us=late, msg=pl.lit(text)),
        source="torch",
        event="torch.watchdog_timeout",
        severity="error",
        seq=53510,
        op="allreduce",
        numel=1,
        elapsed_ms=600_016.0,
        timeout_ms=600_000.0,
    )
    spool.rows(
        own.with_columns(
            line=line + 2,
            us=late + 2000,
            msg=pl.lit(
                "failure detected by watchdog at work sequence id: 53510 PG status: last enqueued work: 53513, last completed work: 53509"
            ),
        ),
        source="torch",
        event="torch.watchdog_error",
        severity="error",
        seq=53510,
        pg="0",
        last_enqueued=53513,
        last_completed=53509,
    )
    spool.rows(
        own.with_columns(line=line + 3, us=late + 5000, msg=pl.lit("comm 0x55d0 - Abort COMPLETE")),
        source="nccl",
        event="nccl.abort",
        severity="error",
        comm="0x55d0",
        nranks=world,
    )
    spool.rows(
        own.with_columns(
            line=line + 4,
            us=late + 7000,
            msg=pl.format(
                "[rank{}]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank {}.",
                "rank",
                "rank",
            ),
        ),
        source="torch",
        event="torch.exception",
        severity="error",
        code="torch.distributed.DistBackendError",
    )
    spool.rows(
        own.with_columns(
            line=line + 5,
            us=late + 9000,
            msg=pl.lit("To avoid data inconsistency, we are taking the entire process down."),
        ),
        source="torch",
        event="torch.abort",
        severity="fatal",
    )
    launcher = ranks.select(
        "rank", "host", "pid", "local_rank", file=pl.format("launchers/{}.log", "host"), line=pl.col("local_rank") + 10
    )
    spool.rows(
        launcher.with_columns(
            us=late + 3_000_000,
            msg=pl.format(
                "failed (exitcode: -6) local_rank: {} (pid: {}) of binary: /usr/bin/python3", "local_rank", "pid"
            ),
        ),
        source="torch",
        event="torch.elastic_failure",
        severity="error",
        exit_code=-6,
        signal=6,
    )
    signals = launcher.with_columns(
        line=pl.col("line") - 9, us=late + 2_000_000, msg=pl.format("Sending process {} closing signal SIGTERM", "pid")
    )
    spool.rows(
        signals.drop("rank", "local_rank"), source="torch", event="process.signal", severity="warning", signal=15
    )


def _fault(spool: Spool, dead: int, steps: int) -> None:
    """The link of a NIC of the host `dead` goes down after the last step, seen at both ends."""
    at = (steps + 1) * STEP_US
    kernel = pl.DataFrame(
        {
            "host": [f"node-{dead:04}"],
            "file": [f"kernel/node-{dead:04}.log"],
            "line": [500],
            "us": [at + 1_000_000],
            "msg": ["mlx5_core 0000:4b:00.0 ens3np0: Link down"],
        }
    )
    spool.rows(kernel, source="kernel", event="link.down", severity="error", pci="0000:4b:00.0", ifname="ens3np0")
    switch = pl.DataFrame(
        {
            "host": [_leaf(dead, 3)],
            "file": [f"switches/{_leaf(dead, 3)}.log"],
            "line": [9000],
            "us": [at + 1_200_000],
            "msg": [f"Port Ethernet{dead % PORTS} oper state set from up to down"],
        }
    )
    spool.rows(switch, source="switch", event="link.down", severity="error", ifname=f"Ethernet{dead % PORTS}")


def _leaf(host: int, rail: int) -> str:
    return f"leaf-{host // PORTS:03}-{rail}"


def _hosts(spool: Spool, hosts: int, steps: int) -> None:
    """A kernel log per host: boot, NIC names, corrected memory errors on some; a port in ten of every switch flaps during the run."""
    number = pl.DataFrame([pl.int_range(0, hosts, eager=True).alias("number")])
    own = number.with_columns(host=pl.format("node-{}", pl.col("number").cast(pl.String).str.zfill(4))).with_columns(
        file=pl.format("kernel/{}.log", "host")
    )
    spool.rows(
        own.drop("number").with_columns(
            line=1, us=pl.lit(-3_600_000_000), msg=pl.lit("Linux version 6.8.0-51-generic")
        ),
        source="kernel",
        event="host.boot",
        severity="info",
    )
    every = pl.DataFrame([pl.int_range(0, 20, eager=True).alias("n")])
    errors = (
        own.filter(pl.col("number") % 20 == 3)
        .join(every, how="cross")
        .with_columns(
            line=pl.col("n") + 10,
            us=pl.col("n") * steps * STEP_US // 20,
            msg=pl.lit("EDAC MC0: 1 CE memory read error on CPU_SrcID#0"),
        )
    )
    spool.rows(errors.drop("number", "n"), source="kernel", event="host.edac", severity="warning")
    rails = pl.DataFrame([pl.int_range(0, PER_HOST, eager=True).alias("rail")])
    cables = (
        own.select("number", "host")
        .join(rails, how="cross")
        .with_columns(
            switch=pl.format("leaf-{}-{}", (pl.col("number") // PORTS).cast(pl.String).str.zfill(3), "rail"),
            port=pl.format("Ethernet{}", pl.col("number") % PORTS),
        )
    )
    listed = cables.select(
        "switch",
        "port",
        "host",
        dev=pl.format("ens{}np0", "rail"),
        basis=pl.lit("lldp"),
        file=pl.lit("lldp.txt"),
        line=pl.int_range(1, pl.len() + 1),
    )
    spool.table("ports", listed)
    flaps = cables.filter((pl.col("number") * 7 + pl.col("rail") * 3) % 10 == 0).with_columns(
        at=(pl.col("number") * 7919 + pl.col("rail") * 104_729) % max(1, steps - 1) * STEP_US
    )
    flaps = flaps.rechunk()  # pl.format of polars 2.1 panics over the chunks of a filtered join
    for line, event, severity, state, after in (
        (100, "link.down", "error", "down", 0),
        (101, "link.up", "info", "up", 4_000_000),
    ):
        spool.rows(
            flaps.select(host="switch", file=pl.format("switches/{}.log", "switch"), ifname="port", line=line + pl.col("number") % PORTS * 2, us=pl.col("at") + after, msg=pl.format(f"Port {{}} oper state set to {state}", "port")),
            source="switch", event=event, severity=severity,
        )  # fmt: skip
        spool.rows(
            flaps.select("host", file=pl.format("kernel/{}.log", "host"), ifname=pl.format("ens{}np0", "rail"), line=line + pl.col("rail") * 2, us=pl.col("at") + after + 300_000, msg=pl.format(f"mlx5_core ens{{}}np0: Link {state}", "rail")),
            source="kernel", event=event, severity=severity,
        )  # fmt: skip


def generate(folder: Path, ranks: int, events: int) -> int:
    """Write the spool of an incident of `ranks` ranks with about `events` events; how many it has."""
    folder.mkdir(parents=True, exist_ok=True)
    spool = Spool(folder)
    table = _per_rank(ranks)
    hosts = ranks // PER_HOST
    steps = max(20, (events - 21 * ranks) // ranks)
    dead = hosts // 2
    for part in table.iter_slices(512):
        _setup(spool, part, ranks)
        _steps(spool, part, steps)
        _abort(spool, part, steps, dead, ranks)
        spool.flush()
    _fault(spool, dead, steps)
    _hosts(spool, hosts, steps)
    spool.flush()
    names = [
        *table["file"],
        *(f"launchers/node-{n:04}.log" for n in range(hosts)),
        *(f"kernel/node-{n:04}.log" for n in range(hosts)),
        "lldp.txt",
    ]
    names += sorted({f"switches/{_leaf(n, rail)}.log" for n in range(hosts) for rail in range(PER_HOST)})
    files = pl.DataFrame({"file": names}).with_columns(
        kind=pl.lit("text"), bytes=pl.lit(50_000, dtype=pl.Int64), lines=pl.lit(500, dtype=pl.Int64), odd=pl.lit(0, dtype=pl.Int64), mtime=pl.lit(1.77e9),
        host=pl.col("file").str.extract(r"^(?:kernel|launchers)/(.*)\.log$"), rank=pl.col("file").str.extract(r"^ranks/rank_0*([0-9]+)\.log$").cast(pl.Int64), note=pl.lit(None, dtype=pl.String),
    ).with_columns(host_basis=pl.when(pl.col("host").is_not_null()).then(pl.lit("name")))  # fmt: skip
    spool.table("files", files.select(pl.col(n).cast(k) for n, k in FILE_SCHEMA.items()))
    return spool.events
