"""Throws damaged files at the reading of bundles and at the analysis, and counts what broke.

    python benchmarks/fuzz.py --seconds 600 [--seed 1] [--keep DIR]

Seeds are the files of sample_logs and tests/data (logs of all framings, flight-recorder dumps, tables, JSON, XML), each cut to a piece. An
input is one seed changed in a few places (bits, bytes, lines, numbers, pieces of other seeds, nesting, length), often packed into an archive
that is damaged in turn. Every input is parsed as a bundle of its own; every 60 inputs are analysed together up to the report. A crash is
any exception, or more than 10 s per started MB. Prints one line of JSON; exit code 1 when anything broke.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import random
import re
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from postmortem.bundle import plan
from postmortem.incident import Options, open_incident
from postmortem.report import document, terminal
from postmortem.report.html import render
from postmortem.resources import data_folder
from postmortem.tables.batches import batches
from postmortem.tables.ingest import parse_batch

ROOT = Path(__file__).resolve().parent.parent
SECONDS_PER_MB = 10.0
MAX_SEED = 24_000
TOGETHER = 60
NUMBERS = [
    b"0",
    b"-1",
    b"255",
    b"65536",
    b"2147483648",
    b"9223372036854775807",
    b"18446744073709551616",
    b"1e999",
    b"nan",
    b"9" * 400,
]
TEXTS = [
    b"\0", b"\0" * 700, b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x1b[31m", b"\r", b"\r\n", b"\n\n\n", b"\t", b'"', b"'", b"{", b"}",
    b"[" * 300, b"{\"a\":" * 200, b"<a>" * 200, b"(", b"%s%n", b"${x}", b"{{x}}", b"<script>", b"'; DROP TABLE events; --", b"\\u0000", b"&lol;", b"|" * 200,
    b"Jan ", b"9999-12-31T23:59:59Z ", b"0000-00-00 00:00:00 ", b"[99999999999.999999] ", b"[rank99999999]: ", b"node-[0-99999]",
]  # fmt: skip


@dataclass
class Result:
    """Figures of a run."""

    seed: int
    inputs: int = 0
    bytes: int = 0
    bundles: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    crashes: list[str] = field(default_factory=list)


def seeds() -> list[tuple[str, bytes]]:
    """(name, bytes) of the seeds, at most MAX_SEED bytes each, in the order of their paths."""
    files = [p for folder in ("sample_logs", "tests/data") for p in sorted((ROOT / folder).rglob("*")) if p.is_file()]
    found = []
    for path in files:
        if path.suffix in {".md", ".py", ".js"} or path.name in {"expected.json", "truth.json"}:
            continue
        data = path.read_bytes()
        # The end of a log is where its faults stand.
        found.append((path.name, data if len(data) <= MAX_SEED else data[: MAX_SEED // 2] + data[-MAX_SEED // 2 :]))
    return found


def mutate(data: bytes, chance: random.Random, others: Sequence[tuple[str, bytes]]) -> bytes:
    """`data` changed in one to eight places."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        chance.choice(MUTATIONS)(changed, chance, others)
    return bytes(changed[: 20 * MAX_SEED])


Mutation = Callable[[bytearray, random.Random, Sequence[tuple[str, bytes]]], None]


def _span(data: bytearray, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.choice((1, 1, 2, 4, 16, 100, 4000)))


