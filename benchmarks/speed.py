"""Speed against rg and other peers, as ratios of runs that take turns: `python benchmarks/speed.py --corpus make_corpus.py [--size 1G]`.

The corpus is written by the generator given (`--corpus`, `--anchors`); peers that are not installed are left out. Every row is the
median of `--runs` turns. Absolute times of a shared machine mean little; processor time and ratios within one run do. Linux only: the
processor time and memory of worker processes are read from /proc.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

IMPORTS = "import click, polars, duckdb, jinja2"
LOOP = """
import re, sys
from pathlib import Path
anchors = [a for a in Path(sys.argv[2]).read_text().split("\\n") if a]
call = re.compile(r"^([A-Za-z]+): opCount ([0-9a-f]+) sendbuff [^ ]+ recvbuff [^ ]+ count ([0-9]+) datatype")
found = 0
for path in sorted(Path(sys.argv[1]).rglob("*.*")):
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if any(a in line for a in anchors):
                found += 1
            at = line.find("NCCL INFO ")
            if at >= 0 and call.match(line[at + 10:]):
                found += 1
print(found)
"""

SEARCHKIT = r"""
import sys
from searchkit import FileSearcher, SearchDef
search = FileSearcher(max_parallel_tasks=int(sys.argv[2]))
for pattern in (
    r".* NCCL INFO ([A-Za-z]+): opCount ([0-9a-f]+) sendbuff \S+ recvbuff \S+ count ([0-9]+) datatype",
    r".*NVRM: Xid \(PCI:([0-9a-f:.]+)\): ([0-9]+)",
):
    search.add(SearchDef(pattern), sys.argv[1] + "/*/*.*")
print(len(search.run()))
"""
"""What the hotsos project searches logs with, with two definitions."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command: seconds of wall, seconds of processor of all its processes, the largest process in MB."""

    wall: float
    cpu: float
    peak: float


def descendants(pid: int) -> list[int]:
    """`pid` and all processes below it that are alive."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def measured(command: Sequence[str], env: dict[str, str] | None = None) -> Run:
    """Run `command` to its end, its output thrown away. Raises CalledProcessError when it fails."""
    # As an installed program has it: its modules are compiled.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | (env or {})
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=settings)
    cpu: dict[int, float] = {}
    peak: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    while True:
        for pid in descendants(child.pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            cpu[pid] = (int(fields[11]) + int(fields[12])) / tick
            high = next((line for line in status.split("\n") if line.startswith("VmHWM")), "0 0")
            peak[pid] = max(peak.get(pid, 0.0), int(high.split()[1]) / 1024)
        if child.poll() is not None:
            break
        time.sleep(0.05)
    wall = time.perf_counter() - begin
    # rg gives 1 when no file has a match.
    if child.returncode not in ((0, 1) if command[0] == "rg" else (0,)):
        raise subprocess.CalledProcessError(child.returncode, command)
    return Run(wall, sum(cpu.values()), max(peak.values(), default=0.0))


def turns(commands: dict[str, Sequence[str]], count: int) -> dict[str, Run]:
    """The median run of each command; they take turns, so that what else the machine does meets all alike."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(count):
        for name, command in commands.items():
            runs[name].append(measured(command))
    middle: Callable[[list[float]], float] = statistics.median
    return {
        name: Run(middle([r.wall for r in done]), middle([r.cpu for r in done]), max(r.peak for r in done))
        for name, done in runs.items()
    }


