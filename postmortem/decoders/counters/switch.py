"""Counters of a switch's ports: tables of Arista EOS, Cisco NX-OS and IOS, SONiC, and the blocks of `show interfaces`.

Tables have a header that names the counters, a row per port; several headers may follow each other (NX-OS):

    Port          Align-Err    FCS-Err   Xmit-Err    Rcv-Err  UnderSize OutDiscards
    Eth1/1                0          0          0          0          0           0

    IFACE    STATE    RX_OK        RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR …
    Ethernet0        D        8  2000.00 MB/s     64.00%        10       100       N/A

Blocks begin with a port and its state: EOS and NX-OS `Ethernet1 is up, …` with `0 input errors, 0 CRC, …`; Junos `Physical
interface: et-0/0/0, …` with `Input errors:` and a table of MAC statistics.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text, real
from postmortem.decoders.counters.base import Framed, Sheet, looks_like, read
from postmortem.patterns import later

PORT: Final = r"(?:(?:Br-)?Eth(?:ernet)?|Et|Po|[Pp]ort-?[Cc]hannel|Ma|Management|[Mm]gmt|swp|Gi\w*|Te\w*|Fo\w*|Hu\w*|Twe\w*|Fou\w*|Vethernet|et-|xe-|ge-|PortChannel|eth|sfp|ib)[0-9][0-9/.:s]*"
_PORT_CELL: Final = later(PORT)
_PROMPT: Final = later(r"^(?:\S+@)?([A-Za-z0-9][\w.-]*?)(?:\([^)]*\))?(?::[~\w/]*)?[#>$]\s*(?:sh|show)\w*\s")
_HEAD: Final = later(r"^ *(Port(?: Rx| Tx)?|IFACE|Iface|Interface|port|interface)(?: {1,}|\t)(\S.*)$")
_HEAD_WORDS: Final = later(
    r"(?:^|\s)(?:FCS|FCS-Err|Align|Align-Err|Rcv-Err|Xmit-Err|Single-Col|Giants|Runts|OutDiscards|InDiscards|Out Discards|In Discards|RX_ERR|RX_DRP|TX_ERR|FEC_CORR"
    r"|FEC_UNCORR|PFC[0-7]|RxPPP|RxPfc|Drop/pkts|PG[0-7]|Stomped-CRC|InOctets|InUcastPkts|OutOctets|Input\(errs\)|Symbol-Err|Symbol|SQETest-Err|InDiscard|Carri-Sen|PG-DROP|PFC_RX\w*)(?:\s|$)",
    re.IGNORECASE,
)
_BETWEEN: Final = later(
    r"^(?:[-= |+]+|Totals?\b.*|For namespace.*|Last cached time.*|Ingress PG.*|Last clear.*|\* indicates.*|.*(?:dropped packets|counters):|Codes?:.*|[A-Z] - .*)$",
    re.IGNORECASE,
)
_UNITS: Final = later(r"(?<=[0-9]) (?=(?:[KMGT]?i?B(?:/s|ps)|[KMGT]?bps|pps|/s|%))|(?<=[0-9]) (?=\([0-9]+%\))")
_NXOS_PFC: Final = later(
    r"^(\S+)\s+(?:Auto|On|Off|auto|on|off)\s+(?:On|Off|on|off)\s*(?:\([0-9a-fA-F,x ]*\))?\s+([0-9]+)\s+([0-9]+)$"
)
_EMPTY: Final = frozenset({"N/A", "-", "--", "---", "n/a"})
_PER_QUEUE: Final = later(r"^(?:UC|MC|ALL|VOQ|UQ|MQ)[0-9]+$")

_BLOCK: Final = later(rf"^({PORT}) is (?:up|down|administratively down|admin down|deleted)\b")
_SHOWN: Final = later(
    r"errors?|CRC|runts|giants|discard|collision|pause|link status changes|interface resets|no buffer|overrun|drop|carrier|symbol|alignment",
    re.IGNORECASE,
)
_PAIR: Final = later(r"(?:^|[\s,])([0-9]{1,20}) +([A-Za-z][A-Za-z/-]*(?: [A-Za-z/-]+)*)(?=,|\s{2,}|\s+[0-9]|\s*$)")
_JUNOS: Final = later(r"^Physical interface: ([^, ]+),")
_JUNOS_GROUP: Final = later(r"^\s+(Input|Output) errors:(.*)$")
_JUNOS_PAIR: Final = later(r"([A-Za-z][A-Za-z0-9 /]*?): ([0-9]{1,20})(?=,|\s*$)")
_JUNOS_MAC: Final = later(r"^\s+((?:CRC/Align errors|FIFO errors|Oversized frames|Jabber frames|Fragment frames|Code violations|MAC pause frames|Total errors|Bit errors|Errored blocks"
                               r"|FEC (?:Corrected|Uncorrected) Errors|FEC (?:CCW|NCCW) [A-Za-z ]+|MAC Priority Flow Control Frames.*?))\s+([0-9]{1,20})(?:\s+([0-9]{1,20}))?$")  # fmt: skip


class Tables(Framed):
    """Tables of ports, whatever the system: the header says what its columns are."""

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.names: list[str] = []
        self.prefix = ""
        self.is_pfc = False

    def on_line(self, number: int, line: str) -> bool:
        if prompt := _PROMPT.match(line):
            self.sheet.host, self.names = prompt[1], []
            return True
        head = _HEAD.match(line)
        if head:
            self.is_pfc = "Oper(VL bmap)" in line
            if not _HEAD_WORDS.search(head[2]):
                self.names = []
                return False
            self.prefix = head[1].removeprefix("Port ") if " " in head[1] else ""
            self.names = re.sub(r" (?=\(Accuracy\))", "", re.sub(r"\b(In|Out) (?=Discards)", r"\1", head[2])).split()
            return True
        if _BETWEEN.match(line):
            return True
        return bool(self.names) and self.row(number, line)

    def row(self, number: int, line: str) -> bool:
        """A row of numbers below a header."""
        if self.is_pfc and (found := _NXOS_PFC.match(line.strip())):
            self.sheet.add("RxPPP", int(found[2]), number, port=found[1])
            self.sheet.add("TxPPP", int(found[3]), number, port=found[1])
            return True
        cells = _UNITS.sub("", line).split()
        if not cells or not _PORT_CELL.fullmatch(cells[0]) or len(cells) - 1 != len(self.names):
            return False
        values = dict(zip(self.names, cells[1:], strict=True))
        queue = next((v for v in values.values() if _PER_QUEUE.match(v)), None)
        for name, cell in values.items():
            number_read = _number(cell)
            if number_read is None or (queue and not number_read):
                continue
            parts = [p for p in (self.prefix, queue, name) if p]
            self.sheet.add(" ".join(parts), number_read, number, port=cells[0])
        return True


def _number(cell: str) -> float | None:
    """A count as tables print it, with commas; null for states, rates and `N/A`."""
    if cell in _EMPTY:
        return None
    text = cell.replace(",", "")
    if re.fullmatch(r"[0-9]{1,25}", text):
        return float(int(text))
    return real(float(text)) if re.fullmatch(r"[0-9]\.[0-9]+e[-+][0-9]{1,3}", text) else None


class Blocks(Framed):
    """`show interfaces` of EOS, NX-OS and IOS, `show interfaces extensive` of Junos."""

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self.group = ""
        self.is_junos = False

    def on_line(self, number: int, line: str) -> bool:
        if prompt := _PROMPT.match(line):
            self.sheet.host, self.sheet.port = prompt[1], None
            return True
        if found := (_BLOCK.match(line) or _JUNOS.match(line)):
            self.sheet.port, self.is_junos, self.group = found[1], line.startswith("Physical"), ""
            return True
        if self.sheet.port is None:
            return False
        if not line[:1].isspace():
            # NX-OS prints the administrative state and Junos its logical interfaces at the margin.
            return (
                re.match(r"^(?:admin state is|Dedicated Interface|Logical interface|Belongs to|Port description)", line)
                is not None
            )
        if self.is_junos:
            self.junos(number, line)
        elif _SHOWN.search(line):
            for value, name in _PAIR.findall(line):
                if _SHOWN.search(name):
                    self.sheet.add(name, int(value), number)
        return True

    def junos(self, number: int, line: str) -> None:
        """A line of Junos's block of a physical interface."""
        if group := _JUNOS_GROUP.match(line):
            self.group, line = group[1].lower(), group[2]
        elif found := _JUNOS_MAC.match(line):
            self.group = ""
            name = " ".join(found[1].split())
            self.sheet.add(f"{name} receive" if found[3] else name, int(found[2]), number)
            if found[3]:
                self.sheet.add(f"{name} transmit", int(found[3]), number)
            return
        pairs = _JUNOS_PAIR.findall(line) if self.group else []
        if not pairs and line.strip():
            self.group = ""
        for name, value in pairs:
            self.sheet.add(f"{self.group} {name}", int(value), number)


