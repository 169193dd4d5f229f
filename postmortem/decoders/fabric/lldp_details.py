"""What hangs on a port, by LLDP, told at length -> `ports`: lldpd's own text and keyvalue, details of NX-OS, IOS, IOS-XR and Junos.

Interface:    Ethernet112, via: LLDP, RID: 2, Time: 0 day, 19:24:17     lldp.ens1f0.chassis.name=leaf-1
  Chassis:                                                              lldp.ens1f0.port.ifname=Ethernet112
    SysName:      T1-1                                  Chassis id: 5087.89a1.d8d6       (NX-OS; IOS-XR and IOS begin with
  Port:                                                 Port id: Ethernet1/1              `Local Interface:` or `Local Intf:`,
    PortID:       ifname hundredGigE1/2                 Local Port id: Eth1/1             Junos with `Local Interface    :`)
    PortDescr:    T0-2:hundredGigE1/29                  System Name: leaf-2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text
from postmortem.decoders.fabric.lldp import Neighbor, cable, own_name, port_name
from postmortem.patterns import later

_TEXT: Final = later(r"^Interface: +(?P<local>[^ ,]+), via: ")
_TEXT_FIELD: Final = later(r"^ {2,8}(?P<name>SysName|PortID|PortDescr): +(?P<value>.*)$")
_TEXT_ELSE: Final = later(r"^(?:-{20,}|LLDP neighbors:|  .*|\S*[#>$] ?.*lldp.*)$")
_PAIR: Final = later(
    r"^lldp\.(?P<local>[^=]+?)\.(?P<name>chassis\.name|port\.(?:ifname|local|mac|descr|ifalias))=(?P<value>.*)$"
)
_PAIR_ANY: Final = later(
    r"^lldp\.[\w.:@/-]+\.(?:via|rid|age|chassis|port|vlan|lldp-med|ppvid|pi|unknown-tlvs|power|ttl)(?:\.[\w.-]+)*="
)
_BLOCK_FIELD: Final = later(
    r"^\s{0,2}(?P<name>Local (?:Port id|Intf|Interface)|Chassis (?:id|ID)|Port (?:id|ID)|Port [Dd]escription|System [Nn]ame)\s*(?::|-(?= not adv))\s?(?P<value>.*?)\s*$"
)


def _from_text(text: str) -> Iterator[Neighbor]:
    """Blocks of `lldpcli show neighbors`. A Python loop: fields belong to the interface above them."""
    local, number, said = "", 0, dict[str, str]()
    for at, line in enumerate([*text.split("\n"), "Interface: end, via: "], 1):
        if head := _TEXT.match(line):
            if said.get("SysName"):
                yield Neighbor(number, local, said["SysName"], _port(said.get("PortID", ""), said.get("PortDescr", "")))
            local, number, said = head["local"][:100], at, {}
        elif local and (found := _TEXT_FIELD.match(line[:400])):
            said.setdefault(found["name"], found["value"].strip())


def _port(identity: str, description: str) -> str:
    """lldpd prints the kind of the id in front of it: `ifname Ethernet1`, `mac 0c:42:…`, `local 513`."""
    kind, _, name = identity.partition(" ")
    return port_name(
        name if name and kind in {"ifname", "mac", "local", "ifalias", "ip", "unhandled"} else identity, description
    )


def _from_pairs(text: str) -> Iterator[Neighbor]:
    """`lldpcli -f keyvalue`: a neighbour's name comes before its port; several neighbours of an interface have the same keys."""
    order: list[tuple[int, str, dict[str, str]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        found = _PAIR.match(line[:400])
        if found is None:
            continue
        local, name = found["local"][:100], found["name"]
        if not order or order[-1][1] != local or (name == "chassis.name" and name in order[-1][2]):
            order.append((number, local, {}))
        order[-1][2].setdefault(name, found["value"].strip())
    for number, local, said in order:
        identity = next((said[f"port.{k}"] for k in ("ifname", "local", "ifalias", "mac") if said.get(f"port.{k}")), "")
        if said.get("chassis.name"):
            yield Neighbor(
                number, local, said["chassis.name"][:200], port_name(identity[:200], said.get("port.descr", ""))
            )


def _from_blocks(text: str) -> Iterator[Neighbor]:
    """Details of Cisco's and Juniper's systems; a block begins where its first field comes again."""
    said, number, first = dict[str, str](), 0, ""
    lines = text.split("\n")
    for at, line in enumerate([*lines, ""], 1):
        found = _BLOCK_FIELD.match(line[:300])
        name = _plain(found["name"]) if found else ""
        if at > len(lines) or (found and (not first or name == first)):
            if said.get("local") and said.get("system"):
                yield Neighbor(
                    number, said["local"], said["system"], port_name(said.get("port", ""), said.get("description", ""))
                )
            said, number, first = {}, at, name or first
        if found and "not advertised" not in found["value"]:
            said.setdefault(name, found["value"][:200])


def _plain(name: str) -> str:
    name = name.lower()
    return "local" if name.startswith("local") else name.split()[-1 if name.startswith("port d") else 0]


def _blocks_look(head: Head) -> bool:
    """Both ends of a neighbour, and above the first only a prompt and the legend of capabilities."""
    found = next(_from_blocks(head.text), None)
    if found is None:
        return False
    lines = head.text.split("\n")
    first = next(i for i, line in enumerate(lines) if _BLOCK_FIELD.match(line))
    return first < 20 and not any(
        re.search(r"%[A-Z0-9_]+-[0-7]-|^(?!Index: ).*[0-9]:[0-5][0-9]:[0-5][0-9].*: ", line) for line in lines[:first]
    )


def _text_looks(head: Head) -> bool:
    lines = [line for line in head.text.split("\n")[:200] if line.strip()]
    own = sum(1 for line in lines if _TEXT.match(line) or _TEXT_ELSE.match(line))
    return next(_from_text(head.text), None) is not None and own >= 0.95 * len(lines)


def _pairs_look(head: Head) -> bool:
    lines = [line for line in head.text.split("\n")[:200] if line.strip()]
    return next(_from_pairs(head.text), None) is not None and sum(
        1 for line in lines if _PAIR_ANY.match(line)
    ) >= 0.8 * len(lines)


def _decode(neighbors: Callable[[str], Iterator[Neighbor]], member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `ports`; the device's own name comes from the prompt, else the file's name, else its place in the bundle."""
    decoded = Decoded()
    text = read_text(member, decoded)
    own = own_name(member.name, text) or hints.host
    if own is None:
        decoded.notes.append("LLDP neighbours that do not say of which device")
        return decoded
    decoded.put("ports", [cable(member, own, n) for n in neighbors(text)][:20_000])
    return decoded


FORMATS: Final = (
    Format(
        "lldp_lldpcli", "lldpcli show neighbors, lldpctl: what hangs on a port, as lldpd's own text", "lldpd 0.7 and later, SONiC",
        "lldpd/lldpd src/client/text_writer.c, display.c; sonic-net/sonic-utilities doc/Command-Reference.md",
        lambda head: ", via: " in head.text and _text_looks(head),
        lambda member, hints: _decode(_from_text, member, hints), in_section=True,
    ),
    Format(
        "lldp_keyvalue", "lldpcli -f keyvalue: what hangs on a port", "lldpd 0.7 and later", "lldpd/lldpd src/client/kv_writer.c, display.c",
        lambda head: "lldp." in head.text and ".chassis.name=" in head.text and _pairs_look(head),
        lambda member, hints: _decode(_from_pairs, member, hints), in_section=True,
    ),
    Format(
        "lldp_detail", "show lldp neighbors detail: what hangs on a switch's ports, at length", "Cisco NX-OS, IOS and IOS-XR, Junos",
        "networktocode/ntc-templates tests; the vendors' command references",
        lambda head: any(word in head.text.lower() for word in ("chassis id", "local int"))
        and re.search("^Chassis id|^Local Int", head.text, re.MULTILINE | re.IGNORECASE) is not None and _blocks_look(head),
        lambda member, hints: _decode(_from_blocks, member, hints), in_section=True,
    ),
)  # fmt: skip
