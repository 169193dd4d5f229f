"""Rows of parsed bundles that are kept: the same answer again, and never a wrong one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from postmortem.bundle import Limits, Problem, plan
from postmortem.incident import Options, open_incident
from postmortem.tables import kept
from postmortem.tables.kept import Kept, Seen, keep, restore, see

LINE = "Mar 14 02:00:{:02d} node-7 kernel: NVRM: Xid (PCI:0000:9d:00): 79, pid=1, GPU has fallen off the bus.\n"


def _bundle(folder: Path, lines: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "node-7.log").write_text("".join(map(LINE.format, range(lines))), encoding="utf-8")
    return folder


def _key(bundle: Path, parsers: tuple[str, ...] = ("",), limits: Limits | None = None) -> str:
    seen = see(plan([bundle]), parsers, limits or Limits())
    assert seen is not None
    return seen.key


def _seen(key: str = "k") -> Seen:
    return Seen(key, ())


def _spool(folder: Path, size: int = 10) -> Path:
    (folder / "events").mkdir(parents=True)
    (folder / "events" / "0.parquet").write_bytes(b"x" * size)
    return folder


def test_the_second_analysis_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = _bundle(tmp_path / "bundle")
    options = Options(workers=1, context=False, cache=tmp_path / "cache")
    reached: list[tuple[int, int, int]] = []

    def told(*numbers: int) -> None:
        reached.append((numbers[0], numbers[1], numbers[2]))

    with open_incident([bundle], options, progress=told) as first:
        rows = first.con.execute("SELECT * FROM events ORDER BY ALL").fetchall()
        verdict = first.analysis.verdict

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was parsed before")

    monkeypatch.setattr("postmortem.incident.parse", refuse)
    with open_incident([bundle], options, progress=told) as second:
        assert second.con.execute("SELECT * FROM events ORDER BY ALL").fetchall() == rows
        assert second.analysis.verdict == verdict
    assert rows
    assert reached[0] == reached[1]


def test_what_differs_has_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = _bundle(tmp_path / "bundle")
    log = bundle / "node-7.log"
    key = _key(bundle)
    assert _key(bundle) == key
    times = log.stat().st_atime_ns, log.stat().st_mtime_ns
    log.write_text(log.read_text(encoding="utf-8").replace("79", "48"), encoding="utf-8")
    os.utime(log, ns=times)
    keys = {key, _key(bundle), _key(bundle, limits=Limits(depth=2))}
    log.rename(bundle / "node-8.log")
    keys.add(_key(bundle))
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.toml").write_text("", encoding="utf-8")
    keys.add(_key(bundle, ("", str(own))))
    monkeypatch.setattr(kept, "__version__", "0")
    keys.add(_key(bundle))
    assert len(keys) == 6


def test_a_copy_of_a_bundle_has_the_same_key(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path / "bundle")
    shutil.copytree(bundle, tmp_path / "copy")
    assert _key(tmp_path / "copy") == _key(bundle)


def test_what_cannot_be_read_or_lies_on_a_store_has_none(tmp_path: Path) -> None:
    todo = plan([_bundle(tmp_path / "bundle")])
    (tmp_path / "bundle" / "node-7.log").unlink()
    assert see(todo, ("",), Limits()) is None


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    said = Kept(7, (Problem("a.tar", "cut off"),))
    keep(tmp_path / "cache", _seen(), _spool(tmp_path / "spool"), said)
    (tmp_path / "new").mkdir()
    assert restore(tmp_path / "cache", "k", tmp_path / "new") == said
    assert (tmp_path / "new" / "events" / "0.parquet").read_bytes() == b"x" * 10
    assert restore(tmp_path / "cache", "other", tmp_path / "new") is None
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["bytes", "cut", "gone", "no JSON", "other JSON", "outside"])
def test_a_damaged_entry_is_removed_and_gives_nothing(tmp_path: Path, damage: str) -> None:
    keep(tmp_path / "cache", _seen(), _spool(tmp_path / "spool"), Kept(1, ()))
    entry = tmp_path / "cache" / "k"
    rows, manifest = entry / "events" / "0.parquet", entry / "manifest.json"
    match damage:
        case "bytes":
            rows.write_bytes(b"x" * 9 + b"y")
        case "cut":
            rows.write_bytes(b"x" * 9)
        case "gone":
            rows.unlink()
        case "no JSON":
            manifest.write_bytes(b'{"files": [')
        case "other JSON":
            manifest.write_bytes(b'{"files": 3}')
        case _:
            said = json.loads(manifest.read_text(encoding="utf-8"))
            said["files"][0][0] = "../../spool/events/0.parquet"
            manifest.write_text(json.dumps(said), encoding="utf-8")
    (tmp_path / "new").mkdir()
    assert restore(tmp_path / "cache", "k", tmp_path / "new") is None
    assert not list((tmp_path / "new").iterdir())
    assert not entry.exists()
    keep(tmp_path / "cache", _seen(), tmp_path / "spool", Kept(1, ()))
    assert restore(tmp_path / "cache", "k", tmp_path / "new") is not None


def test_of_two_runs_at_once_one_entry_is_left(tmp_path: Path) -> None:
    for _ in range(2):
        keep(tmp_path / "cache", _seen(), _spool(tmp_path / os.urandom(4).hex()), Kept(1, ()))
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["k"]


def test_old_entries_go_when_there_is_too_much(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for number, name in enumerate("abc"):
        keep(cache, _seen(name), _spool(tmp_path / name, 400), Kept(1, ()), most=2000)
        os.utime(cache / name, (1000 + number, 1000 + number))
    (tmp_path / "new").mkdir()
    assert restore(cache, "a", tmp_path / "new") is not None
    keep(cache, _seen("d"), _spool(tmp_path / "d", 400), Kept(1, ()), most=2000)
    assert sorted(p.name for p in cache.iterdir()) == ["a", "c", "d"]
    keep(cache, _seen("e"), _spool(tmp_path / "e", 1100), Kept(1, ()), most=2000)
    assert not (cache / "e").exists()


def test_a_bundle_that_changed_while_it_was_read_is_not_kept(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path / "bundle")
    seen = see(plan([bundle]), ("",), Limits())
    assert seen is not None
    _bundle(bundle, lines=9)
    keep(tmp_path / "cache", seen, _spool(tmp_path / "spool"), Kept(1, ()))
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("", encoding="utf-8")
    keep(tmp_path / "cache", _seen(), _spool(tmp_path / "spool"), Kept(1, ()))
    assert restore(tmp_path / "cache", "k", tmp_path / "spool") is None
