"""Does the answer stay the same when the clocks of the hosts disagree?

    python benchmarks/clock_twins.py [FOLDER ...] [--only plain] [--seed 1] [--keep DIR]

FOLDER holds bundles, one folder each, with `bundle.tar.gz` or `bundle/` in it; sample_logs of the checkout without one. Of each bundle a
twin is made: every clock (node, switch, and each log that no node is known for) runs up to five seconds ahead or behind, and a third of
hosts and switches prints the local time of another zone. Stamps are rewritten in place: those without a zone move by offset and zone,
those that print one (or count seconds since 1970) by the offset alone, so that a file stays consistent; uptimes stay, they know no zone.
A host whose system logs print a zone keeps it. Both are analysed, and the top answers compared: cause, host, device, switch. The last
line is the share of twins with the same answer; exit code 1 when it is below 0.98.
"""

from __future__ import annotations

import argparse
import pickle
import random
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl

from postmortem.decoders.collectives.safe_pickle import RefusedPickleError, load_plain
from postmortem.incident import Incident, Options, open_incident
from postmortem.lines.peel import peel

TOP: Final = Path(__file__).resolve().parent.parent
GOAL: Final = 0.98
MAX_SKEW_S: Final = 5.0
HOURS: Final = (-8, -7, -5, -3, 1, 2, 3, 5, 8, 9)
MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTH = f"(?P<mon>{'|'.join(MONTHS)})"
_CLOCK = r"(?P<h>[0-2][0-9]):(?P<mi>[0-5][0-9]):(?P<s>[0-5][0-9])(?P<frac>[.,][0-9]{1,9})?"
_ZONE = r"(?P<zone> ?(?:Z|UTC|GMT|CES?T|[A-Z]{1,3}[SD]T|[+-][0-9]{2}(?::?[0-9]{2})?)\b)?"
STAMPS: Final = (
    re.compile(rf"(?<![0-9])(?P<y>20[0-9]{{2}})-(?P<mo>[01][0-9])-(?P<d>[0-3][0-9])[T _.]{_CLOCK}{_ZONE}"),
    re.compile(rf"(?<![0-9])(?P<y>20[0-9]{{2}}) {_MONTH} (?P<d>[ 0-3]?[0-9]) {_CLOCK}{_ZONE}"),
    re.compile(
        rf"\b{_MONTH} (?P<d>[ 0-3]?[0-9]) {_CLOCK}(?P<us> [0-9]{{6}}(?= \[))?{_ZONE}(?: (?P<y>20[0-9]{{2}})\b)?"
    ),
    re.compile(rf"(?P<lvl>^|[\[ :])(?P<sev>[IWEF])(?P<mo>[01]?[0-9])(?P<d>[0-3][0-9]) {_CLOCK}(?=[ \]])"),
)
"""Printed times: ISO, year before the month, syslog and ctime (also opensm's microseconds after a blank), glog."""
EPOCHS: Final = (
    (re.compile(r"(?<![0-9A-Za-z])(1[67][0-9]{8})(?=[.)\s,:}\]]|$)"), 1),
    (re.compile(r"(?<![0-9A-Za-z])(1[67][0-9]{11})(?![0-9])"), 1_000),
    (re.compile(r"(?<![0-9A-Za-z])(1[67][0-9]{14})(?![0-9])"), 1_000_000),
    (re.compile(r"(?<![0-9A-Za-z])(1[67][0-9]{17})(?![0-9])"), 1_000_000_000),
)
ARCHIVES: Final = (".tar.gz", ".tgz", ".tar.xz", ".tar")


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a twin's clock is off: seconds, and hours of the zone that it prints without saying so."""

    skew_s: float
    hours: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What is compared: the verdict's cause and whom it names."""

    cause: str
    host: str | None
    dev: str | None
    switch: str | None


def bundles(folder: Path, only: str) -> Iterator[tuple[str, Path]]:
    """(name, archive or folder) of the bundles in `folder` whose name begins with `only`."""
    for place in sorted(folder.iterdir()):
        if place.is_dir() and place.name.startswith(only):
            for part in ("bundle.tar.gz", "bundle"):
                if (place / part).exists():
                    yield place.name, place / part
                    break


