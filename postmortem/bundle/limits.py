"""How much of a bundle may be unpacked, and the meter that stops a bomb."""

from __future__ import annotations

from dataclasses import dataclass


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


class LimitReachedError(OSError):
    """A bound of `Limits` was reached; caught where streams are read and turned into a note."""


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
                self.stopped = f"more than {self.limits.total_bytes} decompressed bytes: reading stopped"
            elif (
                self.produced_bytes > self.limits.ratio_floor_bytes and self.produced_bytes > self.limits.ratio * source
            ):
                self.stopped = f"expands more than {self.limits.ratio} times, as bombs do: reading stopped"
        if self.stopped is not None:
            raise LimitReachedError(self.stopped)
