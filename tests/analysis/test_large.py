"""What is done in another way for large incidents gives what the plain way gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from postmortem import incident
from postmortem.analysis import candidates, signs
from postmortem.analysis.windows import JobTimes
from postmortem.analysis.zones import shared
from postmortem.incident import Incident, Options, open_incident
from postmortem.report.html import render
from postmortem.report.markdown import render as markdown
from postmortem.report.terminal import summary
from postmortem.schema import TABLES
from postmortem.tables import settle
from postmortem.tables.statements import parsed
from postmortem.tables.store import create_tables

ROOT = Path(__file__).resolve().parent.parent.parent
NOON = datetime(2026, 1, 2, 12)


def tables(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    with open_incident([folder], Options(workers=1, context=False)) as opened:
        return {
            t.name: sorted(opened.con.execute(f"FROM {t.name}").fetchall(), key=repr)
            for t in TABLES
            if t.name != "answer"
        }


def test_views_and_parts_give_the_tables_of_a_small_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "sample_logs" / "link-flap"
    whole = tables(folder)
    monkeypatch.setattr(settle, "VIEWS_FROM", 0)
    monkeypatch.setattr(settle, "SORTED_ROWS", 50)
    monkeypatch.setattr(incident, "HELD_ROWS", 0)
    monkeypatch.setattr(incident, "SMALL_ROWS", 0)
    assert tables(folder) == whole
    assert len(whole["events"]) > 200


def test_shared_moments_are_counted_as_pairs_are() -> None:
    chance = random.Random(1)
    rows = [(chance.choice("ab"), str(chance.randrange(4)), f"n{chance.randrange(5)}") for _ in range(60)]
    moments = pl.DataFrame(rows, schema=["kind", "key", "node"], orient="row")
    pairs = moments.join(moments, on=["kind", "key"]).filter(pl.col("node") != pl.col("node_right"))
    assert sorted(shared(moments, "node").rows()) == sorted(pairs.group_by("node").len().rows())


def test_of_many_files_with_steps_the_witnesses_are_those_of_all_pairs() -> None:
    chance = random.Random(2)
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE step_rows (file VARCHAR, step BIGINT, rank BIGINT, ts TIMESTAMP, is_borrowed BOOLEAN, step_time_ms DOUBLE)"
        )
        for n in range(150):
            begin, is_dated = chance.randrange(400), chance.random() < 0.8
            for step in range(begin, begin + chance.randrange(1, 12)):
                ts = NOON + timedelta(seconds=10 * step) if is_dated else None
                con.execute(
                    "INSERT INTO step_rows VALUES (?, ?, ?, ?, ?, ?)",
                    [f"{n:03}", step, chance.choice([None, n]), ts, chance.random() < 0.1, chance.choice([None, 1.0])],
                )
        (statement,) = (s for s in parsed("postmortem.analysis", "progress.sql") if s.name == "step_files")
        con.execute(statement.sql)
        expected = con.execute("""
            SELECT a.file, NOT EXISTS (FROM step_files b WHERE b.file <> a.file
              AND ((a.first_ts IS NOT NULL AND b.first_ts IS NOT NULL AND b.first_ts <= a.last_ts AND b.last_ts >= a.first_ts)
                OR ((a.first_ts IS NULL OR b.first_ts IS NULL) AND b.first_step <= a.last_step AND b.last_step >= a.first_step))
              AND (b.ranks <= 1, b.timed > 0, b.steps, b.durations, b.file) > (a.ranks <= 1, a.timed > 0, a.steps, a.durations, a.file))
            FROM step_files a ORDER BY a.file""").fetchall()
        found = con.execute("SELECT file, is_main FROM step_files ORDER BY file").fetchall()
    assert found == expected
    assert 0 < sum(is_main for _, is_main in found) < len(found)


def test_causes_beyond_the_bound_are_said_to_be_left_out(
    analyse: Callable[[dict[str, str]], Incident], monkeypatch: pytest.MonkeyPatch
) -> None:
    xid = "2026-02-03T14:0{n}:00+00:00 node-{n} kernel: NVRM: Xid (PCI:0000:1b:00): 48, pid=1, An uncorrectable double bit error\n"
    step = "[2026-02-03 14:00:00.000000] iteration        1/    9000 | elapsed time per iteration (ms): 10000.0 | lm loss: 7.317421E+00 |\n"
    log = {"kern.log": "".join(xid.format(n=n) for n in range(6)), "train.log": step}
    found = analyse(log)
    (count,) = found.con.execute("SELECT count(*) FROM candidates").fetchone() or (0,)
    assert found.analysis.coverage.left_out == ()
    monkeypatch.setattr(candidates, "MOST", count)
    assert analyse(log).analysis.coverage.left_out == ()
    monkeypatch.setattr(candidates, "MOST", count - 1)
    bounded = analyse(log)
    said = f"Of {count} possible causes the earliest {count - 1} were weighed; those from 2026-02-03 14:05:00 UTC on were not."
    assert bounded.analysis.coverage.left_out == (said,)
    assert said in render(bounded.analysis, bounded.con, "v")
    assert said in markdown(bounded.analysis, "v", bounded.con)
    assert said in " ".join(summary(bounded.analysis, colour=False, width=100).split())


def test_a_rule_over_thousands_of_ranks_takes_the_earliest_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every effect is still explained; without the bound each cause explains each."""
    times = JobTimes(0, NOON, None, None, None, None, None, 1.0, 30.0, 600.0, None, True)

    def edges(most: int) -> list[tuple[int, int]]:
        monkeypatch.setattr(signs, "MAX_PAIRS", most)
        with duckdb.connect() as con:
            create_tables(con)
            signs.create_macros(con)
            for n in range(20):
                for number, event, after in ((n, "torch.watchdog_timeout", n), (100 + n, "torch.abort", 30)):
                    when = NOON + timedelta(seconds=after)
                    con.execute(
                        "INSERT INTO episodes (episode, event, host, entity, first_ts, last_ts, event_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
                        [number, event, f"node-{n}", f"rank {n}", when, when, number],
                    )
            signs.draw_edges(con, times)
            return con.execute("SELECT cause_episode, effect_episode FROM edges ORDER BY ALL").fetchall()

    assert len(edges(30_000)) == 400
    assert edges(40) == [(n, 100 + m) for n in (0, 1) for m in range(20)]
