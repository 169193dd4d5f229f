"""What hangs on which switch port: LLDP tables and JSON, ibnetdiscover, iblinkinfo, UFM NDT -> rows of `ports`.

Shapes: Arista `show lldp neighbors` (Port, Neighbor Device ID, Neighbor Port ID, TTL), Cisco NX-OS (Device ID, Local Intf,
Hold-time, Capability, Port ID), Junos (Local Interface, Parent Interface, Chassis Id, Port info, System Name), SONiC and Cumulus
(LocalPort, RemoteDevice, RemotePortID …), lldpctl -f json, rdma-core ibnetdiscover and iblinkinfo.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from postmortem.decoders.rows import Decoded, MemberLike, read_text

_HEADS: Final[tuple[tuple[str, str, str, str], ...]] = (
    # (pattern of the header row, columns by name: local, remote system, remote port)
    (r"Port\s+Neighbor Device ID\s+Neighbor Port ID", "Port", "Neighbor Device ID", "Neighbor Port ID"),
    (r"Local Interface\s+Parent Interface\s+Chassis Id\s+Port info\s+System Name", "Local Interface", "System Name", "Port info"),
    (r"Device ID\s+Local Intf\s+Hold-?time\s+Capability\s+Port ID", "Local Intf", "Device ID", "Port ID"),
    (r"LocalPort\s+RemoteDevice\s+RemotePortID", "LocalPort", "RemoteDevice", "RemotePortID"),
    (r"LocalPort\s+Speed\s+Mode\s+RemoteHost\s+RemotePort", "LocalPort", "RemoteHost", "RemotePort"),
)
_PROMPT: Final = re.compile(r"^(?:\S+@)?([A-Za-z0-9][A-Za-z0-9_.-]*)[#>]\s*show lldp", re.MULTILINE)
_IBND: Final = re.compile(r'^\[(\d+)\](?:\([0-9a-fx]+\))?\s+"([HSR])-([0-9a-f]+)"\[(\d+)\](?:\([0-9a-fx]+\))?\s+#\s+"([^"]*)"', re.IGNORECASE)
_IBND_SWITCH: Final = re.compile(r'^Switch\s+\d+\s+"S-([0-9a-f]+)"\s+#\s+"([^"]*)"', re.IGNORECASE)
_IBLINK_SWITCH: Final = re.compile(r"^Switch:\s+0x[0-9a-f]+\s+(.+?):\s*$", re.IGNORECASE)
_IBLINK: Final = re.compile(r'^\s*\d+\s+(\d+)\[[^\]]*\]\s+==\(.*?\)==>\s+\d+\s+(\d+)\[[^\]]*\]\s+"([^"]*)"')


def sniff_topology(name: str, head: str) -> str | None:
    """`lldp_text`, `lldp_json`, `ibnetdiscover`, `iblinkinfo` or `ndt` by content."""
    if any(re.search(pattern, head) for pattern, *_ in _HEADS) and not re.search(r"%[A-Z0-9_]+-[0-7]-", head[:4000]):
        return "lldp_text"
    if head.lstrip().startswith("{") and re.search(r'"lldp"\s*:', head[:400]):
        return "lldp_json"
    if _IBND_SWITCH.search(head) or re.search(r'^Switch\s+\d+\s+"S-[0-9a-f]+"', head, re.MULTILINE):
        return "ibnetdiscover"
    if re.search(r"^(?:CA|Switch): .*:\s*$", head, re.MULTILINE) and "==(" in head:
        return "iblinkinfo"
    if head.startswith("#StartDevice,StartPort,EndDevice,EndPort"):
        return "ndt"
    return None


def _own_name(name: str, text: str) -> str | None:
    """The switch whose table this is: the prompt, else the file name without what it shows."""
    prompt = _PROMPT.search(text[:4000])
    if prompt:
        return prompt[1]
    stem = re.sub(r"\.(?:txt|log|out|json)$", "", name.replace("!", "/").rsplit("/", 1)[-1])
    found = re.match(r"^(.+?)[-_. ]+(?:show[-_ ])?lldp", stem)
    return found[1] if found else None


def _columns(header: str, names: tuple[str, ...]) -> list[int]:
    return [header.index(n) for n in names]


def _lldp_rows(text: str) -> Iterator[tuple[int, str, str, str]]:
    """(line, local port, remote system, remote port); fixed columns under the header row, cells split by two blanks where they overlap."""
    lines = text.split("\n")
    spec: tuple[list[str], tuple[str, str, str]] | None = None
    for number, line in enumerate(lines, 1):
        head = next((h for h in _HEADS if re.search(h[0], line)), None)
        if head:
            spec = (re.split(r"\s{2,}", line.strip()), head[1:])
            continue
        if spec is None or not line.strip() or set(line.strip()) <= set("- "):
            continue
        cells = re.split(r"\s{2,}", line.strip())
        names, (local, system, port) = spec
        if len(cells) < len(names):
            cells = line.split()
        if len(cells) < len(names) - 1:
            continue
        row = dict(zip(names, cells, strict=False))
        if row.get(local) and row.get(system):
            yield number, row[local], row[system], row.get(port, "")


def _lldp_json(doc: Any) -> Iterator[tuple[str, str, str]]:
    """(local interface, remote system, remote port) of lldpctl's JSON; `interface` is a list or a dict."""
    found = doc.get("lldp", {}).get("interface", []) if isinstance(doc, dict) and isinstance(doc.get("lldp"), dict) else []
    entries = [{k: v} for k, v in found.items()] if isinstance(found, dict) else found if isinstance(found, list) else []
    for entry in entries:
        for local, body in entry.items() if isinstance(entry, dict) else ():
            chassis = body.get("chassis", {}) if isinstance(body, dict) else {}
            ports = body.get("port", {}) if isinstance(body, dict) else {}
            system = next(iter(chassis), None) if isinstance(chassis, dict) else None
            port = ports.get("id", {}).get("value") if isinstance(ports, dict) and isinstance(ports.get("id"), dict) else None
            if isinstance(system, str) and system != "id":
                yield str(local), system, str(port or "")


