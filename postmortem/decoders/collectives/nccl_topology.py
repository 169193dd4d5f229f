"""NCCL's topology and graphs as XML: NCCL_TOPO_DUMP_FILE -> `gpus`, `nics`; NCCL_GRAPH_DUMP_FILE holds nothing that a table takes.

    <system version="1">
      <cpu host_hash="0x…" numaid="0" affinity="00000000,0000000f" arch="x86_64" …>
        <pci busid="0000:11:00.0" class="0x060400" …>
          <pci busid="0000:17:00.0" class="0x030200" …> <gpu dev="0" sm="80" rank="0" gdr="1"> <nvlink …/> </gpu> </pci>
          <pci busid="0000:1c:00.0" class="0x020000" …> <nic> <net name="mlx5_0" dev="0" port="1" guid="0x…" …/> </nic> </pci>
        </pci>
      </cpu>
    </system>
    <graphs version="1"> <graph id="0" pattern="4" nchannels="2" speedintra="12" speedinter="12" …> <channel> <net dev="0"/> <gpu dev="0"/> …

Read from src/graph/{xml,topo,search}.cc of NCCL 2.30 (`dev` of a GPU is its NVML index, `rank` the rank in the communicator that
was set up). No entity, no document type: such a file is refused. A dump says nothing of its host; that comes from the file's place.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, read_bytes, whole
from postmortem.patterns import later

MAX_BYTES: Final = 16 << 20
MAX_DEPTH: Final = 100
MAX_DEVICES: Final = 20_000

_HEAD: Final = later(
    r'\ufeff?\s*(?:<\?xml[^<>]*\?>\s*)?(?:<!--(?:[^-]|-[^-])*-->\s*)*<(system|graphs) version="[0-9]+"'
)
_BUS: Final = later(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)
_INTERFACE: Final = later(r"(?:eth|en[opsx]|bond|ib[0-9]|lo$|team|vlan|br)[A-Za-z0-9._-]*")
_HOST_BRIDGE: Final = "cpu"


def looks_like(root: str, head: str) -> bool:
    """The document's first element is `root` with a version, and NCCL's elements are in it."""
    found = _HEAD.match(head[:4000])
    if found is None or found[1] != root:
        return False
    return (
        "<graph " in head or "</graphs>" in head
        if root == "graphs"
        else re.search("<(?:cpu|pci|gpu|net) ", head) is not None
    )


@dataclass(slots=True)
class _Device:
    """A GPU or NIC: what was printed, its PCI address, and the bridges above it from the innermost outwards."""

    kind: str
    attributes: dict[str, str]
    pci: str | None
    above: tuple[str, ...]
    line: int


@dataclass(slots=True)
class _Reader:
    """The elements that are open, and the devices found so far."""

    open: list[tuple[str, str]] = field(default_factory=list)
    devices: list[_Device] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    note: str | None = None

    def read(self, raw: bytes) -> None:
        """Collect the devices of a document; what makes it unreadable becomes `note`, what stood before it is kept."""
        parser = expat.ParserCreate()
        parser.buffer_text = True

        def refuse(*_: object) -> None:
            raise _RefusedError("it declares entities or a document type")

        def start(name: str, attributes: dict[str, str]) -> None:
            if len(self.open) >= MAX_DEPTH or len(self.devices) >= MAX_DEVICES:
                raise _RefusedError("it is nested too deep or names too many devices")
            if name == "cpu":
                self.hosts.add(attributes.get("host_hash", ""))
            place = attributes.get("busid") or attributes.get("numaid") or ""
            self.open.append((name, place.lower()[:40]))
            if name in {"gpu", "net"}:
                self._device(name, attributes, parser.CurrentLineNumber)

        def end(_: str) -> None:
            self.open.pop()

        parser.StartDoctypeDeclHandler = refuse
        parser.EntityDeclHandler = refuse
        parser.StartElementHandler = start
        parser.EndElementHandler = end
        try:
            parser.Parse(raw, True)
        except _RefusedError as error:
            self.note = str(error)
        except expat.ExpatError:
            self.note = "it is cut off or damaged"

    def _device(self, name: str, attributes: dict[str, str], line: int) -> None:
        place = [p for p in self.open[:-1] if p[0] in {"pci", _HOST_BRIDGE}]
        own = place.pop() if place and place[-1][0] == "pci" else None
        bridges = tuple(f"{kind} {at}" for kind, at in reversed(place) if kind == "pci")
        kept = {k: v[:200] for k, v in attributes.items()}
        self.devices.append(_Device(name, kept, _pci(own[1]) if own else None, bridges, line))


class _RefusedError(Exception):
    """What makes a document one that is not read, as a part of a sentence."""


def _pci(printed: str) -> str | None:
    """`0000:17:00.0` of a bus id as printed; null when it is none."""
    found = _BUS.fullmatch(printed)
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else None


def decode_topology(member: MemberLike, host_hint: str | None) -> Decoded:
    """Rows of `gpus` and `nics`, of `host_hint`: a file that is of several hosts (NVLink over nodes) or of none known gives a note."""
    decoded = Decoded()
    reader = _read(member, decoded)
    if len(reader.hosts) > 1:
        decoded.notes.append(f"an NCCL topology of {len(reader.hosts)} hosts that it does not name")
        return decoded
    if reader.devices and host_hint is None:
        decoded.notes.append("an NCCL topology that does not say of which host")
    gpus = [d for d in reader.devices if d.kind == "gpu" and d.pci]
    decoded.put("gpus", [_gpu_row(d, member, host_hint) for d in gpus])
    nics: dict[tuple[object, object], Row] = {}
    for net in (d for d in reader.devices if d.kind == "net"):
        row = _nic_row(net, gpus, member, host_hint)
        if row["dev"] or row["ifname"]:
            nics.setdefault((row["dev"], row["ifname"]), row)
    seen = Counter(row["guid"] for row in nics.values())
    for row in nics.values():
        # Both functions of a card have the same system image GUID, which is then the node GUID of at most one.
        row["guid"] = row["guid"] if seen[row["guid"]] == 1 else None
    decoded.put("nics", list(nics.values()))
    return decoded


def decode_graphs(member: MemberLike) -> Decoded:
    """No rows: the rings and trees name devices by index alone. A damaged file gives a note."""
    decoded = Decoded()
    _read(member, decoded)
    return decoded


def _read(member: MemberLike, decoded: Decoded) -> _Reader:
    raw, is_whole = read_bytes(member, MAX_BYTES)
    decoded.bytes, decoded.lines = len(raw), raw.count(b"\n")
    reader = _Reader()
    reader.read(raw)
    if not is_whole:
        decoded.notes.append(f"only the first {MAX_BYTES >> 20} MB were read")
    elif reader.note:
        decoded.notes.append(f"XML of NCCL: {reader.note}")
    return reader


def _gpu_row(gpu: _Device, member: MemberLike, host: str | None) -> Row:
    rank = whole(gpu.attributes.get("rank"))
    return {
        "host": host,
        "pci": gpu.pci,
        "gpu": whole(gpu.attributes.get("dev")),
        "rank": rank if rank is not None and rank >= 0 else None,
        "file": member.name,
        "line": gpu.line,
    }


def _nic_row(net: _Device, gpus: list[_Device], member: MemberLike, host: str | None) -> Row:
    """A HCA by its name, an interface of the socket transport by its own; merged devices (`mlx5_0+mlx5_1`) by the first."""
    name = net.attributes.get("name", "").split("+")[0]
    is_interface = _INTERFACE.fullmatch(name) is not None
    return {
        "host": host,
        "dev": None if is_interface else name or None,
        "ifname": name if is_interface else None,
        "pci": net.pci,
        "guid": None if is_interface else _guid(net.attributes.get("guid", "")),
        "gpu": _nearest(net, gpus),
        "file": member.name,
        "line": net.line,
    }


def _guid(printed: str) -> str | None:
    """GUID as InfiniBand's tools print it: NCCL prints the adapter's system image GUID as a number of a little-endian machine."""
    if re.fullmatch("0x[0-9a-f]{9,16}", printed) is None:
        return None
    return "0x" + bytes.fromhex(printed[2:].zfill(16))[::-1].hex()


def _nearest(net: _Device, gpus: list[_Device]) -> int | None:
    """Index of the GPU below the innermost PCIe switch that also has GPUs below it; null when there are several or none."""
    for bridge in net.above:
        below = [g for g in gpus if bridge in g.above]
        if below:
            return whole(below[0].attributes.get("dev")) if len(below) == 1 else None
    return None


FORMATS: Final = (
    Format(
        "nccl_topology",
        "NCCL's topology (NCCL_TOPO_DUMP_FILE): GPUs and NICs with their place on the PCIe tree",
        "NCCL 2.5 to 2.30, RCCL",
        "NVIDIA/nccl src/graph/xml.cc, src/graph/topo.cc",
        lambda head: looks_like("system", head.text),
        lambda member, hints: decode_topology(member, hints.host),
        in_section=True,
    ),
    Format(
        "nccl_graphs",
        "NCCL's rings and trees (NCCL_GRAPH_DUMP_FILE): known, gives no rows",
        "NCCL 2.5 to 2.30, RCCL",
        "NVIDIA/nccl src/graph/search.cc",
        lambda head: looks_like("graphs", head.text),
        lambda member, hints: decode_graphs(member),
    ),
)
