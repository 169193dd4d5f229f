"""Captured text → values of the vocabulary's columns, as polars expressions (definitions name them in `types`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from postmortem.catalogue.definition import Message
from postmortem.lines.types import POLARS_TYPES
from postmortem.schema import ENTITY, Column

SIGNALS: Final[dict[str, int]] = {
    "hangup": 1,
    "interrupt": 2,
    "quit": 3,
    "illegal instruction": 4,
    "trace/breakpoint trap": 5,
    "aborted": 6,
    "abort": 6,
    "bus error": 7,
    "floating point exception": 8,
    "killed": 9,
    "segmentation fault": 11,
    "segfault": 11,
    "broken pipe": 13,
    "alarm clock": 14,
    "terminated": 15,
    "sighup": 1,
    "sigint": 2,
    "sigquit": 3,
    "sigill": 4,
    "sigtrap": 5,
    "sigabrt": 6,
    "sigbus": 7,
    "sigfpe": 8,
    "sigkill": 9,
    "sigusr1": 10,
    "sigsegv": 11,
    "sigusr2": 12,
    "sigpipe": 13,
    "sigalrm": 14,
    "sigterm": 15,
    "sigcont": 18,
    "sigstop": 19,
    "sigxcpu": 24,
}
"""Signal numbers by the names and by the words of strsignal(3), lower case, Linux on x86-64 and arm64."""


def polars_schema(columns: tuple[Column, ...]) -> dict[str, pl.DataType | type[pl.DataType]]:
    """polars types of schema columns, by name."""
    return {c.name: POLARS_TYPES[c.type] for c in columns}


ENTITY_TYPES: Final = polars_schema(ENTITY)


def _number(text: pl.Expr) -> pl.Expr:
    value = text.str.strip_chars(" ,").str.replace_all(",", "").cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def _period(text: pl.Expr) -> pl.Expr:
    rate = _number(text)
    return pl.when(rate > 0).then(1000 / rate)


def _integer(text: pl.Expr) -> pl.Expr:
    plain = text.str.strip_chars(" ,").str.replace_all(",", "")
    value = plain.cast(pl.Float64, strict=False)
    fits = value.is_finite() & (value.abs() < 2**53)
    return pl.coalesce(plain.cast(pl.Int64, strict=False), pl.when(fits).then(value).cast(pl.Int64, strict=False))


def _hex(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars().str.to_lowercase().str.strip_prefix("0x").str.to_integer(base=16, strict=False)


def _domain(text: pl.Expr) -> pl.Expr:
    return text.fill_null("").str.strip_chars_start("0").str.pad_start(4, "0")


def _pci(text: pl.Expr) -> pl.Expr:
    """dddd:bb:dd.f; domain 0000 and function 0 where not printed; null when it is no address."""
    low = text.str.to_lowercase()
    shape = r"^(?:([0-9a-f]+)[:.])?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-9a-f]))?"
    bus = low.str.extract(shape, 2)
    return pl.when(bus.is_not_null()).then(
        pl.concat_str(
            _domain(low.str.extract(shape, 1)),
            pl.lit(":"),
            bus,
            pl.lit(":"),
            low.str.extract(shape, 3),
            pl.lit("."),
            low.str.extract(shape, 4).fill_null("0"),
        )
    )


def _busid(text: pl.Expr) -> pl.Expr:
    """NCCL's hexadecimal bus id: function, device (2), bus (2), domain, from the right (misc/utils.cc)."""
    digits = text.str.to_lowercase().str.strip_prefix("0x").str.pad_start(6, "0")
    size = digits.str.len_chars()
    return pl.concat_str(
        _domain(digits.str.slice(0, size - 5)),
        pl.lit(":"),
        digits.str.slice(size - 5, 2),
        pl.lit(":"),
        digits.str.slice(size - 3, 2),
        pl.lit("."),
        digits.str.slice(size - 1, 1),
    )


def _op(text: pl.Expr) -> pl.Expr:
    """Collective names of NCCL, PyTorch and gloo in the vocabulary's spelling."""
    name = text.str.to_lowercase().str.replace(r"^(?:nccl|gloo|xccl|ucc|mpi):", "").str.replace(r"^nccl", "")
    return (
        name.str.replace_all("_", "")
        .str.replace(r"^(alltoall|allgather|reducescatter)v$", "${1}")
        .str.replace(r"(?:base|oop|coalesced|intotensor|tensor)$", "")
        .replace({"": "coalesced", "allreducebarrier": "allreduce"})
    )