def _ibnetdiscover(text: str) -> Iterator[tuple[int, str, str, str, str]]:
    """(line, switch, port, host, device) of the switch blocks; a node description is `host device`."""
    switch = None
    for number, line in enumerate(text.split("\n"), 1):
        head = _IBND_SWITCH.match(line)
        if head:
            switch = head[2]
        elif line.startswith(("Ca", "Rt", "vendid")):
            switch = None
        elif switch and (cable := _IBND.match(line)):
            host, _, dev = cable[5].partition(" ")
            yield number, switch, cable[1], host, dev if cable[2] == "H" else cable[4]


def _iblinkinfo(text: str) -> Iterator[tuple[int, str, str, str, str]]:
    switch = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(("CA:", "Switch:")):
            head = _IBLINK_SWITCH.match(line)
            switch = head[1] if head else None
        elif switch and (cable := _IBLINK.match(line)):
            host, _, dev = cable[3].partition(" ")
            yield number, switch, cable[1], host, dev or cable[2]


def decode_topology(kind: str, member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `ports`; a table whose own name is not known is skipped with a note."""
    decoded = Decoded()
    text = read_text(member, decoded)
    rows: list[dict[str, object]] = []

    def add(line: int, switch: str, port: str, host: str, dev: str, basis: str) -> None:
        rows.append({"switch": switch, "port": port, "host": host, "dev": dev or None, "basis": basis, "file": member.name, "line": line})

    if kind == "lldp_text":
        own = _own_name(member.name, text) or host_hint
        if own is None:
            decoded.notes.append("an LLDP table without the name of its switch")
            return decoded
        for line, local, system, port in _lldp_rows(text):
            add(line, own, local, system, port, "lldp")
    elif kind == "lldp_json":
        own = host_hint or _own_name(member.name, text)
        try:
            doc = json.loads(text)
        except (ValueError, RecursionError):
            decoded.notes.append("JSON that is cut off or damaged")
            return decoded
        # Run on a host the far end is the switch; on a switch it is the host. Which one it is shows in the far port's spelling.
        for local, system, port in _lldp_json(doc):
            on_host = bool(re.match(r"^(?:en|eth|ib|bond|p\d|mlx)", local))
            add(1, system if on_host else own or "", port if on_host else local, own or "" if on_host else system, local if on_host else port, "lldp")
    elif kind == "ibnetdiscover":
        for row in _ibnetdiscover(text):
            add(*row, "ibnetdiscover")
    elif kind == "iblinkinfo":
        for row in _iblinkinfo(text):
            add(*row, "ibnetdiscover")
    elif kind == "ndt":
        for number, line in enumerate(text.split("\n")[1:], 2):
            cells = [c.strip() for c in line.split(",")]
            if len(cells) >= 4 and cells[0]:
                host, _, dev = cells[1].partition(" ")
                add(number, cells[2], re.sub(r"^Port ", "", cells[3]), host or cells[0], dev, "cable list")
    if rows:
        decoded.tables["ports"] = pl.DataFrame(rows, infer_schema_length=None)
    return decoded
