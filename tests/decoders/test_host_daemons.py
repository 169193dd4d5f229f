"""What host daemons found, as tables: DCGM, the BMC's event log, rasdaemon, mcelog."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from decoder_samples import pick, rows, sniffed

from postmortem.decoders import sniff

# DCGM dcgmi/Health.cpp, tests/HealthTests.cpp; the sentences are those of dcgm_errors.h.
HEALTH = """+----------------------------+----------------------------------------------------------+
| Health Monitor Report                                                                 |
+============================+==========================================================+
| Overall Health             | Failure                                                  |
| GPU                        |                                                          |
| -> 0                       | Warning                                                  |
|    -> Errors               |                                                          |
|       -> PCIe system       | Warning                                                  |
|                            | Detected more than 8 PCIe replays per minute for GPU 0 : |
|                            | 13                                                       |
| -> 3                       | Failure                                                  |
|    -> Errors               |                                                          |
|       -> Memory system     | Failure                                                  |
|                            | GPU 3 had uncorrectable memory errors and row remapping  |
|                            | failed.                                                  |
|       -> NVLINK system     | Failure                                                  |
|                            | GPU 3's NvLink link 5 is currently down                  |
+----------------------------+----------------------------------------------------------+
"""
DIAG = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.3.5                                          |
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
| Persistence Mode          | Pass                                           |
|-----  Integration  -------+------------------------------------------------|
| PCIe                      | Skip - All                                     |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Fail - GPU: 2                                  |
| Warning                   | GPU 2 Found 12 faulty memory elements on GPU 2 |
| Diagnostic                | Pass - All                                     |
+---------------------------+------------------------------------------------+
"""
DIAG4 = """+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | Detected XID 79 for GPU 1                      |
+---------------------------+------------------------------------------------+
"""
SEL = """   1 | 06/03/2014 | 17:38:05 | Event Logging Disabled System Event Log | Log area reset/cleared | Asserted
   2 | 06/03/2014 | 17:38:05 | Power Supply #0x51 | Presence detected | Deasserted
 532 | 08/14/2023 | 11:25:37 | Power Supply #0x3c | Failure detected | Asserted
 2cc | 07/13/2023 | 12:00:26 | Temperature SSB Temp | Upper Critical going high  | Asserted | Reading 96 > Threshold 95 degrees C
 2cd | 07/13/2023 | 12:00:27 | Memory Mmry ECC Sensor | Uncorrectable ECC | Asserted
 2ce | 07/13/2023 | 12:00:28 | Critical Interrupt PCIe Cor Sensor |  | Asserted
 2cf | 07/13/2023 | 12:01:33 | System Event BIOS Evt Sensor | Timestamp Clock Sync | Asserted
 2d1 | 07/13/2023 | 12:01:52 | System Event BIOS Evt Sensor | OEM System boot event | Asserted
  89 | 08/31/2023 | 06:20:30 | Processor #0xc9 | IERR | Asserted
  8a | 08/31/2023 | 06:20:51 | System Firmware Progress #0x05 | Motherboard initialization | Asserted
  8b | 08/31/2023 | 06:21:15 | OEM record df | 040020 | 12616faaaaaa
   9 |  Pre-Init  |0000198492| Critical Interrupt #0xa1 | Bus Fatal Error (Bus fatal:B5d/D03/F02) | Asserted
 548 | 03/26/2025 | 14:11:40 | Drive Slot / Bay #0x44 | Drive Fault | Asserted
"""
RAS = """No Memory errors.

PCIe AER events:
1 2025-03-02 10:11:12 +0100 0000:81:00.0 Corrected error: Receiver Error
2 2025-03-02 10:11:13 +0100 0000:81:00.0 Uncorrected (Fatal) error: Surprise Link Down

No Extlog errors.

Devlink events:
1 2025-03-02 10:12:00 +0100 error: bus_name=pci, dev_name=0000:3b:00.0, driver_name=mlx5_core, reporter_name=fw_fatal, message='FW fatal error reported',

No disk errors.

MCE events:
1 2024-12-19 03:52:38 +0000 error: Corrected error, no action required., CPU 2, bank Unified Memory Controller (bank=17), mcg mcgstatus=0, mci CECC, memory_channel=0,csrow=1, mcgcap=0x0000011c, status=0x9c2040000000011b, addr=0x319deb440, misc=0xd01b0fff01000000, walltime=0x67639886, cpuid=0x00870f10, bank=0x00000011
2 2024-12-19 04:00:00 +0000 error: Internal parity error, CPU 2, mci Uncorrected_error, status=0xbd80000000100134, cpu=0x00000020

"""
MCELOG = """mcelog: failed to prefill DIMM database from DMI data
Hardware event. This is not a software error.
MCE 0
CPU 10 BANK 8 TSC 1ddbf37a52d71
MISC d03451de4819486 ADDR 1efa4c7cc40
TIME 1519356496 Fri Feb 23 03:28:16 2018
MCG status:
MCi status:
Error overflow
Uncorrected error
Error enabled
MCA: MEMORY CONTROLLER RD_CHANNEL2_ERR
Transaction: Memory read error
STATUS fc00010001010092 MCGSTATUS 0
MCGCAP 7000c16 APICID 20 SOCKETID 1
CPUID Vendor Intel Family 6 Model 85 Step 7
Hardware event. This is not a software error.
MCE 1
CPU 0 BANK 7
TIME 1519356500 Fri Feb 23 03:28:20 2018
MCG status:
MCi status:
Corrected error
MCA: MEMORY CONTROLLER RD_CHANNEL1_ERR
STATUS 8c00004000010091 MCGSTATUS 0
"""


