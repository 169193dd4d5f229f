"""What parsing costs per GB on a cluster, and how far one DuckDB carries: rows of up to 16,384 ranks.

    python benchmarks/cluster.py [--nodes 16] [--mb 8] [--sizes 128,512,2048] [--no-store]

A bundle of `--nodes` torchrun logs (8 ranks each) is made from a sample: names of hosts and ranks are replaced in every copy, and each
node has `--mb` of NCCL's lines of collective calls, which large logs mostly consist of, in a file beside it or among its lines. It is parsed in this process, by a Dask scheduler with two workers that the benchmark starts, and by the same workers from an S3 server of
this machine (moto, when installed) with the spool there too. Then bundles of `--sizes` nodes, not filled up, are parsed and analysed by DuckDB, each in
a process of its own. Printed are wall and CPU seconds: on a busy machine only the CPU seconds count. The S3 server's own CPU time is
not among them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

TOP: Final = Path(__file__).resolve().parent.parent
SAMPLE: Final = TOP / "sample_logs" / "link-flap" / "bundle" / "torchrun-node-07.log"
RANKS: Final = 8
FIRST_RANK: Final = 16
"""Rank of the first process of the sample's node."""


def calls(node: int, count: int) -> str:
    """`count` lines of collective calls of one node, as NCCL 2.22 prints them with NCCL_DEBUG_SUBSYS=COLL."""
    return "".join(
        f"[default{n % RANKS}]:node-{node:05d}:{4060 + n % RANKS}:{4060 + n % RANKS} [{n % RANKS}] NCCL INFO AllReduce: opCount {n // RANKS:x}"
        f" sendbuff 0x7f{n * 512:010x} recvbuff 0x7f{n * 512:010x} count {1024 << n % 12} datatype 9 op 0 root 0 comm 0x55d0a1b2{n % RANKS:04x}"
        f" [nranks=32] stream 0x55d0c3d4e{n % RANKS:03x}\n"
        for n in range(count)
    )


def make(folder: Path, nodes: int, mb: float = 0, is_mixed: bool = False) -> int:
    """Logs of `nodes` nodes with `mb` of calls for each, in its log or in a file beside it; their bytes in all."""
    folder.mkdir(parents=True)
    text = SAMPLE.read_text(encoding="utf-8")
    total = 0
    for node in range(nodes):
        shift = node * RANKS - FIRST_RANK

        def moved(match: re.Match[str], shift: int = shift) -> str:
            return f"{match[1]}{int(match[2]) + shift}"

        own = re.sub(r"(\b[Rr]ank ?)([0-9]+)", moved, text).replace("node-07", f"node-{node:05d}")
        filling = calls(node, int(mb * 1e6 / 204))
        if is_mixed:
            own = own.replace("W0611 09:41:29", f"{filling}W0611 09:41:29", 1)
        elif filling:
            total += (folder / f"nccl-node-{node:05d}.log").write_bytes(filling.encode())
        total += (folder / f"torchrun-node-{node:05d}.log").write_bytes(own.encode())
    return total


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def parsed(bundle: Path | str, where: Any, folder: Path) -> tuple[float, float, Any, list[Any]]:
    """(wall s, CPU s of this process, plan, problems) of parsing `bundle` into Parquet files below `folder`."""
    from postmortem.bundle import plan
    from postmortem.tables.parse import parse

    folder.mkdir(parents=True)
    begin, used = time.monotonic(), cpu_s()
    todo = plan([bundle])
    problems = list(todo.problems)
    with where.open_spool(folder) as spool, closing(parse(todo, [bundle], folder, spool, (), where)) as results:
        for _, result in results:
            problems += result.problems
    return time.monotonic() - begin, cpu_s() - used, todo, problems


@contextmanager
def workers(folder: Path) -> Iterator[Path]:
    """A Dask scheduler and two workers of one thread; yields the scheduler's file."""
    from distributed import Client

    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", str(file)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    running = [subprocess.Popen([*command, "--no-dashboard", "--host", "127.0.0.1"], **quiet)]  # type: ignore[call-overload]
    try:
        while not file.exists():
            time.sleep(0.1)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file)]
        command += ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        running += [subprocess.Popen(command, env=environment, **quiet) for _ in range(2)]  # type: ignore[call-overload]
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2)
        yield file
    finally:
        for process in running:
            process.kill()
            process.wait()


def workers_cpu_s(file: Path) -> float:
    """CPU seconds of the workers together."""
    from distributed import Client

    with Client(scheduler_file=str(file), set_as_default=False) as client:
        return sum(client.run(cpu_s).values())