def parse_only(folder: Path, workers: int, *, counted: bool) -> None:
    """All recognised rows of a folder into Parquet, nothing else: what the table calls `parse`; `counted` reads and prints their numbers after that."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # as postmortem.cli.main does
    from postmortem.bundle import plan
    from postmortem.tables.parse import Where, get_ready, parse

    get_ready([folder], Where(workers))  # as `analyze` does
    with tempfile.TemporaryDirectory() as spool:
        for _ in parse(plan([folder]), [folder], Path(spool), spool, (), Where(workers)):
            pass
        if not counted:
            return
        import polars as pl

        counts: dict[str, int] = {}
        for table, column in (("events", None), ("templates", "times")):
            for path in Path(spool, table).glob("*.parquet"):
                rows = pl.read_parquet(path, columns=["event", *([column] if column else [])])
                some = rows.group_by("event").agg((pl.col(column).sum() if column else pl.len()).alias("n"))
                for event, n in some.iter_rows():
                    counts[event] = counts.get(event, 0) + n
    print(json.dumps(dict(sorted(counts.items()))))


def parse_command(folder: Path, workers: int) -> list[str]:
    """The command line of `parse_only`."""
    return [sys.executable, __file__, "--parse", str(folder), "--workers", str(workers)]


def analyze_command(folder: Path, workers: int, *cache: str) -> list[str]:
    """The whole of it: parse, SQL, report."""
    start = [sys.executable, "-c", "from postmortem.cli import main; main()", "analyze", str(folder)]
    return [*start, "--format", "json", "-q", "--workers", str(workers), *(cache or ("--no-cache",))]


def make(generator: Path, target: Path, size: str, *more: str) -> Path:
    """A corpus of the generator."""
    subprocess.run([sys.executable, generator, target, "--size", size, *more], check=True, stdout=subprocess.DEVNULL)
    return target


def row(name: str, ours: Run, base: str, other: Run, *, inverse: bool = False) -> None:
    """Print one row of the table: seconds of both, and their ratio by wall and by processor time."""
    wall = other.wall / ours.wall if inverse else ours.wall / other.wall
    cpu = other.cpu / max(ours.cpu, 0.01) if inverse else ours.cpu / max(other.cpu, 0.01)
    print(
        f"| {name} | {ours.wall:.2f} | {ours.cpu:.2f} | {base} | {other.wall:.2f} | {other.cpu:.2f} | {wall:.2f} | {cpu:.2f} | {ours.peak:.0f} |",
        flush=True,
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Exponent of the second number against the first, fitted by least squares."""
    xs, ys = [math.log(p[0]) for p in points], [math.log(p[1]) for p in points]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - mean_x) ** 2 for x in xs)


def growth(generator: Path, work: Path, sizes: Sequence[str], runs: int) -> None:
    """Time against size as a fitted exponent, of parse and of the whole."""
    points: list[tuple[float, float, float]] = []
    for size in sizes:
        folder = make(generator, work / f"grow-{size}", size)
        found = turns({"parse": parse_command(folder, 1), "all": analyze_command(folder, 1)}, runs)
        total = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        points.append((total, found["parse"].cpu, found["all"].cpu))
        shutil.rmtree(folder)
    for name, column in (("parse", 1), ("analyze", 2)):
        fitted = slope([(p[0], p[column]) for p in points])
        print(f"processor time of {name} grows with size to the power {fitted:.2f} ({', '.join(sizes)})", flush=True)


