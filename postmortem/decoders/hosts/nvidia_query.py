"""All that a GPU says of itself: nvidia-smi -q, as text and (-x) as XML -> `gpus`, `counters`, events for the faults that it states.

    GPU 00000000:06:00.0
        Product Name                          : NVIDIA A10
        Remapped Rows
            Pending                           : Yes
            Remapping Failure Occurred        : No

    <gpu id="00000000:06:00.0"> <product_name>NVIDIA A10</product_name> … <remapped_rows> <remapped_row_pending>Yes</…>

Both become the same sequence of (place, name, value); XML is read by its tags alone, so that entities and document types are nothing.
Counters are those of ECC errors, retired pages, remapped rows and PCIe replays. Counts since the driver was loaded (volatile) are a
sign; those over the GPU's life (aggregate) are not. A link of fewer lanes is one too; a slower one is how an idle GPU saves power.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from typing import Final

from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike, Row, read_text
from postmortem.decoders.hosts.inventory import Output, Sheet, looks_like, pci_address, read
from postmortem.decoders.hosts.nvidia_smi import UUID, lost_gpu
from postmortem.patterns import later

_GPU: Final = later(r"^GPU (?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$")
_FIELD: Final = later(r"^(?P<indent> *)(?P<name>[A-Za-z][^:]{0,70}?)(?: *: ?(?P<value>.*))?$")
_TOP: Final = later(
    r"^(?:=+NVSMI LOG=+|(?:Timestamp|Driver Version|CUDA Version|Attached GPUs|CUDA UMD Version|NVML Version|NVSMI version|DRIVER version) *:.*)$"
)
_TAG: Final = later(r"<(?P<close>/?)(?P<name>[A-Za-z_][\w.-]{0,60})(?:\s[^<>]{0,200}(?<!/))?>(?P<value>[^<\n]{0,300})")
_GPU_TAG: Final = later(r'^<gpu id="(?P<pci>[0-9A-Fa-f:.]{7,20})"')
_NOTHING: Final = {
    "",
    "n/a",
    "[n/a]",
    "none",
    "not supported",
    "[not supported]",
    "requested functionality has been deprecated",
    "unknown",
}
_COUNTED: Final = later(
    r"^(?:ecc errors|retired pages|remapped rows)/(?!.*(?:histogram|pending)).*$|^pci/(?:replay|.*rollover)"
)
_UNCORRECTED: Final = later(
    r"^ecc errors/volatile/(?:sram uncorrectable(?: parity| sec-ded)?|dram uncorrectable|uncorrectable parity|uncorrectable sec-ded|double bit/total)$"
)

# (place, what it must say for there to be a fault, event, the event's reason); the first that fits counts.
_FAULTS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], str, str], ...]] = tuple(
    (later(place), later(value), event, reason)
    for place, value, event, reason in (
        (r"^remapped rows/remapping failure occurred$", r"^yes$", "gpu.ras_error", "row remapping failed"),
        (r"^remapped rows/pending$", r"^yes$", "gpu.ras_error", "row remapping pending"),
        (r"^retired pages/pending", r"^yes$", "gpu.ras_error", "page retirement pending"),
        (r"^ecc errors/aggregate/sram threshold exceeded$", r"^yes$", "gpu.ras_error", "SRAM threshold exceeded"),
        (r"^(?:.*/)?gpu recovery action$", r"^(?!none$).", "gpu.driver_error", "recovery action"),
        (r"^(?:.*/)?gpu reset status/(?:reset required|drain and reset recommended)$", r"^yes$", "gpu.driver_error", "reset required"),
        (r"^fabric/state$", r"^(?:in progress|not started)$", "gpu.fabric_error", "fabric state"),
        (r"^fabric/status$", r"^(?!success$|completed$).", "gpu.fabric_error", "fabric status"),
        (r"^clocks (?:event|throttle) reasons/(?:hw slowdown/)?hw thermal slowdown$", r"^active$", "gpu.thermal", "HW thermal slowdown"),
    )
)  # fmt: skip

# Tags of XML whose words are not those of the text.
_AS_TEXT: Final = {
    "remapped row corr": "correctable error", "remapped row unc": "uncorrectable error", "remapped row pending": "pending",
    "remapped row failure": "remapping failure occurred", "pci gpu link info": "gpu link info", "link widths": "link width",
    "max link width": "max", "current link width": "current", "replay counter": "replays since reset", "gpu fabric": "fabric",
    "clocks event reason hw thermal slowdown": "hw thermal slowdown", "clocks throttle reason hw thermal slowdown": "hw thermal slowdown",
    "pending blacklist": "pending", "pending retirement": "pending", "uuid": "gpu uuid", "serial": "serial number",
    "sram uncorrectable secded": "sram uncorrectable sec-ded", "sram threshold exceeded": "sram threshold exceeded",
}  # fmt: skip


@dataclass(slots=True)
class _Gpu:
    """The GPU whose block is read."""

    row: Row
    pci: str | None
    width: int | None = None
    done: set[str] = field(default_factory=set)


class _Sayings:
    """What GPUs say, as (place, value): rows, counters and events."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self._gpu: _Gpu | None = None

    def begin(self, number: int, pci: str) -> None:
        at = pci_address(pci)
        self._gpu = _Gpu(self.sheet.add("gpus", number, pci=at, model=None, gpu_uuid=None, serial=None), at)

    def say(self, number: int, line: str, place: str, value: str) -> None:
        """One value; `place` is lower case, headings above it separated by `/`."""
        gpu, value = self._gpu, value.strip()
        if gpu is None or value.lower() in _NOTHING:
            return
        if place in {"product name", "serial number", "gpu uuid"}:
            self._identity(gpu, place, value)
        elif place.endswith("gpu link info/link width/max"):
            gpu.width = _lanes(value)
        elif place.endswith("gpu link info/link width/current"):
            lanes = _lanes(value)
            if gpu.width and lanes and lanes < gpu.width:
                self._fault(number, line, "pcie.link_degraded", f"{lanes} of {gpu.width} lanes", value)
        elif _COUNTED.match(place) and re.fullmatch(r"[0-9]{1,18}", value):
            self.sheet.counter(number, "nvidia-smi -q", place, float(value), gpu.pci)
            if _UNCORRECTED.match(place) and int(value):
                self._fault(number, line, "gpu.ras_error", "uncorrectable ECC errors", value)
        else:
            for where, what, event, reason in _FAULTS:
                if where.match(place) and what.match(value.lower()):
                    self._fault(number, line, event, reason, value)
                    break

    @staticmethod
    def _identity(gpu: _Gpu, place: str, value: str) -> None:
        if place == "product name":
            gpu.row["model"] = value[:100]
        elif place == "gpu uuid" and re.fullmatch(UUID, value):
            gpu.row["gpu_uuid"] = value
        elif place == "serial number" and re.fullmatch(r"[0-9A-Z]{5,30}", value):
            gpu.row["serial"] = value

    def _fault(self, number: int, line: str, event: str, reason: str, value: str) -> None:
        gpu = self._gpu
        if gpu is None or f"{event} {reason}" in gpu.done:
            return
        gpu.done.add(f"{event} {reason}")
        action = value if reason == "recovery action" else None
        self.sheet.event(
            number, line, event, "warning", pci=gpu.pci, gpu_uuid=gpu.row["gpu_uuid"], reason=reason, value=value, recovery_action=action
        )  # fmt: skip


