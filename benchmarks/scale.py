"""Growth of SQL, verdict and report with ranks, hosts and events: `python benchmarks/scale.py [--ranks 64 … 16384] [--write]`.

Writes what parsing would have left (the Parquet spool) of one seeded incident per size: every rank's set-up lines, its steps and its abort lines,
a launcher and a kernel log per host, leaf switches with ports that flap and a cable list; one NIC's link goes down and takes the job with it.
Each size is settled, analysed and reported in a process of its own. Prints a table and the fitted exponents; `--write` puts both, with a plot, into
docs/performance.md. Times of a shared machine vary; the exponents and the memory hardly do. Linux only (peak memory).
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scale_spool import PER_HOST, generate

RANKS: Final = (64, 256, 1024, 4096, 16384)
LARGE: Final = 1024
DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "performance.md"
PICTURE: Final = DOCS / "pictures" / "growth.svg"
MARKS: Final = ("<!-- written by benchmarks/scale.py -->", "<!-- end of what benchmarks/scale.py writes -->")


def measure(spool: Path, slow_s: float | None) -> dict[str, float | str]:
    """Settle, analyse and report one spool in this process: seconds of each, peak memory, size of the report, the verdict."""
    from postmortem import __version__
    from postmortem.analysis.run import analyse
    from postmortem.incident import HELD_ROWS, SMALL_ROWS, memory_for
    from postmortem.report.html import render
    from postmortem.tables.settle import settle
    from postmortem.tables.spool import count_rows
    from postmortem.tables.store import connect

    took: dict[str, float | str] = {}
    with tempfile.TemporaryDirectory() as work:
        rows = count_rows(spool, ("events", "facts"))
        tables = Path(work) / "incident.duckdb" if rows > HELD_ROWS else None
        con: Any = connect(tables, Path(work), memory_for(rows), is_small=rows < SMALL_ROWS)
        if slow_s is not None:
            con = Watched(con, slow_s)
        begin, cpu = time.monotonic(), time.process_time()
        settle(con, spool, [], whole=False)
        took["settle_s"] = time.monotonic() - begin
        analysis = analyse(con, "scale")
        took["analyse_s"] = time.monotonic() - begin - float(took["settle_s"])
        page = render(analysis, con, __version__)
        took["report_s"] = time.monotonic() - begin - float(took["analyse_s"]) - float(took["settle_s"])
        took["cpu_s"] = time.process_time() - cpu
        took["report_mb"] = len(page.encode()) / 1e6
        took["verdict"] = f"{analysis.verdict.cause} {analysis.verdict.culprit.host} {analysis.verdict.confidence:.2f}"
    took["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return took


class Watched:
    """A connection that prints statements slower than a limit, with the peak memory so far."""

    def __init__(self, con: Any, slow_s: float) -> None:
        self._con, self._slow_s = con, slow_s

    def execute(self, sql: str, *values: Any) -> Any:
        begin = time.process_time()
        found = self._con.execute(sql, *values)
        took = time.process_time() - begin
        if took >= self._slow_s:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{took:8.2f} s {peak:6.0f} MB  {' '.join(sql.split())[:110]}", file=sys.stderr, flush=True)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


@dataclass(frozen=True, slots=True)
class Run:
    """What one size took: seconds, megabytes, and the verdict."""

    ranks: int
    events: int
    settle_s: float
    analyse_s: float
    report_s: float
    cpu_s: float
    peak_mb: float
    report_mb: float
    verdict: str

    @property
    def wall_s(self) -> float:
        return self.settle_s + self.analyse_s + self.report_s


def exponent(runs: Sequence[Run], name: str) -> float:
    """Slope of the logarithm of a figure over that of the events, by least squares: 1 is linear, 2 quadratic."""
    xs = [math.log(run.events) for run in runs]
    ys = [math.log(float(getattr(run, name))) for run in runs]
    middle = sum(xs) / len(xs)
    return sum((x - middle) * y for x, y in zip(xs, ys, strict=True)) / sum((x - middle) ** 2 for x in xs)


def table(runs: Sequence[Run]) -> str:
    """The figures as a Markdown table, the exponents below it."""
    lines = [
        "| ranks | hosts | events | settle s | analyse s | report s | processor s | peak MB | report MB | verdict |",
        "| ---: " * 9 + "| --- |",
    ]
    lines += [
        f"| {r.ranks:,} | {r.ranks // PER_HOST:,} | {r.events:,} | {r.settle_s:.1f} | {r.analyse_s:.1f} | {r.report_s:.1f} | {r.cpu_s:.1f} | {r.peak_mb:,.0f} | {r.report_mb:.2f} | {r.verdict} |"
        for r in runs
    ]
    if len(runs) > 1:
        large = [r for r in runs if r.ranks >= LARGE] or list(runs)
        lines += [
            "",
            f"Exponent over events, all sizes: processor time {exponent(runs, 'cpu_s'):.2f}, peak memory {exponent(runs, 'peak_mb'):.2f}.",
        ]
        if 1 < len(large) < len(runs):
            lines[-1] += (
                f" From {LARGE:,} ranks on, where start-up no longer counts: {exponent(large, 'cpu_s'):.2f} and {exponent(large, 'peak_mb'):.2f}."
            )
    return "\n".join(lines)


def plot(runs: Sequence[Run]) -> str:
    """Processor seconds and peak memory over events, both axes logarithmic, as SVG; the thin lines are linear growth."""
    width, height, left, bottom, top, right = 640, 360, 64, 310, 20, 560
    log = [math.log10(r.events) for r in runs]
    x0, x1 = math.floor(min(log)), math.ceil(max(log))

    def x(events: float) -> float:
        return left + (right - left) * (math.log10(events) - x0) / (x1 - x0)

    def y(value: float) -> float:
        return bottom - (bottom - top) * math.log10(max(1.0, value)) / 4

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    ]
    parts.append(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    for power in range(5):
        at = y(10**power)
        parts.append(
            f'<path d="M{left} {at:.1f}H{right}" stroke="#ddd"/><text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{10**power:,}</text>'
        )
    for power in range(x0, x1 + 1):
        at = x(10.0**power)
        parts.append(
            f'<path d="M{at:.1f} {top}V{bottom}" stroke="#ddd"/><text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{10**power:,}</text>'
        )
    parts.append(f'<text x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">events</text>')
    for name, words, colour in (("cpu_s", "processor s", "#0a58a8"), ("peak_mb", "peak MB", "#b3450c")):
        values = [(r.events, float(getattr(r, name))) for r in runs]
        points = " ".join(f"{x(e):.1f},{y(v):.1f}" for e, v in values)
        dots = "".join(f'<circle cx="{x(e):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for e, v in values)
        (e0, _), (e1, v1) = values[0], values[-1]
        straight = f'<path d="M{x(e0):.1f} {y(v1 * e0 / e1):.1f}L{x(e1):.1f} {y(v1):.1f}" stroke="{colour}" stroke-opacity="0.35" stroke-dasharray="4 4"/>'
        parts.append(f'{straight}<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}')
        parts.append(f'<text x="{x(e1) + 8:.1f}" y="{y(v1) + 4:.1f}" fill="{colour}">{words}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write(runs: Sequence[Run]) -> None:
    """Put table and plot between the marks of docs/performance.md."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(plot(runs), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    PAGE.write_text(f"{text[:begin]}\n{table(runs)}\n{text[end:]}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each size in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument(
        "--events-per-rank", type=int, default=305, help="all events over the ranks; 16,384 ranks then have 5 million"
    )
    parser.add_argument("--slow", type=float, help="print statements that take longer (processor seconds)")
    parser.add_argument("--folder", type=Path, help="keep the spools here and use them again")
    parser.add_argument("--write", action="store_true", help="put table and plot into docs/performance.md")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        print(json.dumps(measure(options.one, options.slow)))
        return
    runs = []
    with tempfile.TemporaryDirectory() as temporary:
        for ranks in options.ranks:
            spool = (options.folder or Path(temporary)) / f"{ranks}-{options.events_per_rank}"
            count = spool / "count"
            if not count.is_file():
                count.write_text(str(generate(spool, ranks, ranks * options.events_per_rank)))
            command = [
                sys.executable,
                __file__,
                "--one",
                str(spool),
                *(["--slow", str(options.slow)] if options.slow else []),
            ]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            runs.append(Run(ranks, int(count.read_text()), **json.loads(done.stdout)))
            print(runs[-1], file=sys.stderr, flush=True)
    print(table(runs))
    if options.write:
        write(runs)


if __name__ == "__main__":
    main()
