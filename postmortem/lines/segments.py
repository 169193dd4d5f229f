"""Physical lines → segments: parts of a line that can each hold an event of their own.

A carriage return starts a new segment (progress bars), so does text glued to the end of a bar and
a second NCCL header in one line. Terminal colours are removed; `offset` stays that of the bytes.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from postmortem.patterns import later

ANSI: Final = r"\x1b\[[0-9;?]*[ -/]*[@-~]"
LOST_ANSI: Final = r"^(?:\[[0-9]{1,2}(?:;[0-9]{1,3})*m)+ ?"
GLUED_BAR: Final = r"((?:s/it|it/s)[^\]\[]*\])([^\]\s,|])"
NCCL_HEAD: Final = r"[^ :\[\]<>\r\x1e]+:[0-9]+:[0-9]+ \[-?[0-9]+\] (?:NCCL INFO|[^ ]+:[0-9]+ (?:\([^)]*\) )?NCCL WARN)"
_NCCL_PART: Final = later(r"(?:\[\d+,\d+\]<std(?:out|err)>: ?|\[[^\[\]]*\] ?)?" + NCCL_HEAD)
MARK: Final = "\x1e"


def _mark_second_nccl(text: str) -> str:
    """`text` with a mark before every NCCL header but the first.

    A Python loop because the first header has to be left alone, which no column operation says;
    lines torn like this are a handful in a bundle.
    """
    starts = [m.start() for m in _NCCL_PART.finditer(text)][1:]
    for start in reversed(starts):
        text = text[:start] + MARK + text[start:]
    return text


def segment(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per segment of `lines` (columns kept: all but `framed`; `text` stays the physical line).

    Where `framed` is not null it stands in for the line (`postmortem.lines.documents`).

    Added: `seg`, the segment's text without colours; `offset` moves to where the segment begins.
    Segments that are blank are dropped.
    """
    text = pl.col("seg")
    frame = lines.with_columns(seg=pl.coalesce("framed", "text") if "framed" in lines.columns else pl.col("text"))
    frame = frame.drop("framed", strict=False)
    # Most lines are whole and plain: one look tells, and what is not there is not replaced.
    has = frame.select(
        bar=text.str.contains(GLUED_BAR).any(),
        second=(text.str.count_matches("NCCL ", literal=True) > 1).any(),
        parts=text.str.contains(r"[\r\x1e]").any(),
        escape=text.str.contains("\x1b", literal=True).any(),
        lost=text.str.starts_with("[").any(),
        blank=(text.str.strip_chars().str.len_bytes() == 0).any() | text.has_nulls(),
    ).row(0, named=True)
    if has["bar"]:
        glued = text.str.replace_all(GLUED_BAR, "${1}" + MARK + "${2}")
        frame = frame.with_columns(seg=pl.when(text.str.contains(GLUED_BAR)).then(glued).otherwise(text))
    if has["second"]:
        frame = _mark_all(frame)
    if has["bar"] or has["second"] or has["parts"]:
        has["parts"] = bool(frame.select(text.str.contains(r"[\r\x1e]").any()).item())
    if has["parts"]:
        frame = _explode(frame)
    if has["escape"]:
        frame = frame.with_columns(text.str.replace_all(ANSI, ""))
    if has["escape"] or has["parts"] or has["lost"]:
        frame = frame.with_columns(text.str.replace(LOST_ANSI, ""))
    if has["escape"] or has["parts"] or has["lost"] or has["blank"]:
        frame = frame.filter(text.str.strip_chars().str.len_bytes() > 0)
    return frame


def _mark_all(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with marks in `seg` where a line has several NCCL headers."""
    twice = frame["seg"].str.count_matches(NCCL_HEAD) > 1
    if not twice.any():
        return frame
    marked = [_mark_second_nccl(s) if t else s for s, t in zip(frame["seg"], twice, strict=True)]
    return frame.with_columns(seg=pl.Series(marked, dtype=pl.String))


def _explode(frame: pl.DataFrame) -> pl.DataFrame:
    """Split `seg` at marks and carriage returns, moving `offset` along."""
    width = frame.width
    parts = (
        frame.with_row_index("_row")
        .with_columns(seg=pl.col("seg").str.replace_all(MARK, "\r" + MARK).str.split("\r"))
        .explode("seg")
    )
    # Every part but the first followed a carriage return (one byte), unless a mark stands for it (none).
    size = pl.col("seg").str.len_bytes().cast(pl.Int64)
    marked = pl.col("seg").str.starts_with(MARK)
    lead = pl.when(marked).then(0).otherwise(1)
    parts = parts.with_columns(_step=(size - marked.cast(pl.Int64)))
    parts = parts.with_columns(_before=(pl.col("_step").cum_sum() - pl.col("_step")).over("_row"))
    parts = parts.with_columns(_leads=(lead.cum_sum() - lead.first()).over("_row"))
    parts = parts.with_columns(
        offset=pl.col("offset") + pl.col("_before") + pl.col("_leads"),
        seg=pl.col("seg").str.strip_chars_start(MARK).str.strip_chars_end(" "),
    )
    return parts.drop("_row", "_step", "_before", "_leads").select(pl.nth(range(width)))
