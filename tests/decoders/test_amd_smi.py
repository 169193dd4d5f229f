"""rocm-smi and amd-smi: who is who."""

from __future__ import annotations

from decoder_samples import pick, rows, sniffed

from postmortem.decoders import sniff

ROCM = """======================= ROCm System Management Interface =======================
================================== PCI Bus ID ==================================
GPU[0]\t\t: PCI Bus: 0000:C1:00.0
GPU[1]\t\t: PCI Bus: 0000:C6:00.0
================================================================================
GPU[0]          : Card Series: AMD Instinct MI300X
GPU[0]          : Serial Number: 692424017146
GPU[0]          : Voltage (mV): 825
GPU[1]          : Serial Number: N/A
============================= End of ROCm SMI Log ==============================
"""
AMD = """AMDSMI Tool: 24.5.1+c5106a9 | AMDSMI Library version: 24.5.2.0 | ROCm version: 6.1.2
GPU: 0
    BDF: 0000:11:00.0
    UUID: d4ff74a1-0000-1000-80b1-dbb1e6a69543

GPU: 1
    BDF: 0000:2f:00.0
    UUID: ccff74a1-0000-1000-8097-03f9b4bc331b
"""
GPU = ("gpu", "pci", "model", "serial", "gpu_uuid", "line")


def test_rocm_smi() -> None:
    assert sniff("rocm-smi.txt", ROCM.encode()) == "rocm_smi"
    assert pick(rows(sniffed("rocm-smi.txt", ROCM, host="node-1"), "gpus"), "host", *GPU) == [
        ("node-1", 0, "0000:c1:00.0", "AMD Instinct MI300X", "692424017146", None, 3),
        ("node-1", 1, "0000:c6:00.0", None, None, None, 4),
    ]


def test_amd_smi() -> None:
    assert sniff("amd-smi.txt", AMD.encode()) == "amd_smi"
    assert pick(rows(sniffed("amd-smi.txt", AMD), "gpus"), *GPU) == [
        (0, "0000:11:00.0", None, None, "d4ff74a1-0000-1000-80b1-dbb1e6a69543", 2),
        (1, "0000:2f:00.0", None, None, "ccff74a1-0000-1000-8097-03f9b4bc331b", 6),
    ]


def test_logs_stay_logs() -> None:
    assert sniff("x.log", b"GPU[0]: Traceback (most recent call last)\n  File x\nGPU[1]: ok\n") is None
