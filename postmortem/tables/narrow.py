"""Lines that come back, once the catalogue has read one of each: whole rows, templates and narrow rows (`postmortem.tables.repeats`)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from postmortem.catalogue.matcher import ROW_SCHEMA
from postmortem.tables.repeats import LEAST_NARROW, NUMBERS, DisagreementError, Held, Ints, Repeats

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


def settle_repeats(
    rows: pl.DataFrame, repeats: Repeats, base: int, telling: frozenset[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(`rows` with those of lines that repeat too seldom or depend on others, templates, narrow rows).

    `rows` are what the catalogue made of all lines that it read, the samples among them. Templates are numbered from `base`.
    `telling`: header kinds that make other rows void.
    """
    if not repeats.samples:
        return rows, pl.DataFrame(), pl.DataFrame()
    samples = pl.DataFrame(
        [(i, f, n, o) for i, (f, n, o, _) in enumerate(repeats.samples)],
        schema={"template": pl.Int64, "file": pl.String, "line": pl.Int64, "_offset": pl.Int64},
        orient="row",
    )
    found = rows.join(samples, on=["file", "line"], how="inner")
    _check(found, repeats)
    if repeats.last:
        rows = pl.concat([rows, expand(_last(repeats.last), found)])
    if not repeats.parts:
        return _ordered(rows), pl.DataFrame(), pl.DataFrame()
    tells = pl.any_horizontal(
        pl.lit(False), *(pl.col("headers").str.contains(f"|{k}|", literal=True) for k in sorted(telling))
    )
    alone = found.group_by("template").agg(is_lone=(_LONE & ~tells).all())
    places = list(repeats.places())
    times = np.sum([np.bincount(p["template"], minlength=samples.height) for p in places], axis=0)
    is_shape = np.array([bool(s[3]) for s in repeats.samples])
    counted = (
        samples.select("template")
        .with_columns(times=pl.Series(times, dtype=pl.Int64), is_shape=pl.Series(is_shape))
        .filter(pl.col("times") > 0)
        .join(alone, on="template", how="inner")
        .with_columns(is_narrow=pl.col("is_lone") & ((pl.col("times") >= LEAST_NARROW) | pl.col("is_shape")))
    )
    broad = counted.filter(~pl.col("is_narrow"))
    if broad.height:
        if broad["is_shape"].any():
            raise DisagreementError("a dense line is part of a record")
        whole = pl.concat([_frame(p, _marked(broad, samples.height), 0) for p in places])
        rows = pl.concat([rows, expand(whole, found)])
    is_narrow = _marked(counted.filter("is_narrow"), samples.height)
    templates = found.join(counted.filter("is_narrow").select("template", "times"), on="template")
    narrow = pl.concat([_frame(p, is_narrow, base) for p in places])
    return _ordered(rows), templates.with_columns(pl.col("template") + base), narrow


def _ordered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort("file", "line", "offset", "sub", "definition", maintain_order=True)


def _last(held: list[tuple[int, Held]]) -> pl.DataFrame:
    """The last calls of each kind in the columns of REPEAT_SCHEMA, with their `text`."""
    sizes = [len(h.texts) for _, h in held]
    columns: dict[str, object] = {
        "template": np.repeat([t for t, _ in held], sizes),
        "line": np.concatenate([h.line for _, h in held]),
        "offset": np.concatenate([h.offset for _, h in held]),
    }
    frame = pl.DataFrame({**columns, "text": [text for _, h in held for text in h.texts]})
    numbers = []
    for name in NUMBERS:
        values = [h.values.get(name) for _, h in held]
        every = np.concatenate(
            [np.zeros(n, dtype=np.int64) if v is None else v for v, n in zip(values, sizes, strict=True)]
        )
        is_given = np.repeat([v is not None for v in values], sizes)
        numbers.append(pl.Series(name, every).set(pl.Series(~is_given), None))
    return frame.hstack(numbers)


def _marked(templates: pl.DataFrame, count: int) -> npt.NDArray[np.bool_]:
    """One flag per template: whether it is in `templates`."""
    flags = np.zeros(count, dtype=bool)
    flags[templates["template"].to_numpy()] = True
    return flags


def _frame(places: dict[str, Ints], is_wanted: npt.NDArray[np.bool_], base: int) -> pl.DataFrame:
    """The places of wanted templates in the columns of REPEAT_SCHEMA."""
    if not is_wanted.all():
        mask = is_wanted[places["template"]]
        if not mask.all():
            places = {name: values[mask] for name, values in places.items()}
    columns = {**places, "template": places["template"] + base}
    frame = pl.DataFrame(columns)
    return frame.select(pl.col(n) if n in columns else pl.lit(None, dtype=t).alias(n) for n, t in REPEAT_SCHEMA.items())


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
    """Whole rows (ROW_SCHEMA) for narrow ones. Without a `text` of its own a call has none, since its sample's numbers and pointers are others."""
    rows = places.join(templates, on="template", suffix="_t")
    numbers = [pl.coalesce(n, f"{n}_t").alias(n) for n in NUMBERS]
    if "text_t" in rows.columns:
        # The header is the sample's, so the message begins where the sample's does.
        lead = pl.col("text_t").str.len_bytes().cast(pl.Int64) - pl.col("message").str.len_bytes().cast(pl.Int64)
        texts = [pl.col("text").str.slice(lead).alias("message")]
    else:
        # Of a channel the number is all that differs.
        numbered = pl.format("Channel {}", pl.col("channel").cast(pl.String).str.zfill(2))
        is_call = pl.col("seq").is_not_null() | pl.col("qpn").is_not_null()
        texts = [
            pl.when(~is_call)
            .then(
                pl.when(pl.col("channel").is_null())
                .then(n)
                .otherwise(pl.col(n).str.replace(r"Channel [0-9]+", numbered))
            )
            .alias(n)
            for n in ("text", "message")
        ]
    offset = (pl.col("offset") + pl.col("offset_t") - pl.col("_offset")).alias("offset")
    return rows.with_columns(offset, *numbers, *texts).select(pl.col(n).cast(t) for n, t in ROW_SCHEMA.items())
