"""What hangs on the ports of a switch, by LLDP -> `ports`: tables of `show lldp neighbors`, and lldpd's JSON.

Arista EOS, Cisco NX-OS (long names wrap to the next line), IOS and IOS-XR, Junos, SONiC (`show lldp table`), Cumulus (`net show lldp`),
and the details of EOS (`Interface Ethernet1 detected 1 LLDP neighbors:`); `lldpcli -f json` and `-f json0`. A host's lldpd names its port
by the hardware address and puts the interface into the description: the interface is what is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, read_text
from postmortem.decoders.hosts.inventory import finder
from postmortem.patterns import later

_HEAD_LINES: Final = 60


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A local port, and the system and port at the other end, as printed."""

    line: int
    local: str
    system: str
    port: str


# EOS:    Et1/1      h200-0017             enp25s0np0           120
# NX-OS:  node-010            Eth1/10         120        S           enp25s0np0
# Junos:  et-0/0/0   -        2c:6b:f5:a1:00:00   enp11s0np0         node-01
# SONiC:  Ethernet0   node-01  enp25s0np0   RS   Mellanox ConnectX-6
# Cumulus: swp1       100G   BondMember  node-01   enp25s0np0
_TABLES: Final[tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]] = (
    (
        later(r"^Port\s+Neighbor Device ID\s+Neighbor Port ID\s+TTL\b"),
        later(r"^(?P<local>[A-Za-z]\S*[0-9]\S*)\s+(?P<system>\S+(?: \S+){0,5}?)\s+(?P<port>\S+(?: \S+){0,5}?)\s+[0-9]+\s*$"),
    ),
    (
        later(r"^Device ID\s+Local Intf\s+Hold-?time\s+Capability\s+Port ID\b"),
        later(
            r"^(?P<system>\S.*?)?\s+(?P<local>(?:mgmt|Po|[A-Z][A-Za-z-]*[0-9])\S*)\s+[0-9]+\s+(?:[A-Z](?:[, ]*[A-Z]){0,7}\s+)?(?P<port>\S+(?: \S+){0,5})\s*$"
        ),
    ),
    (
        later(r"^Local Interface\s+Parent Interface\s+Chassis Id\s+Port info\s+System Name\b"),
        later(
            r"^(?P<local>[a-z]+[-0-9]\S*)\s+\S+\s+(?:[0-9a-f]{2}(?::[0-9a-f]{2}){5}|[0-9.]+|\S+)\s+(?P<port>\S+(?: \S+){0,5}?)\s+(?P<system>\S+)\s*$"
        ),
    ),
    (
        later(r"^LocalPort\s+RemoteDevice\s+RemotePortID\b"),
        later(r"^(?P<local>[A-Za-z]\S*[0-9])\s+(?P<system>\S+)\s+(?P<port>\S+)(?:\s+.*)?$"),
    ),
    (
        later(r"^LocalPort\s+Speed\s+Mode\s+RemoteHost\s+RemotePort\b"),
        later(r"^(?P<local>\S+)\s+\S+\s+\S+\s+(?P<system>\S+)\s+(?P<port>\S+)\s*$"),
    ),
)  # fmt: skip
_HEADER_WORDS: Final = ("Device ID", "Local Interface", "LocalPort")
"""Each header holds one of these; asked first, since the others are asked of every line."""

_DETAIL: Final = later(r"^Interface (\S+) detected [0-9]+ LLDP neighbors?:", re.IGNORECASE)
_DETAIL_FIELD: Final = later(r'^\s*-?\s*(System Name|Port ID|Port Description)\s*:\s*"?([^"]*?)"?\s*$', re.IGNORECASE)
_BETWEEN: Final = later(
    r"^(?:Capability codes:|\s*\([A-Z]\) |Total entries|Last table change|Number of table |[-= ]+$)"
)
_PROMPT: Final = later(
    r"^\[?(?:[\w.-]+@)?([A-Za-z0-9][A-Za-z0-9_.-]*)(?:\([^)]*\)|[: ][^#>$]{0,40})?[#>$]\s*(?:sudo )?(?:(?:net )?show lldp|lldpc(?:li|tl))",
    re.MULTILINE,
)
_FILE_NAME: Final = later(r"^(.+?)[-_. ]+(?:(?:net[-_ ]?)?show[-_ ])?lldp", re.IGNORECASE)
_FOLDER: Final = later(r"^(?:topology|switch(?:es)?|fabric|network|neighbou?rs|logs?)_(?=.)", re.IGNORECASE)
"""What a folder was called before its files were put into another under longer names."""
_VERB: Final = later(r"show|display|get|net|dump|cmd|run|output|sudo", re.IGNORECASE)
_NO_NAME: Final = later(
    r"^[0-9]+$|^(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}$|^(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}$", re.IGNORECASE
)
_HOST_PORT: Final = later(r"^(?:en[ospx]|eth[0-9]|ib[0-9ps]|bond[0-9]|mlx|p[0-9]+p)")


