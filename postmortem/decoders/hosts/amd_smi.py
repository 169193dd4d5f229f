"""GPUs of AMD: rocm-smi (--showbus, --showproductname, --showserial, -a …), amd-smi list and static -> `gpus`.

    GPU[0]          : PCI Bus: 0000:C1:00.0                    GPU: 0
    GPU[0]          : Card Series: AMD Instinct MI300X             BDF: 0000:11:00.0
    GPU[0]          : Serial Number: 692424017146                  UUID: d4ff74a1-0000-1000-80b1-dbb1e6a69543

Of a GPU whose PCI address is not printed nothing can be joined; its index, model and serial number are still kept.
"""

from __future__ import annotations

from typing import Final

from postmortem.decoders.base import Format, Row
from postmortem.decoders.hosts.inventory import Output, Sheet, looks_like, pci_address, read
from postmortem.patterns import later

_ROCM: Final = later(r"^GPU\[(?P<gpu>[0-9]{1,3})\]\s*: (?P<name>[^:]{1,60}?)\s*: ?(?P<value>.*)$")
_ROCM_ELSE: Final = later(r"^(?:=+.*=+$|WARNING: |ROCM_SMI_|AMD Instinct|\s*(?:Sclk|Mclk)|GPU\[[0-9]+\]|[A-Z].{0,80}:)")
_ROCM_NAMES: Final = {
    "PCI Bus": "pci",
    "Card Series": "model",
    "Card series": "model",
    "Serial Number": "serial",
    "Unique ID": "gpu_uuid",
}
_AMD: Final = later(r"^\s*GPU: (?P<gpu>[0-9]{1,3})$")
_AMD_FIELD: Final = later(r"^(?P<indent>\s+)(?P<name>[A-Z][A-Z0-9_ ]{1,40}):(?: (?P<value>.*))?$")
_AMD_NAMES: Final = {"BDF": "pci", "UUID": "gpu_uuid", "MARKET_NAME": "model", "ASIC_SERIAL": "serial"}
_NOTHING: Final = {"", "N/A", "None", "unknown"}


def _kept(column: str, value: str) -> str | None:
    value = value.strip()
    if value in _NOTHING:
        return None
    return pci_address(value) if column == "pci" else value[:100]


class RocmSmi(Output):
    """`rocm-smi`: each fact in a line of its own behind the GPU's number."""

    command = later(r"\brocm-smi\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._gpus: dict[tuple[str | None, int], Row] = {}

    def on_line(self, number: int, line: str) -> bool:
        found = _ROCM.match(line[:400])
        column = _ROCM_NAMES.get(found["name"]) if found else None
        if found is None or column is None:
            return _ROCM_ELSE.match(line) is not None
        key = (self.sheet.host, int(found["gpu"]))
        if key not in self._gpus:
            self._gpus[key] = self.sheet.add(
                "gpus", number, gpu=key[1], pci=None, model=None, serial=None, gpu_uuid=None
            )
        self._gpus[key][column] = _kept(column, found["value"]) or self._gpus[key][column]
        return True


class AmdSmi(Output):
    """`amd-smi list`, `amd-smi static`: a block for each GPU."""

    command = later(r"\bamd-smi\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._row: Row | None = None

    def on_line(self, number: int, line: str) -> bool:
        if found := _AMD.match(line):
            self._row = self.sheet.add(
                "gpus", number, gpu=int(found["gpu"]), pci=None, model=None, serial=None, gpu_uuid=None
            )
            return True
        found = _AMD_FIELD.match(line[:400])
        if self._row is None or found is None:
            return line.startswith("AMDSMI Tool: ") or (self._row is not None and line[:1].isspace())
        column = _AMD_NAMES.get(found["name"])
        if column and self._row[column] is None:
            self._row[column] = _kept(column, found["value"] or "")
        return True


FORMATS: Final = (
    Format(
        "rocm_smi", "rocm-smi: GPUs of a host (AMD)", "ROCm 4 and later", "ROCm/rocm_smi_lib python_smi_tools/rocm_smi.py; output in public guides",
        lambda head: "\nGPU[" in "\n" + head.text and looks_like(head, RocmSmi),
        lambda member, hints: read(member, hints, RocmSmi), in_section=True,
    ),
    Format(
        "amd_smi", "amd-smi list, amd-smi static: GPUs of a host (AMD)", "ROCm 6 and later", "ROCm amdsmi documentation; output in public guides",
        lambda head: " BDF: " in head.text and looks_like(head, AmdSmi),
        lambda member, hints: read(member, hints, AmdSmi), in_section=True,
    ),
)  # fmt: skip