def _address(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars(" ").str.replace(r"<[0-9]+>$", "").str.replace(r"^\[(.*)\]$", "${1}")


def _signal(text: pl.Expr) -> pl.Expr:
    word = text.str.strip_chars().str.to_lowercase()
    return pl.coalesce(
        word.cast(pl.Int64, strict=False), word.replace_strict(SIGNALS, default=None, return_dtype=pl.Int64)
    )


CONVERTERS: Final[dict[str, Callable[[pl.Expr], pl.Expr]]] = {
    "text": lambda e: e,
    "int": _integer,
    "hex": _hex,
    "float": _number,
    "lower": lambda e: e.str.to_lowercase(),
    "pci": _pci,
    "busid": _busid,
    "op": _op,
    "seconds": lambda e: _number(e) * 1000,
    "minutes": lambda e: _number(e) * 60_000,
    "per_second": _period,
    "addr": _address,
    "signal": _signal,
    "bool": lambda e: e.str.to_lowercase().is_in(["1", "true", "yes", "y"]),
    "strip_dot": lambda e: e.str.strip_suffix("."),
}


_NUMBERS: Final = ((pl.Int64, "int"), (pl.Float64, "float"), (pl.Boolean, "bool"))


def _kind(target: pl.DataType | type[pl.DataType], kind: str | None) -> str:
    """The converter for a column of that type where a definition names none."""
    if kind is not None:
        return kind
    return next((name for t, name in _NUMBERS if target == t), "text")


def convert(name: str, kind: str | None) -> pl.Expr:
    """Column `name` (captured text) by the converter `kind`, in the type of the vocabulary's column."""
    target = ENTITY_TYPES.get(name, pl.String)
    kind = _kind(target, kind)
    value = CONVERTERS[kind](pl.col(name))
    if target == pl.Int64 and kind == "float":
        value = value.round(0)
    return value.cast(target, strict=False).alias(name)


def _plain(name: str, kind: str | None) -> pl.Expr | None:
    """What `convert` gives where a number is printed in the plain way or a text is as it should be, null elsewhere; None for other converters."""
    target = ENTITY_TYPES.get(name, pl.String)
    kind = _kind(target, kind)
    text = pl.col(name)
    if kind == "text" and target == pl.String:
        return text
    if kind == "int" and target == pl.Int64:
        return text.cast(pl.Int64, strict=False)
    if kind == "float" and target == pl.Float64:
        number = text.cast(pl.Float64, strict=False)
        return pl.when(number.is_finite()).then(number).alias(name)
    return None


def typed(message: Message, groups: pl.DataFrame) -> pl.DataFrame:
    """What one definition says of its hits: `severity`, and the columns that its groups (as text) and constants give."""
    mapped = [
        pl.col(name).replace({k: str(v) for k, v in values.items()})
        for name, values in message.maps.items()
        if name in groups.columns
    ]
    groups = groups.with_columns(mapped) if mapped else groups
    severity: pl.Expr = pl.lit(message.severity)
    if message.severity_by and message.severity_by[0] in groups.columns:
        name, values = message.severity_by
        severity = pl.col(name).replace_strict(values, default=message.severity, return_dtype=pl.String)
    keep = [c for c in groups.columns if c in ENTITY_TYPES or c == "host"]
    stated = {
        k: pl.lit(v).cast(ENTITY_TYPES.get(k, pl.String))
        for k, v in message.constants.items()
        if k in ENTITY_TYPES or k == "host"
    }
    plain = {c: _plain(c, message.types.get(c)) for c in keep}
    columns = {c: convert(c, message.types.get(c)) if e is None else e for c, e in plain.items()}
    columns |= {k: v for k, v in stated.items() if k not in keep}
    texts = [c for c in columns if ENTITY_TYPES.get(c, pl.String) == pl.String]
    # A text that a converter makes is not made twice.
    made = [c for c in texts if c in keep and plain[c] is None]
    columns |= {c: _filled(columns[c]) for c in texts if c not in made and not (c in keep and c in stated)}
    # With the groups beside them constants get as many rows.
    frame = groups.with_columns(severity=severity, **columns)[["severity", *columns]]
    odd = [
        c for c in keep if plain[c] is not None and c not in texts and frame[c].null_count() > groups[c].null_count()
    ]
    if odd:
        frame = frame.with_columns(groups.select(convert(c, message.types.get(c)) for c in odd))
    last = {c: pl.coalesce(c, v) for c, v in stated.items() if c in keep}
    last |= {c: _filled(last.get(c, pl.col(c))) for c in texts if c in made or c in last}
    return frame.with_columns(**last) if last else frame


def _filled(text: pl.Expr) -> pl.Expr:
    """Null for an empty text."""
    return pl.when(text.str.len_bytes() > 0).then(text)