_JSON_KEYS: Final = ("interfaceErrorCounters", "interfaces", "interfaceCounters")
_JSON_COUNTERS: Final = later(
    r'"(?:fcsErrors|symbolErrors|inErrors|inDiscards|outDiscards|rxFrames|inErrorsTotal|alignmentErrors)"\s*:'
)


def looks_like_json(head: Head) -> bool:
    """EOS `show interfaces counters errors | json` and its relatives: an object of ports with numbers."""
    return (
        re.match(r'\s*\{\s*"(?:interfaceErrorCounters|interfaces|interfaceCounters|inDiscardsTotal|outDiscardsTotal)"\s*:', head.text) is not None
        and _JSON_COUNTERS.search(head.text) is not None
    )  # fmt: skip


def decode_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `counters` from EOS's JSON."""
    decoded = Decoded()
    text = read_text(member, decoded)
    sheet = Sheet("show interfaces counters", member.name, hints.host)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        decoded.notes.append("counters as JSON, cut off or damaged")
        return decoded
    line, at = 1, 0
    for port, counters in _ports(document):
        place = text.find(f'"{port}"', at)
        if place >= 0:
            line, at = line + text.count("\n", at, place), place
        for name, value in counters.items():
            number = real(value)
            if number is not None:
                sheet.add(str(name), number, line, port=port)
    sheet.put(decoded)
    return decoded


