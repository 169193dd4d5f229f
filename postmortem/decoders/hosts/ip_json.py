"""Network interfaces as JSON: ip -j address, ip -j link -> `nics`, `addresses`.

    [{"ifindex":2,"ifname":"ib0","flags":[…],"mtu":2044,…,"link_type":"infiniband","address":"00:00:10:29:fe:80:…","broadcast":"…",
      "addr_info":[{"family":"inet","local":"192.168.1.73","prefixlen":24,"scope":"global",…}]}]

Read from ip/ipaddress.c of iproute2. With -s counters stand in the same objects; they are read elsewhere.
"""

from __future__ import annotations

import json
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text
from postmortem.decoders.hosts.inventory import Sheet, finder, hardware_address, is_virtual
from postmortem.patterns import later

_JSON: Final = later(
    r'\s*\[\s*(?:\{\s*\}\s*,\s*)*\{\s*"ifindex"\s*:\s*[0-9]+\s*,(?:\s*"link(?:_index)?"\s*:\s*[^,]+,)?\s*"ifname"\s*:\s*"'
)


def looks_like_json(head: Head) -> bool:
    """An array whose first object is an interface with flags, and no counters."""
    return _JSON.match(head.text) is not None and '"flags"' in head.text and '"stats64"' not in head.text


def decode_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `nics` and `addresses`; `address` of a bond's member is the bond's, its own is `permaddr`."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet(member.name, hints.host)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("JSON of ip, cut off or damaged")
        return decoded
    find = finder(text)
    for entry in document if isinstance(document, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("ifname"), str) and 0 < len(entry["ifname"]) <= 40:
            _interface(sheet, find(f'"{entry["ifname"]}"'), entry)
    sheet.put(decoded)
    return decoded


def _interface(sheet: Sheet, line: int, entry: dict[str, Any]) -> None:
    name = entry["ifname"]
    if is_virtual(name):
        return
    printed = entry.get("permaddr") or entry.get("address")
    is_stacked = "link" in entry or "link_index" in entry or "." in name
    if entry.get("link_type") in {"ether", "infiniband"} and isinstance(printed, str) and not is_stacked:
        sheet.add("nics", line, dev=None, ifname=name, **hardware_address(printed))
    for each in _objects(entry.get("addr_info")):
        if isinstance(each.get("local"), str):
            sheet.address(line, each["local"], name)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


FORMATS: Final = (
    Format(
        "ip_address_json", "ip -j address, ip -j link: interfaces of a host and their addresses as JSON", "iproute2 4.14 and later",
        "iproute2 ip/ipaddress.c", looks_like_json, decode_json, in_section=True,
    ),
)  # fmt: skip