def looks_like_table(head: str) -> bool:
    """A known header near the top, nothing above it that could be a log, and mostly neighbours below it."""
    if not any(word in head for word in _HEADER_WORDS) and "lldp neighbor" not in head.lower():
        return False
    lines = head.split("\n")
    at = next((i for i, line in enumerate(lines[:_HEAD_LINES]) if _row_pattern(line) or _DETAIL.match(line)), None)
    if at is None or any(
        re.search(r"[0-9]:[0-5][0-9]:[0-5][0-9].*%[A-Z]|%[A-Z0-9_]+-[0-7]-", line) for line in lines[:at]
    ):
        return False
    if _DETAIL.match(lines[at]):
        return sum(1 for _ in _detailed(head)) > 0
    found = sum(1 for _ in _neighbors(head))
    below = sum(1 for line in lines[at + 1 :] if line.strip() and not _BETWEEN.match(line) and not line[:1].isspace())
    return found > 0 and found * 2 >= below


def looks_like_json(head: str) -> bool:
    """A JSON object whose one key is `lldp`."""
    return re.match(r'\s*\{\s*"lldp"\s*:\s*[\[{]', head) is not None


def decode_table(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `ports`. The switch's own name comes from the prompt, else the file's name; without it nothing can be said."""
    decoded = Decoded()
    text = read_text(member, decoded)
    own = own_name(member.name, text) or host_hint
    if own is None:
        decoded.notes.append("an LLDP table that does not say of which switch")
        return decoded
    reader = (
        _detailed if any(_DETAIL.match(line) for line in text.split("\n", _HEAD_LINES)[:_HEAD_LINES]) else _neighbors
    )
    decoded.put("ports", [_row(member, own, n) for n in reader(text)])
    return decoded


def decode_json(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `ports` from a switch's or a host's neighbours; which of the two it is, the ports' spelling tells."""
    decoded = Decoded()
    text = read_text(member, decoded)
    own = own_name(member.name, text) or host_hint
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("LLDP neighbours as JSON, cut off or damaged")
        return decoded
    if own is None:
        decoded.notes.append("LLDP neighbours that do not say of which device")
        return decoded
    rows = []
    find = finder(text)
    for local, system, port in _interfaces(document):
        rows.append(cable(member, own, Neighbor(find(f'"{local}"'), local, system, port)))
    decoded.put("ports", rows)
    return decoded


def cable(member: MemberLike, own: str, n: Neighbor) -> Row:
    """The row of a neighbour that a switch or a host saw; which of the two it is, the ports' spelling tells."""
    if _HOST_PORT.match(n.local) and n.port and not _HOST_PORT.match(n.port):
        return _row(member, n.system, Neighbor(n.line, n.port, own, n.local))
    return _row(member, own, n)


def port_name(identity: str, description: str) -> str:
    """What a port is called: its id or, where that is a hardware address or a number, the interface that its description is."""
    is_interface = re.fullmatch(r"[A-Za-z][\w./-]{1,40}", description) is not None and re.search("[0-9]", description)
    return description if _NO_NAME.match(identity) and is_interface else identity


def _row(member: MemberLike, switch: str, n: Neighbor) -> Row:
    return {
        "switch": switch,
        "port": n.local,
        "host": n.system,
        "dev": n.port or None,
        "basis": "lldp",
        "file": member.name,
        "line": n.line,
    }


def own_name(name: str, text: str) -> str | None:
    prompt = _PROMPT.search(text[:8192])
    if prompt:
        return prompt[1]
    found = _FILE_NAME.match(name.replace("!", "/").rsplit("/", 1)[-1])
    bare = _FOLDER.sub("", found[1]) if found else ""
    return bare if bare and not _VERB.fullmatch(bare) else None


def _row_pattern(line: str) -> re.Pattern[str] | None:
    return next((row for header, row in _TABLES if header.match(line)), None)


def _neighbors(text: str) -> Iterator[Neighbor]:
    """Rows under the known headers. A Python loop: a row may go on in the next line, and a switch has at most some hundred."""
    pattern: re.Pattern[str] | None = None
    carried = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:300].rstrip()
        header = _row_pattern(line)
        if header is not None:
            pattern, carried = header, ""
            continue
        if pattern is None or not line.strip() or _BETWEEN.match(line):
            continue
        found = pattern.match(line)
        system = (found["system"] or carried) if found else ""
        if found and system:
            yield Neighbor(number, found["local"], system, found["port"])
        # NX-OS puts a name that does not fit on a line of its own.
        carried = line if not found and re.fullmatch(r"\S+", line) else ""


