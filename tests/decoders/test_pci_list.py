"""lspci: GPUs and NICs, those that are gone, links of fewer lanes."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

# Out of leptonai/gpud's test data and public reports.
SHORT = """0001:00:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)
0005:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)
01:00.0 Ethernet controller: Broadcom Inc. and subsidiaries NetXtreme BCM5720 Gigabit Ethernet PCIe
1a:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
01:00.0 VGA compatible controller: NVIDIA Corporation TU106 [GeForce RTX 2060 Rev. A] (rev a1)
03:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)
"""


def test_devices() -> None:
    assert sniff("lspci.txt", SHORT.encode()) == "lspci"
    decoded = sniffed("lspci.txt", SHORT, host="node-07")
    assert pick(rows(decoded, "gpus"), "host", "pci", "model", "line") == [
        ("node-07", "0001:00:00.0", "A100 SXM4 80GB", 1),
        ("node-07", "0000:01:00.0", "GeForce RTX 2060 Rev. A", 5),
    ]
    assert pick(rows(decoded, "nics"), "pci") == [("0000:1a:00.0",)]
    assert rows(decoded, "events") == []


def device(kind: str, name: str, link: str) -> str:
    return f"1a:00.0 {kind}: {name} (rev a1)\n\tSubsystem: x\n\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\t{link}\n\t\t\tTrErr- Train- SlotClk+\n"


GPU = ("3D controller", "NVIDIA Corporation GH100 [H100 SXM5 80GB]")
NIC = ("Infiniband controller", "Mellanox Technologies MT2910 Family [ConnectX-7]")
BRIDGE = ("PCI bridge", "Intel Corporation Device 352a")
ONBOARD = ("Ethernet controller", "Broadcom Inc. and subsidiaries NetXtreme BCM5720 Gigabit Ethernet PCIe")
VF = ("Infiniband controller", "Mellanox Technologies ConnectX Family mlx5Gen Virtual Function")


@pytest.mark.parametrize(
    ("what", "link", "degraded"),
    [
        (GPU, "Speed 16GT/s (downgraded), Width x8 (downgraded)", True),
        (GPU, "Speed 8GT/s (ok), Width x8 (downgraded)", True),
        (GPU, "Speed 2.5GT/s (downgraded), Width x16 (ok)", False),
        (GPU, "Speed 16GT/s, Width x16", False),
        (NIC, "Speed 16GT/s (downgraded), Width x16 (ok)", True),
        (NIC, "Speed 32GT/s, Width x16", False),
        (BRIDGE, "Speed 5GT/s (downgraded), Width x1 (downgraded)", False),
        (ONBOARD, "Speed 5GT/s (ok), Width x1 (downgraded)", False),
        (VF, "Speed unknown (downgraded), Width x0 (downgraded)", False),
    ],
)
def test_links(what: tuple[str, str], link: str, degraded: bool) -> None:
    text = device(*what, link)
    assert sniff("lspci-vv.txt", text.encode()) == "lspci"
    found = rows(sniffed("lspci-vv.txt", text), "events")
    expected = [("pcie.link_degraded", "warning", "0000:1a:00.0", 4, link)]
    assert pick(found, "event", "severity", "pci", "line", "reason") == (expected if degraded else [])


def test_devices_that_are_gone() -> None:
    text = (
        "01:00.0 VGA compatible controller: NVIDIA Corporation Device 0fd1 (rev ff) (prog-if ff)\n        !!! Unknown header type 7f\n"
        "09:04.3 System peripheral: Ricoh Co Ltd R5C843 MMC Host Controller (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n"
        "1a:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7] (rev ff)\n"
    )
    decoded = sniffed("lspci.txt", text)
    assert pick(rows(decoded, "events"), "event", "severity", "pci", "line") == [
        ("gpu.fallen_off_bus", "warning", "0000:01:00.0", 1),
        ("pcie.device_removed", "warning", "0000:1a:00.0", 5),
    ]


def test_times_are_no_devices() -> None:
    assert sniff("x.log", b"00:12.3 Loading: model\n00:13.5 Loading: data (rev ff)\n") is None
    assert run("lspci", "x.log", b"1a:00.0 3D controller\n").tables == {}
