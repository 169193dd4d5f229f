"""What a switch's administrators wrote to its ports: show interfaces description or status, and configurations -> `ports`.

    Interface      Status   Protocol  Description           EOS, IOS, IOS-XR
    Et1/1          up       up        to node-07 mlx5_3
    Port     Type   Speed   Description                     NX-OS
    Eth1/1   eth    400G    node-07:ens1f0
    Interface  Admin  Link  Description                     Junos
    Interface    Oper    Admin    Alias    Description      SONiC
    Port     Name            Status     Vlan  Duplex  …     show interfaces status
    interface Ethernet1/17                                  running configurations, IOS's form
       description GPU-NODE-07_p3

A description counts only where it clearly names a machine (letters and a number: `node-07`) and nothing else that could be one.
`ports.dev` is the device or interface named beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from postmortem.bundle.host_shape import Shape, shape_of
from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, Row, read_text
from postmortem.decoders.hosts.inventory import base_name
from postmortem.patterns import later

_HEAD_LINES: Final = 80
_PORT: Final = r"(?P<port>[A-Za-z][A-Za-z-]*[0-9][\w/.:-]*)"
_STATE: Final = r"(?:up|down|admin[- ]down|deleted|reset|lowerlayerdown|notpresent|unknown|testing|dormant)"

# A header and its rows. Columns that a program cuts off (`show interfaces status`: names of 18 characters or so) are read as printed.
_TABLES: Final[tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]] = (
    (
        later(r"^\s*Interface\s+Status\s+Protocol\s+Description\s*$"),
        later(rf"^\s*{_PORT}\s+{_STATE}\s+{_STATE}(?:\s+(?P<text>\S.*))?$"),
    ),
    (
        later(r"^Port\s+Type\s+Speed\s+Description\s*$"),
        later(rf"^{_PORT}\s+\w+\s+\S+\s+(?P<text>\S.*)$"),
    ),
    (later(r"^Interface\s+Description\s*$"), later(rf"^{_PORT}\s+(?P<text>\S.*)$")),
    (
        later(r"^Interface\s+Admin\s+Link\s+Description\s*$"),
        later(rf"^{_PORT}\s+(?:up|down)\s+(?:up|down)(?:\s+(?P<text>\S.*))?$"),
    ),
    (
        later(r"^\s*Interface\s+Oper\s+Admin\s+Alias\s+Description\s*$"),
        later(rf"^\s*{_PORT}\s+(?:up|down)\s+(?:up|down)\s+\S+\s+(?P<text>\S.*)$"),
    ),
    (
        later(r"^Port\s+Name\s+Status\s+Vlan\s+"),
        later(
            rf"^{_PORT}\s+(?P<text>.*?)\s*\b(?:connected|notconnect|notconnec|disabled|inactive|errdisabled|err-disabled|xcvrAbsen|sfpAbsent|noOperMem|down|suspnd)\s+\S+\s+\S+\s+\S+.*$"
        ),
    ),
)  # fmt: skip
_STATUS_ROW: Final = _TABLES[-1][1]
_CUT: Final = 18
_BLOCK: Final = later(rf"^interface {_PORT}\s*$", re.IGNORECASE)
_DESCRIPTION: Final = later(r'^\s+description "?(?P<text>[^"]+?)"?\s*$')
_JUNOS_SET: Final = later(rf'^set interfaces {_PORT} description "?(?P<text>[^"]+?)"?\s*$')
_CONFIGURED: Final = later(
    r"^(?:hostname|switchname) (?P<host>[A-Za-z0-9][\w.-]*)\s*$|^set system host-name (?P<junos>\S+)$", re.MULTILINE
)
_BETWEEN: Final = later(
    r"^\s*(?:[-= ]+|[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]+ [0-9:.]{8,15} .*|.*[#>]\s*show\s.*|.*\$ show interfaces? .*)$"
)
_PROMPT: Final = later(
    r"^(?:\S+@)?([A-Za-z0-9][A-Za-z0-9_.-]*)(?:\([^)]*\)|:[^#>$]{0,40})?[#>$]\s*show (?:int|run|conf)", re.MULTILINE
)
_FILE_NAME: Final = later(
    r"^(.+?)[-_. ]+(?:sh(?:ow)?[-_ ]?)?(?:int(?:erfaces?)?[-_ .]|run(?:ning)?[-_ .]?|start(?:up)?-?conf|conf(?:ig)?\b)",
    re.IGNORECASE,
)
_DEVICE: Final = later(
    r"^(?:mlx[45](?:_[0-9]+|_bond_[0-9]+)|(?:en[ospx]|eth|ib|bond|hca|rdma|nic|p|port|rail|hfi1_|bnxt_re)[-_]?[0-9][\w-]*|enP[0-9]\w*|HCA-[0-9]+|NIC[0-9]+|GPU[0-9]+|swp[0-9]\w*"
    r"|(?:Ethernet|Eth|Et|xe-|et-|ge-)[0-9][\w/:-]*)$",
    re.IGNORECASE,
)
_SPLIT: Final = later(r"[\s,;|()\[\]<>\"'=]+|(?<=[A-Za-z0-9]):(?=[A-Za-z])|->|=>|::")
_PREPOSITION: Final = later(r"^(?:link[-_])?(?:to|from)[-_]", re.IGNORECASE)
_TAIL: Final = later(
    r"^(?P<host>.+?[0-9])[_/.:-](?P<dev>(?:p|port|eth|ib|nic|hca|mlx5_|ens|enp|rail)[-_]?[0-9][\w-]*)$", re.IGNORECASE
)
_NOT_HOST: Final = later(
    r"^(?:vlan|vl|vni|vrf|as|asn|rack|row|slot|pod|spare|port|po|lag|mlag|bond|vpc|peer|link|uplink|unit|pdu|ru|u|te|gi|fo|hu)[-_]?[0-9]+$",
    re.IGNORECASE,
)


def described_end(text: str) -> tuple[str, str | None] | None:
    """(host, its device) that a description names; None when it names no machine, or several.

    A name with a word for machines (`node-07`) counts by itself, another with two digits (`sv07`) only beside a device.
    """
    hosts: dict[Shape, list[str]] = {Shape.NAMED: [], Shape.NUMBERED: []}
    device: str | None = None
    for word in _SPLIT.split(text.strip()[:300]):
        word = _PREPOSITION.sub("", (word or "").strip("-_.*#:/"))
        if not word or _NOT_HOST.match(word):
            continue
        if _DEVICE.match(word):
            device = device or word
            continue
        tail = _TAIL.match(word)
        host = tail["host"] if tail else word
        shape = min(shape_of(host.replace("_", "-")), Shape.NAMED)
        if shape in hosts:
            hosts[shape].append(host)
            device = tail["dev"] if tail else device
    found = hosts[Shape.NAMED] or (hosts[Shape.NUMBERED] if device else [])
    return (found[0], device) if len({h.lower() for h in found}) == 1 else None


def _described(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, port, description). A Python loop: rows belong to the header or the block above them."""
    pattern: re.Pattern[str] | None = None
    block: str | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:400].rstrip()
        header = next((row for head, row in _TABLES if head.match(line)), None)
        if header is not None:
            pattern, block = header, None
        elif found := _BLOCK.match(line):
            pattern, block = None, found["port"]
        elif found := _JUNOS_SET.match(line):
            yield number, found["port"], found["text"]
        elif block and (found := _DESCRIPTION.match(line)):
            yield number, block, found["text"]
        elif pattern is not None and (found := pattern.match(line)):
            text_of = (found["text"] or "").strip(" -")
            # Status tables cut names at 18 to 25 characters: the last word may be half a name.
            if pattern is _STATUS_ROW and len(text_of) >= _CUT:
                text_of = text_of.rpartition(" ")[0]
            if text_of:
                yield number, found["port"], text_of
        elif line and not line[0].isspace():
            block = None