def unpack(source: Path, target: Path) -> None:
    """`source` as plain files below `target`; archives in it become folders of their name."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.mkdir()
        with tarfile.open(source) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
            packed.extractall(target)
    while inner := [p for p in target.rglob("*") if p.is_file() and p.name.endswith(ARCHIVES)]:
        for path in inner:
            packed_as = path.with_name(path.name + ".packed")
            path.rename(packed_as)
            path.mkdir()
            with tarfile.open(packed_as) as packed:
                packed.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
                packed.extractall(path)
            packed_as.unlink()


def shifted(line: str, skew_s: float, hours: int, year: int) -> str:
    """`line` with its printed times moved; those with a zone by the skew alone."""
    found: list[re.Match[str]] = []
    for pattern in STAMPS:
        for m in pattern.finditer(line):
            if all(m.end() <= other.start() or m.start() >= other.end() for other in found):
                found.append(m)
    for m in sorted(found, key=re.Match.start, reverse=True):
        line = line[: m.start()] + _moved(m, skew_s, hours, year) + line[m.end() :]
    return line


def _moved(m: re.Match[str], skew_s: float, hours: int, year: int) -> str:
    part = m.groupdict()
    month = MONTHS.index(part["mon"]) + 1 if part.get("mon") else int(part["mo"])
    digits = (part.get("us") or part["frac"] or "")[1:]
    try:
        old = datetime(
            int(part.get("y") or year), month, int(part["d"]), int(part["h"]), int(part["mi"]), int(part["s"])
        )
    except ValueError:
        return m.group()
    old += timedelta(microseconds=int(digits[:6].ljust(6, "0") or 0))
    new = old + timedelta(seconds=skew_s, hours=0 if part.get("zone") else hours)
    text = m.group()
    base = m.start()
    fraction = f"{new.microsecond:06d}{digits[6:]}"[: len(digits)]
    values = {
        "y": f"{new.year}", "mo": f"{new.month:02d}", "mon": MONTHS[new.month - 1], "d": f"{new.day:02d}",
        "h": f"{new.hour:02d}", "mi": f"{new.minute:02d}", "s": f"{new.second:02d}",
        "frac": (part["frac"] or " ")[0] + fraction if part["frac"] else None, "us": f" {fraction}" if part.get("us") else None,
    }  # fmt: skip
    if part.get("mon") and not part.get("us") and not part["d"].startswith("0"):
        values["d"] = f"{new.day:2}" if len(part["d"]) == 2 else f"{new.day}"
    if part.get("mo") and len(part["mo"]) == 1:
        values["mo"] = f"{new.month}"
    for name in sorted((n for n in values if part.get(n) and values[n]), key=m.start, reverse=True):
        text = text[: m.start(name) - base] + str(values[name]) + text[m.end(name) - base :]
    return text


def _epochs(text: str, skew_s: float) -> str:
    for pattern, unit in EPOCHS:
        text = pattern.sub(lambda m, u=unit: str(int(m[1]) + round(skew_s * u)), text)  # type: ignore[misc]
    return text


def _dump(data: bytes, skew_s: float) -> bytes:
    """A flight recorder's pickle with its times moved."""

    def walk(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {k: walk(v, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(walk(v, name) for v in value)
        return (
            value + round(skew_s * 1e9) if name.endswith("_ns") and isinstance(value, int) and value > 10**18 else value
        )

    try:
        return pickle.dumps(walk(load_plain(data)), protocol=2)
    except RefusedPickleError:
        return data


def rewrite(folder: Path, clock_of: Callable[[str, str | None], Clock], year: int) -> None:
    """Move the times of all files below `folder`: `clock_of(file, host that the line prints)` says by how much."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        data = path.read_bytes()
        clock = clock_of(name, None)
        if b"\0" in data[:4096] or data[:1] == b"\x80":
            path.write_bytes(_dump(data, clock.skew_s) if data[:1] == b"\x80" else data)
            continue
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        hosts = peel(pl.Series(["".join(c for c in t if c < "\ud800") for t in lines], dtype=pl.String))[
            "host"
        ].to_list()
        counts_seconds = path.suffix in {".csv", ".json", ".jsonl", ".txt", ".prom"} or "trace" in path.name
        out = []
        for text, host in zip(lines, hosts, strict=True):
            clock = clock_of(name, host)
            text = shifted(text, clock.skew_s, clock.hours, year)
            out.append(
                _epochs(text, clock.skew_s)
                if counts_seconds or "audit(" in text or "setting system clock" in text
                else text
            )
        path.write_bytes("\n".join(out).encode("utf-8", "surrogateescape"))


def _clocks(incident: Incident, chance: random.Random) -> Callable[[str, str | None], Clock]:
    """Who stamps what, as the analysis of the original knows it, and a wrong clock for each."""
    con = incident.con
    nodes = dict(con.execute("SELECT host, coalesce(node, host) FROM hosts ORDER BY host").fetchall())
    role = dict(con.execute("SELECT host, role FROM hosts").fetchall())
    by_file = dict(
        con.execute(
            "SELECT f.file, coalesce(p.node, f.host) FROM files f LEFT JOIN pod_node p ON p.pod = f.host WHERE f.host IS NOT NULL"
        ).fetchall()
    )
    by_file |= dict(con.execute("SELECT file, node FROM file_node").fetchall())
    by_file |= dict(
        con.execute(
            "SELECT file, mode(node ORDER BY node) FROM line_clock JOIN events USING (event_id) GROUP BY file"
        ).fetchall()
    )
    zoned = {
        r[0]
        for r in con.execute(
            "SELECT clock_host FROM host_zone WHERE basis = 'printed' OR clock_host IN (SELECT clock_host FROM zone_claim WHERE file IS NULL)"
        ).fetchall()
    }
    machines = sorted({n for h, n in nodes.items() if role.get(h) in {"compute", "switch"}})
    abroad = set(chance.sample(machines, max(1, len(machines) // 3)) if machines else ())
    clocks: dict[str, Clock] = {}

    def clock_of(file: str, host: str | None) -> Clock:
        node = nodes.get(host or "") or by_file.get(file)
        if by_file.get(file, "").startswith("file:") and (
            role.get(host or "") != "switch" or "opensm" in file or "ufm" in file
        ):
            node = by_file[file]
        return clocks.get(node or f"file:{file}") or still

    still = Clock(0.0, 0)
    for node in [*machines, *sorted({n for n in by_file.values() if n.startswith("file:")})]:
        hours = chance.choice(HOURS)
        skew = round(chance.uniform(-MAX_SKEW_S, MAX_SKEW_S), 3)
        clocks[node] = Clock(skew, hours if node in abroad and node not in zoned else 0)
    return clock_of


def answer(incident: Incident) -> Answer:
    """The top answer of an analysis."""
    verdict = incident.analysis.verdict
    who = verdict.culprit
    return Answer(verdict.cause, who.host, who.dev, who.switch)


def compare(name: str, source: Path, work: Path, seed: int) -> tuple[Answer, Answer]:
    """Top answers of a bundle and of its twin; the twin stays in `work`."""
    plain, twin = work / f"{name}.plain", work / name
    unpack(source, plain)
    options = Options(workers=1, context=False)
    with open_incident([plain], options) as incident:
        first = answer(incident)
        clock_of = _clocks(incident, random.Random(f"{seed} {name}"))
        latest = incident.con.execute("SELECT year(max(ts)) FROM events").fetchone()
    plain.rename(twin)
    rewrite(twin, clock_of, int(latest[0]) if latest and latest[0] else 2026)
    with open_incident([twin], options) as incident:
        return first, answer(incident)


def main() -> int:
    """Exit code: 1 when fewer twins than the goal give the same answer."""
    parser = argparse.ArgumentParser(description="Compare the answers of bundles and of their twins with wrong clocks.")
    parser.add_argument("folders", nargs="*", type=Path, default=[TOP / "sample_logs"])
    parser.add_argument("--only", default="", help="only bundles whose name begins so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="leave the twins there")
    args = parser.parse_args()
    same = total = 0
    for folder in args.folders:
        for name, source in bundles(folder, args.only):
            with tempfile.TemporaryDirectory(prefix="twins-") as temp:
                first, second = compare(name, source, Path(temp), args.seed)
                if args.keep:
                    shutil.copytree(Path(temp) / name, args.keep / name)
            total += 1
            same += first == second
            if first != second:
                print(f"{name}: {first} became {second}", flush=True)
    share = same / total if total else 0.0
    print(f"{same} of {total} twins give the same answer: {share:.3f}")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
