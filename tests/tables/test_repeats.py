"""Lines that come back thousands of times: narrow rows say the same as reading each line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from postmortem.bundle import plan
from postmortem.incident import Options, open_incident
from postmortem.resources import data_folder
from postmortem.tables import repeats
from postmortem.tables.batches import batches
from postmortem.tables.ingest import parse_batch
from postmortem.tables.narrow import expand

HEAD = "node-01:4000:4900 [3] NCCL INFO "


def _log(calls: int = 1500, stamp: str = "") -> str:
    lines = ["node-01:4000:4000 [3] NCCL INFO Bootstrap: Using bond0:10.0.0.1<0>", "NCCL version 2.30.7+cuda13.0"]
    for k in range(calls):
        lines.append(
            f"{stamp}{HEAD}AllReduce: opCount {k:x} sendbuff 0x7f{k:010x} recvbuff 0x7f{k + 9:010x} count {4096 << k % 9} datatype 9 op 0 root 0 "
            "comm 0x55d0a1b2c3d4 [nranks=64] stream 0x55d1c0de0001"
        )
        lines.append(f"{stamp}{HEAD}Channel {k % 4:02d}/0 : 3[3] -> 11[3] [send] via NET/IB/{k % 4}/GDRDMA")
        lines.append(f"{stamp}{HEAD}threadThresholds 8/8/64 | 512/8/64 | 512 | 512")
    lines.append(f"{stamp}{HEAD}transport/net.cc:1302 -> 6")
    return "\n".join(lines) + "\n"


def _spool(folder: Path, text: str, target: Path) -> dict[str, pl.DataFrame]:
    folder.mkdir()
    (folder / "nccl.log").write_text(text, encoding="utf-8")
    target.mkdir()
    for batch in batches(plan([folder]).units, target, (data_folder("parsers"),)):
        parse_batch(batch)
    return {p.name: pl.concat([pl.read_parquet(f) for f in sorted(p.glob("*.parquet"))]) for p in target.iterdir()}


def _columns(frame: pl.DataFrame) -> pl.DataFrame:
    """What both ways must agree on: the pointers of calls are not kept in narrow rows."""
    is_call = pl.col("event") == "nccl.collective"
    frame = frame.with_columns(pl.when(~is_call).then(n).alias(n) for n in ("text", "message")).drop(
        "from_neighbour", strict=False
    )
    return frame.sort("line", "sub", "definition")


def test_narrow_rows_are_what_reading_every_line_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _spool(tmp_path / "a", _log(), tmp_path / "narrow")
    assert found["repeats"].height > 2500
    assert found["events"].height < 100
    monkeypatch.setattr(repeats, "LEAST_LINES", 1 << 60)
    every = _spool(tmp_path / "b", _log(), tmp_path / "every")
    assert "repeats" not in every
    both = pl.concat([found["events"].drop("from_neighbour"), expand(found["repeats"], found["templates"])])
    assert _columns(both).equals(_columns(every["events"]))


def test_the_output_of_a_whole_job_in_one_file_is_read_by_position_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty processes write by turns, each with a header of its own."""
    logs = [_log(120).replace("node-01:4000:4", f"node-{k:02d}:40{k:02d}:4").splitlines() for k in range(40)]
    text = "\n".join(line for turn in zip(*logs, strict=True) for line in turn) + "\n"
    found = _spool(tmp_path / "a", text, tmp_path / "narrow")
    calls = found["events"].filter(pl.col("event") == "nccl.collective")
    assert calls.height < 40 * 120 / 2
    monkeypatch.setattr(repeats, "LEAST_LINES", 1 << 60)
    every = _spool(tmp_path / "b", text, tmp_path / "every")
    both = pl.concat([found["events"].drop("from_neighbour"), expand(found["repeats"], found["templates"])])
    assert _columns(both).equals(_columns(every["events"]))


def test_lists_of_ranks_that_begin_as_channels_do_are_all_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _log() + "".join(f"{HEAD}Channel {k % 4:02d}/04 :    0   1   2   3\n" for k in range(400))
    found = _spool(tmp_path / "a", text, tmp_path / "narrow")
    monkeypatch.setattr(repeats, "LEAST_LINES", 1 << 60)
    every = _spool(tmp_path / "b", text, tmp_path / "every")
    both = pl.concat([found["events"].drop("from_neighbour"), expand(found["repeats"], found["templates"])])
    assert _columns(both).equals(_columns(every["events"]))


def test_lines_with_a_time_are_all_read(tmp_path: Path) -> None:
    found = _spool(tmp_path / "a", _log(stamp="[2026-03-14 02:00:00] "), tmp_path / "spool")
    assert "repeats" not in found
    assert found["events"].height > 3000
    assert found["events"]["stamp_us"].is_not_null().sum() > 3000


def test_definitions_that_read_a_call_differently_turn_the_shapes_off(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "nccl").mkdir(parents=True)
    (own / "nccl" / "mine.toml").write_text(
        'source = "nccl"\n[[message]]\nevent = "nccl.collective"\npriority = 99\ncontains = ": opCount "\n'
        'pattern = "^(?P<op>[A-Za-z]+): opCount (?P<value>[0-9a-f]+) "\n[[message.sample]]\n'
        f'line = "{HEAD}AllReduce: opCount 1a sendbuff"\nfields = {{ value = "1a" }}\n',
        encoding="utf-8",
    )
    bundle, spool = tmp_path / "a", tmp_path / "spool"
    bundle.mkdir()
    spool.mkdir()
    (bundle / "nccl.log").write_text(_log(), encoding="utf-8")
    for batch in batches(plan([bundle]).units, spool, (data_folder("parsers"), own)):
        parse_batch(batch)
    events = pl.concat([pl.read_parquet(f) for f in (spool / "events").glob("*.parquet")])
    calls = events.filter(pl.col("event") == "nccl.collective").sort("line")
    assert calls["value"].to_list() == [f"{k:x}" for k in range(1500)]


@pytest.mark.parametrize("with_file", [True, False])
def test_coverage_counts_every_line_and_a_database_holds_them(tmp_path: Path, with_file: bool) -> None:
    (tmp_path / "nccl.log").write_text(_log(), encoding="utf-8")
    with open_incident([tmp_path], Options(workers=1, context=False), with_file=with_file) as incident:
        counted = incident.con.execute("SELECT sum(events) FROM coverage").fetchone()
        held = incident.con.execute(
            "SELECT count(*) FROM events WHERE event IN ('nccl.collective', 'nccl.channel')"
        ).fetchone()
    assert counted is not None
    assert held is not None
    assert counted[0] == 3003
    assert (held[0] == 3000) is with_file