def small_files(work: Path, most: int) -> None:
    """Time of parse against the number of files of a few lines each, as a fitted exponent over the upper half decade and decade."""
    points: list[tuple[float, float]] = []
    for count in (most // 10, most // 3, most):
        folder = work / f"files-{count}"
        for k in range(count):
            path = folder / f"node-{k // 100:04d}" / f"rank-{k:06d}.log"
            if not k % 100:
                path.parent.mkdir(parents=True)
            path.write_text(
                f"Mar 14 02:00:{k % 60:02d} node-{k // 100:04d} kernel: NVRM: Xid (PCI:0000:9d:00): 79, pid={k}, GPU has fallen off the bus.\n"
                f"node-{k // 100:04d}:{k}:{k} [3] NCCL INFO Using network IB\n" * 3,
                encoding="utf-8",
            )
        done = measured(parse_command(folder, 1))
        points.append((count, done.cpu))
        print(
            f"{count:,} small files, 1 worker: {done.wall:.1f} s, {done.cpu:.1f} s of processor, {done.peak:.0f} MB",
            flush=True,
        )
        shutil.rmtree(folder)
    print(f"processor time of parse grows with the number of files to the power {slope(points):.2f}", flush=True)


def counts(folder: Path, workers: int) -> None:
    """Print how many events agree with what the generator says that it wrote."""
    done = subprocess.run([*parse_command(folder, workers), "--count"], check=True, stdout=subprocess.PIPE)
    ours, truth = json.loads(done.stdout), json.loads((folder / "truth.json").read_bytes())["events"]
    other = {name: (ours.get(name, 0), n) for name, n in truth.items() if ours.get(name, 0) != n}
    print(
        f"counts: {len(truth) - len(other)} of {len(truth)} events as in truth.json; others (ours, theirs): {other or 'none'}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--corpus", type=Path, help="make_corpus.py")
    parser.add_argument("--anchors", type=Path, help="literals for rg, one a line")
    parser.add_argument("--size", default="1G")
    parser.add_argument("--searchkit", metavar="PYTHON", help="an interpreter that has searchkit, to compare with it")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--files", type=int, default=100_000, help="small files of the last rows; 0 for none")
    parser.add_argument("--grow", default="4M,16M,64M", help="sizes for the exponent; empty for none")
    parser.add_argument("--parse", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.parse:
        parse_only(asked.parse, asked.workers, counted=asked.count)
        return
    if not asked.corpus:
        parser.error("--corpus is needed: the generator of the logs")
    with tempfile.TemporaryDirectory(prefix="speed-") as name:
        work = Path(name)
        folder = make(asked.corpus, work / "mixed", asked.size)
        # Once for nothing: compiled modules, prepared definitions, files in memory.
        measured(analyze_command(make(asked.corpus, work / "small", "1M", "--ranks", "8"), 1))
        table(asked, work, folder)
        if asked.grow:
            growth(asked.corpus, work, asked.grow.split(","), asked.runs)
        if asked.files:
            small_files(work, asked.files)
        counts(folder, asked.workers)


def table(asked: argparse.Namespace, work: Path, folder: Path) -> None:
    """Print the table, a row as soon as it is known."""
    size, workers = asked.size, asked.workers
    two, one = parse_command(folder, workers), parse_command(folder, 1)
    commands: dict[str, Sequence[str]] = {"parse": two, "one": one, "analyze": analyze_command(folder, workers)}
    if asked.anchors and shutil.which("rg"):
        commands["rg"] = ["rg", f"-j{workers}", "-c", "-F", "-f", str(asked.anchors), str(folder)]
    if shutil.which("lnav"):
        files = [str(p) for p in sorted(folder.rglob("*.*")) if p.suffix != ".json"]
        commands["lnav"] = ["lnav", "-n", "-N", "-c", ";SELECT count(*) FROM all_logs", *files]
    print("| ours | wall s | cpu s | against | wall s | cpu s | ratio wall | ratio cpu | our peak MB |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    found = turns(commands, asked.runs)
    if "rg" in found:
        row(f"parse {size}", found["parse"], "rg, all anchors (times ours is slower)", found["rg"])
        row(f"parse {size}, 1 worker", found["one"], "the same", found["rg"])
    if "lnav" in found:
        row(f"parse {size}", found["parse"], "lnav, folder loaded (times ours is faster)", found["lnav"], inverse=True)
    row("analyze", found["analyze"], "parse", found["parse"])
    row(f"{workers} workers", found["parse"], "1 worker (times ours is faster)", found["one"], inverse=True)
    if asked.anchors:
        loop = turns({"loop": [sys.executable, "-c", LOOP, str(folder), str(asked.anchors)]}, 1)["loop"]
        row(f"parse {size}, 1 worker", found["one"], "Python loop with re (times ours is faster)", loop, inverse=True)
    if asked.searchkit:
        kit = measured([asked.searchkit, "-c", SEARCHKIT, str(folder), str(workers)])
        row(f"parse {size}", found["parse"], "searchkit, two definitions (times ours is faster)", kit, inverse=True)
    huge = work / "huge"
    huge.mkdir()
    with (huge / "nccl.log").open("wb") as joined:
        for path in sorted((folder / "nccl").iterdir()):
            joined.write(path.read_bytes())
    both = turns({"two": parse_command(huge, workers), "one": parse_command(huge, 1)}, asked.runs)
    row(f"one file, {workers} workers", both["two"], "1 worker (times ours is faster)", both["one"], inverse=True)
    shutil.rmtree(huge)
    for kind in ("gz", "zst") if shutil.which("zstd") else ("gz",):
        packed = make(asked.corpus, work / kind, size, "--compress", kind)
        both = turns({"packed": parse_command(packed, workers), "plain": two}, asked.runs)
        row(f"parse .{kind}", both["packed"], "plain", both["plain"])
        shutil.rmtree(packed)
    small = work / "small"
    imports = [sys.executable, "-c", IMPORTS]
    both = turns({"all": analyze_command(small, workers), "imports": imports}, max(asked.runs, 3))
    row("analyze 1 MB", both["all"], IMPORTS, both["imports"])
    again = analyze_command(folder, workers, "--cache", "--cache-folder", str(work / "cache"))
    measured(again)
    row(f"analyze {size} again", measured(again), "the first time", found["analyze"])


if __name__ == "__main__":
    main()
