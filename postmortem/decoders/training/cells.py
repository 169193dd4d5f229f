"""Tables whose columns have names: CSV, TSV, JSON lines, Parquet -> text of each cell, as expressions over columns of lines.

CSV has its names in the first line. JSON lines have them as keys; the first lines tell which there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from postmortem.patterns import later

MAX_COLUMNS: Final = 4_200
MAX_HEADER: Final = 200_000
_SAMPLE: Final = 200
"""First lines of JSON whose keys are the columns."""

_NAME: Final = later(r"[a-z_#\ufeff][a-z0-9_ /().%:@#=-]*", re.IGNORECASE)
_ISO: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?\s*(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?$"


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of a table's columns as printed, and how a cell of a line is reached.

    `separator` is that of a CSV, None for JSON lines, empty where the lines already have a list `cells`.
    """

    names: tuple[str, ...]
    separator: str | None

    def prepare(self, lines: pl.DataFrame) -> pl.DataFrame:
        """`lines` (columns `line`, `t`) with what `cell` needs."""
        return lines.with_columns(pl.col("t").str.split(self.separator).alias("cells")) if self.separator else lines

    def cell(self, index: int) -> pl.Expr:
        """Text of a cell; null when empty or missing."""
        if self.separator is None:
            key = re.escape(self.names[index]).replace("\\ ", " ")
            value = pl.col("t").str.extract(rf'"{key}"\s*:\s*(?:"[^"]*"|[-+0-9.eEnaNifty]+)', 0)
            value = value.str.replace(r'^"[^"]*"\s*:\s*', "").str.strip_chars('" ')
        else:
            value = pl.col("cells").list.get(index, null_on_oob=True).str.strip_chars(' "\r')
        return pl.when(value != "").then(value)

    def first(self, wanted: Callable[[str], bool]) -> pl.Expr:
        """Text of the first column whose name `wanted` takes and which has one in this line."""
        cells = [self.cell(i) for i, name in enumerate(self.names) if wanted(name)]
        return pl.coalesce(cells) if cells else pl.lit(None, dtype=pl.String)


def separator_of(header: str) -> str:
    """The most frequent of comma, semicolon and tab."""
    return max(",;\t", key=header.count)


def header_names(line: str) -> tuple[str, ...]:
    """Names in a CSV's header; none when the line is no header."""
    line = line.removeprefix("\ufeff").rstrip("\r")
    separator = separator_of(line)
    if len(line) > MAX_HEADER or separator not in line:
        return ()
    names = tuple(cell.strip().strip('"').strip() for cell in line.split(separator))
    fits = len(names) <= MAX_COLUMNS and all(_NAME.fullmatch(n) for n in names if n)
    return names if fits and sum(1 for n in names if n) >= 2 else ()


def layout_of(lines: pl.DataFrame) -> tuple[Layout | None, pl.DataFrame]:
    """The layout that the first lines show, and the lines that hold rows."""
    first = str(lines["t"][0]).removeprefix("\ufeff").lstrip()
    if first.startswith("{"):
        keys = dict.fromkeys(key for found in json_objects(lines["t"].head(_SAMPLE).to_list()) for key in found)
        return Layout(tuple(keys)[:MAX_COLUMNS], None), lines
    names = header_names(first)
    return (Layout(names, separator_of(first)) if names else None), lines.tail(-1)


def json_objects(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def are_json_lines(text: str, fits: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether the first twenty lines are all objects that fit; a last line that is cut off is left out."""
    lines = [line for line in text.removeprefix("\ufeff").split("\n")[:20] if line.strip()]
    if len(lines) > 1 and not text.endswith("\n"):
        lines = lines[:-1]
    objects = list(json_objects(lines))
    return bool(lines) and len(objects) == len(lines) and all(map(fits, objects))


def real(text: pl.Expr) -> pl.Expr:
    """Finite numbers; null for everything else."""
    value = text.cast(pl.Float64, strict=False)
    return pl.when(value.is_finite() & (value.abs() < 1e300)).then(value)


def count(text: pl.Expr) -> pl.Expr:
    """Numbers of 0 and above without their fraction, decimal or `0x…`; null for everything else."""
    value = real(text)
    hexadecimal = text.str.extract("^0x([0-9a-fA-F]{1,12})$").str.to_integer(base=16, strict=False)
    return pl.coalesce(pl.when(value.is_between(0, 2.0**53)).then(value).cast(pl.Int64), hexadecimal)


def stamps(text: pl.Expr) -> list[pl.Expr]:
    """The columns of RAW_TIME from epoch seconds (milli-, micro-, nanoseconds by their size) or ISO."""
    number = real(text)
    scale = pl.when(number > 1e17).then(1e-3).when(number > 1e14).then(1.0).when(number > 1e11).then(1e3).otherwise(1e6)
    micros = number * scale
    epoch_us = pl.when(micros.is_between(1e12, 4.1e15)).then(micros).round().cast(pl.Int64)
    date = pl.concat_str(text.str.extract(_ISO, 1), pl.lit(" "), text.str.extract(_ISO, 2))
    part = text.str.extract(_ISO, 3).str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False).fill_null(0)
    iso_us = date.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us").dt.epoch("us") + part
    zone = text.str.extract(_ISO, 4)
    digits = zone.str.replace_all("[^0-9]", "").str.pad_end(4, "0").cast(pl.Int32, strict=False)
    east = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1) * (digits // 100 * 3600 + digits % 100 * 60)
    stamp_us = pl.coalesce(epoch_us, iso_us)
    known = stamp_us.is_not_null()
    is_fine = text.str.contains(".", literal=True) | (number > 1e11)
    return [
        stamp_us.alias("stamp_us"),
        pl.when(known).then(True).alias("stamp_has_year"),
        pl.when(epoch_us.is_not_null())
        .then(0)
        .when(zone.is_not_null())
        .then(east)
        .cast(pl.Int32)
        .alias("stamp_zone_s"),
        pl.when(known).then(pl.when(is_fine).then(1_000).otherwise(1_000_000)).cast(pl.Int64).alias("stamp_res_us"),
    ]
