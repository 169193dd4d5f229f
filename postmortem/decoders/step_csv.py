"""Generic step tables, CSV with a header or JSON lines -> events `train.step`.

    rank,step,time,step_time_ms,data_time_ms          step,rank_0,rank_1,rank_2          {"step": 17, "step_time_ms": 7579.5, "loss": 2.1}
    0,17,1789159158.211,7579.5,24.06                  17,7.57,7.58,9.11

Names: step `step|iteration|iter|global_step`; duration `step_time_ms|time_ms` or, in seconds, `step_time|step_time_s|seconds|elapsed`;
`data_time_ms|data_time`; `loss`; `rank`; `time|timestamp`: epoch seconds (milliseconds above 1e11) or ISO. The wide form has
a column of durations per rank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from postmortem.decoders.base import MAX_TEXT, Decoded, Format, MemberLike, numbered
from postmortem.lines.blocks import read_blocks

MAX_ROWS: Final = 1_000_000
MAX_COLUMNS: Final = 4_200
_WIDE_TEXT: Final = 120
"""Characters kept of a line of the wide form, which every one of its ranks repeats."""

_MS_ABOVE: Final = 200.0
"""A wide table that names no unit is taken as milliseconds when its median is above this: no step takes that many seconds
and is logged with hundreds of others, and few take less than 0.2 s."""

_STEP: Final = ("step", "iteration", "iter", "global_step")
_TIME_MS: Final = ("step_time_ms", "time_ms", "iteration_time_ms", "elapsed_ms", "duration_ms")
_TIME_S: Final = ("step_time", "step_time_s", "seconds", "elapsed", "iteration_time", "elapsed_s", "duration_s")
_DATA_MS: Final = ("data_time_ms",)
_DATA_S: Final = ("data_time", "data_time_s")
_LOSS: Final = ("loss", "lm_loss", "train_loss")
_RANK: Final = ("rank", "global_rank")
_WHEN: Final = ("time", "timestamp", "ts", "wall_time")
_HOST: Final = ("host", "hostname", "node")
_TIMED: Final = frozenset({*_TIME_MS, *_TIME_S, *_WHEN})
_LOG_KEYS: Final = frozenset({"message", "msg", "log", "level", "levelname", "severity", "stream", "reason", "event"})
_NAME: Final = re.compile(r"[a-z_#][a-z0-9_ /().%#-]*", re.IGNORECASE)
_WIDE: Final = re.compile(
    r"(?:step_?time_?|time_?)?(?:global_?)?rank[-_ ]?([0-9]{1,7})(?:[-_ ]?(?:step_?)?(?:time_?)?)?(?:\((ms|s)\)|_?(ms|s|sec))?",
    re.IGNORECASE,
)
_ISO: Final = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?\s*(Z|[+-][0-9]{2}:?[0-9]{2})?$"
)


def looks_like_steps(head: bytes) -> bool:
    """A CSV header with a step and times, or lines that are all JSON objects with a step and a time or loss."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    if text[:1] == "{":
        return _are_json_steps(text)
    lines = text.split("\n", 2)
    separator = _separator(lines[0])
    names = _header(lines[0], separator)
    if not names or not set(names) & set(_STEP):
        return False
    if not (set(names) & _TIMED or len(_wide(names)) >= 2):
        return False
    cells = lines[1].split(separator) if len(lines) > 1 and lines[1].strip() else []
    at = next(i for i, n in enumerate(names) if n in _STEP)
    return not cells or (len(cells) == len(names) and re.fullmatch(r'\s*"?[0-9]+(?:\.0*)?"?\s*', cells[at]) is not None)


def _are_json_steps(text: str) -> bool:
    """Looks at the first lines only; a last line that the head cuts off is left out. A log in JSON has a message too."""
    lines = [line for line in text.split("\n")[:20] if line.strip()]
    if len(lines) > 1 and not text.endswith("\n"):
        lines = lines[:-1]
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return False
        keys = set(found) if isinstance(found, dict) else set()
        step = next((found[k] for k in _STEP if k in keys), None)
        if isinstance(step, bool) or not isinstance(step, int | float) or keys & _LOG_KEYS:
            return False
        if not keys & {*_TIME_MS, *_TIME_S}:
            return False
    return bool(lines)


def _separator(header: str) -> str:
    return max(",;\t", key=header.count)


def _header(line: str, separator: str) -> list[str]:
    """Lower-case names of a header; empty when the line is none."""
    if len(line) > 200_000 or separator not in line:
        return []
    names = [cell.strip().strip('"').lower() for cell in line.rstrip("\r").split(separator)]
    fits = len(names) <= MAX_COLUMNS and all(_NAME.fullmatch(n) for n in names)
    return names if fits else []


def _wide(names: Sequence[str]) -> dict[int, tuple[int, str | None]]:
    """Columns of the wide form: index -> (rank, unit that the name gives)."""
    found = {i: m for i, n in enumerate(names) if (m := _WIDE.fullmatch(n))}
    return {i: (int(m[1]), m[2] or m[3]) for i, m in found.items()}


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a file's cells are reached: by position in a CSV, by key in JSON lines."""

    names: tuple[str, ...] | None
    separator: str

    def cell(self, accepted: Sequence[str]) -> pl.Expr:
        """Text of the first of `accepted` that a row has; null where it has none."""
        cells = [self._one(name) for name in accepted if self.names is None or name in self.names]
        return pl.coalesce(cells) if cells else pl.lit(None, dtype=pl.String)

    def _one(self, name: str) -> pl.Expr:
        if self.names is None:
            value = pl.col("t").str.extract(rf'"{name}"\s*:\s*(?:"([^"]*)"|[-+0-9.eE]+)', 0)
            return value.str.replace(r'^"[^"]*"\s*:\s*', "").str.strip_chars('" ')
        return self.at(self.names.index(name))

    def at(self, index: int) -> pl.Expr:
        """Text of a CSV cell; null when empty or missing."""
        cell = pl.col("cells").list.get(index, null_on_oob=True).str.strip_chars(' "\r')
        return pl.when(cell != "").then(cell)


def decode_steps(member: MemberLike, rank_hint: int | None) -> Decoded:
    """Rows of events `train.step`, the rank from its column, else `rank_hint`. Rows that are no steps are counted in a note."""
    decoded = Decoded()
    parts: list[pl.DataFrame] = []
    layout: _Layout | None = None
    kept = odd = 0
    for block in read_blocks(member.stream):
        decoded.count(block)
        lines = numbered(block).filter(pl.col("t").str.strip_chars() != "")
        if layout is None and lines.height:
            layout, lines = _layout(lines)
        if layout is None or not lines.height:
            continue
        rows, bad = _rows(lines, layout, rank_hint)
        odd += bad + max(0, rows.height - (MAX_ROWS - kept))
        parts.append(rows.head(MAX_ROWS - kept))
        kept += parts[-1].height
    if odd:
        decoded.notes.append(f"{odd} rows that are no steps, or beyond the first {MAX_ROWS}")
    if kept:
        rows = _with_unit(pl.concat(parts), member.name)
        decoded.tables["events"] = rows.with_columns(
            pl.lit(member.name).alias("file"),
            pl.lit(0, dtype=pl.Int64).alias("offset"),
            pl.lit("trainer").alias("source"),
            pl.lit("train.step").alias("event"),
            pl.lit("info").alias("severity"),
        )
    return decoded


def _layout(lines: pl.DataFrame) -> tuple[_Layout | None, pl.DataFrame]:
    """The layout that the first line shows, and the lines after it that hold rows."""
    first = str(lines["t"][0]).removeprefix("\ufeff")
    if first.startswith("{"):
        return _Layout(None, ""), lines
    separator = _separator(first)
    names = _header(first, separator)
    return (_Layout(tuple(names), separator) if names else None), lines.tail(-1)


def _real(text: pl.Expr) -> pl.Expr:
    value = text.cast(pl.Float64, strict=False)
    return pl.when(value.is_finite() & (value.abs() < 1e300)).then(value)


def _whole(text: pl.Expr) -> pl.Expr:
    value = _real(text)
    return pl.when(value.is_between(0, 2.0**53)).then(value).cast(pl.Int64)


def _stamps(text: pl.Expr) -> list[pl.Expr]:
    """The columns of RAW_TIME from epoch seconds, epoch milliseconds or ISO."""
    number = _real(text)
    seconds = pl.when(number > 1e11).then(number / 1000).otherwise(number)
    epoch_us = pl.when(seconds.is_between(1e6, 4.1e9)).then(seconds * 1e6).round().cast(pl.Int64)
    date = pl.concat_str(text.str.extract(_ISO, 1), pl.lit(" "), text.str.extract(_ISO, 2))
    micros = text.str.extract(_ISO, 3).str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False).fill_null(0)
    iso_us = date.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us").dt.epoch("us") + micros
    zone = text.str.extract(_ISO, 4)
    digits = zone.str.replace_all("[^0-9]", "").str.pad_end(4, "0").cast(pl.Int32, strict=False)
    east = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1) * (digits // 100 * 3600 + digits % 100 * 60)
    stamp_us = pl.coalesce(epoch_us, iso_us)
    known = stamp_us.is_not_null()
    return [
        stamp_us.alias("stamp_us"),
        pl.when(known).then(True).alias("stamp_has_year"),
        pl.when(epoch_us.is_not_null())
        .then(0)
        .when(zone.is_not_null())
        .then(east)
        .cast(pl.Int32)
        .alias("stamp_zone_s"),
        pl.when(known)
        .then(pl.when(text.str.contains(".", literal=True)).then(1_000).otherwise(1_000_000))
        .cast(pl.Int64)
        .alias("stamp_res_us"),
    ]


def _rows(lines: pl.DataFrame, layout: _Layout, rank_hint: int | None) -> tuple[pl.DataFrame, int]:
    """Steps of `lines` in the layout of events (durations of a wide table still without unit), and how many lines are none."""
    if layout.names is not None:
        lines = lines.with_columns(pl.col("t").str.split(layout.separator).alias("cells"))
    wide = _wide(layout.names or ())
    is_wide = len(wide) >= 2 and not set(layout.names or ()) & set(_RANK)
    rows = lines.select(
        "line",
        pl.col("t").str.slice(0, _WIDE_TEXT if is_wide else MAX_TEXT).alias("text"),
        layout.cell(_HOST).alias("host"),
        _whole(layout.cell(_STEP)).alias("step"),
        _real(layout.cell(_LOSS)).alias("loss"),
        *_durations(layout, wide if is_wide else {}),
        pl.coalesce(_real(layout.cell(_DATA_MS)), _real(layout.cell(_DATA_S)) * 1000).alias("data_time_ms"),
        *_stamps(layout.cell(_WHEN)),
    ).with_columns(pl.col("text").alias("message"), pl.lit(0, dtype=pl.Int64).alias("sub"))
    good = rows.filter(pl.col("step").is_not_null())
    return good.explode("rank", "step_time_ms", "unit").with_columns(
        pl.col("rank").fill_null(pl.lit(rank_hint, dtype=pl.Int64)),
        pl.when(is_wide).then(pl.int_range(pl.len(), dtype=pl.Int64).over("line")).otherwise(0).alias("sub"),
    ), rows.height - good.height


def _durations(layout: _Layout, wide: dict[int, tuple[int, str | None]]) -> list[pl.Expr]:
    """Lists `rank`, `step_time_ms` and `unit` of each row: one item, or one per rank of the wide form."""
    if wide:
        return [
            pl.concat_list([pl.lit(rank, dtype=pl.Int64) for rank, _ in wide.values()]).alias("rank"),
            pl.concat_list([_real(layout.at(i)) for i in wide]).alias("step_time_ms"),
            pl.concat_list([pl.lit(unit or "", dtype=pl.String) for _, unit in wide.values()]).alias("unit"),
        ]
    took = pl.coalesce(_real(layout.cell(_TIME_MS)), _real(layout.cell(_TIME_S)) * 1000)
    return [
        pl.concat_list(_whole(layout.cell(_RANK))).alias("rank"),
        pl.concat_list(took).alias("step_time_ms"),
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
        "any trainer",
        "its own header",
        lambda head: looks_like_steps(head.raw),
        lambda member, hints: decode_steps(member, hints.rank),
    ),
)
