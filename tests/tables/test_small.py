"""Small files read together: every line stays that of its file, and takes its time from its own file."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from postmortem.bundle import plan
from postmortem.lines.blocks import Block, read_blocks
from postmortem.resources import data_folder
from postmortem.tables import small
from postmortem.tables.batches import batches
from postmortem.tables.ingest import parse_batch
from postmortem.tables.small import Joined

STAMPED = "Mar 14 02:00:07 node-01 kernel: NVRM: Xid (PCI:0000:9d:00): 79, pid=7, GPU has fallen off the bus."
BARE = "node-01:40:41 [3] NCCL INFO Using network IB"


def _blocks(*texts: str) -> list[tuple[str, Block]]:
    return [
        (f"{name}.log", block) for name, text in enumerate(texts) for block in read_blocks(io.BytesIO(text.encode()))
    ]


def _rows(folder: Path, target: Path) -> pl.DataFrame:
    target.mkdir()
    for batch in batches(plan([folder]).units, target, (data_folder("parsers"),)):
        parse_batch(batch)
    rows = pl.concat([pl.read_parquet(p) for p in sorted((target / "events").glob("*.parquet"))])
    return rows.sort("file", "line", "offset", "sub", "definition")


def test_lines_keep_their_file_number_and_offset() -> None:
    joined = Joined.of(_blocks("one\ntwo\n", "three", "four\nfive\n"))
    rows = joined.lines(np.arange(5)).rows()
    assert rows == [
        ("0.log", 1, 0, "one"),
        ("0.log", 2, 4, "two"),
        ("1.log", 1, 0, "three"),
        ("2.log", 1, 0, "four"),
        ("2.log", 2, 5, "five"),
    ]


def test_no_time_comes_from_another_file() -> None:
    joined = Joined.of(_blocks(f"{STAMPED}\n{BARE}\n", f"{BARE}\n{STAMPED}\n{BARE}\n"))
    assert joined.donors(np.array([1, 2, 4])).select("file", "line").rows() == [("0.log", 1), ("1.log", 2)]


def test_rows_are_those_of_files_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    texts = {
        "a": f"{STAMPED}\n{BARE}\n",
        "b": BARE,
        "c": f"{BARE}\n\n{STAMPED}\r\n",
        "d": f"é {STAMPED}\n{BARE}\n",
        "e": "nothing\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.log").write_bytes(text.encode())
    together = _rows(folder, tmp_path / "together")
    monkeypatch.setattr(small, "MOST_BYTES", -1)
    assert together.equals(_rows(folder, tmp_path / "alone"))
    assert together["from_neighbour"].to_list().count(True) == 1
