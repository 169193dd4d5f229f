"""Step tables of any trainer, CSV with a header or JSON lines -> events `train.step` (and `train.nan`).

    rank,step,time,step_time_ms,data_time_ms          step,rank_0,rank_1,rank_2          {"step": 17, "step_time_ms": 7579.5, "loss": 2.1}
    0,17,1789159158.211,7579.5,24.06                  17,7.57,7.58,9.11                  {"_step": 17, "_timestamp": 1789159158.2, "train/loss": 2.1}
    epoch,step,train_loss_step,val_loss               (Lightning's CSVLogger; rows of an evaluation are no steps)

Names are those of `postmortem.decoders.training.step_names`: a duration without a unit is in seconds; `time|timestamp` are epoch seconds
(milliseconds and finer by their size) or ISO. The wide form has a column of durations per rank. Also read: the history of Weights &
Biases, LLaMA-Factory's `trainer_log.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import polars as pl

from postmortem.decoders.base import MAX_TEXT, Decoded, Format, MemberLike, numbered
from postmortem.decoders.training.cells import (
    Layout,
    are_json_lines,
    count,
    header_names,
    layout_of,
    real,
    separator_of,
    stamps,
)
from postmortem.decoders.training.step_names import Role, role
from postmortem.lines.blocks import read_blocks
from postmortem.patterns import later

MAX_ROWS: Final = 1_000_000
_WIDE_TEXT: Final = 120
"""Characters kept of a line of the wide form, which every one of its ranks repeats."""

_MS_ABOVE: Final = 200.0
"""A wide table that names no unit is taken as milliseconds when its median is above this: no step takes that many seconds
and is logged with hundreds of others, and few take less than 0.2 s."""

_FIGURES: Final = (
    "step_time_ms",
    "data_time_ms",
    "loss",
    "grad_norm",
    "tokens_per_s",
    "samples_per_s",
    "tflops",
    "mfu",
)
_LOG_KEYS: Final = frozenset({"message", "msg", "log", "level", "levelname", "severity", "stream", "reason", "event"})
_WIDE: Final = later(
    r"(?:step_?time_?|time_?)?(?:global_?)?rank[-_ ]?([0-9]{1,7})(?:[-_ ]?(?:step_?)?(?:time_?)?)?(?:\((ms|s)\)|_?(ms|s|sec))?",
    re.IGNORECASE,
)


def looks_like_steps(head: bytes) -> bool:
    """A CSV header with a step and times or a loss, or lines that are all JSON objects with a step and one of these."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    if text[:1] == "{":
        return are_json_lines(text, _is_json_step)
    lines = text.split("\n", 2)
    names = header_names(lines[0])
    columns = {r.column for n in names if (r := role(n))}
    if "step" not in columns or not (columns & {"step_time_ms", "time", "loss"} or len(_wide(names)) >= 2):
        return False
    cells = lines[1].split(separator_of(lines[0])) if len(lines) > 1 and lines[1].strip() else []
    at = next(i for i, n in enumerate(names) if _is("step")(n))
    return not cells or (len(cells) == len(names) and re.fullmatch(r'\s*"?[0-9]*(?:\.0*)?"?\s*', cells[at]) is not None)


def _is_json_step(found: dict[str, Any]) -> bool:
    """An object with a step and a duration, or a step and time of the history of W&B; a log in JSON has a message too."""
    if set(found) & _LOG_KEYS:
        return False
    columns: dict[str, Any] = {r.column: found[n] for n in found if (r := role(n))}
    step = columns.get("step")
    if isinstance(step, bool) or not isinstance(step, int | float):
        return False
    return (
        "step_time_ms" in columns or "_timestamp" in found or ("loss" in columns and isinstance(columns["loss"], float))
    )


def _is(column: str) -> Callable[[str], bool]:
    return lambda name: (found := role(name)) is not None and found.column == column


def _wide(names: Sequence[str]) -> dict[int, tuple[int, str | None]]:
    """Columns of the wide form: index -> (rank, unit that the name gives)."""
    found = {i: m for i, n in enumerate(names) if (m := _WIDE.fullmatch(n))}
    return {i: (int(m[1]), (m[2] or m[3] or "").lower() or None) for i, m in found.items()}


def decode_steps(member: MemberLike, rank_hint: int | None) -> Decoded:
    """Rows of events `train.step`, the rank from its column, else `rank_hint`. Rows without a step are counted in a note."""
    decoded = Decoded()
    steps = StepRows(member.name, rank_hint)
    layout: Layout | None = None
    for block in read_blocks(member.stream):
        decoded.count(block)
        lines = numbered(block).filter(pl.col("t").str.strip_chars() != "")
        if layout is None and lines.height:
            layout, lines = layout_of(lines)
        if layout is not None and lines.height:
            steps.add(layout.prepare(lines), layout)
    steps.put(decoded)
    return decoded


class StepRows:
    """Collects the steps of a table part by part; at most `MAX_ROWS`."""

    def __init__(self, file: str, rank_hint: int | None) -> None:
        self._file = file
        self._rank = rank_hint
        self._parts: list[pl.DataFrame] = []
        self._kept = 0
        self._odd = 0

    def add(self, lines: pl.DataFrame, layout: Layout) -> None:
        """Take the rows of `lines` (columns `line`, `t` and what `Layout.prepare` adds)."""
        rows, bad = _rows(lines, layout, self._rank)
        self._odd += bad + max(0, rows.height - (MAX_ROWS - self._kept))
        self._parts.append(rows.head(MAX_ROWS - self._kept))
        self._kept += self._parts[-1].height

    def put(self, decoded: Decoded) -> None:
        """Rows of `events`, and a note on rows that were left out."""
        if self._odd:
            decoded.notes.append(f"{self._odd} rows that are no steps, or beyond the first {MAX_ROWS}")
        if self._kept:
            rows = _with_unit(pl.concat(self._parts), self._file)
            nan = rows.filter("is_nan")
            rows = rows.drop("is_nan").with_columns(
                pl.lit("train.step").alias("event"), pl.lit("info").alias("severity")
            )
            nan = nan.select(
                "line", "text", "message", "host", "rank", "step", pl.col("^stamp_.*$"),
                (pl.col("sub") + 1).alias("sub"),
                pl.lit("train.nan").alias("event"),
                pl.lit("error").alias("severity"),
            )  # fmt: skip
            both = pl.concat([rows, nan], how="diagonal") if nan.height else rows
            decoded.tables["events"] = both.with_columns(
                pl.lit(self._file).alias("file"),
                pl.lit(0, dtype=pl.Int64).alias("offset"),
                pl.lit("trainer").alias("source"),
            )


def _figure(layout: Layout, column: str) -> pl.Expr:
    """The first column of the table that has a number for `column`, in the schema's unit."""
    found: list[tuple[int, Role]] = [
        (i, r) for i, n in enumerate(layout.names) if (r := role(n)) and r.column == column
    ]
    cells = [real(layout.cell(i)) * r.factor for i, r in found]
    return (pl.coalesce(cells) if cells else pl.lit(None, dtype=pl.Float64)).alias(column)


def _rows(lines: pl.DataFrame, layout: Layout, rank_hint: int | None) -> tuple[pl.DataFrame, int]:
    """Steps of `lines` in the layout of events (durations of a wide table still without unit), and how many lines have none.

    A line with a step but no figure of training (an evaluation) is left out.
    """
    wide = _wide(layout.names) if layout.separator is not None else {}
    has_rank = any(_is("rank")(n) for n in layout.names)
    is_wide = len(wide) >= 2 and not has_rank
    scopes = {r.scope for n in layout.names if (r := role(n)) and r.scope}
    rows = lines.select(
        "line",
        pl.col("t").str.slice(0, _WIDE_TEXT if is_wide else MAX_TEXT).alias("text"),
        layout.first(_is("host")).alias("host"),
        count(layout.first(_is("step"))).alias("step"),
        count(layout.first(_is("total_steps"))).alias("total_steps"),
        *[_figure(layout, c) for c in _FIGURES if c != "step_time_ms"],
        layout.first(_is("loss")).str.to_lowercase().str.contains(r"^-?nan$").fill_null(False).alias("is_nan"),
        *_durations(layout, wide if is_wide else {}),
        *stamps(layout.first(_is("time"))),
    ).with_columns(
        pl.col("text").alias("message"),
        pl.lit(0, dtype=pl.Int64).alias("sub"),
        pl.lit(next(iter(scopes)) if len(scopes) == 1 else None, dtype=pl.String).alias("scope"),
    )
    good = rows.filter(pl.col("step").is_not_null())
    kept = good.explode("rank", "step_time_ms", "unit")
    has_figure = pl.any_horizontal(*[pl.col(c).is_not_null() for c in _FIGURES], pl.col("is_nan"))
    if is_wide or any((r := role(n)) and r.column in _FIGURES for n in layout.names):
        kept = kept.filter(has_figure)
    return kept.with_columns(
        pl.col("rank").fill_null(pl.lit(rank_hint, dtype=pl.Int64)),
        pl.when(is_wide).then(pl.int_range(pl.len(), dtype=pl.Int64).over("line")).otherwise(0).alias("sub"),
    ), rows.height - good.height


def _durations(layout: Layout, wide: dict[int, tuple[int, str | None]]) -> list[pl.Expr]:
    """Lists `rank`, `step_time_ms` and `unit` of each row: one item, or one per rank of the wide form."""
    if wide:
        return [
            pl.concat_list([pl.lit(rank, dtype=pl.Int64) for rank, _ in wide.values()]).alias("rank"),
            pl.concat_list([real(layout.cell(i)) for i in wide]).alias("step_time_ms"),
            pl.concat_list([pl.lit(unit or "", dtype=pl.String) for _, unit in wide.values()]).alias("unit"),
        ]
    return [
        pl.concat_list(count(layout.first(_is("rank")))).alias("rank"),
        pl.concat_list(_figure(layout, "step_time_ms")).alias("step_time_ms"),
        pl.concat_list(pl.lit("ms")).alias("unit"),
    ]


def _with_unit(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Durations in milliseconds, wide tables' empty cells left out; a unit that no column names is told by the file's name or size."""
    rows = rows.filter(pl.col("step_time_ms").is_not_null() | (pl.col("unit") == "ms"))
    unnamed = rows.filter(pl.col("unit") == "")["step_time_ms"]
    middle = unnamed.median()
    is_ms = "ms" in re.split(r"[^a-z0-9]+", name.lower()) or (isinstance(middle, float) and middle > _MS_ABOVE)
    factor = pl.when(pl.col("unit") == "ms").then(1.0).when(pl.col("unit") != "").then(1000.0)
    return rows.with_columns(pl.col("step_time_ms") * factor.otherwise(1.0 if is_ms else 1000.0)).drop("unit")


FORMATS: Final = (
    Format(
        "step_csv",
        "table of training steps, CSV or JSON lines, a row per step or a column per rank",
        "any trainer; Lightning's CSVLogger, history of Weights & Biases, LLaMA-Factory",
        "its own header",
        lambda head: looks_like_steps(head.raw),
        lambda member, hints: decode_steps(member, hints.rank),
    ),
)