def looks_like_table(head: Head) -> bool:
    """A known header near the top, and mostly rows of its kind below it."""
    if "Description" not in head.text and "Vlan" not in head.text:
        return False
    lines = [line.rstrip() for line in head.text.split("\n")[:_HEAD_LINES]]
    at = next((i for i, line in enumerate(lines) for header, _ in _TABLES if header.match(line)), None)
    if at is None or any(line.strip() and not _BETWEEN.match(line) for line in lines[:at]):
        return False
    rows = [row for header, row in _TABLES if any(header.match(line) for line in lines)]
    below = [line for line in lines[at + 1 : -1] or lines[at + 1 :] if line.strip() and not _BETWEEN.match(line)]
    below = [line for line in below if not any(header.match(line) for header, _ in _TABLES)]
    known = sum(1 for line in below if any(row.match(line) for row in rows) or re.match(rf"^\s*{_PORT}(?:\s|$)", line))
    return known > 0 and known >= 0.8 * len(below)


def looks_like_configuration(head: Head) -> bool:
    """A running configuration: blocks of interfaces with descriptions, and nothing that has a time like a log."""
    text = head.text
    if "interface" not in text or " description " not in text:
        return False
    if not (re.search(r"^interface \S", text, re.MULTILINE) and re.search(r"^\s+description ", text, re.MULTILINE)):
        return len(re.findall(r"^set interfaces \S+ ", text, re.MULTILINE)) >= 2 and "\nset " in text
    if re.search(r"%[A-Z0-9_]+-[0-7]-|^[A-Z][a-z]{2} +[0-9]+ [0-9:]{8} ", text, re.MULTILINE):
        return False
    lines = [line for line in text.split("\n")[:400] if line.strip()]
    plain = sum(1 for line in lines if re.match(r"^(?:!|#|\s+\S|[a-z][a-z0-9-]* ?)", line))
    return plain >= 0.95 * len(lines)


