"""Rows go to a shared place and come back; what was not named stays there; places that refuse are told in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from postmortem import __version__
from postmortem.errors import UsageError
from postmortem.tables.spool import collect, probe, probed, shared_spool, write_rows
from postmortem.tables.workers import Place, check, definitions_digest, look

ROWS = pl.DataFrame({"x": [1, 2]})


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that is not there yet, and a store of fsspec in memory."""
    if request.param == "folder":
        return str(tmp_path / "shared")
    pytest.importorskip("fsspec", reason="the extra cluster is not installed")
    return f"memory://{tmp_path.name}"


def test_only_named_files_are_collected(place: str, tmp_path: Path) -> None:
    local = tmp_path / "rows"
    with shared_spool(place) as spool:
        wanted = [write_rows(spool, "events", "1-a-0", ROWS), write_rows(spool, "files", "1-a-1", ROWS)]
        write_rows(spool, "events", "1-b-0", ROWS)
        collect(spool, wanted, local)
        assert sorted(p.relative_to(local).as_posix() for p in local.rglob("*.parquet")) == wanted
        assert all(pl.read_parquet(p).equals(ROWS) for p in local.rglob("*.parquet"))


def test_the_place_is_left_as_it_was(place: str) -> None:
    with shared_spool(place) as first, shared_spool(place) as second:
        assert first != second
        probe(first, "mine")
        assert "mine" in probed(first) - probed(second)
    with shared_spool(place) as spool:
        assert spool.startswith(("/", "memory://"))
    with pytest.raises(OSError, match="file"):
        probed(first)


def test_rows_that_are_gone_are_an_error(place: str, tmp_path: Path) -> None:
    with shared_spool(place) as spool:
        name = write_rows(spool, "events", "1-a-0", ROWS)
        collect(spool, [name], tmp_path / "rows")
    if not place.startswith("memory"):
        # A link: it has to be there as long as it is read.
        assert not (tmp_path / "rows" / name).exists()
        return
    assert (tmp_path / "rows" / name).exists()
    with pytest.raises(OSError, match="no such file"):
        collect(spool, [name], tmp_path / "others")


@pytest.mark.parametrize("place", ["{file}/below", "nonsense://x/y"])
def test_a_place_that_refuses_is_one_sentence(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    name = place.format(file=tmp_path / "file")
    with pytest.raises(UsageError, match=f"--spool {name} cannot be written: ") as raised, shared_spool(name):
        pass
    assert "\n" not in str(raised.value)


def answers(**changes: Any) -> Callable[..., dict[str, Place]]:
    """Two workers of which the second differs in `changes`."""

    def ask_all(function: Callable[..., Place], *arguments: Any) -> dict[str, Place]:
        places = [function(*arguments), function(*arguments)]
        fields = {n: getattr(places[1], n) for n in Place.__slots__} | changes
        return {"tcp://a:1": places[0], "tcp://b:2": Place(**fields)}

    return ask_all


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": "0.0.1"}, f"worker tcp://b:2 runs postmortem 0.0.1, here is {__version__}: install the same"),
        ({"definitions": "other"}, "worker tcp://b:2 has other definitions than this machine"),
        ({"missing": "/data/job"}, "worker tcp://b:2 does not see /data/job: "),
        ({"probe": "elsewhere"}, "cannot write where the spool is .it sees another folder of that name."),
        ({"complaint": "Permission denied"}, "cannot write where the spool is .Permission denied.: give --spool"),
    ],
)
def test_a_worker_that_differs_is_told_at_the_start(changes: dict[str, Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        check(answers(**changes), ("",), (str(tmp_path),), str(tmp_path))


def test_workers_that_are_alike_are_fine(tmp_path: Path) -> None:
    check(answers(), ("", str(tmp_path)), (str(tmp_path),), str(tmp_path))


def test_what_a_machine_lacks(tmp_path: Path) -> None:
    seen = look(("",), (str(tmp_path / "bundle"),), str(tmp_path / "spool"))
    assert (seen.missing, seen.complaint) == (str(tmp_path / "bundle"), "No such file or directory")
    assert look((), ("nonsense://x",), str(tmp_path)).missing == "nonsense://x (fsspec knows no protocol nonsense://)"


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    for name, text in (("a", "x = 1\n"), ("b", "x = 1\n"), ("c", "x = 2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f.toml").write_text(text)
    one, same, other = (definitions_digest([str(tmp_path / n)]) for n in "abc")
    assert one == same != other
    assert definitions_digest([str(tmp_path / "nowhere")]) == "absent"
