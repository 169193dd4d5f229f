"""Lines that come back thousands of times: one of them is read by the catalogue, the others are rows of where and which numbers.

A big NCCL INFO log is a few hundred different lines, and calls that differ in a few numbers (`postmortem.lines.shapes`). Of such a line the
spool gets one whole row (`templates`) and a narrow row for each other place it stands at (`repeats`); the last calls of each kind
are read whole, too. Only lines without a time, in files without times so far, and only rows that no other row depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.catalogue.matcher import HIT_SCHEMA, ROW_SCHEMA
from postmortem.lines.blocks import Block
from postmortem.lines.donors import NO_TIME
from postmortem.lines.shapes import Run, runs

LEAST_LINES: Final = 2_000
"""Lines of a block from which on looking for repetitions pays."""

LEAST_RUN: Final = 64
"""Calls of one kind in a block from which on they get narrow rows."""

LEAST_TEXT: Final = 4
"""Times that a text stands in a block from which on one of them is its sample."""

LEAST_NARROW: Final = 8
"""Places of one text from which on they get narrow rows."""

KEPT: Final = 16
"""The last calls of each kind in a file that are kept whole."""

NUMBERS: Final = ("seq", "numel", "qpn")
"""Columns that differ between lines of one shape."""

REPEAT_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "template": pl.Int64,
    "line": pl.Int64,
    "offset": pl.Int64,
    **dict.fromkeys(NUMBERS, pl.Int64),
}
_LONE: Final = pl.all_horizontal(
    pl.col(n).is_null() for n in ("continues", "precedes", "record", "unless", "stamp_us", "stamp2_us", "uptime_s")
) & ~pl.col("needs_parts").fill_null(False)
"""A row that neither has a time nor is part of a record."""

Ints = npt.NDArray[np.int64]


class DisagreementError(Exception):
    """The catalogue reads a dense line in another way than its shape: the shapes must not be used."""


@dataclass(slots=True)
class FileState:
    """What is known of the lines of one file so far; numbers of templates hold for one flush (`part`)."""

    name: str
    part: int = -1
    is_timed: bool = False
    is_varied: bool = False
    texts: dict[str, int] = field(default_factory=dict)
    shapes: dict[tuple[bytes, ...], int] = field(default_factory=dict)
    last: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)


@dataclass(slots=True)
class Repeats:
    """Repeated lines of a batch that are not written yet. `samples` lists (file, line, offset, numbers) of each template."""

    samples: list[tuple[str, int, int, dict[str, int]]] = field(default_factory=list)
    parts: list[dict[str, Ints]] = field(default_factory=list)
    lines: int = 0
    use_shapes: bool = True

    def clear(self) -> None:
        """Forget what was written."""
        self.samples, self.parts, self.lines = [], [], 0

    def add(self, template: int | Ints, line: Ints, offset: Ints, numbers: dict[str, Ints] | None = None) -> None:
        """Places where lines of a template stand (or one template per place)."""
        if not len(line):
            return
        columns = {
            "template": np.broadcast_to(np.int64(template), len(line)) if isinstance(template, int) else template
        }
        self.parts.append({**columns, "line": line, "offset": offset, **(numbers or {})})
        self.lines += len(line)

    def places(self) -> pl.DataFrame:
        """All that was added, in the columns of REPEAT_SCHEMA."""
        columns: dict[str, pl.Series] = {}
        for name in REPEAT_SCHEMA:
            arrays = [p[name] if name in p else np.zeros(len(p["line"]), dtype=np.int64) for p in self.parts]
            columns[name] = pl.Series(name, np.concatenate(arrays))
        known = {name: np.concatenate([np.full(len(p["line"]), name in p) for p in self.parts]) for name in NUMBERS}
        frame = pl.DataFrame(columns)
        return frame.with_columns(pl.when(pl.Series(known[n])).then(n).alias(n) for n in NUMBERS)

    def new(self, file: str, line: int, offset: int, numbers: dict[str, int]) -> int:
        """Number of a new template, whose sample is that line."""
        self.samples.append((file, line, offset, numbers))
        return len(self.samples) - 1


def fits(block: Block, state: FileState) -> bool:
    """Whether the lines of `block` may be looked at for repetitions."""
    return block.raw is not None and not state.is_varied and not state.is_timed and len(block.text) >= LEAST_LINES


def take(
    block: Block, state: FileState, repeats: Repeats, part: int, matches: Callable[[pl.Series], pl.Series]
) -> npt.NDArray[np.intp] | None:
    """Indices of the lines of `block` that the catalogue has to read; the others go to `repeats`, or hold nothing.

    None when the block shows a time: then all of it is to be read. `matches` says of texts which hold a literal of the catalogue.
    """
    if state.part != part:
        state.part = part
        state.texts, state.shapes, state.last = {}, {}, {}
    numbers, offsets = block.numbers, block.offsets
    is_left = np.ones(len(block.text), dtype=bool)
    dense = _dense(block, state) if repeats.use_shapes else []
    for run in dense:
        is_left[run.index] = False
    rest = np.flatnonzero(is_left)
    texts = block.text if len(rest) == len(is_left) else block.text.gather(rest)
    first = _first_equal(texts)
    own = np.flatnonzero(first == np.arange(len(rest)))
    unique = texts.gather(own)
    # Lines with a time are all different, so one of each tells; a time in a call stands before its message, the same for its run.
    shown = pl.concat([unique, block.text.gather([int(run.index[0]) for run in dense])])
    if shown.str.contains(NO_TIME).any():
        state.is_timed = True
        return None
    wanted = _put_dense(block, state, repeats, dense)
    counts = np.bincount(first, minlength=len(rest))[own]
    state.is_varied = len(rest) > LEAST_LINES and len(own) > 0.6 * len(rest) and len(rest) > 0.5 * len(is_left)
    listed = unique.to_list()
    known = np.array([state.texts.get(t, -2) for t in listed], dtype=np.int64)
    fresh = np.flatnonzero(known == -2)
    hit = matches(unique if len(fresh) == len(own) else unique.gather(fresh)).to_numpy()
    known[fresh[~hit]] = -1
    for k in fresh[~hit & (counts[fresh] >= LEAST_TEXT)].tolist():
        state.texts[listed[k]] = -1
    # Seldom lines are all read; of the others the first is the sample.
    for k in fresh[hit & (counts[fresh] >= LEAST_TEXT)].tolist():
        at = int(rest[own[k]])
        known[k] = state.texts[listed[k]] = repeats.new(state.name, int(numbers[at]), int(offsets[at]), {})
        wanted.append(at)
    number = np.empty(len(rest), dtype=np.int64)
    number[own] = known
    number = number[first]
    wanted += rest[number == -2].tolist()
    is_left[:] = False
    is_left[rest[number >= 0]] = True
    is_left[wanted] = False
    again = np.flatnonzero(is_left)
    repeats.add(number[np.searchsorted(rest, again)], numbers[again], offsets[again])
    return np.sort(np.array(wanted, dtype=np.intp))


def _first_equal(texts: pl.Series) -> npt.NDArray[np.int64]:
    """For each text the position of the first equal one."""
    frame = texts.to_frame("t").with_row_index("i")
    return frame.select(pl.col("i").first().over("t")).to_series().to_numpy().astype(np.int64)


def _dense(block: Block, state: FileState) -> list[Run]:
    """Runs of dense lines that are long enough or go on one that was."""
    assert block.raw is not None
    found = runs(block.raw, block.offsets - block.offsets[0])
    return [run for run in found if len(run.index) >= LEAST_RUN or run.key in state.shapes]


def _put_dense(block: Block, state: FileState, repeats: Repeats, dense: list[Run]) -> list[int]:
    """Take the lines of the runs; indices of those that are samples of new templates."""
    numbers, offsets = block.numbers, block.offsets
    wanted: list[int] = []
    tails: list[tuple[int, Ints]] = []
    for run in dense:
        template = state.shapes.get(run.key)
        index, values = run.index, run.values
        if template is None:
            at = int(index[0])
            sample = {name: int(v[0]) for name, v in values.items()}
            template = repeats.new(state.name, int(numbers[at]), int(offsets[at]), sample)
            state.shapes[run.key] = template
            wanted.append(at)
            index, values = index[1:], {name: v[1:] for name, v in values.items()}
        repeats.add(template, numbers[index], offsets[index], values)
        tails.append((template, index[-KEPT:]))
    if not tails:
        return wanted
    every = np.concatenate([tail for _, tail in tails])
    texts = iter(block.text.gather(every).to_list())
    for template, tail in tails:
        kept = [(n, o, next(texts)) for n, o in zip(numbers[tail].tolist(), offsets[tail].tolist(), strict=True)]
        state.last[template] = [*state.last.get(template, []), *kept][-KEPT:]
    return wanted


def last_lines(state: FileState) -> pl.DataFrame | None:
    """The last calls of each kind (template, file, line, offset, text), to be read whole; call it once, at the end of a file or before a flush."""
    rows = [(template, state.name, *line) for template, lines in state.last.items() for line in lines]
    state.last = {}
    schema = {"template": pl.Int64, **HIT_SCHEMA}
    return pl.DataFrame(rows, schema=schema, orient="row") if rows else None


def settle_repeats(
    rows: pl.DataFrame, kept: pl.DataFrame, repeats: Repeats, base: int, telling: frozenset[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(`rows` with those of lines that repeat too seldom or depend on others, templates, narrow rows).

    `rows` are what the catalogue made of all lines that it read, the samples among them; `kept` (template, line) are lines
    that were read besides. Templates are numbered from `base`. `telling`: header kinds that make other rows void.
    """
    if not repeats.parts:
        return rows, pl.DataFrame(), pl.DataFrame()
    samples = pl.DataFrame(
        [(i, f, n, o) for i, (f, n, o, _) in enumerate(repeats.samples)],
        schema={"template": pl.Int64, "file": pl.String, "line": pl.Int64, "_offset": pl.Int64},
        orient="row",
    )
    found = rows.join(samples, on=["file", "line"], how="inner")
    _check(found, repeats)
    places = repeats.places()
    if kept.height:
        places = places.join(kept.select("template", "line"), on=["template", "line"], how="anti")
    tells = pl.any_horizontal(
        pl.lit(False), *(pl.col("headers").str.contains(f"|{k}|", literal=True) for k in sorted(telling))
    )
    alone = found.group_by("template").agg(is_lone=(_LONE & ~tells).all())
    counted = places.group_by("template").len("times").join(alone, on="template", how="inner")
    is_shape = pl.Series("template", [i for i, s in enumerate(repeats.samples) if s[3]], dtype=pl.Int64)
    narrow = counted.filter(
        pl.col("is_lone") & ((pl.col("times") >= LEAST_NARROW) | pl.col("template").is_in(is_shape.implode()))
    )
    broad = counted.join(narrow, on="template", how="anti")
    if broad.height:
        if broad["template"].is_in(is_shape.implode()).any():
            raise DisagreementError("a dense line is part of a record")
        rows = pl.concat([rows, expand(places.join(broad.select("template"), on="template", how="semi"), found)])
        rows = rows.sort("file", "line", "offset", "sub", "definition", maintain_order=True)
    templates = found.join(narrow.select("template", "times"), on="template")
    return (
        rows,
        templates.with_columns(pl.col("template") + base),
        places.join(narrow.select("template"), on="template", how="semi").with_columns(pl.col("template") + base),
    )