def decode_descriptions(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `ports` for the descriptions that name a machine. The switch's name: prompt, configuration, the file's name."""
    decoded = Decoded()
    text = read_text(member, decoded)
    own = _own_name(member.name, text) or hints.host
    if own is None:
        decoded.notes.append("descriptions of interfaces that do not say of which switch")
        return decoded
    rows: list[Row] = []
    unnamed = 0
    for number, port, description in _described(text):
        end = described_end(description)
        if end is None or end[0].lower() == own.lower():
            unnamed += 1
            continue
        rows.append(
            {"switch": own, "port": port, "host": end[0], "dev": end[1], "basis": "description", "file": member.name, "line": number}
        )  # fmt: skip
    if unnamed:
        decoded.notes.append(f"{unnamed} descriptions of interfaces that name no machine")
    decoded.put("ports", rows[:20_000])
    return decoded


def _own_name(name: str, text: str) -> str | None:
    if found := _PROMPT.search(text[:8192]):
        return found[1]
    if found := _CONFIGURED.search(text[:65_536]):
        return (found["host"] or found["junos"])[:100]
    named = _FILE_NAME.match(base_name(name))
    return named[1] if named else None


FORMATS: Final = (
    Format(
        "interface_descriptions", "show interfaces description, show interfaces status: machines that descriptions of a switch's ports name",
        "Arista EOS, Cisco NX-OS, IOS and IOS-XR, Junos, SONiC", "networktocode/ntc-templates tests; sonic-net/sonic-utilities doc/Command-Reference.md",
        looks_like_table, decode_descriptions, in_section=True,
    ),
    Format(
        "switch_configuration", "running configuration of a switch: machines that descriptions of its ports name",
        "Arista EOS, Cisco NX-OS, IOS and IOS-XR; Junos as set commands", "the vendors' command references", looks_like_configuration, decode_descriptions,
        in_section=True,
    ),
)  # fmt: skip
