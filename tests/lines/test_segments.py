"""Parts of a line that can each hold an event: their text and where they begin in the file."""

from __future__ import annotations

import polars as pl
import pytest

from postmortem.lines.segments import segment


def parts(text: str, offset: int = 0) -> list[tuple[int, str]]:
    """(offset, text) of the segments of one line."""
    frame = pl.DataFrame(
        {"file": ["f"], "line": [7], "offset": [offset], "text": [text]},
        schema_overrides={"line": pl.Int64, "offset": pl.Int64},
    )
    rows = segment(frame)
    assert set(rows["line"]) <= {7}
    assert set(rows["text"]) <= {text}
    return list(zip(rows["offset"].to_list(), rows["seg"].to_list(), strict=True))


def test_a_plain_line_is_one_segment() -> None:
    assert parts("step 5", 100) == [(100, "step 5")]


def test_blank_lines_are_dropped() -> None:
    assert parts("   ") == []


def test_carriage_returns_part_a_progress_bar() -> None:
    text = " 10%|#    | 1/9\r 20%|##   | 2/9\rdone"
    assert parts(text, 50) == [(50, " 10%|#    | 1/9"), (50 + 16, " 20%|##   | 2/9"), (50 + 32, "done")]


@pytest.mark.parametrize("letter", ["ü", "中", "a"])
def test_offsets_count_bytes_not_letters(letter: str) -> None:
    text = f"{letter}\rb"
    assert parts(text) == [(0, letter), (len(letter.encode()) + 1, "b")]


def test_colours_are_removed_and_leave_the_offset() -> None:
    assert parts("\x1b[32mINFO\x1b[0m hello", 9) == [(9, "INFO hello")]


def test_colours_whose_escape_was_lost() -> None:
    assert parts("[31m[rank0]: Traceback") == [(0, "[rank0]: Traceback")]


def test_text_glued_to_a_bar_is_a_segment_of_its_own() -> None:
    bar = " 10%|#    | 10/100 [00:10<01:30, 1.00s/it]"
    text = f"{bar}Traceback (most recent call last):"
    assert parts(text) == [(0, bar), (len(bar), "Traceback (most recent call last):")]


def test_what_a_bar_prints_behind_itself_stays_with_it() -> None:
    text = " 10%|#    | 10/100 [00:10<01:30, 1.00s/it, loss=2.1]"
    assert parts(text) == [(0, text)]


NCCL = "node-1:10:20 [3] NCCL INFO Connected all rings"


@pytest.mark.parametrize("blanks", [1, 3])
def test_a_second_nccl_header_begins_a_segment(blanks: int) -> None:
    first = "node-1:11:21 [4] NCCL INFO Channel 00/0"
    assert parts(f"{first}{' ' * blanks}{NCCL}") == [(0, first), (len(first) + blanks, NCCL)]


def test_a_first_nccl_header_behind_a_prefix_begins_none() -> None:
    text = f"[1,3]<stdout>:{NCCL}"
    assert parts(text) == [(0, text)]


def test_offsets_point_at_the_text_of_every_segment() -> None:
    line = f"a ü 10%|#| 1/9 [00:01<00:08, 1.00it/s]{NCCL}\r{NCCL}  {NCCL}\rend"
    raw = line.encode()
    found = parts(line)
    assert len(found) == 5
    for offset, text in found:
        assert raw[offset : offset + len(text.encode())].decode() == text
