"""Bytes of many lines of a block at once, as rows of equally many bytes: what numpy can compare and compute eight bytes at a time."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from postmortem.lines.blocks import ArrowArray

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

_INLINE: Final = 12
"""Bytes of a text up to which Arrow keeps them in its view."""

_HIGHS: Final = np.uint64(0x8080808080808080)
_SPACES: Final = np.uint64(0x2020202020202020)
_POWERS: Final = 10 ** np.arange(9, dtype=np.int64)
_STEPS: Final = ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF))
_ZEROS: Final = np.uint64(0x3030303030303030)
_ABOVE_NINE: Final = np.uint64(0x7676767676767676)
"""Added to a byte of up to 9 it leaves the highest bit unset, added to a larger one it sets it."""
_ONES: Final = np.uint64(0x0101010101010101)
_MASKS: Final = np.array([(1 << (8 * k)) - 1 for k in range(8)] + [(1 << 64) - 1], dtype=np.uint64)
_LEADING: Final = np.array([int.from_bytes(b"0" * (8 - k), "little") for k in range(9)], dtype=np.uint64)
"""The noughts that make a number of k digits one of eight."""
# Drawn anew in each process: nobody can write two lines that are taken for the same.
_SEED, _ODD = np.random.default_rng().integers(1 << 62, 1 << 63, 2).tolist()
_FACTOR: Final = np.uint64(_ODD | 1)


def word(text: bytes) -> np.uint64:
    """The first eight bytes of `text` as a number."""
    return np.uint64(int.from_bytes(text[:8].ljust(8, b"\0"), "little"))


@lru_cache(maxsize=1024)
def number_of(text: bytes) -> np.uint64:
    """One number for a text; other texts have others."""
    return np.uint64(
        int.from_bytes(hashlib.blake2b(text, digest_size=8, key=_SEED.to_bytes(8, "little")).digest(), "little")
    )


def mixed(first: Words, second: Words) -> Words:
    """One number for each pair; equal pairs, equal numbers."""
    state = (first ^ (first >> np.uint64(31))) * _FACTOR + second
    return (state ^ (state >> np.uint64(29))) * _FACTOR


class Window:
    """Equally many bytes from each of several places, copied together: `count` rows of `width` bytes."""

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self._rows = rows
        self.count = len(rows)
        self._width = rows.dtype.itemsize

    def word(self, offset: int) -> Words:
        """The eight bytes at `offset` of each row."""
        if not self.count:
            return np.empty(0, dtype=np.uint64)
        return np.ndarray((self.count,), dtype="<u8", buffer=self._rows, offset=offset, strides=(self._width,))

    def holds(self, offset: int, text: bytes) -> Flags:
        """Whether `text` stands at `offset` of each row."""
        found: Flags | None = None
        for k in range(0, len(text), 8):
            # The last word begins earlier where it can: then no byte has to be masked.
            at = min(k, len(text) - 8) if len(text) >= 8 else k
            part = text[at : at + 8]
            value = self.word(offset + at)
            same: Flags = (value if len(part) == 8 else value & _MASKS[len(part)]) == word(part)
            found = same if found is None else found & same
        return np.ones(self.count, dtype=bool) if found is None else found

    def blank(self, offset: int) -> Ints:
        """How far the next blank is from `offset`: 0 to 7, 8 when there is none."""
        value = self.word(offset) ^ _SPACES
        # The lowest flag is exact; its position is the count of bits below it.
        zero = (value - _ONES) & ~value & _HIGHS
        return np.bitwise_count((zero & (~zero + np.uint64(1))) - np.uint64(1)).astype(np.int64) >> 3

    def number(self, offset: int, size: Ints, base: int) -> tuple[Ints, Flags]:
        """(the number of `size` ≤ 8 digits at `offset`, whether all of it are digits); digits above 9 are a to f."""
        value = (self.word(offset) << ((8 - np.maximum(size, 1)) << 3).astype(np.uint64)) | _LEADING[size]
        # Eight digits at a time: what is no digit leaves a bit that no digit leaves.
        value = value ^ _ZEROS
        if base == 16:
            letter = (value >> np.uint64(6)) & _ONES
            value ^= letter * np.uint64(0x50)
            wrong = (value - letter) | (value + _ABOVE_NINE + letter * np.uint64(3)) | value
            value += letter * np.uint64(9)
        else:
            wrong = (value + _ABOVE_NINE) | value
        fits = ((wrong & _HIGHS) == 0) & (size > 0)
        factor = base
        for shift, keep in _STEPS:
            value = (value * np.uint64(factor) + (value >> np.uint64(shift))) & np.uint64(keep)
            factor *= factor
        return value.astype(np.int64), fits

    def decimal(self, offset: int) -> tuple[Ints, Ints, Flags]:
        """(number up to a blank, its size ≤ 15, whether it is one) at `offset`."""
        size = self.blank(offset)
        value, fits = self.number(offset, size, 10)
        long = np.flatnonzero(size == 8)
        if len(long):
            rest = Window(self._rows[long])
            more = rest.blank(offset + 8)
            low, low_fits = rest.number(offset + 8, more, 10)
            value[long] = value[long] * _POWERS[more] + np.where(more > 0, low, 0)
            fits[long] &= ((more == 0) | low_fits) & (more < 8)
            size[long] += more
        return value, size, fits

    def bytes(self) -> npt.NDArray[np.uint8]:
        """Rows and columns of bytes."""
        return self._rows.view(np.uint8).reshape(self.count, self._width)


class Lines:
    """The lines of a block as numbers: `starts` and `ends` (places of the line feeds) in `data`, which goes on for at least 256 bytes after the last."""

    def __init__(self, data: bytes | bytearray, starts: Ints, ends: Ints) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends

    def window(self, at: Ints, width: int) -> Window:
        """`width` ≤ 256 bytes from each place in a line."""
        count = len(self.data) - width + 1
        view = np.ndarray((count,), dtype=f"V{width}", buffer=self.data, strides=(1,))
        return Window(view[at])

    def _views(self, at: Ints, sizes: Ints) -> npt.NDArray[np.int32]:
        """Arrow's views of texts in the block: size, first bytes, buffer, place. Short ones are kept in their view."""
        views = np.zeros((len(at), 4), dtype=np.int32)
        views[:, 0] = sizes
        views[:, 3] = at
        short = np.flatnonzero(sizes <= _INLINE)
        if len(short):
            window = self.window(at[short], 16)
            size = sizes[short]
            kept = np.stack(
                (window.word(0) & _MASKS[np.minimum(size, 8)], window.word(8) & _MASKS[np.maximum(size - 8, 0)])
            )
            views[short, 1:] = np.ascontiguousarray(kept.T).view(np.int32)[:, :3]
        return views

    def _binary(self, views: npt.NDArray[np.int32]) -> pl.Series:
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        return pl.Series(ArrowArray(pa.Array.from_buffers(pa.binary_view(), len(views), buffers)))

    def hashed(self, at: Ints, sizes: Ints) -> Words:
        """One number for the `sizes` bytes from each place; equal texts, equal numbers (of 64 bits: others are taken as different)."""
        if not len(at):
            return np.empty(0, dtype=np.uint64)
        # The first bytes of long texts are left out of the views: polars hashes what these point at. (`Series.hash` takes five times as long to begin.)
        return self._binary(self._views(at, sizes)).to_frame().hash_rows(_SEED).to_numpy()

    def texts(self, index: Ints) -> pl.Series:
        """The texts of these lines without line ends. They are views into the block, which lives as long as they do."""
        at, ends = self.starts[index], self.ends[index]
        octets = np.frombuffer(self.data, dtype=np.uint8)
        while (is_return := (ends > at) & (octets[ends - 1] == 13)).any():
            ends = ends - is_return
        views = self._views(at, ends - at)
        long = np.flatnonzero(ends - at > _INLINE)
        views[long, 1] = self.window(at[long], 4).bytes().view(np.int32)[:, 0]
        return self._binary(views).cast(pl.String)