def events(name: str, text: str) -> list[dict[str, Any]]:
    """Events of a file of node-01."""
    return rows(sniffed(name, text, host="node-01"), "events")


def test_dcgm_health_tells_failures_from_warnings() -> None:
    assert pick(events("dcgmi_health.txt", HEALTH), "event", "severity", "gpu", "line") == [
        ("pcie.link_degraded", "info", 0, 8),
        ("gpu.ras_error", "error", 3, 13),
        ("gpu.nvlink_error", "error", 3, 16),
    ]
    assert "row remapping failed." in events("x", HEALTH)[1]["message"]
    healthy = HEALTH.split("| GPU  ")[0].replace("Failure", "Healthy")
    assert events("x", healthy) == []


def test_dcgm_health_as_json() -> None:
    errors = {
        "children": {"Memory system": {"value": "Failure", "overflow": ["GPU 3 had uncorrectable memory errors"]}}
    }
    document = {
        "header": ["Health Monitor Report"],
        "body": {
            "Overall Health": {"value": "Failure"},
            "GPU": {"children": {"3": {"value": "Failure", "children": {"Errors": errors}}}},
        },
    }
    assert pick(events("health.json", json.dumps(document, indent=1)), "event", "severity", "gpu") == [
        ("gpu.ras_error", "error", 3)
    ]


def test_dcgm_diag_table_of_both_kinds() -> None:
    assert pick(events("diag.txt", DIAG), "event", "gpu", "code", "line") == [("gpu.ras_error", 2, "GPU Memory", 13)]
    assert pick(events("diag.txt", DIAG4), "event", "xid", "gpu", "code", "line") == [("gpu.xid", 79, 1, "memory", 10)]


@pytest.mark.parametrize(
    ("result", "root"),
    [
        ({"gpu_ids": "2", "status": "Fail", "warnings": ["Found 12 faulty memory elements on GPU 2"]}, "DCGM GPU Diagnostic"),
        ({"gpu_id": "2", "status": "FAIL", "warnings": [{"warning": "Found 12 faulty memory elements on GPU 2", "error_id": 41}]}, "DCGM GPU Diagnostic"),
        ({"entity_group": "GPU", "entity_id": 2, "status": "Fail", "warnings": [{"warning": "Found 12 faulty memory elements on GPU 2"}]}, "DCGM Diagnostic"),
    ],
)  # fmt: skip
def test_dcgm_diag_json_of_all_versions(result: dict[str, Any], root: str) -> None:
    tests = [
        {"name": "Denylist", "results": [{"gpu_ids": "0,2", "status": "Pass"}]},
        None,
        {"name": "GPU Memory", "results": [{"gpu_ids": "0", "status": "PASS"}, result]},
    ]
    text = json.dumps(
        {root: {"test_categories": [{"category": "Hardware", "tests": tests}], "version": "3.3.5"}}, indent=2
    )
    (event,) = events("diag.json", text)
    assert (event["event"], event["gpu"], event["severity"]) == ("gpu.ras_error", 2, "error")
    assert event["text"] == text.split("\n")[event["line"] - 1]
    assert '"status"' in event["text"]


def test_the_event_log_of_the_bmc() -> None:
    decoded = sniffed("sel.txt", SEL, host="node-01")
    assert pick(rows(decoded, "events"), "event", "severity", "line") == [
        ("host.power", "warning", 3),
        ("host.thermal_throttle", "warning", 4),
        ("host.edac", "fatal", 5),
        ("host.boot", "info", 8),
        ("host.mce", "fatal", 9),
        ("pcie.aer_fatal", "info", 12),
        ("host.disk_error", "error", 13),
    ]
    fatal = rows(decoded, "events")[5]
    assert (fatal["pci"], fatal["stamp_us"]) == ("0000:5d:03.2", None)
    when = rows(decoded, "events")[4]
    assert when["stamp_us"] == (datetime(2023, 8, 31, 6, 20, 30) - datetime(1970, 1, 1)).total_seconds() * 1e6
    assert when["stamp_zone_s"] is None


