"""Logs of one machine or one scheduler that show no job: what of them belongs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
FAULT = "NVRM: Xid (PCI:0000:{}:00): {}, pid=1045242, name=pt_main_thread, Ch 00000008"
ECC = "NVRM: Xid (PCI:0000:08:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No"


@pytest.mark.parametrize(("day", "cause"), [("Wed Jul 31", "gpu_memory"), ("Fri Aug  9", "gpu_software")])
def test_a_fault_of_days_ago_is_of_another_run(analyse: Analyse, day: str, cause: str) -> None:
    """On the same day the first fault stands against the last one; nine days before it does not."""
    log = f"[{day} 13:30:18 2024] {FAULT.format('05', 31)}, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_8 faulted @ 0x73ac_1c000000.\n[Fri Aug  9 13:32:56 2024] {ECC}\n"
    verdict = analyse({"dmesg.txt": log}).analysis.verdict
    assert verdict.cause == cause
    assert verdict.confidence >= 0.9 or cause == "gpu_software"


def test_a_stuck_processor_serves_no_queue(analyse: Analyse) -> None:
    """The queue times out within the stall; lines without a host are of one machine all the same."""
    log = (
        "[Sun Dec 26 12:46:31 2021] i40e 0000:22:00.0 enp34s0f0: tx_timeout: VSI_seid: 390, Q 11, NTC: 0x32, HWB: 0x5e, NTU: 0x5e, TAIL: 0x5e, INT: 0x0\n"
        "[Sun Dec 26 12:46:31 2021] watchdog: BUG: soft lockup - CPU#20 stuck for 23s! [server:77999]\n"
    )
    both = analyse({"dmesg.txt": log}).analysis
    queue = analyse({"dmesg.txt": log.splitlines(keepends=True)[0]}).analysis
    assert queue.verdict.cause == "nic_fault"
    assert both.verdict.cause != "nic_fault"
    assert both.verdict.confidence < 0.7


@pytest.mark.parametrize(
    ("why", "cause"),
    [
        ("", "cancelled"),
        ("MOAB_INFO:  job exceeded wallclock limit\n", "job_timeout"),
        ("job preempted (node failure)\n", "host_crash"),
        ("job 3132467 exceeded MEM usage hard limit (2528 > 1126)\n", "host_oom"),
    ],
)
def test_moab_says_why_it_had_the_job_deleted(analyse: Analyse, why: str, cause: str) -> None:
    deleted = "PBS Job Id: 3132467.sched\njob deleted\nJob deleted at request of root@sched\n"
    assert analyse({"mail.txt": deleted + why}).analysis.verdict.cause == cause


@pytest.mark.parametrize(("other", "pci"), [("", "0000:0a:00.0"), ("0000:0b:00.0", None)])
def test_the_gpu_that_the_lines_around_name(analyse: Analyse, other: str, pci: str | None) -> None:
    """A ring's timeout names no address; the reset after it does, unless two GPUs are reset."""
    log = (
        "[ 2237.944235] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=16060, emitted seq=16062\n"
        "[ 2237.944732] amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!\n"
    )
    log += f"[ 2237.944733] amdgpu {other}: amdgpu: GPU reset begin!\n" if other else ""
    verdict = analyse({"dmesg.txt": log}).analysis.verdict
    assert (verdict.cause, verdict.culprit.pci) == ("gpu_fault", pci)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("jax.errors.JaxRuntimeError: UNKNOWN: TPU initialization failed: open(/dev/vfio/0): Device or resource busy", None),
        ("jax.errors.JaxRuntimeError: INVALID_ARGUMENT: Executable expected parameter 0 of size 4 but got 8", "software_exception"),
        ("ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node IP: 10.202.0.99", "host_crash"),
    ],
)  # fmt: skip
def test_what_a_runtime_raises_is_not_the_programs(analyse: Analyse, line: str, cause: str | None) -> None:
    """States of the runtime say that something else failed; a lost node is at most likely a crash."""
    verdict = analyse({"train.log": f"Traceback (most recent call last):\n{line}\n"}).analysis.verdict
    assert verdict.cause == (cause or "unknown")
    assert verdict.confidence < 0.7 or cause == "software_exception"
