"""Outputs of commands that follow each other in one file reach their decoders, with the file's line numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from postmortem.lines.blocks import read_blocks
from postmortem.tables.sections import Sections, holds_sections

if TYPE_CHECKING:
    from postmortem.incident import Incident

import io

EOS = """Last table change time   : 0:12:40 ago
Number of table inserts  : 2

Port          Neighbor Device ID       Neighbor Port ID           TTL
---------- ------------------------ ---------------------- ---
Et1/1         h200-0017                enp25s0np0                 120
Et2/1         h200-0018                enp25s0np0                 120
"""
NXOS = """Device ID            Local Intf      Hold-time  Capability  Port ID
node-010             Eth1/10         120        S           enp25s0np0
"""
MARKS = {
    "EOS": "------------- show lldp neighbors -------------\n\n",
    "IOS": "\n------------------ show lldp neighbors ------------------\n\n",
    "NX-OS": "`show lldp neighbors`\n",
    "prompt": "leaf-3# show lldp neighbors\n",
    "prompt, mode": "leaf-3(config)# show lldp neighbors\n",
    "prompt with user": "admin@leaf-3:~$ show lldp neighbors\n",
    "rule": "===== show lldp neighbors =====\n",
    "tail": "==> show_lldp_neighbors.txt <==\n",
    "bug report": "____________________________________________\n\nshow lldp neighbors\n\n",
    "trace": "+ show lldp neighbors\n",
    "path": "$ sudo /usr/sbin/lldpctl\n",
}


def ports(text: str, name: str = "tech.txt", host: str | None = "leaf-3") -> list[tuple[str, str, str, int]]:
    assert holds_sections(text.encode())
    sections = Sections(name, host, None)
    for block in read_blocks(io.BytesIO(text.encode()), 64):
        sections.feed(block)
    sections.finish()
    return [
        (row["switch"], row["port"], row["host"], row["line"])
        for decoded in sections.found
        for row in decoded.tables["ports"].to_dicts()
    ]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("table", [EOS, NXOS])
def test_a_table_is_found_below_its_mark(mark: str, table: str) -> None:
    text = f"some head\nof the report\n{MARKS[mark]}{table}{MARKS[mark]}{table}"
    found = ports(text)
    lines = text.split("\n")
    assert len(found) == (4 if table is EOS else 2)
    for switch, port, host, line in found:
        assert switch == "leaf-3"
        assert port in lines[line - 1]
        assert host in lines[line - 1]
    assert len({line for *_, line in found}) == len(found)


def test_the_prompt_names_the_switch() -> None:
    text = f"leaf-7# show lldp neighbors\n{EOS}leaf-8# show version\nArista\nleaf-8# show lldp neighbors\n{NXOS}"
    assert [(s, h) for s, _, h, _ in ports(text, host=None)] == [
        ("leaf-7", "h200-0017"),
        ("leaf-7", "h200-0018"),
        ("leaf-8", "node-010"),
    ]


@pytest.mark.parametrize(
    "log",
    [
        "[rank0]: step 1 loss 2.0\n",
        "Mar  4 05:06:07 node-07 kernel: NVRM: Xid\n",
        "show must go on\nip is 10.0.0.1\n",
        "leaf-1# hello\n",
        "2026-03-04 05:06:07 INFO ----- epoch 3 -----\n",
        "",
    ],
)
def test_ordinary_logs_hold_no_sections(log: str) -> None:
    assert not holds_sections(log.encode() * 10)


def test_the_rows_reach_the_tables_and_lines_their_events(
    analyse: Callable[[Mapping[str, str | bytes]], Incident],
) -> None:
    log = "Mar  4 05:06:07 leaf-3 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet1/1, changed state to down\n"
    text = f"------------- show lldp neighbors -------------\n{EOS}------------- show logging -------------\n{log}"
    con = analyse({"leaf-3/show-tech.txt": text}).con
    assert con.sql("SELECT switch, port, host, line FROM ports ORDER BY line").fetchall() == [
        ("leaf-3", "Et1/1", "h200-0017", 7),
        ("leaf-3", "Et2/1", "h200-0018", 8),
    ]
    assert con.sql("SELECT event, line FROM events").fetchall() == [("link.down", 10)]
