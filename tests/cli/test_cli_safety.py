"""What SQL may reach, what a full or read-only disk leaves behind, and what reaches a terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import duckdb
import pytest
from click.testing import CliRunner

from postmortem import outputs
from postmortem.cli import cli, shell
from postmortem.errors import PostmortemError, UsageError


class Result(Protocol):
    """What a run of the command line gave."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("safety") / "x.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE events AS SELECT 1 AS line, chr(27) || '[31m' || chr(8238) || chr(155) AS message")
    return path


def refused(database: Path, sql: str, *options: str) -> str:
    done = CliRunner().invoke(cli, ["query", str(database), sql, *options], standalone_mode=False)
    assert isinstance(done.exception, UsageError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "COPY events TO '{there}/stolen.csv'",
        "ATTACH '{there}/other.duckdb' AS other",
        "EXPORT DATABASE '{there}/all'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_csv('https://example.org/x.csv')",
        "INSERT INTO events VALUES (2, 'x')",
        "DROP TABLE events",
        "SET enable_external_access = true",
    ],
)
def test_sql_reaches_nothing_else(database: Path, tmp_path: Path, sql: str) -> None:
    assert "refused" in refused(database, sql.format(there=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_files_are_reached_where_that_is_asked_for(database: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    sql = f"SELECT b FROM read_csv('{tmp_path}/x.csv')"
    done = CliRunner().invoke(
        cli, ["query", str(database), sql, "--allow-files", "--format", "csv"], standalone_mode=False
    )
    assert done.output == "b\n2\n"
    # The incident itself stays as it is.
    assert "read-only" in refused(database, "DROP TABLE events", "--allow-files")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def put(text: str) -> None:
        lines = iter(text.splitlines(keepends=True))

        class Stdin:
            def isatty(self) -> bool:
                return False

            def __next__(self) -> str:
                return next(lines)

        monkeypatch.setattr("sys.stdin", Stdin())

    return put


def test_the_plain_shell_reaches_nothing_else(
    database: Path, typed: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    typed("SELECT * FROM read_text('/etc/hostname');\nSELECT 6 * 7 AS n;\n")
    assert cli(["shell", str(database), "--plain"], standalone_mode=False) == 0
    told = capsys.readouterr()
    assert "error: Permission" in told.err
    assert "42" in told.out


def test_the_client_runs_in_safe_mode(
    postmortem: Run, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    class Done:
        returncode = 0

    def run(arguments: list[str], *, check: bool) -> Done:
        seen.append(arguments)
        return Done()

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr(shell, "client_path", lambda: "duckdb")
    cli(["shell", str(database)], standalone_mode=False)
    cli(["shell", str(database), "--allow-files"], standalone_mode=False)
    assert "-safe" in seen[0]
    assert "-no-init" in seen[0]
    assert "-safe" not in seen[1]
    assert all("-readonly" in arguments for arguments in seen)


def test_json_of_rows_drives_no_terminal(database: Path) -> None:
    done = CliRunner().invoke(
        cli, ["query", str(database), "SELECT message FROM events", "--format", "json"], standalone_mode=False
    )
    assert json.loads(done.output) == [{"message": "\x1b[31m\u202e\x9b"}]
    assert not set(done.output) & {"\x1b", "\u202e", "\x9b"}


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    target.write_text("old")

    def write() -> None:
        with outputs.partial(target) as path:
            path.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="cannot be written: No space left"):
        write()
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert target.read_text() == "old"


def test_outputs_are_put_into_place_together(tmp_path: Path) -> None:
    from postmortem.cli.writing import Written

    def write() -> None:
        with Written(None) as files:
            files.page(tmp_path / "a.html", "a")
            files.text(tmp_path / "missing" / "b.md", "b")

    with pytest.raises(UsageError, match="cannot be written"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    outputs.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("make", [os.mkfifo, lambda p: p.symlink_to("/dev/null")])
def test_devices_and_pipes_are_no_outputs(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "out")
    with pytest.raises(UsageError, match="a device or a pipe"):
        outputs.explicit(tmp_path / "out", force=True)


def test_no_room_for_rows_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kern.log").write_text(
        "Jan  2 03:04:05 n kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
    )
    from postmortem import incident

    def full(*_: object, **__: object) -> None:
        raise duckdb.IOException('IO Error: Could not write file "x": No space left on device')

    monkeypatch.setattr(incident, "settle", full)
    done = CliRunner().invoke(
        cli, ["analyze", str(tmp_path), "--format", "json", "--workers", "1"], standalone_mode=False
    )
    assert isinstance(done.exception, PostmortemError)
    assert "set TMPDIR" in str(done.exception)


def test_a_full_stdout_is_one_sentence(postmortem: Run, database: Path) -> None:
    import subprocess
    import sys

    with open("/dev/full", "w") as full:  # noqa: PTH123
        code = "from postmortem.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "query", str(database), "SELECT 1"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["postmortem: the output cannot be written: No space left on device"]