@contextmanager
def store() -> Iterator[Any]:
    """An S3 server of this machine in a process of its own, with the bucket `logs`; others find it by the environment."""
    import fsspec

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        AWS_ACCESS_KEY_ID="testing",
        AWS_SECRET_ACCESS_KEY="testing",
        AWS_DEFAULT_REGION="us-east-1",
    )
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        fs = fsspec.filesystem("s3")
        fs.mkdir("logs")
        yield fs
    finally:
        server.kill()
        server.wait()


def row(name: str, size: int, wall: float, here: float, there: float) -> None:
    """One line of the first table; `here` and `there` are CPU seconds of the driver and of the workers."""
    rate = size / 1e6 / (there or here)
    print(f"| {name} | {size / 1e6:.0f} | {wall:.1f} | {here:.1f} | {there:.1f} | {rate:.1f} |", flush=True)


def rates(work: Path, nodes: int, mb: float, with_store: bool) -> None:
    """Print the cost of parsing by each way."""
    from postmortem.tables.parse import Where

    bundle = work / "bundle"
    size = make(bundle, nodes, mb)
    print(
        "| way | MB | wall s | CPU s, driver | CPU s, workers | MB per CPU second |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    (work / "one").mkdir()
    make(work / "warm", 1)
    parsed(work / "warm", Where(workers=1), work / "warm-rows")  # compiles the catalogue
    wall, here, *_ = parsed(bundle, Where(workers=1), work / "rows-1")
    row("this process", size, wall, here, 0)
    few = make(work / "mixed", max(1, nodes // 4), mb, is_mixed=True)
    wall, here, *_ = parsed(work / "mixed", Where(workers=1), work / "rows-2")
    row("this process, calls among other lines", few, wall, here, 0)

    def on_cluster(name: str, source: Path | str, spool: str) -> None:
        scheduler = str(file)
        warm = str(source).replace("bundle", "warm") if isinstance(source, str) else work / "warm"
        for n in range(4):  # the catalogue once per worker, whichever gets the batch
            parsed(warm, Where(scheduler=scheduler, spool=spool), work / f"{name}-warm-{n}")
        before = workers_cpu_s(file)
        wall, here, _, problems = parsed(source, Where(scheduler=scheduler, spool=spool), work / name)
        assert not problems, problems[:3]
        row(name, size, wall, here, workers_cpu_s(file) - before)

    if not with_store:
        with workers(work) as file:
            on_cluster("two Dask workers, shared folder", bundle, str(work / "shared"))
        return
    with store() as fs:
        fs.put(str(bundle), "logs/bundle", recursive=True)
        fs.put(str(work / "warm"), "logs/warm", recursive=True)
        with workers(work) as file:
            on_cluster("two Dask workers, shared folder", bundle, str(work / "shared"))
            on_cluster("two Dask workers, S3", "s3://logs/bundle", "s3://logs/spool")


def one(nodes: int, work: Path) -> None:
    """Parse and analyse a bundle of `nodes` nodes; print one row of the second table."""
    from postmortem.analysis.run import analyse
    from postmortem.tables.parse import Where
    from postmortem.tables.settle import settle
    from postmortem.tables.store import connect

    make(work / "bundle", nodes)
    _, used, *_ = parsed(work / "bundle", Where(workers=1), work / "spool")
    spool = sum(p.stat().st_size for p in (work / "spool").rglob("*.parquet"))
    con = connect(None, work)
    marks = [(time.monotonic(), cpu_s(), peak_gb())]
    settle(con, work / "spool", [])
    marks.append((time.monotonic(), cpu_s(), peak_gb()))
    analyse(con, "bundle", None)
    marks.append((time.monotonic(), cpu_s(), peak_gb()))
    (rows,) = con.execute("SELECT count(*) FROM events").fetchone() or (0,)
    settled, analysed = ((b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(marks))
    print(
        f"| {nodes * RANKS:,} | {rows:,} | {spool / 1e6:.1f} | {used:.0f} | {settled[0]:.0f} ({settled[1]:.0f}) |"
        f" {analysed[0]:.0f} ({analysed[1]:.0f}) | {', '.join(f'{peak:.1f}' for _, _, peak in marks)} |",
        flush=True,
    )


def peak_gb() -> float:
    """Most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--mb", type=float, default=8)
    parser.add_argument("--sizes", default="128,512,2048")
    parser.add_argument("--no-store", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="postmortem-cluster-"))
    try:
        if asked.one:
            one(asked.one, work)
            return
        print(json.dumps({"processors": os.cpu_count(), "load": os.getloadavg()[0]}))
        if asked.nodes:
            rates(work, asked.nodes, asked.mb, not asked.no_store)
        print(
            "\n| ranks | events | spool MB | parse, CPU s | settle, wall (CPU) s | analyse, wall (CPU) s | peak GB after each |"
        )
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
        for nodes in asked.sizes.split(",") if asked.sizes else ():
            subprocess.run([sys.executable, __file__, "--one", nodes], check=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
