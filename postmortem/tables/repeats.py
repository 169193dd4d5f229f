"""Lines that come back thousands of times: one of them is read by the catalogue, the others are rows of where and which numbers.

A big NCCL INFO log is a few hundred different lines, and calls that differ in a few numbers (`postmortem.lines.shapes`). Of such a line the
spool gets one whole row (`templates`) and a narrow row for each other place it stands at (`repeats`); the last calls of each kind
get whole rows with their own text. Only lines without a time, in files without times so far, and only rows that no other row depends on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.lines.blocks import Block
from postmortem.lines.shapes import CALL, CHANNEL, QUEUE_PAIR, Keyed, is_channel, keyed
from postmortem.lines.windows import Lines

LEAST_LINES: Final = 2_000
"""Lines of a block from which on looking for repetitions pays."""

LEAST_RUN: Final = 8
"""Calls of one kind in a block from which on they get narrow rows."""

LEAST_TEXT: Final = 4
"""Times that a text stands in a block from which on one of them is its sample."""

LEAST_NARROW: Final = 8
"""Places of one text from which on they get narrow rows."""

SOME_LINES: Final = 32
"""Lines of a file's first block that are asked for a time before all of its kinds are."""

KEPT: Final = 16
"""The last calls of each kind in a file that are kept whole."""

VALUES: Final[dict[int, tuple[str, ...]]] = {0: (), CALL: ("seq", "numel"), QUEUE_PAIR: ("qpn",), CHANNEL: ("channel",)}
"""Columns that differ between lines of one template, by its kind."""

NUMBERS: Final = ("seq", "numel", "qpn", "channel")


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Look(Protocol):
    """Says of texts which hold a literal of the catalogue, and which a time."""

    def __call__(self, texts: pl.Series, /) -> tuple[Flags, Flags]:
        """(which hold a literal, which show a time)."""
        ...

    def times(self, texts: pl.Series, /) -> Flags:
        """Which show a time."""
        ...


class DisagreementError(Exception):
    """The catalogue reads a dense line in another way than its shape: the shapes must not be used."""


class Known:
    """Numbers of lines (`postmortem.lines.shapes.Keyed`) → what is known of them: a template, or NOTHING."""

    def __init__(self) -> None:
        self._keys = np.empty(0, dtype=np.uint64)
        self._values = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: npt.NDArray[np.uint64]) -> Ints:
        """What is known of each, else FRESH."""
        if not len(self._keys):
            return np.full(len(keys), FRESH)
        # Most lines follow lines like them: looking up in sorted order walks the table once.
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._values[at], FRESH)

    def add(self, keys: npt.NDArray[np.uint64], values: Ints) -> None:
        """Add what is not known yet."""
        every = np.concatenate((self._keys, keys))
        order = np.argsort(every, kind="stable")
        self._keys = every[order]
        self._values = np.concatenate((self._values, values))[order]


FRESH: Final = -2
NOTHING: Final = -1
"""Of a text in which no definition finds anything."""

_READ: Final = -3
"""Of lines that are read whole."""


@dataclass(slots=True)
class Held:
    """The last calls of one kind so far: line, offset, numbers and text of each."""

    line: Ints
    offset: Ints
    values: dict[str, Ints]
    texts: list[str]


@dataclass(slots=True)
class FileState:
    """What is known of the lines of one file so far; numbers of templates hold for one flush (`part`)."""

    name: str
    part: int = -1
    is_timed: bool = False
    is_varied: bool = False
    headers: list[bytes] = field(default_factory=list)
    known: Known = field(default_factory=Known)
    held: dict[int, Held] = field(default_factory=dict)