def _ports(document: Any) -> list[tuple[str, dict[str, Any]]]:
    listed: dict[str, Any] = next(
        (document[k] for k in _JSON_KEYS if isinstance(document, dict) and isinstance(document.get(k), dict)), {}
    )
    return [(p, c) for p, c in listed.items() if _PORT_CELL.fullmatch(p) and isinstance(c, dict)]


def _has_header(text: str) -> bool:
    """Whether a line may be a table's header, which is asked before all lines are read."""
    return "\x1b" in text or any(
        (head := _HEAD.match(line)) and _HEAD_WORDS.search(head[2]) for line in text.split("\n")
    )


FORMATS: Final = (
    Format(
        "switch_counters", "tables of error, drop and PFC counters of a switch's ports",
        "Arista EOS, Cisco NX-OS and IOS, SONiC", "sonic-net/sonic-utilities tests/portstat_input, pfcstat_test.py, queue_counter_test.py; the vendors' command references",
        lambda head: _has_header(head.text) and looks_like(head, Tables),
        lambda member, hints: read(member, hints, "show interfaces counters", Tables), in_section=True,
    ),
    Format(
        "switch_interfaces", "show interfaces: error counters of a switch's ports", "Arista EOS, Cisco NX-OS and IOS, Junos",
        "networktocode/ntc-templates tests; the vendors' command references",
        lambda head: (" is up" in head.text or " is down" in head.text or " is administratively down" in head.text or "Physical interface: " in head.text)
        and looks_like(head, Blocks),
        lambda member, hints: read(member, hints, "show interfaces", Blocks), in_section=True,
    ),
    Format(
        "switch_counters_json", "show interfaces counters as JSON: errors, drops, PFC of a switch's ports", "Arista EOS",
        "aristanetworks/anta anta/tests/interfaces.py", looks_like_json, decode_json, in_section=True,
    ),
)  # fmt: skip
