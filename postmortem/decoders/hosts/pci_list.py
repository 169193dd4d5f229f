"""GPUs and NICs on the PCI bus: lspci, also with -nn, -v, -vv, -D -> `gpus`, `nics`, events for lost and degraded devices.

    0000:1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
    1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff) (prog-if ff)
            !!! Unknown header type 7f
        LnkSta: Speed 16GT/s (downgraded), Width x8 (downgraded)

`rev ff` is what lspci prints when reads of the device's registers give only ones: it is gone, or in D3cold (laptops). An idle GPU
lowers the speed of its link, so of GPUs only the width counts; of NICs both. Bridges and other devices are left out: a slot of
more lanes than the card has is no fault.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Format, Head, Row
from postmortem.decoders.hosts.inventory import Output, Sheet, looks_like, pci_address, read
from postmortem.patterns import later

_DEVICE: Final = later(
    r"^(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[A-Z0-9][^:\[]{2,60}?)(?: \[[0-9a-f]{4}\])?: (?P<name>.+?)"
    r"(?: \(rev (?P<rev>[0-9a-f]{2})\))?(?: \(prog-if [0-9a-f]{2}(?: \[[^\]]*\])?\))?$"
)
_GPU: Final = later(r"^(?:3D controller|VGA compatible controller|Display controller|Processing accelerators)$")
_GPU_MAKER: Final = later(r"^(?:NVIDIA Corporation|Advanced Micro Devices)")
_NIC: Final = later(
    r"^(?:Ethernet controller|Infiniband controller|InfiniBand controller|Network controller|Fabric controller)$",
    re.IGNORECASE,
)
_FAST_NIC: Final = later(
    r"Mellanox|ConnectX|BlueField|BCM57[5-9]|Thor|\bE8[0-9]{2}|Omni-Path|Cornelis|Pensando|Elastic Fabric"
)
_VIRTUAL_FUNCTION: Final = later(r"Virtual Function")
_LINK: Final = later(
    r"^\s+LnkSta:\s+Speed (?P<speed>[0-9.]+GT/s)(?P<slow> \(downgraded\))?[^,]*, Width (?P<width>x[0-9]+)(?P<narrow> \(downgraded\))?"
)
_CLASS: Final = later(
    r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:(?:Host|PCI|ISA) bridge|Bridge|System peripheral|SMBus|USB controller|Non-Volatile memory controller"
    r"|3D controller|VGA compatible controller|Display controller|Processing accelerators|Ethernet controller|Infiniband controller)(?: \[[0-9a-f]{4}\])?: ",
    re.MULTILINE,
)
_CLASS_WORDS: Final = (
    "bridge: ",
    "bridge [",
    "Bridge: ",
    "Bridge [",
    "peripheral",
    "SMBus",
    " controller",
    "accelerators",
)
"""One of these is in each of the classes: looking for them first takes a tenth of the time."""

_IDS: Final = later(r" \[[0-9a-f]{4}:[0-9a-f]{4}\]$")


class Lspci(Output):
    """Devices, and of GPUs and NICs the state of the link below them."""

    command = later(r"\blspci\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._kind = ""
        self._row: Row | None = None
        self._is_inside = False

    def on_line(self, number: int, line: str) -> bool:
        if found := _DEVICE.match(line[:400]):
            self._is_inside, self._kind, self._row = True, "", None
            self._device(number, line, found)
            return True
        if self._is_inside and line[:1].isspace():
            if self._row and (link := _LINK.match(line)):
                self._link(number, line, link)
            return True
        return line.startswith("pcilib: ")

    def _device(self, number: int, line: str, found: re.Match[str]) -> None:
        pci, name = pci_address(found["pci"]), _IDS.sub("", found["name"])
        if _GPU.match(found["kind"]) and _GPU_MAKER.match(name):
            model = re.search(r"\[([^\[\]]{3,60})\]$", name)
            self._kind = "gpu"
            self._row = self.sheet.add("gpus", number, pci=pci, model=model[1] if model else None)
            if found["rev"] == "ff":
                self.sheet.event(number, line, "gpu.fallen_off_bus", "warning", pci=pci, reason="rev ff")
        elif _NIC.match(found["kind"]) and _FAST_NIC.search(name):
            self._kind = "" if _VIRTUAL_FUNCTION.search(name) else "nic"
            self._row = self.sheet.add("nics", number, pci=pci)
            if found["rev"] == "ff":
                self.sheet.event(number, line, "pcie.device_removed", "warning", pci=pci, reason="rev ff")

    def _link(self, number: int, line: str, link: re.Match[str]) -> None:
        is_less = bool(link["narrow"]) or (self._kind == "nic" and bool(link["slow"]))
        if self._kind and is_less and self._row:
            self.sheet.event(
                number, line, "pcie.link_degraded", "warning", pci=self._row["pci"], value=f"{link['speed']} {link['width']}",
                reason=line.split("LnkSta:", 1)[1].strip()[:200],
            )  # fmt: skip


def _looks(head: Head) -> bool:
    """Lines of devices, some of a class that every machine has; the GPUs may come only after the first kilobytes of -vv."""
    return (
        any(word in head.text for word in _CLASS_WORDS)
        and _CLASS.search(head.text) is not None
        and looks_like(head, Lspci, 0)
    )


FORMATS: Final = (
    Format(
        "lspci", "lspci: GPUs and NICs on the PCI bus, those that are gone and whose link is degraded", "pciutils 3",
        "pciutils lspci.c, ls-caps.c; leptonai/gpud pkg/pci/testdata/lspci-vvv",
        _looks, lambda member, hints: read(member, hints, Lspci), in_section=True,
    ),
)  # fmt: skip
