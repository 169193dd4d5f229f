"""Progress on stderr: a bar that is redrawn on a terminal, a line now and then elsewhere, nothing when asked for quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

BAR: Final = 24
LINE_S: Final = 10.0
"""Seconds between lines where stderr is no terminal; a bundle that is read sooner gives none."""


def progress(
    quiet: bool, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int, int], None] | None:
    """A function of (bytes done, bytes in all, files done), or None with `quiet`. `stream` is stderr."""
    out = stream or sys.stderr
    if quiet:
        return None
    begin = clock()
    is_terminal = out.isatty()
    said = begin

    def show(done: int, total: int, members: int) -> None:
        nonlocal said
        now = clock()
        is_last = done >= total
        if is_terminal:
            out.write(f"\r{_text(done, total, members, now - begin)}\x1b[K" + ("\n" if is_last else ""))
            out.flush()
        elif now - said >= LINE_S:
            said = now
            out.write(_text(done, total, members, now - begin).strip() + "\n")
            out.flush()

    return show


def _text(done: int, total: int, members: int, seconds: float) -> str:
    share = min(done / total, 1.0) if total else 1.0
    filled = round(share * BAR)
    rate = done / seconds if seconds > 0 else 0.0
    left = f", {_duration((total - done) / rate)} left" if rate > 0 and done < total else ""
    return (
        f"  [{'#' * filled}{'.' * (BAR - filled)}] {share:4.0%} {done / 1e6:,.0f} of {total / 1e6:,.0f} MB, "
        f"{members:,} files, {rate / 1e6:,.0f} MB/s{left}"
    )


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
