"""How the ranks ended, what the job was set up with, and the words explained beside it."""

from __future__ import annotations

import re
from dataclasses import replace

import duckdb
import pytest
from report_samples import ONSET, VERSION, after, crash, insert, quiet, tables

from postmortem.report.html import render
from postmortem.report.view_ranks import KINDS, MAX_HOSTS, ranks_view
from postmortem.report.view_settings import glossary, settings_table

EVENTS = "event_id, ts, rank, source, event, severity, signal, file, line"


def job(ranks: int, per_host: int = 8) -> duckdb.DuckDBPyConnection:
    """Tables of a job of which every rank is placed."""
    con = tables()
    con.execute(
        "INSERT INTO ranks (rank, host, node, local_rank) SELECT i, format('node-{:04}', i // $n), format('node-{:04}', i // $n), i % $n FROM range($r) t(i)",
        {"n": per_host, "r": ranks},
    )
    return con


@pytest.mark.parametrize(
    ("event", "signal", "kind"),
    [
        ("torch.exception", None, "own"),
        ("gpu.xid", None, "own"),
        ("process.signal", 9, "own"),
        ("process.signal", 15, "ended"),
        ("nccl.ib_completion_error", None, "network"),
        ("torch.watchdog_timeout", None, "waited"),
        ("nccl.remote_closed", None, "waited"),
        ("process.exit", None, "ended"),
        ("train.checkpoint_failed", None, "other"),
    ],
)
def test_the_first_error_tells_the_kind_of_end(event: str, signal: int | None, kind: str) -> None:
    con = job(2)
    insert(con, "events", EVENTS, [(1, after(0), 1, "torch", event, "error", signal, "a.log", 1)])
    view = ranks_view(crash(), con)
    assert [one[0] for one in view.kinds] == [k for k in KINDS if k in {kind, "silent"}]
    assert view.table.rows[0][1] == "1"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "own"),
        ("KeyError: 'timeouts'", "own"),
        (
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited or there was a network error",
            "waited",
        ),
        (
            "RuntimeError: [1] is setting up NCCL communicator ... store->get('0') got error: Connection reset by peer",
            "waited",
        ),
    ],
)
def test_an_exception_that_speaks_of_peers_is_no_error_of_its_own(text: str, kind: str) -> None:
    con = job(2)
    columns = "event_id, ts, rank, source, event, severity, message, file, line"
    insert(con, "events", columns, [(1, after(0), 1, "torch", "torch.exception", "error", text, "a.log", 1)])
    assert [one[0] for one in ranks_view(crash(), con).kinds] == [k for k in KINDS if k in {kind, "silent"}]


def test_order_is_by_time_and_later_errors_of_a_rank_do_not_count() -> None:
    con = job(3)
    rows = [
        (1, after(9), 0, "torch", "torch.exception", "error", None, "a.log", 1),
        (2, after(5), 2, "torch", "torch.watchdog_timeout", "error", None, "a.log", 2),
        (3, after(1), 0, "torch", "torch.watchdog_timeout", "error", None, "a.log", 3),
    ]
    insert(con, "events", EVENTS, rows)
    view = ranks_view(crash(), con)
    assert [row[:2] for row in view.table.rows] == [("1", "0"), ("2", "2")]
    assert view.words.startswith("3 ranks on 1 host; rank 0 printed the first error, at 03:04:06")


def test_an_error_long_before_the_onset_and_a_warning_are_no_end() -> None:
    con = job(2)
    rows = [
        (1, after(-3600), 0, "torch", "torch.exception", "error", None, "a.log", 1),
        (2, after(1), 1, "torch", "torch.exception", "warning", None, "a.log", 2),
    ]
    insert(con, "events", EVENTS, rows)
    assert [one[0] for one in ranks_view(crash(), con).kinds] == ["silent"]


def test_the_guilty_rank_is_marked_and_a_quiet_run_has_no_matrix() -> None:
    con = job(64)
    assert str(ranks_view(crash(), con).svg).count('class="guilty"') == 1
    assert ranks_view(quiet(), con).svg is None


def test_the_frame_of_the_guilty_is_explained_and_hosts_that_nobody_names_are_not_counted() -> None:
    con = tables()
    con.execute("INSERT INTO ranks (rank) SELECT i FROM range(64) t(i)")
    view = ranks_view(crash(), con)
    assert view.kinds[-1][:2] == ("guilty", "the culprit's")
    assert view.words == "64 ranks on hosts that no line names; no rank printed an error."
    fewer = ranks_view(crash(), job(8))
    assert "guilty" not in {one[0] for one in fewer.kinds}
    assert fewer.words.startswith("8 ranks on 1 host; ")


@pytest.mark.parametrize(
    ("hosts", "cells"), [(MAX_HOSTS, 8 * MAX_HOSTS), (MAX_HOSTS + 1, MAX_HOSTS + 1), (2048, 2048), (10_000, 3334)]
)
def test_many_hosts_are_drawn_as_one_square_each_or_less(hosts: int, cells: int) -> None:
    view = ranks_view(crash(), job(8 * hosts))
    assert str(view.svg).count("<g class=") == cells
    assert len(str(view.svg)) < 1_500_000


def test_hostile_names_stay_text() -> None:
    con = tables()
    bad = "<img src=x onerror=alert(1)>\u202e"
    insert(con, "ranks", "rank, host, node, local_rank", [(0, bad, bad, 0), (1, bad, bad, 1)])
    insert(con, "events", EVENTS, [(1, ONSET, 1, "torch", "torch.exception", "error", None, bad, 1)])
    page = render(crash(), con, VERSION)
    assert "<img" not in page
    assert "\u202e" not in page


def test_settings_differ_by_host_and_say_where() -> None:
    con = tables()
    rows = [
        (1, "node-1", "nccl", "nccl.env", "NCCL_IB_TIMEOUT set by environment to 22.", "22", "info", "b.log", 10),
        (2, "node-2", "nccl", "nccl.env", "NCCL_IB_TIMEOUT set by environment to 18.", "18", "info", "a.log", 7),
        (3, "node-1", "nccl", "nccl.env", "NCCL_IB_TIMEOUT set by environment to 22.", "22", "info", "b.log", 9),
        (4, "node-1", "nccl", "nccl.version", "NCCL version 2.22.3+cuda12.6", "2.22.3+cuda12.6", "info", "b.log", 2),
    ]
    insert(con, "events", "event_id, host, source, event, message, value, severity, file, line", rows)
    assert settings_table(con).rows == (
        ("NCCL version", "2.22.3+cuda12.6", "1 host", "b.log:2"),
        ("NCCL_IB_TIMEOUT", "22", "1 host", "b.log:9"),
        ("NCCL_IB_TIMEOUT", "18", "1 host", "a.log:7"),
    )


def test_words_are_explained_where_they_occur() -> None:
    terms = [term for term, _ in glossary("NVRM: Xid 79, the GPU left the PCIe bus")]
    assert terms == ["PCIe", "Xid"]
    assert glossary("nothing of that kind") == ()
    page = render(replace(crash(), findings=()), tables(), VERSION)
    assert not re.search(r"<dt>Xid</dt>", page)


def test_every_word_has_a_meaning_and_a_pattern_that_finds_it() -> None:
    import tomllib

    from postmortem.resources import data_folder

    entries = tomllib.loads((data_folder("reports") / "glossary.toml").read_text(encoding="utf-8"))
    for term, entry in entries.items():
        assert entry["meaning"].endswith(".")
        sample = {"completion status 12": "with status=12 opcode=0", "NVLink": "NVLink"}.get(term, term)
        assert term in [found for found, _ in glossary(sample)], term
