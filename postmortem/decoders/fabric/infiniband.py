"""Cables of an InfiniBand fabric -> `ports`: ibnetdiscover, iblinkinfo, node-name-map, UFM's NDT file.

ibnetdiscover (rdma-core, sec_topology-file.rst): a block per node, then a line per connected port.

    Switch  64 "S-fc6a1c03006f0080"         # "leaf-1a" enhanced port 0 lid 4008 lmc 0
    [1]     "H-b8599f036f000000"[1](b8599f036f000000)               # "node-04 mlx5_0" lid 2 4xNDR

iblinkinfo (rdma-core, iblinkinfo.c), with `-l` a GUID and the block's description stand in front of each line:

    Switch: 0xfc6a1c03006f0080 leaf-1a:
           4008    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       2    1[  ] "node-04 mlx5_0" ( )
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text, stamp
from postmortem.patterns import later

NDT_HEADER: Final = "#StartDevice,StartPort,EndDevice,EndPort"

_GUID: Final = r"[0-9a-fA-F]{8,16}"
_NODE: Final = later(rf'^(Switch|Ca|Rt)\s+[0-9]+\s+"[SHR]-({_GUID})"(?:\s+#\s*"([^"]*)")?')
_CABLE: Final = later(
    rf'^\[([0-9]+)\](?:\[[^\]]*\])?(?:\([0-9a-fA-Fx]+\))?\s+"([SHR])-({_GUID})"\[([0-9]+)\](?:\[[^\]]*\])?(?:\([0-9a-fA-Fx]+\))?\s*#([^"]*)"([^"]*)"'
)
_LINK_NODE: Final = later(r"^(CA|Switch|RT): (?:(?:0x[0-9a-fA-F]+) )?(.*?):?\s*$")
_LINK: Final = later(
    r'^\s*(?:0x[0-9a-fA-F]+ "([^"]*)"\s+)?[0-9]+\s+([0-9]+)\[[^\]]*\]\s+==\([^)]*\)==>\s+(?:0x[0-9a-fA-F]+\s+)?[0-9]+\s+([0-9]+)\[[^\]]*\]\s+"([^"]*)"'
)
_MAP_LINE: Final = later(r'^0x([0-9a-fA-F]{8,16})\s+"([^"]+)"\s*(?:#.*)?$')
_MANAGED: Final = later(r"^MF[0-9]+;([^:;]+):")
_BEGINS: Final = ("vendid=0x", "sysimgguid=", "devid=", "Switch", "Ca", "Rt", "CA: ", "RT: ", "0x")
"""How the first line begins, unless it has the arrow of a link."""

_NO_HOST: Final = later(r"Aggregation Node|Mellanox Technologies|^\s*$")


def sniff_infiniband(head: str) -> str | None:
    """`ibnetdiscover`, `iblinkinfo`, `ufm_ndt` or `node_name_map` by what the first lines are."""
    if head.startswith(NDT_HEADER):
        return "ufm_ndt"
    lines = head.split("\n")[:400]
    # Asked of every file, so the first line decides before others are looked at.
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if not first.startswith(_BEGINS) and "==(" not in first:
        return None
    lines = [line for line in lines if line.strip()]
    bare = [line for line in lines if not line.startswith("#")]
    if re.match(r"(?:vendid=0x|sysimgguid=|devid=)", bare[0]) or _NODE.match(bare[0]):
        return "ibnetdiscover" if any(_NODE.match(line) for line in lines) else None
    if _LINK_NODE.match(bare[0]) and any(_LINK.match(line) or "==(" in line for line in lines[:200]):
        return "iblinkinfo"
    if _LINK.match(bare[0]):
        return "iblinkinfo"
    whole = bare[:-1] if len(head) >= 16_000 else bare
    return "node_name_map" if whole and all(_MAP_LINE.match(line) for line in whole) else None


@dataclass(frozen=True, slots=True)
class _Cable:
    """One end on a switch; `far` is the description of what hangs there."""

    line: int
    switch: str
    port: str
    far: str
    far_port: str
    is_far_switch: bool


def decode_fabric(decoder: str, member: MemberLike) -> Decoded:
    """Rows of `ports`. Ends whose description names no host are left out; a link is told once even if both its ends are."""
    decoded = Decoded()
    text = read_text(member, decoded)
    cables = _discovered(text) if decoder == "ibnetdiscover" else _linked(text)
    rows: dict[tuple[str, str], Row] = {}
    nameless = 0
    for cable in cables:
        host, dev = _far_end(cable)
        if not host or not cable.switch:
            nameless += 1
            continue
        rows.setdefault(
            (cable.switch, cable.port),
            _row(member, cable.line, (cable.switch, cable.port), (host, dev), "ibnetdiscover"),
        )
    if nameless:
        decoded.notes.append(f"{nameless} links to or from devices without a name of their own")
    decoded.put("ports", list(rows.values()))
    return decoded


def decode_ndt(member: MemberLike) -> Decoded:
    """Rows of `ports` from UFM's file of planned cables: `<device>,<port>,<device>,<port>, <type>`.

    A host's port is `<host> <interface>`, a switch's is `Port <n>`; a cable between switches gives a row for each end.
    """
    decoded = Decoded()
    rows: list[Row] = []
    odd = 0
    for number, line in enumerate(read_text(member, decoded).split("\n"), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.startswith("#") or not line.strip():
            continue
        if len(cells) < 4 or not all(cells[:4]):
            odd += 1
            continue
        ends = ((cells[0], cells[1]), (cells[2], cells[3]))
        switches = [end for end in ends if not end[1].startswith(end[0] + " ")]
        for device, port in switches:
            other, other_port = ends[1] if (device, port) == ends[0] else ends[0]
            near, far = _bare(port, device), _bare(other_port, other)
            rows.append(_row(member, number, (device, near), (other, far), "fabric manager"))
    if odd:
        decoded.notes.append(f"{odd} rows with too few fields")
    decoded.put("ports", rows)
    return decoded


def decode_name_map(member: MemberLike) -> Decoded:
    """Rows of `facts`: `fabric.name` with the GUID and the name that the administrators gave it."""
    decoded = Decoded()
    rows: list[Row] = []
    for number, line in enumerate(read_text(member, decoded).split("\n"), 1):
        found = _MAP_LINE.match(line[:400])
        if found:
            where = evidence(member, number, line, "switch")
            guid = f"0x{found[1].lower()}"
            rows.append(
                {"fact": "fabric.name", **where, "severity": "info", "guid": guid, "value": found[2], **stamp(None)}
            )
    decoded.put("facts", rows)
    return decoded


def _row(member: MemberLike, line: int, near: tuple[str, str], far: tuple[str, str], basis: str) -> Row:
    return {
        "switch": near[0],
        "port": near[1],
        "host": far[0],
        "dev": far[1] or None,
        "basis": basis,
        "file": member.name,
        "line": line,
    }


def _bare(port: str, device: str) -> str:
    return port.removeprefix(device).removeprefix("Port ").strip()


def _far_end(cable: _Cable) -> tuple[str, str]:
    """(host or switch, its device or port); empty where the description is the maker's and names nobody."""
    if cable.is_far_switch:
        return switch_name(cable.far), cable.far_port
    if _NO_HOST.search(cable.far):
        return "", ""
    host, _, dev = cable.far.strip().partition(" ")
    return host, dev.strip() or cable.far_port


