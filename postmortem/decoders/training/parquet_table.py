"""Parquet tables: latencies of queue pairs -> `qp_samples`, timed operations -> `op_times`, training steps -> events `train.step`.

Which table it is, its columns tell: those of `qp_table`, of `op_trace`, of `step_csv`; others are named in a note. A Parquet file is read
from its end, so the member is first copied into a temporary file of at most `MAX_BYTES`.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Final

import polars as pl

from postmortem.decoders.base import Decoded, Format, Hints, MemberLike
from postmortem.decoders.training.cells import MAX_COLUMNS, Layout
from postmortem.decoders.training.op_trace import COLUMNS as TRACE_COLUMNS
from postmortem.decoders.training.op_trace import read_operations
from postmortem.decoders.training.qp_table import MAX_SAMPLES, QpRows, are_qp_columns, column_of
from postmortem.decoders.training.step_csv import MAX_ROWS, StepRows
from postmortem.decoders.training.step_names import role

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MAX_BYTES: Final = 512 << 20
IN_MEMORY: Final = 32 << 20
BATCH: Final = 65_536
"""Rows read at a time."""

MAX_PAGE: Final = 256 << 20
"""Bytes that one column of a row group may take once unpacked."""

_MAX_TEXT: Final = 200
_MAGIC: Final = b"PAR1"


def decode_parquet(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of the table that the columns fit; `line` is the row's number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    decoded = Decoded()
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:
        decoded.bytes = _copy(member, spool)
        if decoded.bytes > MAX_BYTES:
            decoded.notes.append(f"a Parquet table larger than {MAX_BYTES >> 20} MB, not read")
            return decoded
        try:
            texts = [f.name for f in pq.read_schema(spool) if _is_text(f.type)]
            spool.seek(0, io.SEEK_SET)
            # As dictionaries: a long text that stands in every row of a hostile file is in memory once.
            _read(pq.ParquetFile(spool, read_dictionary=texts), decoded, member.name, hints)
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError):
            decoded.notes.append("a Parquet table that is cut off or damaged")
    return decoded


def _copy(member: MemberLike, spool: IO[bytes]) -> int:
    size = 0
    while size <= MAX_BYTES and (data := member.stream.read(4 << 20)):
        spool.write(data)
        size += len(data)
    spool.seek(0, io.SEEK_SET)
    return size


def _read(file: pq.ParquetFile, decoded: Decoded, name: str, hints: Hints) -> None:
    schema = file.schema_arrow
    names = [str(n)[:_MAX_TEXT] for n in schema.names[:MAX_COLUMNS]]
    decoded.lines = int(file.metadata.num_rows)
    wanted = {n.lower() for n in names}
    if wanted >= TRACE_COLUMNS:
        read_operations(file, decoded, name)
    elif are_qp_columns(names):
        samples = QpRows(name, hints)
        for layout, rows in _batches(file, [n for n in names if column_of(n)], MAX_SAMPLES + 1, decoded):
            samples.add(rows, layout)
        samples.put(decoded)
    elif "step" in {r.column for n in names if (r := role(n))}:
        steps = StepRows(name, hints.rank)
        for layout, rows in _batches(file, [n for n in names if role(n) or "rank" in n.lower()], MAX_ROWS + 1, decoded):
            steps.add(rows, layout)
        steps.put(decoded)
    else:
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        decoded.notes.append(f"a Parquet table that nothing reads, with columns {shown}")


def _batches(
    file: pq.ParquetFile, names: list[str], limit: int, decoded: Decoded
) -> Iterator[tuple[Layout, pl.DataFrame]]:
    """Parts of at most `BATCH` rows with columns `line`, `t` and `cells`, as text; row groups that unpack to too much end it."""
    schema = file.schema_arrow
    flat = [n for n in names if schema.names.count(n) == 1 and _is_plain(schema.field(n).type)]
    layout = Layout(tuple(flat), "")
    taken = 0
    for group in range(file.num_row_groups):
        about = file.metadata.row_group(group)
        if any(about.column(i).total_uncompressed_size > MAX_PAGE for i in range(about.num_columns)):
            decoded.notes.append("a Parquet table with row groups that are too large, not read to its end")
            return
        for batch in file.iter_batches(BATCH, row_groups=[group], columns=flat):
            if taken >= limit:
                return
            cells = [pl.Series(n, _texts(batch.column(n)), dtype=pl.String) for n in flat]
            rows = pl.DataFrame(cells).select(
                pl.int_range(pl.len(), dtype=pl.Int64).alias("line") + taken + 1,
                pl.concat_str(pl.all().fill_null(""), separator=",").alias("t"),
                pl.concat_list(pl.all()).alias("cells"),
            )
            taken += rows.height
            yield layout, rows


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Numbers, times and text; what is nested, decimal or bytes is left out."""
    import pyarrow as pa

    is_text = _is_text(kind.value_type) if pa.types.is_dictionary(kind) else _is_text(kind)
    return bool(is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind))


def _texts(column: pa.Array) -> pl.Series:
    """A column as text: times in ISO form, numbers in decimal, texts cut."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        short = pc.utf8_slice_codeunits(column.dictionary, 0, _MAX_TEXT)
        column = pa.DictionaryArray.from_arrays(column.indices, short).cast(pa.large_string())
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    if isinstance(series.dtype, pl.Datetime):
        zoned = series.dtype.time_zone is not None
        utc = series.dt.convert_time_zone("UTC") if zoned else series
        return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f" + ("Z" if zoned else ""))
    return series.cast(pl.String, strict=False)


FORMATS: Final = (
    Format(
        "parquet_table",
        "Parquet table: latencies of queue pairs, timed operations of training steps, training steps",
        "any program; pandas, polars, Arrow, DuckDB",
        "docs/queue-pair-table.md; ByteDance-Seed/StragglerAnalysis readme.md; apache/parquet-format",
        lambda head: head.raw[:4] == _MAGIC,
        decode_parquet,
    ),
)
