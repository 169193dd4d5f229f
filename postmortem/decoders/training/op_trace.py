"""Traces of timed operations of a training job -> `op_times`: the Parquet files that ByteDance's StragglerAnalysis takes.

One row is one operation of one worker in one step: `rank, dp_rank, stage, step, optype, start_ts, duration, seq_id, mc, mb_id, gmc`,
`start_ts` and `duration` in seconds, the clock anew with each step. Read where the repository's readme and `wia.py parse_trace` say so
(commit 8efcd7f). The dictionary of `optype` may stand in any order, so operations are told by their text, never by their code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from postmortem.decoders.base import Decoded

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

COLUMNS: Final = frozenset({"rank", "step", "optype", "start_ts", "duration"})
"""What a table must have to be such a trace."""

MAX_OPERATIONS: Final = 2_000_000
"""Operations kept of a file; of a longer one whole steps, spread evenly, so that every worker is in what is kept."""

MAX_STEPS: Final = 200_000
BATCH: Final = 65_536
MAX_PAGE: Final = 256 << 20
"""Bytes that one column of a row group may take once unpacked."""

_MAX_TEXT: Final = 64
# name in the trace -> column, type while rows are collected: small ones, a trace may have millions
_NUMBERS: Final[dict[str, tuple[str, type[pl.DataType]]]] = {
    "rank": ("rank", pl.Int32),
    "dp_rank": ("dp_rank", pl.Int32),
    "stage": ("stage", pl.Int32),
    "step": ("step", pl.Int64),
    "seq_id": ("seq", pl.Int32),
    "mb_id": ("microbatch", pl.Int32),
    "gmc": ("chunk", pl.Int32),
    "start_ts": ("start_s", pl.Float64),
    "duration": ("duration_s", pl.Float64),
}


def read_operations(file: pq.ParquetFile, decoded: Decoded, name: str) -> None:
    """Put the operations of `file` into `decoded` as `op_times`; `line` is the row's number, from 1.

    Two passes when the file is long: one over the steps, to choose some, one over the rows. Rows without a worker, a step, an
    operation or a finite duration of at least 0 are counted in a note. Raises what pyarrow raises for a damaged file.
    """
    by_lower = {str(n).lower(): str(n) for n in reversed(file.schema_arrow.names)}
    steps = None
    if file.metadata.num_rows > MAX_OPERATIONS:
        steps = _chosen(file, by_lower["step"])
        decoded.notes.append(
            f"a trace of {file.metadata.num_rows} timed operations, {len(steps)} of its steps were read"
        )
    parts: list[pl.DataFrame] = []
    odd = kept = first = 0
    for batch in _batches(file, [by_lower[c] for c in (*_NUMBERS, "optype") if c in by_lower], decoded):
        rows = _rows(batch, first, name)
        first += batch.num_rows
        if steps is not None:
            rows = rows.filter(pl.col("step").is_in(steps.implode()) | pl.col("step").is_null())
        good = rows.filter(
            pl.col("rank").is_between(0, 1 << 24)
            & pl.col("step").is_not_null()
            & (pl.col("op") != "")
            & pl.col("duration_s").is_between(0, 1e9)
            & pl.col("start_s").is_between(-1e12, 1e12)
        ).head(max(0, MAX_OPERATIONS - kept))
        odd += rows.height - good.height
        kept += good.height
        parts.append(good)
    if odd:
        decoded.notes.append(f"{odd} operations without a worker, a step or a duration")
    if kept:
        decoded.tables["op_times"] = pl.concat(parts)


def _batches(file: pq.ParquetFile, columns: list[str], decoded: Decoded) -> Iterator[pa.RecordBatch]:
    for group in range(file.num_row_groups):
        about = file.metadata.row_group(group)
        if any(about.column(i).total_uncompressed_size > MAX_PAGE for i in range(about.num_columns)):
            decoded.notes.append("a Parquet table with row groups that are too large, not read to its end")
            return
        yield from file.iter_batches(BATCH, row_groups=[group], columns=columns)


def _chosen(file: pq.ParquetFile, column: str) -> pl.Series:
    """Steps spread evenly over the trace that have at most `MAX_OPERATIONS` rows together."""
    counts: dict[int, int] = {}
    for batch in _batches(file, [column], Decoded()):
        for step, n in _number(batch, column, pl.Int64).drop_nulls().value_counts().iter_rows():
            if step in counts or len(counts) < MAX_STEPS:
                counts[step] = counts.get(step, 0) + n
    largest = max(counts.values(), default=1)
    wanted = max(1, MAX_OPERATIONS // largest)
    ordered = sorted(counts)
    every = max(1, -(-len(ordered) // wanted))
    return pl.Series(ordered[::every], dtype=pl.Int64)


def _rows(batch: pa.RecordBatch, first: int, name: str) -> pl.DataFrame:
    """A batch in the columns of `op_times`; what is absent, or -1 where that stands for nothing, is null."""
    by_lower = {str(n).lower(): str(n) for n in reversed(batch.schema.names)}
    frame = pl.DataFrame(
        {
            column: _number(batch, by_lower[name_], kind)
            if name_ in by_lower
            else pl.Series(column, [None] * batch.num_rows, dtype=kind)
            for name_, (column, kind) in _NUMBERS.items()
        }
    )
    nothing = [pl.when(pl.col(c) >= 0).then(pl.col(c)).alias(c) for c in ("dp_rank", "stage", "microbatch", "chunk")]
    return frame.with_columns(
        *nothing,
        _text(batch, by_lower["optype"]).alias("op"),
        pl.int_range(first + 1, first + 1 + batch.num_rows, dtype=pl.UInt32, eager=True).alias("line"),
        pl.lit(name).alias("file"),
    )


def _number(batch: pa.RecordBatch, column: str, kind: type[pl.DataType]) -> pl.Series:
    import pyarrow as pa

    array = batch.column(batch.schema.names.index(column))
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return pl.Series(column, [None] * len(array), dtype=kind)
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series.cast(kind, strict=False)


def _text(batch: pa.RecordBatch, column: str) -> pl.Series:
    """Names of operations, cut, empty where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = batch.column(batch.schema.names.index(column))
    if pa.types.is_dictionary(array.type):
        if not (pa.types.is_string(array.type.value_type) or pa.types.is_large_string(array.type.value_type)):
            return pl.Series(column, [""] * len(array), dtype=pl.String)
        short = pc.utf8_slice_codeunits(array.dictionary, 0, _MAX_TEXT)
        array = pa.DictionaryArray.from_arrays(array.indices, short).cast(pa.large_string())
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.utf8_slice_codeunits(array, 0, _MAX_TEXT)
    else:
        return pl.Series(column, [""] * len(array), dtype=pl.String)
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series.fill_null("").str.strip_chars().str.to_lowercase()
