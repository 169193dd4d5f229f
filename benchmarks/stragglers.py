"""How surely a slow worker is found in real traces, how often another is named, and how near the slowdown S comes to the published one.

    python benchmarks/stragglers.py FOLDER [--seeds 50] [--shares 0,5,10,20]

FOLDER holds traces of timed operations (`trace-NAME.parquet`, columns as in postmortem/decoders/training/op_trace.py) and, for S, a
truth.json with `{NAME: {"S": …, "guilty_ranks": […]}}`. A seed takes three quarters of the steps at random, one worker at random and
makes its forward and backward passes longer by the share, all along or (every other seed) from a random step on. `found`: that worker is
named. `false`: anyone else is, those of truth.json aside. A worker of a trace with a known slow rank is drawn from the others.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb
import numpy as np
import polars as pl

from postmortem.analysis.stragglers import Traced, read_traces
from postmortem.decoders import decode
from postmortem.schema import TABLE_BY_NAME
from postmortem.tables.store import create_table

SIDE = 10
"""Steps before and after the step in which a worker becomes slow, at least."""


@dataclass(frozen=True, slots=True)
class OneFile:
    """A file as decoders take it."""

    name: str
    stream: BinaryIO


def traced(ops: pl.DataFrame) -> Traced:
    """What the analysis says of a trace with these operations."""
    with duckdb.connect() as con:
        for name in ("op_times", "rank_times"):
            create_table(con, TABLE_BY_NAME[name])
        con.register("given", ops.to_arrow())
        columns = ", ".join(f'"{c}"' if c in ops.columns else f'NULL AS "{c}"' for c in TABLE_BY_NAME["op_times"].names)
        con.execute(f"INSERT INTO op_times SELECT {columns} FROM given")
        return read_traces(con)[0]


def injected(
    ops: pl.DataFrame, share: float, rng: np.random.Generator, known: set[int], *, is_sudden: bool
) -> tuple[pl.DataFrame, int]:
    """(three quarters of the steps with one worker slower, that worker)."""
    steps = np.sort(ops["step"].unique().to_numpy())
    steps = np.sort(rng.choice(steps, max(2 * SIDE, 3 * len(steps) // 4), replace=False))
    rank = int(rng.choice([r for r in sorted(ops["rank"].unique().to_list()) if r not in known]))
    since = int(steps[int(rng.integers(SIDE, len(steps) - SIDE + 1))]) if is_sudden else int(steps[0])
    slow = (pl.col("rank") == rank) & (pl.col("step") >= since) & pl.col("op").str.ends_with("-compute")
    chosen = ops.filter(pl.col("step").is_in(steps.tolist()))
    return chosen.with_columns(
        pl.when(slow).then(pl.col("duration_s") * (1 + share)).otherwise("duration_s").alias("duration_s")
    ), rank


def main() -> None:
    """Print a line per trace for S and one per trace and share for what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--shares", default="0,5,10,20")
    given = parser.parse_args()
    truth = json.loads(p.read_text()) if (p := given.folder / "truth.json").exists() else {}
    shares = [float(s) / 100 for s in given.shares.split(",")]
    total: dict[float, list[int]] = {s: [0, 0, 0] for s in shares}
    for path in sorted(given.folder.glob("*.parquet")):
        name = path.stem.removeprefix("trace-")
        with path.open("rb") as stream:
            ops = decode("parquet_table", OneFile(path.name, stream), host_hint=None, rank_hint=None).tables["op_times"]
        about = truth.get(name, {})
        known = set(about.get("guilty_ranks", []))
        whole = traced(ops)
        s, published = whole.view.slowdown, about.get("S")
        off = f"{100 * (s / published - 1):+.2f} %" if s and published else "not published"
        print(
            f"{name}: S = {s}, published {published} ({off}); named {[r.rank for r in whole.ranks]}, known {sorted(known)}; {whole.view.summary}"
        )
        for share in shares:
            found = false = 0
            for seed in range(given.seeds):
                rng = np.random.default_rng([seed, int(1000 * share)])
                slower, rank = injected(ops, share, rng, known, is_sudden=bool(seed % 2))
                named = {r.rank for r in traced(slower).ranks}
                found += rank in named and share > 0
                false += bool(named - known - ({rank} if share else set()))
            total[share] = [a + b for a, b in zip(total[share], (given.seeds, found, false), strict=True)]
            print(
                f"{name} +{100 * share:g} %: found {found / given.seeds:.3f}, false {false / given.seeds:.3f} of {given.seeds}"
            )
    for share, (n, found, false) in total.items():
        print(f"all +{100 * share:g} %: found {found / max(n, 1):.3f}, false {false / max(n, 1):.3f} of {n}")


if __name__ == "__main__":
    main()
