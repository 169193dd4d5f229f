"""Redacted outputs: no name is left, the same name has the same mask, and what is left makes the same sense."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner, Result
from redaction_samples import SECRETS, write_bundle

from postmortem.cli.analyze import command
from postmortem.errors import PostmortemError
from postmortem.redaction import Masks, check_database, check_html, check_json, check_text
from postmortem.redaction.check import leftovers
from postmortem.redaction.names import Names


@dataclass(frozen=True)
class Run:
    """Texts of the outputs of one run, the database as its values."""

    page: str
    twin: str
    shown: str
    rows: str
    file: bytes
    folder: Path

    @property
    def all(self) -> str:
        return "\n".join((self.page, self.twin, self.shown, self.rows, self.file.decode("latin-1")))


def analyse(bundle: Path, out: Path, *options: str) -> Run:
    out.mkdir()
    names = [out / "r.html", out / "r.md", out / "r.duckdb"]
    targets = ["-o", str(names[0]), "--markdown", str(names[1]), "--db", str(names[2])]
    done = CliRunner().invoke(
        command, [str(bundle), *targets, "--workers", "1", *options], catch_exceptions=False, standalone_mode=False
    )
    assert done.exit_code == 0
    with duckdb.connect(str(names[2]), read_only=True) as con:
        tables = [row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = "\n".join(str(con.execute(f'SELECT * FROM "{table}"').fetchall()) for table in tables)
    last = done.stdout.replace(str(out), "")
    return Run(names[0].read_text(), names[1].read_text(), last, rows, names[2].read_bytes(), out)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def plain(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return analyse(bundle, tmp_path_factory.mktemp("plain") / "out")


@pytest.fixture(scope="module")
def masked(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("masked") / "out"
    return analyse(bundle, out, "--redact", "--redact-map", str(out / "map.json"))


def test_no_name_is_left(plain: Run, masked: Run) -> None:
    lower = masked.all.lower()
    assert [name for name in SECRETS if name.lower() in lower] == []
    # The names are worth looking for: most of them stand in what is not redacted.
    assert sum(name.lower() in plain.all.lower() for name in SECRETS) >= 15


def test_the_verdict_is_the_same(plain: Run, masked: Run) -> None:
    times = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}")
    assert plain.shown.splitlines()[0] == masked.shown.splitlines()[0]
    assert times.findall(plain.shown) == times.findall(masked.shown)


def test_one_name_has_one_mask_everywhere(masked: Run) -> None:
    known = json.loads((masked.folder / "map.json").read_text())
    host, user = known["gpu-ams-08"], known["mallory"]
    assert host.startswith("host-")
    assert user.startswith("user-")
    assert all(host in text for text in (masked.page, masked.twin, masked.shown, masked.rows))
    assert f"hosts/{host}/kern.log" in masked.page
    assert len(set(known.values())) == len(known)


def test_the_map_is_for_its_owner_and_only_where_asked(bundle: Path, masked: Run, tmp_path: Path) -> None:
    assert (masked.folder / "map.json").stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in masked.folder.iterdir()) == ["map.json", "r.duckdb", "r.html", "r.md"]
    done = CliRunner().invoke(command, [str(bundle), "--redact-map", str(tmp_path / "m")], standalone_mode=False)
    assert "needs --redact" in str(done.exception)


def json_run(bundle: Path) -> Result:
    arguments = [str(bundle), "--redact", "--format", "json", "--workers", "1"]
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def test_json_is_masked_too(bundle: Path) -> None:
    done = json_run(bundle)
    assert json.loads(done.stdout)["verdict"]["culprit"]
    assert [name for name in SECRETS if name.lower() in done.stdout.lower()] == []


def test_a_name_that_is_left_ends_the_run_without_outputs(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Masks that miss one name: as if a way into the outputs had been forgotten.
    monkeypatch.setattr(Masks, "text", lambda self, text: text)
    out = tmp_path / "r.html"
    done = CliRunner().invoke(
        command, [str(bundle), "--redact", "-o", str(out), "--workers", "1"], standalone_mode=False
    )
    assert isinstance(done.exception, PostmortemError)
    assert done.exception.exit_code == 2
    assert "still holds a name" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


MASKS = Masks(
    {
        "node-1": "host-1",
        "node-12": "host-2",
        "jörg": "user-1",
        "j\\u00f6rg": "user-1",
        "10.0.0.1": "addr-1",
        "a.b-c": "name-1",
    }
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("node-1 and NODE-1, node-12", "host-1 and host-1, host-2"),
        ("node-11 anode-1 node-1a", "node-11 anode-1 node-1a"),
        ("node-1_eth0 /x/node-1.log (node-1:5)", "host-1_eth0 /x/host-1.log (host-1:5)"),
        ("10.0.0.1:29500 10.0.0.12 110.0.0.1", "addr-1:29500 10.0.0.12 110.0.0.1"),
        ('Jörg {"u": "j\\u00f6rg"}', 'user-1 {"u": "user-1"}'),
        ("a.b-c a.b-cd", "name-1 a.b-cd"),
        ("", ""),
    ],
)
def test_names_are_replaced_as_whole_words(text: str, wanted: str) -> None:
    assert MASKS.text(text) == wanted
    assert MASKS.column(pl.Series([text, None])).to_list() == [wanted, None]
    assert bool(list(leftovers([text], MASKS))) == (wanted != text)


def test_a_text_that_was_cut_off_loses_its_last_word() -> None:
    text = ("x" * 10 + " ") * 36 + "node"
    assert MASKS.column(pl.Series([text])).to_list() == [text[:-4] + "…"]


FOUND = [
    ("Accepted password for trudy from 192.0.2.1 port 22", {"user": {"trudy"}, "addr": {"192.0.2.1"}}),
    ("USER=mallory PWD=/home/mallory", {"user": {"mallory"}}),
    ("mail zelda.m@corp.example now", {"mail": {"zelda.m@corp.example"}, "user": {"zelda.m"}, "domain": {"corp.example"}}),
    ("inet6 fe80::ba59:9fff:feaa:1/64 link b8:59:9f:aa:bb:01", {"addr": {"fe80::ba59:9fff:feaa:1", "b8:59:9f:aa:bb:01"}}),
    ("Authorization: Bearer abcdef0123456789", {"token": {"abcdef0123456789"}}),
    ("clone https://bob7:pa55word@git.corp.example/team9/lunarium.git", {"token": {"bob7", "pa55word"}, "host": {"git.corp.example"}, "name": {"team9", "lunarium"}}),
    ("open '/scratch/moon/iter_0001000/x.pt' failed", {"name": {"moon"}}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), FOUND)
def test_names_in_text(text: str, wanted: dict[str, set[str]]) -> None:
    names = Names()
    names.find(pl.Series([text]))
    got = {kind: found for kind, found in names.by_kind.items() if found}
    assert {kind: got.get(kind) for kind in wanted} == wanted


QUIET = [
    "2026-02-03 15:41:00.123 step 12 loss 2.5 tokens/s 1234.5 [rank0]: c10::Error std::string 12:34:56",
    'File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 3, in forward',
    "NVRM: Xid (PCI:0000:9d:00): 79, pid=4343, GPU has fallen off the bus.",
    "tokens: 4096 eos_token='</s>' num_tokens=123456789 session opened for user root",
    "/dev/nvidia0 /proc/123/stat /sys/class/net/eth0 /var/log/messages https://pytorch.org/docs",
    "mlx5_0:1/RoCE 127.0.0.1:29500 localhost 0.0.0.0",
]


@pytest.mark.parametrize("text", QUIET)
def test_ordinary_text_names_nobody(text: str) -> None:
    names = Names()
    names.find(pl.Series([text]))
    assert {kind: found for kind, found in names.by_kind.items() if found} == {}


def test_a_mask_is_never_a_name_of_the_bundle() -> None:
    names = Names()
    names.host("host-1")
    names.host("zeta-5")
    masks = Masks.of(names)
    assert set(masks.by_name) == {"host-1", "zeta-5"}
    assert not set(masks.by_name.values()) & set(masks.by_name)


def test_checks_see_through_the_forms_of_outputs(tmp_path: Path) -> None:
    for page in (
        "<p>n&#111;de-1</p>",
        '<p title="node-1">',
        '<script type="application/json">{"a": "n\\u006fde-1"}</script>',
    ):
        with pytest.raises(PostmortemError):
            check_html(page, MASKS, "page")
    check_html('<style>.node-1 {}</style><script>node-1</script><path d="M10.0.0.1"/>', MASKS, "page")
    with pytest.raises(PostmortemError):
        check_json('{"a": ["j\\u00f6rg"]}', MASKS, "document")
    with pytest.raises(PostmortemError):
        check_text("x\n(Node-1)", MASKS, "text")
    path = tmp_path / "x.duckdb"
    from postmortem.tables.store import create_tables

    with duckdb.connect(str(path)) as con:
        create_tables(con)
    check_database(path, MASKS)
    with duckdb.connect(str(path)) as con:
        con.execute("INSERT INTO files VALUES ('logs/node-1', 'text', 0, NULL, 'none', NULL)")
    with pytest.raises(PostmortemError, match=r"files\.file"):
        check_database(path, MASKS)