@pytest.mark.parametrize(
    ("line", "when", "zone"),
    [
        (
            "  35 | 12/08/2024 | 09:31:56 PM EST | Processor #0x01 | IERR | Asserted",
            datetime(2024, 12, 8, 21, 31, 56),
            -18000,
        ),
        ("   2 | 09/28/26 | 14:23:09 UTC | Processor #0x02 | IERR | Asserted", datetime(2026, 9, 28, 14, 23, 9), 0),
        ("   2 | 28/09/2026 | 14:23:09 | Processor #0x02 | IERR | Asserted", datetime(2026, 9, 28, 14, 23, 9), None),
        ("1a,10/03/2024,05:56:38,Processor #0xfa,IERR,Asserted", datetime(2024, 10, 3, 5, 56, 38), None),
        ("1   | Oct-03-2024 | 05:56:38 | CPU1 | Processor | IERR", datetime(2024, 10, 3, 5, 56, 38), None),
    ],
)
def test_times_of_the_bmc(line: str, when: datetime, zone: int | None) -> None:
    (event,) = events("sel.txt", line + "\n")
    assert (event["event"], event["stamp_zone_s"]) == ("host.mce", zone)
    assert event["stamp_us"] == (when - datetime(1970, 1, 1)).total_seconds() * 1e6


def test_verbose_records_and_redfish() -> None:
    verbose = (
        "SEL Record ID          : 0089\n Record Type           : 02\n Timestamp             : 03/20/2021 00:58:40\n Generator ID          : 0092\n"
        " Sensor Type           : Processor\n Sensor Number         : c9\n Event Direction       : Assertion Event\n Description           : IERR\n"
    )
    (event,) = events("sel-v.txt", verbose + verbose.replace("Assertion", "Deassertion"))
    assert (event["event"], event["line"]) == ("host.mce", 8)
    document = {
        "@odata.id": "/redfish/v1/Systems/1/LogServices/SEL/Entries",
        "@odata.type": "#LogEntryCollection.LogEntryCollection",
        "Members": [
            {
                "Created": "2026-02-03T12:00:00+01:00",
                "Severity": "Critical",
                "SensorType": "Memory",
                "Message": "Uncorrectable ECC error",
            },
            {"Created": "2026-02-03T12:00:01+01:00", "Severity": "OK", "Message": "Uncorrectable ECC error cleared"},
        ],
    }
    (event,) = events("sel.json", json.dumps(document, indent=1))
    assert (event["event"], event["stamp_zone_s"], event["line"]) == ("host.edac", 3600, 9)


def test_what_rasdaemon_recorded() -> None:
    found = events("ras-mc-ctl.txt", RAS)
    assert pick(found, "event", "severity", "pci", "line") == [
        ("pcie.aer_corrected", "info", "0000:81:00.0", 4),
        ("pcie.aer_fatal", "fatal", "0000:81:00.0", 5),
        ("nic.fw_error", "error", "0000:3b:00.0", 10),
        ("host.mce", "info", None, 15),
        ("host.mce", "error", None, 16),
    ]
    assert found[0]["stamp_zone_s"] == 3600
    memory = "Memory controller events:\n1 2024-01-02 03:04:05 +0000 1 Corrected error(s): memory read error at CPU_SrcID#0_MC#0_Chan#1_DIMM#0 location: 0:1:0:-1, addr 1, grain 32, syndrome 0\n\nNo PCIe AER errors.\n"
    assert pick(events("x", memory), "event", "severity", "dev") == [
        ("host.edac", "warning", "CPU_SrcID#0_MC#0_Chan#1_DIMM#0")
    ]


def test_summaries_are_counters() -> None:
    text = "Memory controller events summary:\n\tCorrected on DIMM Label(s): 'DIMM_A1' location: 0:0:0:-1 errors: 12\n\nNo PCIe AER errors.\n\nMCE records summary:\n\t1 Corrected error, no action required. errors\n"
    decoded = sniffed("x", text)
    assert pick(rows(decoded, "counters"), "dev", "counter", "value") == [
        ("DIMM_A1", "Corrected memory errors", 12.0),
        ("MCE", "MCE: Corrected error, no action required.", 1.0),
    ]
    assert rows(decoded, "events") == []


def test_machine_checks_of_mcelog() -> None:
    assert pick(events("var/log/mcelog", MCELOG), "severity", "value", "code", "line", "stamp_us") == [
        ("error", "8", "fc00010001010092", 14, 1519356496000000),
        ("info", "7", "8c00004000010091", 25, 1519356500000000),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Feb 23 03:28:16 node-01 mcelog: Hardware event. This is not a software error.\n" * 5,
        "Feb 23 03:28:16 node-01 rasdaemon: No Memory errors.\n" * 5,
        "| step | loss |\n| 1 | 2 |\n",
        "| Diagnostic results of the day\n",
        '{"Members": [], "Severity": "x"}',
        "1 | 2 | 3 | 4\n" * 5,
        "step 12 | 10/03/2024 | loss 3\n" * 5,
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert sniff("x.log", text.encode()) is None
