"""Names that users know switches by: which printed names are meant, where they are put, and what stays as it was printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import postmortem
from postmortem.errors import UsageError
from postmortem.tables.switch_names import known_names, switch_name, switch_names

PRINTED = (
    "leaf-01.dc1.example",
    "leaf-02.dc2.example",
    "MF0;spine-1:MQM8700/U1",
    "spine-1",
    "Quantum Mellanox Technologies",
)


@pytest.mark.parametrize(
    ("rules", "known"),
    [
        ({"spine-1": "core"}, {"spine-1": "core"}),
        ({r"(leaf-[0-9]+)\..*": "$1"}, {"leaf-01.dc1.example": "leaf-01", "leaf-02.dc2.example": "leaf-02"}),
        ({r"(?P<name>leaf-[0-9]+)\.(dc[0-9])\.example": "$2/${name}"}, {"leaf-01.dc1.example": "dc1/leaf-01", "leaf-02.dc2.example": "dc2/leaf-02"}),
        ({"MF0;([^:]+):.*": "$1"}, {"MF0;spine-1:MQM8700/U1": "spine-1"}),
        # A pattern matches a name as a whole, the first one wins, but for a name that is given as it is printed.
        ({"spine": "core", "leaf-01": "x"}, {}),
        ({"leaf-.*": "a", "leaf-01.*": "b"}, {"leaf-01.dc1.example": "a", "leaf-02.dc2.example": "a"}),
        ({"leaf-.*": "a", "leaf-01.dc1.example": "b"}, {"leaf-01.dc1.example": "b", "leaf-02.dc2.example": "a"}),
        # One that gives the same name, or none, changes nothing.
        ({"(spine-1)": "$1", "(leaf)?.*": "$1", "Quantum(x)? .*": "$1"}, {"leaf-01.dc1.example": "leaf", "leaf-02.dc2.example": "leaf"}),
    ],
)  # fmt: skip
def test_which_names_are_meant(rules: dict[str, str], known: dict[str, str]) -> None:
    assert known_names(PRINTED, switch_names(rules)) == known


@pytest.mark.parametrize(
    ("pattern", "name", "why"),
    [
        ("(leaf", "x", "'(leaf' is no pattern of switch names: unclosed group"),
        ("(?=leaf)", "x", "look-around"),
        ("leaf-(.*)", "$2", "takes the group 2, which 'leaf-(.*)' has not"),
        ("leaf-(.*)", "$1a", "write ${1}"),
        ("leaf-(.*)", "${rack}", "takes the group rack"),
        ("", "x", "is no switch name"),
        ("x", "", "is no switch name"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_one_sentence(pattern: str, name: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        switch_name(pattern, name)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


LINK = "Line protocol on Interface Ethernet6/1, changed state to"
EOS = "Feb  3 14:02:{second} {name} Ebra: %LINEPROTO-5-UPDOWN: " + LINK + " {state}\n"
KERNEL = "2026-02-03T14:02:{second}.000000+00:00 {host} kernel: [ 9.5] mlx5_core 0000:bc:00.0 ens1: Link {state}\n"
SM = (
    "Feb 03 14:02:20 418201 [7F1C0700] 0x01 -> osm_pi_rcv_process: Switch 0xb8599f0300aa0001 Quantum Mellanox Technologies port 5 changed state from ACTIVE to DOWN\n"
    "Feb 03 14:02:21 418201 [7F1C0700] 0x01 -> osm_pi_rcv_process: Switch 0xb8599f0300aa0002 Quantum Mellanox Technologies port 6 changed state from ACTIVE to DOWN\n"
    'Feb 03 14:02:22 418201 [7F1C0700] 0x02 -> log_notice: Reporting Urgent Notice "Link state change" from switch LID 12, GUID 0xb8599f0300aa0001\n'
)
LLDP = """leaf-01.dc1.example#show lldp neighbors
Last table change time   : 2 days, 1:00:00 ago
Number of table inserts  : 1

