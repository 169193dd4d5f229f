"""nvidia-smi topo -m: the nearest GPU of each NIC, and none where several are equally near."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff
from postmortem.decoders.hosts.gpu_topology import nearest

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
# Four GPUs of a cloud's H100 node; mlx5_1 is as near to GPU0 as to GPU3.
TEXT = f"""        \x1b[4mGPU0    GPU1    GPU2    GPU3    NIC0    NIC1    NIC2    NIC3    CPU Affinity    NUMA Affinity   GPU NUMA ID\x1b[0m
GPU0     X      NV18    NV18    NV18    PXB     PXB     NODE    NODE    0-55,112-167    0               N/A
GPU1    NV18     X      NV18    NV18    NODE    NODE    NODE    PXB     0-55,112-167    0               N/A
GPU2    NV18    NV18     X      NV18    NODE    NODE    PXB     NODE    0-55,112-167    0               N/A
GPU3    NV18    NV18    NV18     X      NODE    PXB     NODE    NODE    0-55,112-167    0               N/A
NIC0    PXB     NODE    NODE    NODE     X      PIX     NODE    NODE
NIC1    PXB     NODE    NODE    PXB     PIX      X      NODE    NODE
NIC2    NODE    NODE    PXB     NODE    NODE    NODE     X      NODE
NIC3    NODE    PXB     NODE    NODE    NODE    NODE    NODE     X
{LEGEND}
NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
  NIC2: mlx5_4
  NIC3: mlx5_bond_0
"""
# Older drivers name the devices in the heading.
NAMED = f"""\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0
GPU1\tNV18\t X \tSYS\tPIX\t48-95,144-191\t1
mlx5_0\tPIX\tSYS\t X \tSYS\t\t
mlx5_1\tSYS\tPIX\tSYS\t X \t\t
{LEGEND}"""


def test_names_out_of_the_legend() -> None:
    text = f"root@node-07:~/x# nvidia-smi topo -m\n{TEXT}"
    assert sniff("topo.txt", text.encode()) == "nvidia_smi_topo"
    decoded = sniffed("topo.txt", text)
    assert pick(rows(decoded, "nics"), "host", "dev", "gpu") == [
        ("node-07", "mlx5_0", 0),
        ("node-07", "mlx5_3", None),
        ("node-07", "mlx5_4", 2),
        ("node-07", "mlx5_bond_0", 1),
    ]
    lines = text.split("\n")
    assert [lines[row["line"] - 1].split()[-1] for row in rows(decoded, "nics")] == [
        "mlx5_0",
        "mlx5_3",
        "mlx5_4",
        "mlx5_bond_0",
    ]


def test_names_in_the_heading() -> None:
    assert pick(rows(sniffed("topo.txt", NAMED), "nics"), "dev", "gpu", "line") == [("mlx5_0", 0, 4), ("mlx5_1", 1, 5)]


def test_a_legend_that_is_missing_names_nobody() -> None:
    assert run("nvidia_smi_topo", "x", TEXT.split("NIC Legend")[0]).tables == {}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({0: "PIX", 1: "PXB", 2: "SYS"}, 0),
        ({0: "SYS", 1: "NODE", 2: "PHB"}, 2),
        ({0: "NODE", 1: "NODE", 2: "SYS"}, None),
        ({0: "SYS"}, 0),
        ({0: "X"}, None),
        ({}, None),
    ],
)
def test_the_nearest(cells: dict[int, str], expected: int | None) -> None:
    assert nearest(cells) == expected
