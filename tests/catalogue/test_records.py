"""Records over several lines: what moves where, and what is left out."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from postmortem.catalogue.definition import load_folders
from postmortem.catalogue.matcher import Matcher
from postmortem.catalogue.records import merge_records

PARSERS = Path(__file__).parents[2] / "parsers"


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher(load_folders([PARSERS]))


def recognise(matcher: Matcher, text: str) -> list[dict[str, Any]]:
    lines = textwrap.dedent(text).split("\n")
    hits = pl.DataFrame(
        {"file": ["a.log"] * len(lines), "line": range(1, len(lines) + 1), "offset": [0] * len(lines), "text": lines},
        schema_overrides={"line": pl.Int64, "offset": pl.Int64},
    )
    return merge_records(matcher.recognise(hits.filter(pl.col("text").str.contains(matcher.prefilter)))).to_dicts()


ENTRY = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_02:33:12
  host      : gpu-07
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 3638)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 3638"""


def test_parts_above_and_below_fill_the_first_line_of_an_entry(matcher: Matcher) -> None:
    (row,) = recognise(matcher, ENTRY)
    assert (row["event"], row["line"], row["host"]) == ("torch.elastic_failure", 2, "gpu-07")
    assert (row["rank"], row["exit_code"], row["signal"], row["is_root"]) == (3, -9, 9, True)
    assert row["stamp_us"] == 1_796_005_992_000_000
    # The beginning says nothing alone: its lines follow it, as printed.
    assert row["text"] == "[0]:"
    assert row["message"].split("\n")[:3] == ["[0]:", "time      : 2026-11-30_02:33:12", "host      : gpu-07"]


def test_prefixed_lines_give_the_same_entry(matcher: Matcher) -> None:
    (row,) = recognise(matcher, "\n".join(f"4: {line}" for line in ENTRY.split("\n")))
    assert (row["rank"], row["is_root"]) == (3, True)


def test_a_beginning_that_needs_parts_is_nothing_without_them(matcher: Matcher) -> None:
    assert recognise(matcher, "[0]:\nsome other text\n[1]:") == []


def test_what_takes_the_place_of_terminate(matcher: Matcher) -> None:
    text = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: unknown error"
    assert [(r["event"], r["line"]) for r in recognise(matcher, text)] == [("torch.cuda_error", 2)]
    assert [r["event"] for r in recognise(matcher, text.split("\n")[0])] == ["torch.abort"]


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (
            "[rank12]:[E218 04:54:23.3 PG.cpp:18] [PG ID 13 PG GUID 143 Rank 0] Timeout at NCCL work: 8",
            12,
        ),
        ("[E218 04:54:23.3 PG.cpp:18] [PG ID 13 PG GUID 143 Rank 0] Timeout at NCCL work: 8", None),
        (
            "[E218 04:54:23.3 PG.cpp:18] [PG ID 0 PG GUID 0(default_pg) Rank 7] Timeout at NCCL work: 8",
            7,
        ),
    ],
)
def test_rank_within_a_group_is_the_global_one_only_in_the_default_group(
    matcher: Matcher, line: str, rank: int | None
) -> None:
    assert [r["rank"] for r in recognise(matcher, line)] == [rank]


def test_an_indented_exception_is_quoted_text(matcher: Matcher) -> None:
    assert recognise(matcher, "x\n  RuntimeError: boom") == []
    assert [r["event"] for r in recognise(matcher, "[rank1]: RuntimeError: boom")] == ["torch.exception"]


OOM = """\
[ 1.000000] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=829
[ 1.000001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,task=python3,pid=4711,uid=0"""
KILL = "[ 1.000002] Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB"


def test_what_announces_a_kill_counts_where_the_kill_itself_is_cut_off(matcher: Matcher) -> None:
    assert [(r["event"], r["process"]) for r in recognise(matcher, OOM)] == [
        ("host.oom_kill", "python"),
        ("host.oom_kill", "python3"),
    ]
    (row,) = recognise(matcher, f"{OOM}\n{KILL}")
    assert (row["line"], row["pid"]) == (3, 4711)


def test_a_kill_before_it_is_another_one(matcher: Matcher) -> None:
    assert [r["line"] for r in recognise(matcher, f"{KILL}\n{OOM}")] == [1, 2, 3]