def _flip(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    for _i in range(chance.choice((1, 4, 60))):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    start, end = _span(data, chance)
    del data[start:end]


def _end(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _insert(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.choice(TEXTS) * chance.choice((1, 1, 1, 20))


def _noise(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    start, end = _span(data, chance)
    data[start:end] = chance.randbytes(end - start)


def _repeat(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    start, end = _span(data, chance)
    data[end:end] = data[start:end] * chance.choice((1, 2, 50, 400))


def _splice(data: bytearray, chance: random.Random, others: Sequence[tuple[str, bytes]]) -> None:
    other = bytearray(chance.choice(others)[1])
    start, end = _span(other, chance)
    at = chance.randrange(len(data) + 1)
    data[at:at] = other[start : max(end, min(len(other), start + 500))]


def _number(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    start = chance.randrange(len(data) + 1)
    found = re.compile(rb"[0-9]+").search(data, start)
    if found:
        data[found.start() : found.end()] = chance.choice(NUMBERS)


def _lines(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    lines = bytes(data).split(b"\n")
    chance.shuffle(lines)
    data[:] = chance.choice((b"\n", b"\n", b"\r\n", b"\r", b" ")).join(lines)


def _wide(data: bytearray, chance: random.Random, _: Sequence[tuple[str, bytes]]) -> None:
    data[:] = bytes(data).decode("latin-1").encode(chance.choice(("utf-16", "utf-16-be", "utf-8-sig", "utf-8")))


MUTATIONS: list[Mutation] = [
    _flip,
    _cut,
    _end,
    _insert,
    _insert,
    _noise,
    _repeat,
    _splice,
    _splice,
    _number,
    _number,
    _lines,
    _wide,
]


def pack(name: str, data: bytes, chance: random.Random) -> tuple[str, bytes]:
    """`data` in an archive of some kind, damaged now and then."""
    kind = chance.choice(("gz", "bz2", "xz", "zst", "tar", "tar.gz", "zip", "zip.gz"))
    if kind.startswith("tar"):
        buffer = io.BytesIO()
        with tarfile.open(
            fileobj=buffer, mode="w", format=chance.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
        ) as archive:
            for inner in (name, chance.choice(("../../x", "/etc/x", name, "a" * 300))):
                info = tarfile.TarInfo(inner)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        data = buffer.getvalue()
    elif kind.startswith("zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", chance.choice((0, 8, 12, 14))) as file:
            file.writestr(name, data)
        data = buffer.getvalue()
    last = kind.rpartition(".")[2]
    if last == "gz":
        data = gzip.compress(data, 1)
    elif last == "bz2":
        data = bz2.compress(data)
    elif last == "xz":
        data = lzma.compress(data, preset=0)
    elif last == "zst":
        data = zstandard.ZstdCompressor().compress(data)
    if chance.random() < 0.6:
        changed = bytearray(data)
        chance.choice((_flip, _flip, _end, _cut, _noise))(changed, chance, ())
        data = bytes(changed)
    return f"{name}.{chance.choice((kind, kind, 'log', 'gz'))}", data


def one_input(chance: random.Random, corpus: Sequence[tuple[str, bytes]]) -> tuple[str, bytes]:
    """(name, bytes) of one input."""
    name, data = chance.choice(corpus)
    data = mutate(data, chance, corpus)
    if chance.random() < 0.1:
        name = chance.choice(
            ("nccl_trace_rank_0", "x.json", "leaf-1.log", "a.xml", "events.out.tfevents.1.node-1", "x.parquet")
        )
    return pack(name, data, chance) if chance.random() < 0.25 else (name, data)


def parse(path: Path, work: Path) -> None:
    """Parse one file as worker processes do."""
    for batch in batches(plan([path]).units, work, (data_folder("parsers"),)):
        parse_batch(batch)


def analyse(folder: Path, *, redact: bool) -> None:
    """Analyse a folder up to all outputs."""
    with open_incident([folder], Options(workers=1, redact=redact)) as incident:
        render(incident.analysis, incident.con, "fuzz")
        json.loads(document.to_json(incident.analysis, "fuzz"))
        terminal.summary(incident.analysis, colour=False, width=100)


def run(seconds: float, seed: int, keep: Path | None = None, most: int | None = None) -> Result:
    """Try inputs for `seconds`, at most `most`; inputs that break something are kept in `keep`."""
    result = Result(seed)
    corpus = seeds()
    begin = time.monotonic()
    number = 0
    while time.monotonic() - begin < seconds and (most is None or result.inputs < most):
        with tempfile.TemporaryDirectory(prefix="postmortem-fuzz-") as folder:
            bundle = Path(folder) / "bundle"
            for _ in range(TOGETHER if most is None else min(TOGETHER, most)):
                chance = random.Random(f"{seed}/{number}")
                name, data = one_input(chance, corpus)
                path = bundle / f"d{number}" / name
                path.parent.mkdir(parents=True)
                path.write_bytes(data)
                spool = Path(folder) / f"spool{number}"
                spool.mkdir()
                _timed(result, path, lambda path=path, spool=spool: parse(path, spool), f"input {number}", keep)
                result.inputs += 1
                result.bytes += len(data)
                number += 1
                if time.monotonic() - begin > seconds:
                    break
            redact = result.bundles % 4 == 3
            _timed(
                result,
                bundle,
                lambda bundle=bundle, redact=redact: analyse(bundle, redact=redact),
                f"bundle up to input {number}",
                keep,
            )
            result.bundles += 1
    result.seconds = round(time.monotonic() - begin, 1)
    return result


def _timed(result: Result, path: Path, action: Callable[[], None], what: str, keep: Path | None) -> None:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    megabytes = 1 + sum(p.stat().st_size for p in files) // 1_000_000
    begin = time.process_time()
    why = None
    try:
        action()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{what}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:200]}"
    took = time.process_time() - begin
    result.slowest_s = max(result.slowest_s, round(took, 2))
    if why is None and took > SECONDS_PER_MB * megabytes * (1 if path.is_file() else 3):
        why = f"{what}: {took:.1f} s for {megabytes} MB"
    if why is not None:
        result.crashes.append(why)
        print(why, file=sys.stderr)
        if keep is not None and path.is_file():
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{len(result.crashes):04d}-{path.name}").write_bytes(path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for inputs that broke something")
    options = parser.parse_args()
    result = run(options.seconds, options.seed, options.keep)
    print(json.dumps({**vars(result), "crashes": len(result.crashes)}))
    return 1 if result.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
