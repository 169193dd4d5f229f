"""Spelling of addresses, and what an output of several hosts is taken apart by."""

from __future__ import annotations

import random
import re
import time

import pytest
import test_amd_smi
import test_gpu_topology
import test_host_names
import test_interface_descriptions
import test_ip_link
import test_lldp_details
import test_nvidia_query
import test_nvidia_smi
import test_pci_list
import test_rdma
import test_verbs_devices
from decoder_samples import Member, run
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import DECODERS, sniff
from postmortem.decoders.base import Head, Hints
from postmortem.decoders.hosts.inventory import (
    MAX_ROWS,
    Output,
    guid,
    hardware_address,
    host_address,
    looks_like,
    pci_address,
    read,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0004:01:00.1", "0004:01:00.1"),
        ("37:00.0", "0000:37:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("N/A", None),
        ("pciconf0", None),
        ("12:34:56", "0012:34:56.0"),
        ("1:2:3.0", None),
    ],
)
def test_pci_addresses(text: str, expected: str | None) -> None:
    assert pci_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7/24", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("0000:0000:0000:0000:0000:ffff:0a00:0107", "10.0.1.7"),
        ("fe80::20c:29ff:fe56:71b%ens32", "fe80::20c:29ff:fe56:71b"),
        ("2001:DB8::1", "2001:db8::1"),
        ("127.0.0.1", None),
        ("::1", None),
        ("169.254.3.1", None),
        ("fe80::1", None),
        ("224.0.0.1", None),
        ("0.0.0.0", None),
        ("10.0.0", None),
        ("", None),
    ],
)
def test_addresses_that_name_a_machine(text: str, expected: str | None) -> None:
    assert host_address(text) == expected


def test_hardware_addresses() -> None:
    assert hardware_address("00:0C:29:56:07:1B") == {"mac": "00:0c:29:56:07:1b"}
    assert hardware_address(":".join(["00"] * 12 + ["b8", "59", "9f", "03", "00", "6f", "00", "01"])) == {
        "guid": "0xb8599f03006f0001"
    }
    assert hardware_address("00:00:00:00:00:00") == {}
    assert hardware_address("not:an:address:at:all:no") == {}
    assert guid("0000:0000:0000:0000") is None
    assert guid("7cfe:9003:0029:6d8e") == guid("0x7CFE900300296D8E") == "0x7cfe900300296d8e"


class Numbers(Output):
    """A format of our own: lines `n <number>`."""

    command = re.compile(r"\bnumbers\b")

    def on_line(self, number: int, line: str) -> bool:
        found = re.fullmatch(r"n ([0-9]+)", line)
        if found:
            self.sheet.add("gpus", number, gpu=int(found[1]))
        return found is not None


def head(text: str) -> Head:
    return Head("x", text.encode(), text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n 1\nn 2\n", True),
        ("", False),
        ("n 1\nsomething else\n", False),
        ("root@node-1:~# numbers\nn 1\nMon Nov 30 09:05:17 UTC 2026\n\n-----\n", True),
        ("root@node-1:~# other\nn 1\n", False),
        ("[rank0]: Traceback\n" * 3 + "n 1\n", False),
    ],
)
def test_recognising_by_reading(text: str, expected: bool) -> None:
    assert looks_like(head(text), Numbers) == expected


def test_lines_led_by_their_host() -> None:
    decoded = read(Member("x", b"node-1: n 1\nnode-2: n 5\nnode-1: n 2\nnode-2: n 6\n"), Hints("other"), Numbers)
    assert decoded.tables["gpus"].select("host", "gpu", "line").rows() == [
        ("node-1", 1, 1), ("node-1", 2, 3), ("node-2", 5, 2), ("node-2", 6, 4),
    ]  # fmt: skip


def test_rows_are_bounded() -> None:
    decoded = read(Member("x", b"n 1\n" * (MAX_ROWS + 3)), Hints(), Numbers)
    assert decoded.tables["gpus"].height == MAX_ROWS
    assert decoded.notes == [f"3 rows beyond the first {MAX_ROWS} of a table were left out"]


def test_what_is_not_of_the_output_is_noted() -> None:
    decoded = read(Member("x", b"n 1\nelse\n\nn 2\n"), Hints("node-9"), Numbers)
    assert decoded.tables["gpus"].select("host", "gpu").rows() == [("node-9", 1), ("node-9", 2)]
    assert decoded.notes == ["1 lines that are not of this output"]


SAMPLES = {
    "ibdev2netdev": test_rdma.VERBOSE,
    "rdma_link": test_rdma.LINK,
    "show_gids": test_rdma.GIDS,
    "mst_status": test_rdma.MST,
    "ibstat": test_verbs_devices.IBSTAT,
    "ibstatus": test_verbs_devices.IBSTATUS,
    "ibv_devinfo": test_verbs_devices.DEVINFO,
    "ip_address": test_ip_link.IP,
    "ifconfig": test_ip_link.OLD,
    "nvidia_smi": test_nvidia_smi.TABLE,
    "nvidia_smi_query": test_nvidia_query.TEXT,
    "nvidia_smi_xml": test_nvidia_query.XML,
    "nvidia_smi_topo": test_gpu_topology.TEXT,
    "rocm_smi": test_amd_smi.ROCM,
    "amd_smi": test_amd_smi.AMD,
    "lspci": test_pci_list.SHORT,
    "etc_hosts": test_host_names.HOSTS,
    "interface_descriptions": test_interface_descriptions.EOS,
    "switch_configuration": test_interface_descriptions.CONFIGURATION,
    "lldp_lldpcli": test_lldp_details.SONIC,
    "lldp_keyvalue": test_lldp_details.PAIRS,
    "lldp_detail": test_lldp_details.XR,
}


@pytest.mark.parametrize("decoder", SAMPLES)
def test_each_output_is_of_one_format_alone(decoder: str) -> None:
    seen = head(SAMPLES[decoder])
    assert [f.name for f in DECODERS.values() if f.looks(seen)] == [decoder]


@pytest.mark.parametrize("decoder", SAMPLES)
@settings(max_examples=40, deadline=None)
@given(number=st.integers(0, 2**32))
def test_damaged_outputs_are_read_without_an_exception(decoder: str, number: int) -> None:
    chance = random.Random(number)
    raw = bytearray(SAMPLES[decoder].encode())
    for _ in range(chance.randrange(1, 8)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    content = bytes(raw[chance.randrange(len(raw)) :] if number % 2 else raw[: chance.randrange(len(raw))])
    sniff("leaf-1-x", content)
    run(decoder, "leaf-1-lldp", content, host="node-1")


@pytest.mark.parametrize("decoder", SAMPLES)
@pytest.mark.parametrize("piece", [" ", "a ", "0:", "a_1 ", "-", "00:0c:", "1.", "| ", "<a>", "=", "ffff:", "x\t"])
def test_long_lines_take_no_long_time(decoder: str, piece: str) -> None:
    """Patterns that go back and forth over a line would take minutes here."""
    first = SAMPLES[decoder].split("\n")
    text = "\n".join(f"{line}{piece * 4000}!" for line in first[:12]) + "\n" + f"{piece * 4000}!\n" * 20
    begin = time.perf_counter()
    run(decoder, "leaf-1-lldp", text, host="node-1")
    sniff("x", text.encode())
    assert time.perf_counter() - begin < 5
