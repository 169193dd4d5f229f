"""How much of a bundle may be unpacked, and the meter that stops a bomb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from postmortem.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one unit; reaching one ends the reading with a note, never with an exception.

    `ratio` (decompressed : compressed) counts only past `ratio_floor_bytes`, since small logs of equal lines may
    rightly exceed it.
    """

    depth: int = 6
    total_bytes: int = 200_000_000_000
    ratio: int = 1000
    ratio_floor_bytes: int = 1_000_000_000
    members: int = 1_000_000
    spool_bytes: int = 4_000_000_000
    spool_memory_bytes: int = 64_000_000
    """A spooled zip up to this size stays in memory; a larger one goes to a temporary file without a name."""


NAMES: Final = {"size": "total_bytes", "ratio": "ratio", "members": "members", "depth": "depth", "zip": "spool_bytes"}
"""What users call a bound → its field."""
_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def raised(limits: Limits, settings: Sequence[str]) -> Limits:
    """`limits` with bounds set by `NAME=VALUE` texts; a value may end in K, M, G or T (powers of 1000). Raises UsageError."""
    for setting in settings:
        name, _, text = setting.partition("=")
        unit = text[-1:].upper() if text[-1:].isalpha() else ""
        digits = text[: len(text) - len(unit)]
        if name not in NAMES:
            raise UsageError(f"--limit {setting}: there is no limit {name}: {', '.join(NAMES)}")
        if (
            unit not in _UNITS
            or not (digits.isascii() and digits.isdigit())
            or not 0 < len(digits) < 16
            or int(digits) < 1
        ):
            raise UsageError(f"--limit {setting}: the value is no number above 0: write {name}=500 or {name}=500G")
        limits = replace(limits, **{NAMES[name]: int(digits) * _UNITS[unit]})
    return limits


class LimitReachedError(OSError):
    """A bound of `Limits` was reached; caught where streams are read and turned into a note."""


def amount(count: int) -> str:
    """`count` as users write it after `--limit NAME=`: 200G, 1500K, 999."""
    unit = next((u for u, size in reversed(_UNITS.items()) if count >= size and count % size == 0), "")
    return f"{count // _UNITS[unit]}{unit}"


@dataclass(slots=True)
class Meter:
    """Bytes of one unit: read from its file, and produced by all decompressors together."""

    limits: Limits
    read_bytes: int = 0
    produced_bytes: int = 0
    size_bytes: int = 0
    stopped: str | None = None

    def produced(self, count: int) -> None:
        """Count decompressed bytes; raises LimitReachedError once a bound is passed, and at every call after that."""
        self.produced_bytes += count
        if self.stopped is None:
            # A zip whose entries overlap reads the same bytes again and again: they count once.
            source = max(1, min(self.read_bytes, self.size_bytes))
            if self.produced_bytes > self.limits.total_bytes:
                self.stopped = f"more than {amount(self.limits.total_bytes)} decompressed bytes: reading stopped (--limit size=… raises it)"
            elif (
                self.produced_bytes > self.limits.ratio_floor_bytes and self.produced_bytes > self.limits.ratio * source
            ):
                self.stopped = f"expands more than {self.limits.ratio:,} times, as bombs do: reading stopped (--limit ratio=… raises it)"
        if self.stopped is not None:
            raise LimitReachedError(self.stopped)
