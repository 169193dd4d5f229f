"""GPUs of a host: nvidia-smi, nvidia-smi -L, nvidia-smi --query-gpu=… --format=csv -> `gpus`, `counters`, events for GPUs that do not answer.

    |   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d)
    index, uuid, pci.bus_id, name
    0, GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d, 00000000:1B:00.0, NVIDIA H100 80GB HBM3
    Unable to determine the device handle for GPU0000:25:00.0: Unknown Error

The number in the table's last column counts uncorrectable ECC errors since the driver was loaded. Names that the table cuts off end in `...`.
"""

from __future__ import annotations

import csv
import re
from typing import Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, read_text, real
from postmortem.decoders.hosts.inventory import Output, Sheet, looks_like, pci_address, read
from postmortem.patterns import later

UUID: Final = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LISTED: Final = later(rf"^GPU (?P<gpu>[0-9]+): (?P<model>.+?) \(UUID: (?P<uuid>{UUID})\)$")
_LISTED_MIG: Final = later(r"^\s+MIG \S+\s+Device\s+[0-9]+: \(UUID: MIG-")
_ROW: Final = later(
    r"^\| +(?P<gpu>[0-9]+) +(?P<model>\S.*?) +(?:On|Off|N/A|TCC|WDDM|MCDM|ERR!) *\| *(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]) +(?:On|Off|N/A|ERR!) *"
    r"\| *(?P<ecc>[0-9]+|N/A|Off|ERR!) *\|$"
)
_TABLE: Final = later(r"^[+|].*[+|]$")
_PROGRAM: Final = later(r"^\| NVIDIA-SMI [0-9.]+ .*Driver Version: ")
_BUS: Final = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
_LOST: Final = later(
    rf"^Unable to determine the device handle for (?:gpu|GPU) ?(?:(?P<gpu>[0-9]{{1,3}})(?=: ))?:? ?(?P<pci>{_BUS})?: "
    r"(?P<reason>[A-Z][A-Za-z ]{3,60}?)\.?(?: +Reboot the system to recover this GPU\.?)?$"
)
_INFOROM: Final = later(rf"^WARNING: (?P<reason>infoROM is corrupted) at gpu (?P<pci>{_BUS})$")
_NO_DRIVER: Final = later(
    r"^(?P<reason>NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver|Failed to initialize NVML: .{1,80}|No devices were found)"
)
_NO_DRIVER_MORE: Final = later(
    r"^(?:Make sure that the latest NVIDIA driver is installed and running|NVML library version: |Please also try adding directory)"
)
_COLUMN: Final = later(r"^[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*(?: \[[^\]]{1,12}\])?$")
_ERROR_COLUMN: Final = later(r"^(?:ecc\.errors|retired_pages|remapped_rows|gpu\.replay)\S*$")


def lost_gpu(sheet: Sheet, number: int, line: str) -> bool:
    """The event of a line by which nvidia-smi says that a GPU or the driver does not answer; whether it is one.

    Only `GPU is lost` is certain. `Unknown Error` is what NVML makes of anything it does not know.
    """
    if found := _LOST.match(line):
        is_gone = found["reason"].endswith("is lost")
        event, severity = ("gpu.fallen_off_bus", "fatal") if is_gone else ("gpu.driver_error", "warning")
        pci, gpu = found["pci"] and pci_address(found["pci"]), int(found["gpu"]) if found["gpu"] else None
        sheet.event(number, line, event, severity, pci=pci, gpu=gpu, reason=found["reason"])
        return True
    if found := _INFOROM.match(line):
        sheet.event(number, line, "gpu.driver_error", "warning", pci=pci_address(found["pci"]), reason=found["reason"])
        return True
    found = _NO_DRIVER.match(line)
    if found is not None:
        sheet.event(number, line, "gpu.driver_error", "warning", reason=found["reason"])
    return found is not None or _NO_DRIVER_MORE.match(line) is not None