def _check(found: pl.DataFrame, repeats: Repeats) -> None:
    """Each template of a shape gives one row with the numbers that the shape has read; else DisagreementError."""
    shaped = {i: s[3] for i, s in enumerate(repeats.samples) if s[3]}
    if not shaped:
        return
    some = found.filter(pl.col("template").is_in(list(shaped))).select("template", "is_fact", *NUMBERS)
    seen: dict[int, int] = {}
    for row in some.iter_rows(named=True):
        number = int(row["template"])
        seen[number] = seen.get(number, 0) + 1
        if row["is_fact"] or any(row[n] != v for n, v in shaped[number].items()):
            raise DisagreementError(f"{repeats.samples[number][:2]}: read as {row}, by its shape {shaped[number]}")
    if any(n != 1 for n in seen.values()):
        raise DisagreementError("a dense line gives several rows")


def expand(places: pl.DataFrame, templates: pl.DataFrame) -> pl.DataFrame:
    """Whole rows (ROW_SCHEMA) for narrow ones. The text of a call is its sample's but for the numbers and pointers, which are left out."""
    rows = places.join(templates, on="template", suffix="_t")
    numbers = [pl.coalesce(n, f"{n}_t").alias(n) for n in NUMBERS]
    differs = pl.any_horizontal(pl.col(n).is_not_null() for n in NUMBERS)
    rows = rows.with_columns(
        (pl.col("offset") + pl.col("offset_t") - pl.col("_offset")).alias("offset"),
        *numbers,
        pl.when(~differs).then("text").alias("text"),
    )
    return rows.select(pl.col(n).cast(t) for n, t in ROW_SCHEMA.items())
