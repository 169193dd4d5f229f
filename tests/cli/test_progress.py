"""Progress: a bar on a terminal, lines elsewhere, nothing with -q."""

from __future__ import annotations

import io

from postmortem.cli.progress import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_quiet_shows_nothing() -> None:
    assert progress(True) is None


def test_a_terminal_gets_a_bar_with_rate_and_time_left() -> None:
    out = _Terminal()
    times = iter([0.0, 2.0, 4.0])
    show = progress(False, out, lambda: next(times))
    assert show is not None
    show(100_000_000, 300_000_000, 3)
    assert "100 of 300 MB, 3 files, 50 MB/s, 4 s left" in out.getvalue()
    assert "\n" not in out.getvalue()
    show(300_000_000, 300_000_000, 9)
    assert out.getvalue().endswith("\n")
    assert "left" not in out.getvalue().rsplit("\r", 1)[1]


def test_elsewhere_a_line_now_and_then_and_none_for_a_quick_run() -> None:
    out = io.StringIO()
    times = iter([0.0, 1.0, 12.0, 13.0])
    show = progress(False, out, lambda: next(times))
    assert show is not None
    show(1, 10, 1)
    assert out.getvalue() == ""
    show(5_000_000, 10_000_000, 2)
    show(6_000_000, 10_000_000, 3)
    assert out.getvalue().count("\n") == 1
    assert "\r" not in out.getvalue()
