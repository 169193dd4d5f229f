"""Wrong definitions are refused in one sentence that names the file, the message and the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from postmortem.catalogue.definition import load_file, load_folders
from postmortem.catalogue.lint import lint, recognise_texts
from postmortem.catalogue.matcher import Matcher
from postmortem.errors import DefinitionError

GOOD = """\
source = "kernel"

[[message]]
event = "gpu.xid"
severity = "error"
contains = "FROB: Xid"
pattern = '^FROB: Xid \\((?P<pci>[^)]+)\\): (?P<xid>[0-9]+)$'
types = { pci = "pci" }

[[message.sample]]
line = "FROB: Xid (0000:9d:00): 79"
fields = { pci = "0000:9d:00.0", xid = 79 }
"""


def write(folder: Path, text: str, name: str = "frob.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_good_file(tmp_path: Path) -> None:
    (message,) = load_file(write(tmp_path, GOOD))
    assert (message.id, message.event, message.source) == ("frob.toml#1", "gpu.xid", "kernel")
    assert lint(Matcher([message])) == []


WRONG = [
    ("unknown event", ("gpu.xid", "gpu.xidd"), "message 1: unknown event gpu.xidd, did you mean gpu.xid?"),
    ("unknown key", ("severity =", "sverity ="), "message 1: unknown key sverity, did you mean severity?"),
    ("unknown severity", ('"error"', '"bad"'), "message 1: unknown severity bad"),
    ("unknown source", ('"kernel"', '"kernal"'), "message 1: unknown source kernal"),
    (
        "unknown type",
        ('{ pci = "pci" }', '{ pci = "pcie" }'),
        "message 1: types.pci: unknown type pcie, did you mean pci?",
    ),
    ("unknown column", ("types = { pci", "types = { pcy"), "message 1: unknown column pcy, did you mean pci?"),
    ("no event", ('event = "gpu.xid"\n', ""), "message 1: `event` is missing"),
    ("no literal", ('contains = "FROB: Xid"\n', ""), "message 1: `contains`"),
    ("short literal", ('"FROB: Xid"\npattern', '"F"\npattern'), "message 1: `contains`"),
    ("no pattern", ("pattern = ", "reference = "), "message 1: `pattern` or `patterns` is missing"),
    ("no sample", (GOOD[GOOD.index("[[message.sample]]") :], ""), "message 1: gpu.xid has no sample"),
    ("sample without line", ('line = "FROB', 'text = "FROB'), "message 1: a sample needs `line`"),
    ("no source", ('source = "kernel"\n', ""), "`source` is missing"),
    ("no message", (GOOD[GOOD.index("[[message]]") :], ""), "no [[message]] in it"),
    ("no TOML", ("[[message]]", "[[message"), "not valid TOML"),
    ("bad regex", ("[0-9]+)$'", "[0-9]+$'"), "message 1: `pattern`"),
    ("look-ahead", ("^FROB", "^(?=F)FROB"), "message 1: `pattern`"),
    ("unknown group", ("(?P<xid>", "(?P<xidd>"), "message 1: unknown column xidd, did you mean xid?"),
    ("priority is no number", ('severity = "error"', 'severity = "error"\npriority = "high"'), "message 1: `priority`"),
    ("types is no table", ('types = { pci = "pci" }', 'types = "pci"'), "message 1: `types`"),
    ("sample is no table", (GOOD[GOOD.index("[[message.sample]]") :], 'sample = "x"'), "message 1: `sample`"),
]


@pytest.mark.parametrize(("change", "sentence"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_files(change: tuple[str, str], sentence: str, tmp_path: Path) -> None:
    assert change[0] in GOOD
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(DefinitionError) as caught:
        lint(Matcher(load_file(path)))
    text = str(caught.value)
    assert text.startswith("frob.toml: ")
    assert sentence in text
    assert "\n" not in text.strip()


def test_the_number_is_that_of_the_message_in_its_file(tmp_path: Path) -> None:
    second = GOOD[GOOD.index("[[message]]") :].replace("gpu.xid", "gpu.nothing")
    with pytest.raises(DefinitionError, match=r"^frob\.toml: message 2: unknown event gpu\.nothing"):
        load_file(write(tmp_path, GOOD + second))


def test_a_sample_that_gives_something_else_is_a_complaint(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("xid = 79", "xid = 80"))
    (complaint,) = lint(Matcher(load_file(path)))
    assert str(complaint) == "frob.toml: message 1 (gpu.xid): sample 1: gives xid=79, expected 80"
    path = write(tmp_path, GOOD.replace("): 79", "): none"))
    (complaint,) = lint(Matcher(load_file(path)))
    assert "gives nothing" in str(complaint)


def test_a_folder_of_the_user_replaces_files_by_their_name(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write(ours, GOOD, "kernel/frob.toml")
    write(ours, GOOD.replace("FROB", "KEPT"), "kernel/kept.toml")
    write(theirs, GOOD.replace("FROB", "NEWS").replace("gpu.xid", "gpu.reset"), "kernel/frob.toml")
    matcher = Matcher(load_folders([ours, theirs]))
    texts = [(word, f"{word}: Xid (0000:9d:00): 79") for word in ("FROB", "KEPT", "NEWS")]
    found = recognise_texts(matcher, texts)
    assert {name: [r["event"] for r in rows] for name, rows in found.items()} == {
        "FROB": [],
        "KEPT": ["gpu.xid"],
        "NEWS": ["gpu.reset"],
    }


def test_missing_and_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="no such folder"):
        load_folders([tmp_path / "absent"])
    with pytest.raises(DefinitionError, match="has no messages"):
        Matcher(load_folders([tmp_path]))