def _detailed(text: str) -> Iterator[Neighbor]:
    local, number, fields = "", 0, dict[str, str]()

    def neighbor() -> Iterator[Neighbor]:
        if fields.get("system name"):
            port = port_name(fields.get("port id", ""), fields.get("port description", ""))
            yield Neighbor(number, local, fields["system name"], port)

    for at, line in enumerate(text.split("\n"), 1):
        if head := _DETAIL.match(line):
            yield from neighbor()
            local, number, fields = head[1], at, {}
        elif local and re.match(r"^\s+Neighbor \S+/", line):
            yield from neighbor()
            fields = {}
        elif local and (found := _DETAIL_FIELD.match(line[:400])):
            fields.setdefault(found[1].lower(), found[2])
    yield from neighbor()


def _interfaces(document: Any) -> Iterator[tuple[str, str, str]]:
    """(local interface, remote system, remote port) of both JSON forms: names as keys, or everything in lists of `value`."""
    top = document.get("lldp") if isinstance(document, dict) else None
    for part in _listed(top):
        for entry in _listed(part.get("interface")):
            name = _value(entry.get("name"))
            named = [(name, entry)] if name and "chassis" in entry else entry.items()
            for local, body in named:
                for one in _listed(body):
                    system = _system(one.get("chassis"))
                    ports = _listed(one.get("port"))
                    port, description = (_value(ports[0].get(k)) or "" if ports else "" for k in ("id", "descr"))
                    if isinstance(local, str) and system:
                        yield local[:200], system[:200], port_name(port[:200], description[:200])


def _system(chassis: Any) -> str | None:
    for one in _listed(chassis):
        name = _value(one.get("name"))
        if name:
            return name
        key = next((k for k, v in one.items() if isinstance(k, str) and isinstance(v, dict) and k != "id"), None)
        if key:
            return key
    return None


def _listed(value: Any) -> list[dict[str, Any]]:
    """The dictionaries of a list, or the one dictionary."""
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict)]


def _value(value: Any) -> str | None:
    """Text that stands alone, in `{"value": …}`, or in a list of those."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) and value else None


FORMATS: Final = (
    Format(
        "lldp_json",
        "lldpcli -f json or json0, of a switch or a host: what hangs on a port",
        "lldpd 0.9 and later",
        "lldpd/lldpd src/client/json_writer.c",
        lambda head: looks_like_json(head.text),
        lambda member, hints: decode_json(member, hints.host),
        in_section=True,
    ),
    Format(
        "lldp_text",
        "show lldp neighbors: what hangs on a switch's ports",
        "Arista EOS, Cisco NX-OS, IOS and IOS-XR, Junos, SONiC, Cumulus",
        "the vendors' command references; networktocode/ntc-templates tests",
        lambda head: looks_like_table(head.text),
        lambda member, hints: decode_table(member, hints.host),
        in_section=True,
    ),
)
