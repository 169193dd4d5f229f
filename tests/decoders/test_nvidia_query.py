"""nvidia-smi -q as text and XML: who is who, counters, faults that are stated and those that are not."""

from __future__ import annotations

import pytest
from decoder_samples import pick, rows, run, sniffed

from postmortem.decoders import sniff

UUID = "GPU-51ae0086-e1ac-4a20-f062-9caa44e4df6d"

# Shortened: an A10 of driver 550 as a health monitor's tests keep it.
TEXT = f"""
==============NVSMI LOG==============

Timestamp                                 : Wed Jan 22 04:28:41 2025
Driver Version                            : 550.127.05
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:06:00.0
    Product Name                          : NVIDIA A10
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    Serial Number                         : 1324722021038
    GPU UUID                              : {UUID}
    GPU Reset Status
        Reset Required                    : No
        Drain and Reset Recommended       : No
    PCI
        Bus                               : 0x06
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 16x
        Replays Since Reset               : 0
        Replay Number Rollovers           : 0
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 2
            SRAM Threshold Exceeded       : No
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
            High                          : 1 bank(s)
    Fabric
        State                             : N/A
        Status                            : N/A
    Processes                             : None
"""
XML = f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>Wed Jan 22 04:28:41 2025</timestamp>
\t<gpu id="00000000:06:00.0">
\t\t<product_name>NVIDIA A10</product_name>
\t\t<serial>1324722021038</serial>
\t\t<uuid>{UUID}</uuid>
\t\t<gpu_recovery_action>None</gpu_recovery_action>
\t\t<pci>
\t\t\t<pci_gpu_link_info>
\t\t\t\t<link_widths>
\t\t\t\t\t<max_link_width>16x</max_link_width>
\t\t\t\t\t<current_link_width>16x</current_link_width>
\t\t\t\t</link_widths>
\t\t\t</pci_gpu_link_info>
\t\t\t<replay_counter>0</replay_counter>
\t\t</pci>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
\t\t</clocks_event_reasons>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
\t\t\t\t<dram_uncorrectable>0</dram_uncorrectable>
\t\t\t</volatile>
\t\t\t<aggregate>
\t\t\t\t<dram_uncorrectable>2</dram_uncorrectable>
\t\t\t</aggregate>
\t\t</ecc_errors>
\t\t<retired_pages>
\t\t\t<pending_blacklist>No</pending_blacklist>
\t\t</retired_pages>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>1</remapped_row_corr>
\t\t\t<remapped_row_unc>0</remapped_row_unc>
\t\t\t<remapped_row_pending>No</remapped_row_pending>
\t\t\t<remapped_row_failure>No</remapped_row_failure>
\t\t</remapped_rows>
\t\t<fabric>
\t\t\t<state>Completed</state>
\t\t\t<status>Success</status>
\t\t</fabric>
\t\t<supported_clocks>
\t\t\t....More of these <supported_graphics_clock> tags
\t\t</supported_clocks>
\t</gpu>
</nvidia_smi_log>
"""
FAULT = ("event", "severity", "pci", "reason", "value")


def test_a_sound_gpu() -> None:
    assert sniff("nvidia-smi-q.txt", TEXT.encode()) == "nvidia_smi_query"
    decoded = sniffed("x", TEXT, host="node-07")
    assert pick(rows(decoded, "gpus"), "host", "pci", "model", "gpu_uuid", "serial", "line") == [
        ("node-07", "0000:06:00.0", "NVIDIA A10", UUID, "1324722021038", 9)
    ]
    assert rows(decoded, "events") == []
    counted = {row["counter"]: row["value"] for row in rows(decoded, "counters")}
    assert counted == {
        "pci/replays since reset": 0,
        "pci/replay number rollovers": 0,
        "ecc errors/volatile/sram correctable": 0,
        "ecc errors/volatile/sram uncorrectable parity": 0,
        "ecc errors/volatile/sram uncorrectable sec-ded": 0,
        "ecc errors/volatile/dram correctable": 0,
        "ecc errors/volatile/dram uncorrectable": 0,
        "ecc errors/aggregate/dram correctable": 177,
        "ecc errors/aggregate/dram uncorrectable": 2,
        "remapped rows/correctable error": 1,
        "remapped rows/uncorrectable error": 0,
    }
    assert {row["dev"] for row in rows(decoded, "counters")} == {"0000:06:00.0"}
    assert decoded.notes == []


@pytest.mark.parametrize(
    ("sound", "faulty", "expected"),
    [
        ("Pending                           : No\n        Rem", "Pending                           : Yes\n        Rem", ("gpu.ras_error", "row remapping pending", "Yes")),
        ("Occurred        : No", "Occurred        : Yes", ("gpu.ras_error", "row remapping failed", "Yes")),
        ("Blacklist            : N/A", "Blacklist            : Yes", ("gpu.ras_error", "page retirement pending", "Yes")),
        ("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 3", ("gpu.ras_error", "uncorrectable ECC errors", "3")),
        ("SEC-DED    : 0", "SEC-DED    : 1", ("gpu.ras_error", "uncorrectable ECC errors", "1")),
        ("Exceeded       : No", "Exceeded       : Yes", ("gpu.ras_error", "SRAM threshold exceeded", "Yes")),
        ("Reset Required                    : No", "Reset Required                    : Yes", ("gpu.driver_error", "reset required", "Yes")),
        ("    PCI\n", "    GPU Recovery Action                   : Drain and Reset\n    PCI\n", ("gpu.driver_error", "recovery action", "Drain and Reset")),
        ("Current                   : 16x", "Current                   : 8x", ("pcie.link_degraded", "8 of 16 lanes", "8x")),
        ("HW Thermal Slowdown           : Not Active", "HW Thermal Slowdown           : Active", ("gpu.thermal", "HW thermal slowdown", "Active")),
        ("State                             : N/A", "State                             : In Progress", ("gpu.fabric_error", "fabric state", "In Progress")),
    ],
)  # fmt: skip
def test_faults_that_are_stated(sound: str, faulty: str, expected: tuple[str, str, str]) -> None:
    assert sound in TEXT
    decoded = sniffed("x", TEXT.replace(sound, faulty, 1))
    assert pick(rows(decoded, "events"), *FAULT) == [(expected[0], "warning", "0000:06:00.0", *expected[1:])]
    event = rows(decoded, "events")[0]
    assert event["text"] == TEXT.replace(sound, faulty, 1).split("\n")[event["line"] - 1]
    assert event["stamp_us"] is None
    assert event["recovery_action"] == ("Drain and Reset" if expected[1] == "recovery action" else None)


def test_xml() -> None:
    assert sniff("nvidia-smi.xml", XML.encode()) == "nvidia_smi_xml"
    decoded = sniffed("x", XML)
    assert pick(rows(decoded, "gpus"), "pci", "model", "gpu_uuid", "serial", "line") == [
        ("0000:06:00.0", "NVIDIA A10", UUID, "1324722021038", 5)
    ]
    assert rows(decoded, "events") == []
    counted = {row["counter"]: row["value"] for row in rows(decoded, "counters")}
    assert counted["ecc errors/aggregate/dram uncorrectable"] == 2
    assert counted["remapped rows/correctable error"] == 1
    assert counted["pci/replays since reset"] == 0


@pytest.mark.parametrize(
    ("sound", "faulty", "expected"),
    [
        ("<remapped_row_pending>No", "<remapped_row_pending>Yes", ("gpu.ras_error", "row remapping pending")),
        ("<remapped_row_failure>No", "<remapped_row_failure>Yes", ("gpu.ras_error", "row remapping failed")),
        ("<gpu_recovery_action>None", "<gpu_recovery_action>Reset", ("gpu.driver_error", "recovery action")),
        ("<sram_uncorrectable_secded>0", "<sram_uncorrectable_secded>4", ("gpu.ras_error", "uncorrectable ECC errors")),
        ("<current_link_width>16x", "<current_link_width>4x", ("pcie.link_degraded", "4 of 16 lanes")),
        ("<state>Completed", "<state>In Progress", ("gpu.fabric_error", "fabric state")),
        ("<pending_blacklist>No", "<pending_blacklist>Yes", ("gpu.ras_error", "page retirement pending")),
        ("thermal_slowdown>Not Active", "thermal_slowdown>Active", ("gpu.thermal", "HW thermal slowdown")),
    ],
)
def test_faults_that_xml_states(sound: str, faulty: str, expected: tuple[str, str]) -> None:
    assert sound in XML
    decoded = sniffed("x", XML.replace(sound, faulty, 1))
    assert pick(rows(decoded, "events"), "event", "reason") == [expected]


def test_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n'
    text = XML.replace('<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n', bomb).replace("NVIDIA A10", "&b;")
    assert sniff("x.xml", text.encode()) is None
    decoded = run("nvidia_smi_xml", "x.xml", text)
    assert pick(rows(decoded, "gpus"), "model") == [("&b;",)]


def test_a_gpu_that_is_lost_between_others() -> None:
    text = TEXT.replace(
        "GPU 00000000:06:00.0\n",
        "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\nGPU 00000000:06:00.0\n",
    )
    decoded = sniffed("x", text)
    assert pick(rows(decoded, "events"), "event", "pci") == [("gpu.driver_error", "0000:0b:00.0")]
    assert len(rows(decoded, "gpus")) == 1