Port          Neighbor Device ID       Neighbor Port ID    TTL
Et6/1         node-7.dc1.example       ens1                120
Et31/1        spine-1.dc1.example      Ethernet1/1         120
"""
FILES = {
    "leaf-01.log": "".join(
        EOS.format(second=10 + n, name="leaf-01.dc1.example", state=s) for n, s in enumerate(("down", "up"))
    ),
    "node-7/kern.log": "".join(
        KERNEL.format(second=10 + n, host="node-7.dc1.example", state=s) for n, s in enumerate(("down", "up"))
    ),
    "opensm.log": SM,
    "lldp.txt": LLDP,
}
NAMES = {r"([a-z]+-[0-9]+)\.dc1\.example": "$1-ours", "0xB8599F0300AA0001": "spine-2", "0xb8599f0300aa0001": "spine-2"}


def analysed(folder: Path, files: Mapping[str, str], **options: Any) -> postmortem.Incident:
    for name, text in files.items():
        path = folder / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return postmortem.analyze(folder / "bundle", workers=1, **options)


def test_switches_go_by_their_known_names_in_all_tables(tmp_path: Path) -> None:
    with analysed(tmp_path, FILES, switch_names=NAMES) as incident:
        events = incident.sql("SELECT host, text FROM events WHERE source = 'switch' ORDER BY file, line").rows()
        # A GUID tells two switches of one description apart; the other keeps what the subnet manager prints.
        assert [host for host, _ in events] == [
            "leaf-01-ours",
            "leaf-01-ours",
            "spine-2",
            "Quantum Mellanox Technologies",
            "spine-2",
        ]
        assert "leaf-01.dc1.example" in events[0][1]  # lines are quoted as they were printed
        assert incident.sql("SELECT DISTINCT host FROM events WHERE source = 'kernel'").rows() == [
            ("node-7.dc1.example",)
        ]
        cables = incident.sql("SELECT switch, port, host FROM ports ORDER BY port").rows()
        assert cables == [("leaf-01-ours", "Et31/1", "spine-1-ours"), ("leaf-01-ours", "Et6/1", "node-7.dc1.example")]
        assert ("leaf-01-ours",) in incident.sql("SELECT host FROM clocks").rows()
        assert incident.sql("SELECT role FROM hosts WHERE host = 'leaf-01-ours'").rows() == [("switch",)]
        shown = incident.sql("SELECT a, b, file, line FROM joins WHERE kind = 'switch-name' ORDER BY a").rows()
        assert shown == [
            ("0xb8599f0300aa0001", "spine-2", "opensm.log", 1),
            ("leaf-01.dc1.example", "leaf-01-ours", "leaf-01.log", 1),
            ("spine-1.dc1.example", "spine-1-ours", "lldp.txt", 7),
        ]
        assert "Switches under names that were given" in incident.report(tmp_path / "r.html").read_text()
        assert "`leaf-01.dc1.example` is `leaf-01-ours`" in incident.markdown()


def test_without_rules_nothing_is_renamed_and_nothing_is_said(tmp_path: Path) -> None:
    with analysed(tmp_path, FILES) as incident:
        assert incident.sql("SELECT count(*) FROM joins WHERE kind = 'switch-name'").rows() == [(0,)]
        assert ("leaf-01.dc1.example",) in incident.sql("SELECT host FROM events").rows()
        assert "names that were given" not in incident.report(tmp_path / "r.html").read_text() + incident.markdown()


def test_a_machine_that_a_rule_would_fit_keeps_its_name(tmp_path: Path) -> None:
    with analysed(tmp_path, FILES, switch_names={"node-7.*": "wrong", "leaf-01.*": "leaf"}) as incident:
        assert {host for (host,) in incident.sql("SELECT host FROM hosts").rows()} >= {"node-7.dc1.example", "leaf"}


def test_two_printed_names_of_one_switch_become_one(tmp_path: Path) -> None:
    files = {**FILES, "mgmt.log": EOS.format(second=30, name="sw-r7-u40-mgmt", state="down")}
    rules = {"sw-r7-u40-mgmt": "leaf-1", "leaf-01.dc1.example": "leaf-1"}
    with analysed(tmp_path, files, switch_names=rules) as incident:
        assert incident.sql("SELECT events FROM hosts WHERE host = 'leaf-1'").rows() == [(3,)]
        assert incident.sql("SELECT count(*) FROM clocks WHERE host = 'leaf-1'").rows() == [(1,)]


def test_masks_cover_both_names(tmp_path: Path) -> None:
    rules = {r"(leaf-[0-9]+)\..*": "amsterdam-$1", "Quantum.*": "x"}
    with analysed(tmp_path, FILES, switch_names=rules, redact=True) as incident:
        told = incident.markdown() + str(incident.document) + incident.report(tmp_path / "r.html").read_text()
        told += "".join(
            str(incident.table(name).rows()) for name in ("events", "joins", "ports", "hosts", "clocks", "files")
        )
    assert [name for name in ("leaf-01", "dc1.example", "amsterdam") if name in told] == []
