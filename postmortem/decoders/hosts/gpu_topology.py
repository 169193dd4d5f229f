"""How GPUs and NICs hang together on a host: nvidia-smi topo -m -> `nics` with the nearest GPU.

            GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV18    PIX     SYS     0-55,112-167    0               N/A
    GPU1    NV18     X      SYS     PIX     0-55,112-167    0               N/A
    NIC0    PIX     SYS      X      SYS
    NIC1    SYS     PIX     SYS      X
    …
    NIC Legend:
      NIC0: mlx5_0

Older drivers name the devices themselves in the heading (`mlx5_0`). Nearer is: one PCIe bridge (PIX), several (PXB), a host bridge
(PHB), one NUMA node (NODE), across nodes (SYS). Where several GPUs are equally near none is named: a wrong GPU is worse than none.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Format
from postmortem.decoders.hosts.inventory import Output, Sheet, looks_like, read
from postmortem.patterns import later

_NEARNESS: Final = ("PIX", "PXB", "PHB", "NODE", "SYS")
_HEADING: Final = later(r"^\s+(?:GPU[0-9]+\s+)+")
_NAME: Final = later(r"^(?:GPU|NIC)[0-9]+$|^[A-Za-z][\w.-]*_[\w.-]*[0-9]$|^[A-Za-z]+[0-9][\w.-]*$")
_CELL: Final = later(r"^(?:X|PIX|PXB|PHB|PHB/PXB|NODE|SYS|SOC|NV[0-9]+|PSB|PIX\*|N/A|C2C|DIS|NS|OK|CNS|GNS|TNS)$")
_LEGEND: Final = later(r"^\s+(?P<nic>NIC[0-9]+): (?P<dev>[A-Za-z][\w.-]*)$")
_MEANING: Final = later(r"^(?:Legend:|NIC Legend:|\s+(?:X|SYS|SOC|NODE|PHB|PXB|PIX|NV#|C2C|N/A|DIS)\s+= )")


class Topology(Output):
    """The matrix; a cell belongs to the heading of its place, and to the GPU of its row."""

    command = later(r"\bnvidia-smi\s+topo\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._columns: list[str] = []
        self._cells: dict[str, dict[int, str]] = {}
        self._line: dict[str, int] = {}
        self._devices: dict[str, str] = {}

    def on_line(self, number: int, line: str) -> bool:
        if _HEADING.match(line):
            self.finish()
            names = line.split()
            self._columns = names[: next((i for i, n in enumerate(names) if not _NAME.match(n)), len(names))]
            return True
        if found := _LEGEND.match(line):
            self._devices[found["nic"]] = found["dev"]
            self._line[found["nic"]] = number
            return True
        if _MEANING.match(line):
            return True
        name, *cells = line.split()
        if name not in self._columns or len(cells) < len(self._columns):
            return False
        cells = cells[: len(self._columns)]
        if not all(_CELL.match(c) for c in cells):
            return False
        gpu = re.fullmatch(r"GPU([0-9]{1,3})", name)
        if gpu:
            for column, cell in zip(self._columns, cells, strict=True):
                self._cells.setdefault(column, {})[int(gpu[1])] = cell
        else:
            self._line.setdefault(name, number)
        return True

    def finish(self) -> None:
        for column, cells in self._cells.items():
            dev = self._devices.get(column, column)
            # A name out of the legend that is missing (`NIC3`) is no device.
            if re.match(r"(?:GPU|NIC)[0-9]+$", dev) or column not in self._line:
                continue
            self.sheet.add("nics", self._line[column], dev=dev, gpu=nearest(cells))
        self._columns, self._cells, self._line, self._devices = [], {}, {}, {}


def nearest(cells: dict[int, str]) -> int | None:
    """The GPU that is nearer than all others; null for several that are equally near."""
    near = [(_NEARNESS.index(c), gpu) for gpu, c in cells.items() if c in _NEARNESS]
    best = [gpu for rank, gpu in near if rank == min(near)[0]]
    return best[0] if len(best) == 1 else None


FORMATS: Final = (
    Format(
        "nvidia_smi_topo", "nvidia-smi topo -m: the GPU that is nearest to each NIC", "NVIDIA driver 390 and later",
        "nvidia-smi topo -m's own legend; output in issues of NVIDIA/nccl and deepseek-ai/DeepEP",
        lambda head: "GPU0" in head.text and looks_like(head, Topology),
        lambda member, hints: read(member, hints, Topology), in_section=True,
    ),
)  # fmt: skip
