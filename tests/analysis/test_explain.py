"""`postmortem explain`: codes are whole and without overlap, and what they speak for is what the analysis takes them for."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from click.testing import CliRunner

from postmortem.analysis.explain import CODE_ROWS, EARLY, RUNNING, codes, explain, explain_line, numbers
from postmortem.analysis.wording import cause_texts
from postmortem.cli import cli
from postmortem.cli.explain import KINDS
from postmortem.errors import UsageError
from postmortem.schema import CAUSES, EVENT_NAMES


@pytest.mark.parametrize("kind", CODE_ROWS)
def test_no_number_of_a_kind_stands_in_two_entries(kind: str) -> None:
    seen = Counter(n for c in codes() if c["kind"] == kind for n in numbers(c["numbers"]))
    assert seen
    assert [n for n, times in seen.items() if times > 1] == []


def test_every_xid_up_to_176_but_unused_ones_is_explained() -> None:
    known = {n for c in codes() if c["kind"] == "xid" for n in numbers(c["numbers"])}
    assert set(range(1, 177)) - known == set()


@pytest.mark.parametrize(
    ("xid", "cause"),
    [(79, "pcie_drop"), (48, "gpu_memory"), (95, "gpu_memory"), (74, "nvlink_fault"), (119, "gpu_fault"), (13, "gpu_software"), (31, "gpu_software")],
)  # fmt: skip
def test_an_xid_speaks_for_its_cause(xid: int, cause: str) -> None:
    assert explain("xid", str(xid)).signs[0].cause == cause


@pytest.mark.parametrize("xid", [63, 154, 121, 162])
def test_an_xid_that_kills_no_job_speaks_for_nothing_strongly(xid: int) -> None:
    assert all(sign.weight < 0.5 for sign in explain("xid", str(xid)).signs)


def test_status_12_means_another_thing_before_the_first_step() -> None:
    signs = {s.cause: s.only_where for s in explain("status", "12").signs}
    assert signs == {"network_config": EARLY, "link_flap": RUNNING}


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_is_explained_with_its_sources(cause: str) -> None:
    found = explain("cause", cause)
    assert found.facts[0][1] == cause_texts()[cause]["unnamed"]
    assert found.steps or found.collect
    assert found.sources or cause == "unknown"


@pytest.mark.parametrize("event", sorted(EVENT_NAMES))
def test_every_event_can_be_asked_for(event: str) -> None:
    assert explain("event", event).heading == f"event {event}"


def test_a_line_is_recognised() -> None:
    found = explain_line("[  12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.")
    assert ("event", "gpu.xid") in found.facts
    assert ("pci", "0000:3b:00.0") in found.facts
    assert found.signs[0].cause == "pcie_drop"
    with pytest.raises(UsageError, match="nothing in this line"):
        explain_line("everything is fine")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["xid", "abc"], "abc is no number"),
        (["xid", "9999"], "9999 is not known"),
        (["cause", "gremlins"], "no cause gremlins"),
        (["event", "no.such"], "no event no.such"),
        (["line"], "give the line"),
    ],
)
def test_wrong_use_is_one_sentence(arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from postmortem.cli import main

    monkeypatch.setattr("sys.argv", ["postmortem", "explain", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    with pytest.raises(UsageError, match=said):
        CliRunner().invoke(cli, ["explain", *arguments], standalone_mode=False, catch_exceptions=False)


def test_the_command_prints_text_and_json_and_lists() -> None:
    text = CliRunner().invoke(cli, ["explain", "exit", "-9"]).stdout
    assert text.startswith("exit code -9\n")
    assert "SIGKILL" in text
    found = json.loads(CliRunner().invoke(cli, ["explain", "xid", "0x4f", "--format", "json"]).stdout)
    assert found["heading"] == "NVIDIA Xid 79"
    assert found["signs"][0]["cause"] == "pcie_drop"
    for kind in KINDS[:-1]:
        rows = json.loads(CliRunner().invoke(cli, ["explain", kind, "--format", "json"]).stdout)
        assert rows
    assert max(map(len, CliRunner().invoke(cli, ["explain", "sxid"]).stdout.splitlines())) <= 98


def test_a_quoted_line_can_not_send_escapes_to_the_terminal() -> None:
    line = "\x1b[31m[  12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x\x1b]0;t\x07"
    assert "\x1b" not in CliRunner().invoke(cli, ["explain", "line", line]).stdout
