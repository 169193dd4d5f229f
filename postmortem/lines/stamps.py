"""Printed times → microseconds, as far as one line tells (year, zone and boot are settled later)."""

from __future__ import annotations

from typing import Final

import polars as pl

DEFAULT_YEAR: Final = 1972
"""Stands for "not printed"; a leap year, so that 29 February is a date."""

MONTHS: Final[dict[str, int]] = {
    **{m: i for i, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)},
    **{
        m: i
        for i, m in enumerate(
            "januar februar märz april mai juni juli august september oktober november dezember".split(), 1
        )
    },
    "mär": 3,
    "mrz": 3,
    "mai": 5,
    "okt": 10,
    "dez": 12,
    "fev": 2,
    "abr": 4,
    "ago": 8,
    "set": 9,
    "out": 10,
    "ene": 1,
    "dic": 12,
    "mrt": 3,
    "mei": 5,
    "janv": 1,
    "févr": 2,
    "mars": 3,
    "avr": 4,
    "juin": 6,
    "juil": 7,
    "août": 8,
    "déc": 12,
    "sept": 9,
    "june": 6,
    "july": 7,
    **{f"{i}月": i for i in range(1, 13)},
}
ZONES: Final[dict[str, int]] = {
    "Z": 0,
    "UTC": 0,
    "GMT": 0,
    "CET": 3600,
    "CEST": 7200,
    "MEST": 7200,
    "METDST": 7200,
    "MSK": 10800,
    "AEST": 36000,
    "AEDT": 39600,
    "JST": 32400,
    "EST": -18000,
    "EDT": -14400,
    "CDT": -18000,
    "MST": -25200,
    "MDT": -21600,
    "PST": -28800,
    "PDT": -25200,
    "AKDT": -28800,
    "BST": 3600,
    "MET": 3600,
    "WET": 0,
    "WEST": 3600,
    "EET": 7200,
    "EEST": 10800,
    "SAST": 7200,
    "SGT": 28800,
    "HKT": 28800,
    "KST": 32400,
    "NZST": 43200,
    "NZDT": 46800,
    "AKST": -32400,
    "HST": -36000,
    "BRT": -10800,
}
"""Zone words that mean one zone. CST and IST mean several and are left out: the zone is then unknown."""

STAMP_COLUMNS: Final = ("stamp_us", "stamp_has_year", "stamp_zone_s", "stamp_res_us")


def _zone_seconds(zone: pl.Expr) -> pl.Expr:
    sign = pl.when(zone.str.contains("-", literal=True)).then(-1).otherwise(1)
    digits = zone.str.replace(r"([+-])([0-9])(:|$)", "${1}0${2}${3}").str.replace_all(r"[^0-9]", "")
    hours = digits.str.slice(0, 2).cast(pl.Int32, strict=False)
    minutes = digits.str.slice(2, 2).cast(pl.Int32, strict=False).fill_null(0)
    numeric = pl.when(zone.str.contains(r"[+-][0-9]")).then(sign * (hours * 3600 + minutes * 60))
    word = zone.str.to_uppercase().replace_strict(ZONES, default=None, return_dtype=pl.Int32)
    return pl.coalesce(word, numeric).cast(pl.Int32)


def parse_stamps(parts: pl.DataFrame) -> pl.DataFrame:
    """STAMP_COLUMNS for rows of captured time parts: `stamps` of their columns."""
    return parts.select(stamps(set(parts.columns)))


def stamps(have: set[str]) -> list[pl.Expr]:
    """STAMP_COLUMNS of captured time parts (of `y mo mon d hms frac zone md epoch` those in `have`, all text).

    Null in all four where nothing could be read. Microseconds are cut, not rounded.
    """

    def col(name: str) -> pl.Expr:
        return pl.col(name) if name in have else pl.lit(None, dtype=pl.String)

    month = pl.coalesce(
        col("mo").cast(pl.Int32, strict=False),
        col("mon").str.to_lowercase().replace_strict(MONTHS, default=None, return_dtype=pl.Int32),
        col("md").str.slice(0, col("md").str.len_chars() - 2).cast(pl.Int32, strict=False),
    )
    day = pl.coalesce(col("d").cast(pl.Int32, strict=False), col("md").str.tail(2).cast(pl.Int32, strict=False))
    year = col("y").cast(pl.Int32, strict=False)
    text = pl.concat_str(
        year.fill_null(DEFAULT_YEAR).cast(pl.String),
        pl.lit("-"),
        month.cast(pl.String),
        pl.lit("-"),
        day.cast(pl.String),
        pl.lit(" "),
        pl.when(col("hms").str.len_chars() == 5).then(col("hms") + ":00").otherwise(col("hms")),
    )
    whole = text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us").dt.epoch("us")
    frac = col("frac")
    micros = frac.str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False).fill_null(0)
    digits = frac.str.len_chars().fill_null(0).clip(0, 6).cast(pl.Int32)
    epoch = col("epoch").cast(pl.Int64, strict=False)
    is_epoch = epoch.is_not_null()
    return [
        pl.when(is_epoch).then(epoch * 1_000_000 + micros).otherwise(whole + micros).alias("stamp_us"),
        pl.when(is_epoch).then(True).otherwise(year.is_not_null()).alias("stamp_has_year"),
        pl.when(is_epoch).then(0).otherwise(_zone_seconds(col("zone"))).cast(pl.Int32).alias("stamp_zone_s"),
        pl.lit(10, dtype=pl.Int64).pow((6 - digits).cast(pl.UInt32)).cast(pl.Int64).alias("stamp_res_us"),
    ]
