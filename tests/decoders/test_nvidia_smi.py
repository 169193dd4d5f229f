"""nvidia-smi's table, list and CSV; GPUs that do not answer."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

GPU = ("gpu", "pci", "gpu_uuid", "model", "serial", "line")
FAULT = ("event", "severity", "pci", "gpu", "reason", "line")

TABLE = """Wed Jan 22 04:28:41 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.127.05             Driver Version: 550.127.05     CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A10                     On  |   00000000:06:00.0 Off |                    0 |
|  0%   33C    P8             21W /  150W |       1MiB /  23028MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A10                     On  |   00000000:07:00.0 Off |                 ERR! |
|ERR!  ERR!  ERR!            ERR! /  ERR! |   ERR! / ERR!          |     ERR!     Default |
|                                         |                        |                 ERR! |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""


def test_table() -> None:
    assert sniff("nvidia-smi.txt", TABLE.encode()) == "nvidia_smi"
    decoded = sniffed("x", TABLE, host="node-07")
    assert pick(rows(decoded, "gpus"), "host", "gpu", "pci", "model", "line") == [
        ("node-07", 0, "0000:06:00.0", "NVIDIA A10", 9),
        ("node-07", 1, "0000:07:00.0", "NVIDIA A10", 13),
    ]
    assert pick(rows(decoded, "counters"), "dev", "counter", "value", "program") == [
        ("0000:06:00.0", "Volatile Uncorr. ECC", 0.0, "nvidia-smi"),
    ]
    assert pick(rows(decoded, "events"), *FAULT) == [("gpu.driver_error", "warning", "0000:07:00.0", 1, "ERR!", 14)]
    assert decoded.notes == []


def test_names_that_the_table_cuts_off() -> None:
    row = "|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                    2 |\n"
    text = "| NVIDIA-SMI 460.73.01    Driver Version: 460.73.01    CUDA Version: 11.2     |\n" + row
    decoded = sniffed("x", text)
    assert pick(rows(decoded, "gpus"), "pci", "model") == [("0000:1a:00.0", "Tesla V100-SXM2")]
    assert pick(rows(decoded, "counters"), "value") == [(2.0,)]


def test_list() -> None:
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-2f1b1f5e-0c1f-5a6e-9d3a-0d6b2b7c1c11)\n"
        "Unable to determine the device handle for gpu 0000:0B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    )
    decoded = sniffed("nvidia-smi-L.txt", text)
    assert pick(rows(decoded, "gpus"), *GPU[:4]) == [
        (0, None, "GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d", "NVIDIA H100 80GB HBM3")
    ]
    assert pick(rows(decoded, "events"), *FAULT) == [
        ("gpu.fallen_off_bus", "fatal", "0000:0b:00.0", None, "GPU is lost", 3)
    ]


@pytest.mark.parametrize(
    ("line", "pci", "gpu", "reason"),
    [
        (
            "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error.",
            "0000:0b:00.0",
            None,
            "Unknown Error",
        ),
        (
            "Unable to determine the device handle for GPU0000:25:00.0: Unknown Error",
            "0000:25:00.0",
            None,
            "Unknown Error",
        ),
        (
            "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error",
            "0000:5f:00.0",
            3,
            "Unknown Error",
        ),
        ("Unable to determine the device handle for GPU2: Unknown Error", None, 2, "Unknown Error"),
        ("Unable to determine the device handle for GPU 0000:01:00.0: Not Found", "0000:01:00.0", None, "Not Found"),
        ("WARNING: infoROM is corrupted at gpu 0000:0B:00.0", "0000:0b:00.0", None, "infoROM is corrupted"),
    ],
)
def test_gpus_that_do_not_answer(line: str, pci: str | None, gpu: int | None, reason: str) -> None:
    decoded = run("nvidia_smi", "host-nvidia-smi.log", line + "\n")
    assert pick(rows(decoded, "events"), *FAULT) == [("gpu.driver_error", "warning", pci, gpu, reason, 1)]
    assert rows(decoded, "events")[0]["stamp_us"] is None


def test_a_file_of_nothing_else() -> None:
    text = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error.\n"
    assert sniff("host-nvidia-smi.log", text.encode()) == "nvidia_smi"
    assert sniff("slurm-1.out", (text + "[rank0]: Traceback (most recent call last):\n").encode()) is None


def test_csv() -> None:
    text = """index, pci.bus_id, name, uuid, serial, ecc.errors.uncorrected.volatile.total
Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error
0, 00000000:01:00.0, NVIDIA GeForce RTX 3080, GPU-529b3263-c96d-b557-bc75-697f04917eda, [N/A], [N/A]
1, 00000000:02:00.0, NVIDIA H100 80GB HBM3, GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d, 1654422009324, 1
1, 00000000:02:00.0, NVIDIA H100 80GB HBM3, GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d, 1654422009324, 3
cut, off
"""
    assert (
        sniff("gpus.csv", text.replace("Unable", "0, 00000000:01:00.0, a, b, c, d\nUnable", 1).encode())
        == "nvidia_smi_csv"
    )
    decoded = run("nvidia_smi_csv", "gpus.csv", text)
    assert pick(rows(decoded, "gpus"), *GPU) == [
        (0, "0000:01:00.0", "GPU-529b3263-c96d-b557-bc75-697f04917eda", "NVIDIA GeForce RTX 3080", None, 3),
        (1, "0000:02:00.0", "GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d", "NVIDIA H100 80GB HBM3", "1654422009324", 5),
    ]
    assert pick(rows(decoded, "counters"), "dev", "counter", "value") == [
        ("0000:02:00.0", "ecc.errors.uncorrected.volatile.total", 3.0)
    ]
    assert pick(rows(decoded, "events"), "event", "gpu", "pci") == [("gpu.driver_error", 3, "0000:04:00.0")]
    assert decoded.notes == ["1 rows with too few or too many fields"]


@pytest.mark.parametrize("text", ["step,uuid\n1,2\n", "name, loss\nx, 3\n", "index, uuid\n", "uuid, a b, c\n1, 2, 3\n"])
def test_other_tables_are_not_ours(text: str) -> None:
    assert sniff("x.csv", text.encode()) != "nvidia_smi_csv"
