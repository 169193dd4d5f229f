"""What is normal gives no alarm: a run with nothing wrong, and the kernel log of an ordinary boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from postmortem.catalogue.lint import recognise_texts
from postmortem.catalogue.matcher import Matcher

QUIET = Path(__file__).resolve().parents[2] / "sample_logs" / "quiet-run" / "bundle"
ALARMS = {"warning", "error", "fatal"}

# What is rightly said, and why it is of no concern to the job.
TOLERATED = {
    # The slot's power is told 40 minutes before the job, while the node boots.
    ("hosts/node-31/kern.log", "nic.health", "warning"),
    # The port of a host outside the job is taken down by its owner: a line can't tell, the analysis does.
    ("hosts/node-33/kern.log", "link.down", "error"),
    ("switches/leaf-21.log", "link.down", "error"),
}


def alarms(matcher: Matcher, files: dict[str, Path]) -> list[tuple[str, int, str, str]]:
    texts = [(name, path.read_bytes().decode("utf-8", "replace")) for name, path in files.items()]
    rows: list[dict[str, Any]] = [row for found in recognise_texts(matcher, texts).values() for row in found]
    return [
        (r["file"], r["line"], r["event"], r["severity"]) for r in rows if r["severity"] in ALARMS and not r["is_fact"]
    ]


def logs() -> dict[str, Path]:
    return {p.relative_to(QUIET).as_posix(): p for p in sorted(QUIET.rglob("*")) if p.suffix in {".log", ".out"}}


def test_a_quiet_run_gives_no_alarm_but_those_listed(matcher: Matcher) -> None:
    found = {(file, event, severity) for file, _, event, severity in alarms(matcher, logs())}
    assert found == TOLERATED


def test_an_ordinary_boot(matcher: Matcher, shared: Path) -> None:
    path = shared / "corpus" / "kernel" / "quiet-boot.kern.log"
    assert alarms(matcher, {"kern.log": path}) == []
    rows = recognise_texts(matcher, [("kern.log", path.read_bytes().decode("utf-8", "replace"))])["kern.log"]
    assert [r["event"] for r in rows if r["event"] == "host.boot"] == ["host.boot"]
