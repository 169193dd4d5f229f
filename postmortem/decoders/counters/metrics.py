"""Metrics in Prometheus's text format: of DCGM's and AMD's exporters and of node_exporter what concerns errors of GPUs, links and memory.

    # TYPE DCGM_FI_DEV_XID_ERRORS gauge
    DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1f02",pci_bus_id="00000000:03:00.0",Hostname="node-01"} 79

A time in milliseconds may follow the value. A GPU is named by its PCI address, else `gpu<index>`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from postmortem.decoders.base import Format, Head, real
from postmortem.decoders.counters.base import Framed, Sheet, looks_like, read
from postmortem.patterns import later

_LINE: Final = later(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([-+0-9.eEinfNa]+)(?: (1[0-9]{9}(?:[0-9]{3})?))?$")
_LABEL: Final = later(r'([A-Za-z_]\w*) ?= ?"((?:[^"\\]|\\.)*)"')
_KEPT: Final = later(
    r"^(?:DCGM_FI_DEV_(?:XID|ECC|RETIRED|ROW_REMAP|(?:UN)?CORRECTABLE_REMAPPED|PCIE_REPLAY|NVLINK_.*(?:ERR|RECOVERY|REPLAY|CRC|BER)|NVSWITCH_.*(?:ERR|CRC)|.*VIOLATION|GPU_TEMP|MEMORY_TEMP|CLOCK|THERMAL)"
    r"|DCGM_EXP_(?:XID|GPU_HEALTH)|node_infiniband_|node_edac_|node_ethtool_|node_network_(?:\w*(?:err|drop|carrier|fifo|frame|colls)\w*)"
    r"|node_netstat_(?:Tcp_RetransSegs|TcpExt_\w*(?:Lost|Timeout|Retrans|Drop|Overflow)\w*)|node_ras_|node_timex_(?:sync_status|offset_seconds|maxerror_seconds)"
    r"|(?:amd_)?gpu_(?:ecc|xgmi|pcie|violation|junction)\w*|pcie_(?:replay|recovery|nac)\w*|infiniband_|rdma_)"
)
_NOT_KEPT: Final = later(r"_bytes(?:_total)?$|_packets(?:_total)?$|_info$|octets|_CLOCK$")
_HOST_LABELS: Final = ("Hostname", "hostname", "node", "nodename", "host")
_PLACE_LABELS: Final = frozenset(
    {
        *_HOST_LABELS, "gpu", "gpu_id", "UUID", "uuid", "device", "pci_bus_id", "modelName", "port", "instance", "job", "pod", "namespace", "container",
        "controller", "DCGM_FI_DRIVER_VERSION", "err_code", "DCGM_FI_PROCESS_NAME", "err_msg", "card_model", "serial_number", "exported_pod", "exported_container",
        "exported_namespace", "cluster", "GPU_I_PROFILE", "interface",
    }
)  # fmt: skip
_PCI: Final = later(r"^(?:[0-9a-fA-F]{4})?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])$")


class Exposition(Framed):
    """Lines of the text format."""

    def on_line(self, number: int, line: str) -> bool:
        if line.startswith("# ") or line == "#":
            return re.match(r"^# (?:HELP|TYPE|EOF|UNIT)\b", line) is not None
        found = _LINE.match(line)
        if found is None:
            return False
        if _KEPT.match(found[1]) and not _NOT_KEPT.search(found[1]):
            self.take(number, found)
        return True

    def take(self, number: int, found: re.Match[str]) -> None:
        """A metric that is kept: labels that tell several of a device apart go into the counter's name."""
        try:
            value = real(float(found[3]))
        except ValueError:
            return
        # DCGM's "blank" values are near the largest number of their type.
        if value is None or value != value or abs(value) >= 9e18:
            return
        labels = dict(_LABEL.findall(found[2] or ""))
        rest = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()) if k not in _PLACE_LABELS and v)
        sheet = self.sheet
        own, sheet.host = sheet.host, next((labels[k].split(".")[0] for k in _HOST_LABELS if labels.get(k)), sheet.host)
        before = sheet.ts
        if found[4]:
            sheet.ts = datetime.fromtimestamp(int(found[4][:10]), UTC).replace(tzinfo=None)
        dev, port, ifname = _place(found[1], labels)
        sheet.add(f"{found[1]}{{{rest}}}" if rest else found[1], value, number, dev=dev, port=port, ifname=ifname)
        sheet.host, sheet.ts = own, before


def _place(metric: str, labels: dict[str, str]) -> tuple[str | None, str | None, str | None]:
    """(dev, port, ifname) that the labels name."""
    if metric.startswith(("node_network_", "node_ethtool_")):
        return None, None, labels.get("device")
    if metric.startswith(("DCGM_", "amd_", "gpu_", "pcie_")):
        pci = _PCI.match(labels.get("pci_bus_id", ""))
        index = labels.get("gpu") or labels.get("gpu_id")
        return pci[1].lower() if pci else f"gpu{index}" if index else None, None, None
    if "controller" in labels:
        return f"mc{labels['controller']}", None, None
    return labels.get("device"), labels.get("port"), labels.get("interface")


def looks_like_metrics(head: Head) -> bool:
    """The text format with at least a metric that is kept near the top, or comments that say TYPE."""
    text = head.text
    is_bare = ("DCGM_" in text or "node_" in text) and re.search(r"^(?:DCGM_|node_)\w+\{", text, re.MULTILINE)
    if "# TYPE " not in text and not is_bare:
        return False
    return looks_like(head, _Any, 3, 0.95)


class _Any(Framed):
    """Counts every metric as a reading: what is kept may stand far below the top."""

    def on_line(self, number: int, line: str) -> bool:
        if line.startswith("# "):
            return re.match(r"^# (?:HELP|TYPE|EOF|UNIT)\b", line) is not None
        found = _LINE.match(line)
        if found is not None:
            self.sheet.add(found[1], 0, number)
        return found is not None


def _make(sheet: Sheet) -> Exposition:
    return Exposition(sheet)


FORMATS: Final = (
    Format(
        "metrics", "metrics in Prometheus's text format: errors of GPUs, links and memory",
        "dcgm-exporter, node_exporter, AMD's device-metrics-exporter", "NVIDIA/dcgm-exporter internal/pkg/rendermetrics; Prometheus documentation, exposition formats",
        looks_like_metrics,
        lambda member, hints: read(member, hints, "prometheus", _make), in_section=True,
    ),
)  # fmt: skip
