"""Lines without a time take that of the nearest line above in their file that has one."""

from __future__ import annotations

import io
from typing import Any

import polars as pl

from postmortem.lines.blocks import read_blocks
from postmortem.lines.donors import STAMPS, donors, inherit
from postmortem.lines.peel import peel

TEXT = b"""\
no time above this one
2026-02-03 14:02:11 first
bare
2026-02-03 14:05:00 second
bare again
and again
"""


def rows(file: str, lines: dict[int, str]) -> pl.DataFrame:
    frame = peel(pl.Series("t", list(lines.values()))).select(*STAMPS)
    return pl.DataFrame({"file": [file] * len(lines), "line": list(lines)}).hstack(frame)


def given(untimed: list[int]) -> pl.DataFrame:
    (block,) = read_blocks(io.BytesIO(TEXT))
    return donors("a.log", block, pl.Series(untimed, dtype=pl.UInt32))


def test_the_nearest_timed_line_above_is_kept_once() -> None:
    assert given([2, 4, 5])["line"].to_list() == [2, 4]
    assert given([0])["line"].to_list() == []


def times(frame: pl.DataFrame) -> list[Any]:
    return frame["stamp_us"].to_list()


def test_inherit_takes_from_above_only() -> None:
    second = peel(pl.Series("t", ["2026-02-03 14:05:00 second"]))["stamp_us"][0]
    found = inherit(rows("a.log", {1: "no time above this one", 5: "bare again", 6: "and again"}), given([0, 4, 5]))
    assert times(found) == [None, second, second]
    assert found["from_neighbour"].to_list() == [False, True, True]


def test_rows_with_a_time_keep_it() -> None:
    own = rows("a.log", {2: "2026-02-03 14:02:11 first", 4: "2026-02-03 14:05:00 second"})
    found = inherit(own, None)
    assert times(found) == times(own)
    assert found["from_neighbour"].to_list() == [False, False]


def test_another_file_gives_nothing() -> None:
    found = inherit(rows("b.log", {5: "bare"}), given([4]))
    assert times(found) == [None]
    assert found["from_neighbour"].to_list() == [False]


def test_a_row_itself_can_be_the_neighbour() -> None:
    found = inherit(rows("a.log", {2: "2026-02-03 14:02:11 first", 3: "bare"}), None)
    assert times(found)[0] == times(found)[1] is not None
    assert found["from_neighbour"].to_list() == [False, True]