def switch_name(description: str) -> str:
    """Name in a switch's node description; managed ones say `MF0;leaf-3:MQM8700/U1`, unmanaged ones only their maker."""
    managed = _MANAGED.match(description)
    if managed:
        return managed[1]
    return "" if _NO_HOST.search(description) else description.strip()


def _discovered(text: str) -> Iterator[_Cable]:
    """Cables of the switches' blocks, and of the hosts' blocks those that end on a switch. A Python loop: lines belong to the block above."""
    kind = own = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("["):
            if node := _NODE.match(line):
                kind, own = node[1], switch_name(node[3] or "") if node[1] == "Switch" else node[3] or ""
            continue
        found = _CABLE.match(line[:600])
        if found is None:
            continue
        port, far_kind, far_port, far = found[1], found[2], found[4], found[6]
        if kind == "Switch":
            yield _Cable(number, own, port, far, far_port, far_kind == "S")
        elif kind == "Ca" and far_kind == "S":
            yield _Cable(number, switch_name(far), far_port, own, port, False)


def _linked(text: str) -> Iterator[_Cable]:
    """Cables of iblinkinfo's blocks; its lines do not tell a switch at the far end from a host, so a device in the name does."""
    kind = own = ""
    for number, line in enumerate(text.split("\n"), 1):
        if node := _LINK_NODE.match(line[:400]):
            kind, own = node[1], node[2]
            continue
        found = _LINK.match(line[:600])
        if found is None:
            continue
        near, port, far_port, far = found[1] or own, found[2], found[3], found[4]
        if kind == "CA" or (not kind and _names_device(near)):
            yield _Cable(number, switch_name(far), far_port, near, port, False)
        elif kind != "RT":
            yield _Cable(number, switch_name(near), port, far, far_port, not _names_device(far))


def _names_device(description: str) -> bool:
    return re.search(r"\S \S*(?:mlx|HCA|hfi|ib|bnxt|irdma|efa)\S*$", description) is not None


def _format(name: str, about: str, program: str, run: Callable[[MemberLike], Decoded]) -> Format:
    return Format(
        name,
        about,
        program,
        "linux-rdma/rdma-core infiniband-diags; UFM user manual",
        lambda head: sniff_infiniband(head.text) == name,
        lambda member, hints: run(member),
        in_section=True,
    )


FORMATS: Final = (
    _format(
        "ibnetdiscover", "InfiniBand topology: cables of the fabric", "ibnetdiscover",
        lambda member: decode_fabric("ibnetdiscover", member),
    ),
    _format(
        "iblinkinfo", "InfiniBand links: cables of the fabric", "iblinkinfo",
        lambda member: decode_fabric("iblinkinfo", member),
    ),
    _format("node_name_map", "names of InfiniBand GUIDs", "infiniband-diags", decode_name_map),
    _format("ufm_ndt", "planned cables (NDT file)", "UFM", decode_ndt),
)  # fmt: skip