class Summary(Output):
    """The table of `nvidia-smi`, the list of `nvidia-smi -L`, and what either prints of GPUs that do not answer."""

    command = later(r"\bnvidia-smi(?:\s+(?:-L|--list-gpus))?\s*$")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._pci: str | None = None
        self._gpu: int | None = None

    def on_line(self, number: int, line: str) -> bool:
        if found := _LISTED.match(line):
            self.sheet.add("gpus", number, gpu=int(found["gpu"]), model=found["model"], gpu_uuid=found["uuid"])
            return True
        if found := _ROW.match(line):
            self._row(number, found)
            return True
        if self._pci and line.startswith("|") and line.count("ERR!") >= 3:
            self.sheet.event(number, line, "gpu.driver_error", "warning", pci=self._pci, gpu=self._gpu, reason="ERR!")
            return True
        return (
            _TABLE.match(line) is not None or _LISTED_MIG.match(line) is not None or lost_gpu(self.sheet, number, line)
        )

    def _row(self, number: int, found: re.Match[str]) -> None:
        self._pci, self._gpu = pci_address(found["pci"]), int(found["gpu"][:6])
        self.sheet.add("gpus", number, pci=self._pci, gpu=self._gpu, model=found["model"].removesuffix("..."))
        if found["ecc"].isdigit():
            self.sheet.counter(number, "nvidia-smi", "Volatile Uncorr. ECC", float(found["ecc"][:18]), self._pci)


def looks_like_csv(head: Head) -> bool:
    """A line of properties as nvidia-smi names them, one of which tells GPUs apart, and below it a line with as many values."""
    lines = [line for line in head.text.split("\n", 3)[:3] if line.strip()]
    names = [n.strip() for n in lines[0].split(",")] if lines else []
    if len(names) < 2 or len(lines) < 2 or not all(_COLUMN.match(n) for n in names):
        return False
    if not set(names) & {"uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial"}:
        return False
    return (
        len(lines[1].split(",")) == len(names)
        and re.search(rf"{UUID}|[0-9A-Fa-f]{{4,8}}:[0-9A-Fa-f]{{2}}:", lines[1]) is not None
    )


def decode_csv(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `gpus`, one for each GPU however often it was asked, and `counters` of the last answer."""
    decoded = Decoded()
    sheet = Sheet(member.name, hints.host)
    names: list[str] = []
    last: dict[str | None, tuple[int, dict[str, str]]] = {}
    odd = 0
    # A Python loop: an error may stand between the rows, and only the last row of each GPU is kept.
    for number, line in enumerate(read_text(member, decoded).split("\n"), 1):
        cells = [c.strip() for c in next(iter(csv.reader([line[:4000].replace("\r", "")])), [])]
        if not names:
            names = cells
        elif len(cells) == len(names) and cells != names:
            said = dict(zip(names, cells, strict=True))
            last[said.get("uuid") or said.get("gpu_uuid") or said.get("pci.bus_id") or said.get("gpu_bus_id")] = (
                number,
                said,
            )
        elif cells and cells != names and not lost_gpu(sheet, number, line.strip()):
            odd += 1
        if len(last) > 1000:
            break
    for number, said in last.values():
        _gpu(sheet, number, said)
    if odd:
        decoded.notes.append(f"{odd} rows with too few or too many fields")
    sheet.put(decoded)
    return decoded


def _gpu(sheet: Sheet, number: int, said: dict[str, str]) -> None:
    pci = pci_address(said.get("pci.bus_id") or said.get("gpu_bus_id") or "")
    uuid = said.get("uuid") or said.get("gpu_uuid") or ""
    index = said.get("index", "")
    serial = said.get("serial") or said.get("gpu_serial") or ""
    sheet.add(
        "gpus", number, pci=pci, gpu=int(index) if index.isdigit() and len(index) < 6 else None,
        gpu_uuid=uuid if re.fullmatch(UUID, uuid) else None, model=said.get("name") or said.get("gpu_name"),
        serial=serial if re.fullmatch(r"[0-9A-Z]{5,30}", serial) else None,
    )  # fmt: skip
    for name, value in said.items():
        amount = real(float(value)) if _ERROR_COLUMN.match(name) and re.fullmatch(r"[0-9]{1,18}", value) else None
        if amount is not None:
            sheet.counter(number, "nvidia-smi --query-gpu", name, amount, pci or (f"gpu{index}" if index else None))


FORMATS: Final = (
    Format(
        "nvidia_smi", "nvidia-smi, nvidia-smi -L: GPUs of a host, and those that do not answer", "NVIDIA driver 390 and later",
        "output in public reports; nvidia-smi documentation",
        lambda head: ("NVIDIA-SMI" in head.text or "(UUID: GPU-" in head.text or "device handle" in head.text) and looks_like(head, Summary),
        lambda member, hints: read(member, hints, Summary), in_section=True,
    ),
    Format(
        "nvidia_smi_csv", "nvidia-smi --query-gpu --format=csv: GPUs of a host", "NVIDIA driver 390 and later",
        "nvidia-smi --help-query-gpu", looks_like_csv, decode_csv, in_section=True,
    ),
)  # fmt: skip