def _lanes(value: str) -> int | None:
    found = re.match(r"([0-9]{1,3})x?$", value)
    return int(found[1]) if found else None


class Query(Output):
    """`nvidia-smi -q`: four blanks of indent for each level below the GPU; wider in some versions, so levels are told by comparison."""

    command = later(r"\bnvidia-smi\b.*\s-(?:q|-query)\b")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._says = _Sayings(sheet)
        self._above: list[tuple[int, str]] = []
        self._is_inside = False

    def on_line(self, number: int, line: str) -> bool:
        if found := _GPU.match(line):
            self._says.begin(number, found["pci"])
            self._above, self._is_inside = [], True
            return True
        if _TOP.match(line):
            return True
        if lost_gpu(self.sheet, number, line):
            return True
        found = _FIELD.match(line)
        if not self._is_inside or found is None or not found["indent"]:
            return False
        depth, name = len(found["indent"]), found["name"].strip().lower()
        while self._above and self._above[-1][0] >= depth:
            self._above.pop()
        if found["value"] is not None:
            self._says.say(number, line, "/".join([*(n for _, n in self._above), name]), found["value"])
        self._above.append((depth, name))
        return True


def looks_like_xml(head: Head) -> bool:
    """A document whose first element is nvidia-smi's."""
    return (
        re.match(
            r"\ufeff?\s*(?:<\?xml[^<>]*\?>\s*)?(?:<!DOCTYPE nvidia_smi_log[^<>\[]*>\s*)?<nvidia_smi_log>", head.text
        )
        is not None
    )


def decode_xml(member: MemberLike, hints: Hints) -> Decoded:
    """As `nvidia-smi -q`: the tags are the names with `_` for blanks. Nothing is expanded or looked up."""
    decoded = Decoded()
    sheet = Sheet(member.name, hints.host)
    says = _Sayings(sheet)
    above: list[str] = []
    # A Python loop: what a tag means depends on those that are open above it.
    for number, line in enumerate(read_text(member, decoded).split("\n"), 1):
        for tag in _TAG.finditer(line[:20_000]):
            name = tag["name"].replace("_", " ").lower()
            name = _AS_TEXT.get(name, name)
            if tag["close"]:
                if name in above:
                    del above[len(above) - 1 - above[::-1].index(name) :]
                continue
            if gpu := _GPU_TAG.match(tag[0]):
                says.begin(number, gpu["pci"])
                above = []
                continue
            if len(above) < 40:
                above.append(name)
            if tag["value"].strip():
                says.say(number, line, "/".join(above), unescape(tag["value"]))
    if not sheet.rows:
        decoded.notes.append("XML of nvidia-smi without a GPU")
    sheet.put(decoded)
    return decoded


FORMATS: Final = (
    Format(
        "nvidia_smi_query", "nvidia-smi -q: GPUs of a host, their error counters and the faults that they state", "NVIDIA driver 390 and later",
        "output in public reports of drivers 535 to 575; NVIDIA GPU memory error management; nvidia-smi documentation",
        lambda head: "\nGPU 0" in head.text and looks_like(head, Query),
        lambda member, hints: read(member, hints, Query), in_section=True,
    ),
    Format(
        "nvidia_smi_xml", "nvidia-smi -q -x: GPUs of a host, their error counters and the faults that they state, as XML",
        "NVIDIA driver 390 and later", "output in public reports; nvidia-smi's DTD", looks_like_xml, decode_xml, in_section=True,
    ),
)  # fmt: skip
