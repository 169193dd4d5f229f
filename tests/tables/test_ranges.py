"""A huge file in ranges: the same rows as in one go."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from postmortem.bundle import plan
from postmortem.incident import Options, open_incident
from postmortem.resources import data_folder
from postmortem.tables import ranges
from postmortem.tables.batches import batches
from postmortem.tables.ingest import is_plain, parse_batch
from postmortem.tables.ranges import cut, open_range

OWN = (data_folder("parsers"),)


def _log(lines: int = 3000) -> str:
    """Lines with a time, lines that borrow one, some of several bytes a character, some damaged."""
    out = []
    for k in range(lines):
        out.append(
            f"Mar 14 02:{k // 60 % 60:02d}:{k % 60:02d} node-7 kernel: NVRM: Xid (PCI:0000:9d:00): {48 if k % 2 else 79}, pid={k}, Wert ü."
        )
        out += [
            f"node-7:{k}:{k} [3] NCCL WARN NET/IB : Got completion from peer 10.0.0.{k % 200}<4> with error 12, opcode 0, len 0, vendor err 129"
        ] * (k % 3)
    return "\n".join(out) + "\n"


def _spool(units: list[object], target: Path) -> dict[str, pl.DataFrame]:
    target.mkdir()
    for batch in batches(units, target, OWN, 1):  # type: ignore[arg-type]
        parse_batch(batch)
    return {p.name: pl.concat([pl.read_parquet(f) for f in sorted(p.glob("*.parquet"))]) for p in target.iterdir()}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are cut, too."""
    monkeypatch.setattr(ranges, "CUT_BYTES", 1)
    monkeypatch.setattr("postmortem.tables.parse.CUT_BYTES", 1)


@pytest.mark.usefixtures("small")
def test_ranges_give_what_the_whole_file_gives(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "node-7.log").write_text(_log(), encoding="utf-8")
    units = list(plan([tmp_path / "a"]).units)
    parts = list(cut(units, 60_000, is_plain))
    assert len(parts) > 5
    assert sum(part.size for part in parts) == units[0].size
    whole, ranged = _spool([*units], tmp_path / "whole"), _spool([*parts], tmp_path / "ranged")
    by = ["line", "offset", "sub"]
    assert whole["events"].height > 5000
    assert ranged["events"].sort(by).equals(whole["events"].sort(by))
    assert (
        ranged["files"].select(pl.sum("bytes", "lines", "odd")).equals(whole["files"].select("bytes", "lines", "odd"))
    )


@pytest.mark.usefixtures("small")
def test_no_record_is_cut_in_two(tmp_path: Path) -> None:
    """Every cut lies before a line with a time, wherever in a record the size would have it."""
    record = "Mar 14 02:00:{:02d} node-7 python: worker failed\n" + "".join(
        f'  File "/opt/train.py", line {n}, in step\n' for n in range(40)
    )
    log = tmp_path / "node-7.log"
    log.write_text("".join(record.format(k % 60) for k in range(300)), encoding="utf-8")
    parts = list(cut(plan([log]).units, 20_000, is_plain))
    assert len(parts) > 5
    data = log.read_bytes()
    assert {data[p.span.begin :][:7] for p in parts if p.span} == {b"Mar 14 "}


@pytest.mark.usefixtures("small")
def test_an_incident_has_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postmortem.tables.parse.WORKERS_FROM_BYTES", 1)
    monkeypatch.setattr("postmortem.tables.parse.batch_size", lambda total, workers: 20_000)
    log = tmp_path / "node-7.log"
    log.write_text(_log(800), encoding="utf-8")
    # A worker process costs seconds here, so the ranges are read in this one.
    monkeypatch.setattr("postmortem.tables.parse.run", lambda function, tasks, *_: map(function, tasks))
    with open_incident([log], Options(workers=2, context=False)) as incident:
        files = incident.con.execute("SELECT file, kind, bytes FROM files").fetchall()
        coverage = incident.con.execute("SELECT lines FROM coverage").fetchall()
    assert files == [("node-7.log", "text", log.stat().st_size)]
    assert coverage == [(_log(800).count("\n"),)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "head", [b"\x1f\x8b\x08", b"\xef\xbb\xbf", "Fehler".encode("utf-16"), b"\0\1\2\3" * 9999, b"a" * 300_000]
)
def test_what_is_read_as_a_whole_is_not_cut(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "x").write_bytes(head + b"Mar 14 02:00:00 node-7 kernel: x\n" * (0 if len(head) > 99_999 else 9000))
    units = plan([tmp_path / "x"]).units
    assert list(cut(units, 20_000, is_plain)) == list(units)


def test_small_files_are_not_cut(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"Mar 14 02:00:00 node-7 kernel: x\n" * 9000)
    units = plan([tmp_path / "x"]).units
    assert list(cut(units, 20_000, is_plain)) == list(units)


@pytest.mark.usefixtures("small")
def test_a_range_of_a_file_that_has_shrunk_ends_early(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(_log(), encoding="utf-8")
    last = list(cut(plan([log]).units, 60_000, is_plain))[-1]
    log.write_text("", encoding="utf-8")
    with open_range(last) as opened:
        assert opened.read() == b""
