"""Blocks of lines: offsets and numbers are those of the bytes, whatever is in them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.lines.blocks import MAX_LINE, _feeds, _keep, _room, read_blocks


def read(data: bytes, block_bytes: int = 1 << 20) -> list[tuple[int, int, str]]:
    """(number, offset, text) of every line."""
    out: list[tuple[int, int, str]] = []
    for block in read_blocks(io.BytesIO(data), block_bytes):
        assert len(block.text) == len(block.offsets)
        numbers = range(block.first_line, block.first_line + len(block.text))
        out += zip(numbers, map(int, block.offsets), block.text.to_list(), strict=True)
    return out


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [(1, 0, "a")]),
        (b"a\nb\n", [(1, 0, "a"), (2, 2, "b")]),
        (b"a\n\nb", [(1, 0, "a"), (2, 2, ""), (3, 3, "b")]),
        (b"a\r\nb\r\n", [(1, 0, "a"), (2, 3, "b")]),
        (b"10%\r20%\nb", [(1, 0, "10%\r20%"), (2, 8, "b")]),
        ("ü\nb\n".encode(), [(1, 0, "ü"), (2, 3, "b")]),
    ],
)
def test_lines_numbers_and_offsets(data: bytes, lines: list[tuple[int, int, str]]) -> None:
    assert read(data) == lines


def test_offsets_after_nul_bytes_are_those_of_the_file() -> None:
    data = b"first\n" + b"\0" * 4096 + b"second\nthird\n"
    lines = read(data)
    assert [text for _, _, text in lines] == ["first", "second", "third"]
    assert lines[2] == (3, data.index(b"third"), "third")
    (block,) = read_blocks(io.BytesIO(data))
    assert block.odd_count == 1
    assert block.odd[0][:2] == (2, "not valid text")


def test_damaged_utf8_is_replaced_and_counted() -> None:
    data = b"good\nbad \xff\xfe byte\nrest\n"
    (block,) = read_blocks(io.BytesIO(data))
    assert block.text.to_list() == ["good", "bad \ufffd\ufffd byte", "rest"]
    assert [int(o) for o in block.offsets] == [0, 5, 17]
    assert (block.odd_count, block.odd[0][0]) == (1, 2)


def test_an_over_long_line_keeps_its_beginning_and_the_next_lines_their_places() -> None:
    data = b"one\n" + b"x" * (MAX_LINE * 3) + b"\nthree\n"
    lines = read(data, block_bytes=1 << 12)
    assert [number for number, _, _ in lines] == [1, 2, 3]
    assert lines[1] == (2, 4, "x" * MAX_LINE)
    assert lines[2] == (3, data.index(b"three"), "three")
    odd = [o for block in read_blocks(io.BytesIO(data), 1 << 12) for o in block.odd]
    assert [o[0] for o in odd] == [2]


def test_an_over_long_last_line_ends_the_stream() -> None:
    lines = read(b"y" * (MAX_LINE * 2), block_bytes=1 << 12)
    assert [(n, o, len(t)) for n, o, t in lines] == [(1, 0, MAX_LINE)]


PIECES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"a", b"word ", "ü".encode(), "中".encode(), b"\xe4\xb8"]),
    max_size=60,
)


@settings(max_examples=50, deadline=None)
@given(PIECES, st.integers(1, 40))
def test_block_size_changes_nothing(pieces: list[bytes], block_bytes: int) -> None:
    data = b"".join(pieces)
    assert read(data, block_bytes) == read(data)


@settings(max_examples=50, deadline=None)
@given(PIECES)
def test_every_line_of_the_bytes_is_there_at_its_offset(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    lines = read(data)
    assert len(lines) == len(expected)
    for (_, offset, text), raw in zip(lines, expected, strict=True):
        assert data[offset : offset + len(raw)] == raw
        assert text == raw.decode("utf-8", "replace").replace("\0", "").rstrip("\r\n")


@given(
    st.lists(
        st.sampled_from([b"\n", b"\n\n", b"a", b"\x0a\x0b", b"\x00", b"\x80" * 7, b"abcdefgh" * 4]), max_size=40
    ).map(b"".join)
)
def test_line_feeds_are_found_wherever_they_stand_in_eight_bytes(data: bytes) -> None:
    padded = data + b"\n" * 9
    assert _feeds(padded, len(data)).tolist() == [n for n, byte in enumerate(data) if byte == 10]


def test_what_an_earlier_block_left_in_its_room_is_not_seen() -> None:
    """Blocks whose bytes are ASCII are kept as bytes, whatever stood in the same memory before; blocks that are held keep theirs."""
    many = 200_000
    first, other = b"first line\n" * many, "zweite Zeile f\u00fcr alle\n".encode() * many
    held = [
        *read_blocks(io.BytesIO(first)),
        *read_blocks(io.BytesIO(other)),
        *read_blocks(io.BytesIO(first[:-600_000])),
    ]
    del held[1:-1]
    held += read_blocks(io.BytesIO(b"short\n" * 100_000))
    assert all(block.raw is not None for block in held)
    assert held[0].text[0] == held[0].text[-1] == "first line"
    assert len(held[-1].text) == 100_000
    assert held[-1].text.unique().to_list() == ["short"]


def test_room_is_given_again_only_once_nothing_refers_to_it() -> None:
    _keep(room := bytearray(3 << 20), is_ascii=True)
    assert _room(3 << 20) is not room
    view = memoryview(room)
    where = id(room)
    del room
    assert id(_room(3 << 20)) != where
    del view
    assert id(_room(3 << 20)) == where