@dataclass(slots=True)
class Repeats:
    """Repeated lines of a batch that are not written yet. `samples` lists (file, line, offset, numbers) of each template, `last` its last lines."""

    samples: list[tuple[str, int, int, dict[str, int]]] = field(default_factory=list)
    last: list[tuple[int, Held]] = field(default_factory=list)
    parts: dict[tuple[str, ...], list[dict[str, Ints]]] = field(default_factory=dict)
    lines: int = 0
    use_shapes: bool = True

    def clear(self) -> None:
        """Forget what was written."""
        self.samples, self.last, self.parts, self.lines = [], [], {}, 0

    def add(self, template: int | Ints, line: Ints, offset: Ints, numbers: dict[str, Ints] | None = None) -> None:
        """Places where lines of a template stand (or one template per place)."""
        if not len(line):
            return
        numbers = numbers or {}
        every = np.full(len(line), template) if isinstance(template, int) else template
        part = {"template": every, "line": line, "offset": offset, **numbers}
        self.parts.setdefault(tuple(numbers), []).append(part)
        self.lines += len(line)

    def places(self) -> Iterator[dict[str, Ints]]:
        """All that was added, as columns: texts, calls and queue pairs by themselves."""
        for parts in self.parts.values():
            yield {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def new(self, file: str, line: int, offset: int, numbers: dict[str, int]) -> int:
        """Number of a new template, whose sample is that line."""
        self.samples.append((file, line, offset, numbers))
        return len(self.samples) - 1


def fits(block: Block, state: FileState) -> bool:
    """Whether the lines of `block` may be looked at for repetitions."""
    return block.raw is not None and not state.is_varied and not state.is_timed and block.lines >= LEAST_LINES


def take(block: Block, state: FileState, repeats: Repeats, part: int, look: Look) -> npt.NDArray[np.intp] | None:
    """Indices of the lines of `block` that the catalogue has to read; the others go to `repeats`, or hold nothing.

    None when the block shows a time: then all of it is to be read.
    """
    assert block.raw is not None
    assert block.ends is not None
    if state.part != part:
        state.part, state.known, state.held = part, Known(), {}
    lines = Lines(block.raw, block.offsets - block.offsets[0], block.ends)
    if not len(state.known) and _shows_time(lines, look):
        state.is_timed = True
        return None
    found = keyed(lines, state.headers, use_shapes=repeats.use_shapes)
    number = state.known.find(found.key)
    fresh = np.flatnonzero(number == FRESH)
    sampled: list[int] = []
    if len(fresh):
        decided = _decide(block, lines, found, fresh, state, repeats, look, sampled)
        if decided is None:
            return None
        number[fresh] = decided
    wanted = np.flatnonzero(number == _READ)
    number[wanted] = NOTHING
    number[sampled] = NOTHING
    _put(block, lines, found, number, state, repeats)
    return np.sort(np.concatenate((wanted, np.array(sampled, dtype=np.intp))))


def _shows_time(lines: Lines, look: Look) -> bool:
    """Some lines of the block show a time: then the others need not be told apart."""
    some = np.linspace(0, len(lines.starts) - 1, SOME_LINES).astype(np.int64)
    return bool(look.times(lines.texts(some)).any())


def _decide(
    block: Block,
    lines: Lines,
    found: Keyed,
    fresh: Ints,
    state: FileState,
    repeats: Repeats,
    look: Look,
    sampled: list[int],
) -> Ints | None:
    """What each of the lines `fresh` is: a template, NOTHING, or to be read; None when one shows a time. Adds the samples to `sampled`."""
    keys, first, inverse, counts = np.unique(
        found.key[fresh], return_index=True, return_inverse=True, return_counts=True
    )
    sample = fresh[first]
    kind = found.kind[sample]
    is_dense = kind > 0
    many = counts >= np.array([LEAST_TEXT, LEAST_RUN, LEAST_RUN, LEAST_NARROW])[kind]
    # Seldom calls are texts of their own.
    lone = np.flatnonzero((is_dense & ~many)[inverse])
    texts = lines.texts(np.concatenate((sample, fresh[lone])))
    hits, is_timed = look(texts)
    # Lines with a time are all different, so one of each tells; a time in a call stands before its message, the same for its like.
    if is_timed[: len(sample)].any():
        state.is_timed = True
        return None
    hit, lone_hit = hits[: len(sample)], hits[len(sample) :]
    varied, count = int((~is_dense).sum()), int((found.kind == 0).sum())
    state.is_varied = count > LEAST_LINES and varied > 0.6 * count and count > 0.5 * len(found.key)
    some = np.flatnonzero(many & (kind == CHANNEL))
    if len(some):
        # What only begins as a channel does.
        others = some[~is_channel(texts.gather(some)).to_numpy()]
        many[others] = False
        more = np.flatnonzero(np.isin(inverse, others))
        lone, lone_hit = np.concatenate((lone, more)), np.concatenate((lone_hit, look(lines.texts(fresh[more]))[0]))
    decided = np.where(hit & ~many, _READ, NOTHING)
    # Of what stands here often the first is the sample.
    often = np.flatnonzero(many & (hit | is_dense))
    places = sample[often]
    columns = (kind[often], block.numbers[places], block.offsets[places])
    kinds, numbers, offsets = (column.tolist() for column in columns)
    for k, at, of, number, offset in zip(often.tolist(), places.tolist(), kinds, numbers, offsets, strict=True):
        values = {name: int(found.values[name][at]) for name in VALUES[of]}
        decided[k] = repeats.new(state.name, number, offset, values)
    sampled += places.tolist()
    state.known.add(keys[many], decided[many])
    out: Ints = decided[inverse]
    out[lone] = np.where(lone_hit, _READ, NOTHING)
    return out


def _put(block: Block, lines: Lines, found: Keyed, number: Ints, state: FileState, repeats: Repeats) -> None:
    """Give the lines that have a template to `repeats`, but for the last calls of each kind, which are held back."""
    numbers, offsets = block.numbers, block.offsets
    is_placed = number >= 0
    for kind in (0, CHANNEL):
        index = np.flatnonzero(is_placed & (found.kind == kind))
        values = {name: found.values[name][index] for name in VALUES[kind]} if len(index) else None
        repeats.add(number[index], numbers[index], offsets[index], values)
    for kind in (CALL, QUEUE_PAIR):
        index = np.flatnonzero(is_placed & (found.kind == kind))
        if not len(index):
            continue
        index = index[np.argsort(_small(number[index]), kind="stable")]
        templates = number[index]
        begins = np.flatnonzero(np.diff(templates, prepend=-1))
        ends = np.append(begins[1:], len(index))
        is_last = np.arange(len(index)) >= np.repeat(ends - KEPT, ends - begins)
        early = index[~is_last]
        values = {name: found.values[name] for name in VALUES[kind]}
        repeats.add(number[early], numbers[early], offsets[early], {n: v[early] for n, v in values.items()})
        # A Python loop over kinds of calls: a block has some dozens.
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            last = index[max(begin, end - KEPT) : end]
            spans = zip(lines.starts[last].tolist(), lines.ends[last].tolist(), strict=True)
            new = Held(
                numbers[last],
                offsets[last],
                {n: v[last] for n, v in values.items()},
                [lines.data[a:b].decode("ascii").rstrip("\r\n") for a, b in spans],
            )
            template = int(templates[begin])
            state.held[template] = _hold(template, state.held.get(template), new, repeats)


def _small(templates: Ints) -> Ints | npt.NDArray[np.uint16]:
    """The same numbers in two bytes where they fit: these are sorted several times as fast."""
    return templates.astype(np.uint16) if templates.max(initial=0) < 1 << 16 else templates


def _hold(template: int, old: Held | None, new: Held, repeats: Repeats) -> Held:
    """The last KEPT calls of both; the others go to `repeats`."""
    if old is None:
        return new
    cut = len(old.line) + len(new.line) - KEPT
    if cut > 0:
        repeats.add(template, old.line[:cut], old.offset[:cut], {n: v[:cut] for n, v in old.values.items()})
    cut = max(cut, 0)
    return Held(
        np.concatenate((old.line[cut:], new.line)),
        np.concatenate((old.offset[cut:], new.offset)),
        {n: np.concatenate((v[cut:], new.values[n])) for n, v in old.values.items()},
        [*old.texts[cut:], *new.texts],
    )


def keep_last(state: FileState, repeats: Repeats) -> None:
    """Give the last calls of each kind to `repeats` as whole lines; to be called at the end of a file, and before a flush."""
    repeats.last += state.held.items()
    state.held = {}
