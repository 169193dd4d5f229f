"""Cause classes and ambiguous codes: what a line alone settles, what it leaves open, and what it must not be taken for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from postmortem.analysis.confidence import confidence, standing
from postmortem.analysis.model import Analysis
from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
BEGIN = datetime(2026, 2, 3, 14, 0, 0)
OPEN = 0.7
"""Below this an answer is a possibility."""


def alone(analyse: Analyse, text: str, name: str = "train.log") -> Analysis:
    """The analysis of one file of undated lines."""
    return analyse({name: text}).analysis


@pytest.mark.parametrize(
    ("xid", "text", "cause"),
    [
        (31, "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f21_c4000000.", "gpu_software"),
        (74, "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", "nvlink_fault"),
        (79, "GPU has fallen off the bus.", "pcie_drop"),
        (94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", "gpu_memory"),
        (119, "Timeout waiting for RPC from GSP0! Expected function 76 (GSP_RM_CONTROL) (0x20802a02 0x8).", "gpu_fault"),
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)", "nvlink_fault"),
    ],
)  # fmt: skip
def test_a_code_that_settles_the_matter(analyse: Analyse, xid: int, text: str, cause: str) -> None:
    line = f"[ 1000.000000] NVRM: Xid (PCI:0000:9d:00): {xid}, pid=7062, name=python3, {text}\n"
    verdict = alone(analyse, line, "dmesg.txt").verdict
    assert (verdict.cause, verdict.culprit.pci) == (cause, "0000:9d:00.0")
    assert verdict.confidence >= 0.9


@pytest.mark.parametrize(
    ("xid", "text"),
    [
        (43, "Ch 00000010"),
        (45, "Ch 00000010"),
        (63, "Row Remapper: New row marked for remapping, reset gpu to activate."),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)"),
        (147, "TREX Nonfatal XC0 i0 Link 00 (0x0000000e 0x00000001 0x00000000 0x00000000)"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    ],
)
def test_a_code_that_leaves_it_open(analyse: Analyse, xid: int, text: str) -> None:
    line = f"[ 1000.000000] NVRM: Xid (PCI:0000:9d:00): {xid}, pid=7062, name=python3, {text}\n"
    assert alone(analyse, line, "dmesg.txt").verdict.confidence < OPEN


@pytest.mark.parametrize(("status", "possible"), [(4, "network_config"), (5, None), (10, None), (12, "network_config")])
def test_a_work_completion_alone(analyse: Analyse, status: int, possible: str | None) -> None:
    """J5: local protection and retries exceeded are possibilities, flushed and remote access name nothing."""
    line = f"worker-1:946:988 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error {status}, opcode 1, len 0, vendor err 129\n"
    found = alone(analyse, line)
    assert found.verdict.confidence < OPEN
    assert [f.cause for f in found.findings] == ([possible] if possible else [])


@pytest.mark.parametrize(("code", "cause"), [(-9, "unknown"), (-15, "unknown"), (1, "unknown"), (-7, "resource_limit")])
def test_an_exit_code_alone(analyse: Analyse, code: int, cause: str) -> None:
    """A bare kill has no cause until a record of the kernel's confirms one (A6); a bus error is memory that can't be had."""
    line = f"E0203 14:05:01.302000 99 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 1 (pid: 101) of binary: /opt/python3\n"
    assert alone(analyse, line).verdict.cause == cause


def steps(times_s: list[float]) -> str:
    """The trainer's lines of steps that took so long."""
    out, at = "", 0.0
    for number, took in enumerate(times_s, start=1):
        at += took
        stamp = (BEGIN + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S.%f")
        out += f"[{stamp}] iteration {number:8}/    9000 | consumed samples: {number * 128:12} | elapsed time per iteration (ms): {took * 1000:.1f} | global batch size:   128 | lm loss: 7.317421E+00 | grad norm: 0.790 |\n"
    return out


STORM = "".join(
    f"2026 Feb  3 14:{minute:02}:05.270 leaf-01 %TAHUSD-SLOT1-4-BUFFER_THRESHOLD_EXCEEDED: Module 1 Instance 1 Pool-group buffer 90 percent threshold is exceeded!\n"
    for minute in range(5, 15)
)
CANCEL = "slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-02-03T14:15:00 ***\n"


@pytest.mark.parametrize(("after_s", "cause"), [(25.0, "congestion"), (10.0, "cancelled")])
def test_slow_and_then_cancelled(analyse: Analyse, after_s: float, cause: str) -> None:
    """A6: a job that congestion slowed down died of it; one that went on at its pace was simply cancelled."""
    text = steps([10.0] * 30 + [after_s] * int(590 / after_s))
    found = analyse({"node-1.log": text, "slurm-7.out": CANCEL, "switches/leaf-01.log": STORM}).analysis
    assert (found.job.outcome, found.verdict.cause) == ("cancelled", cause)


END = "Training completed. Do not forget to share your model on huggingface.co/models =)\n"


def test_an_end_that_more_follows_is_no_end(analyse: Analyse) -> None:
    done = steps([10.0] * 5) + END
    assert alone(analyse, done).verdict.cause == "none"
    lost = "slurmstepd: error: NVML: Failed to get usage(15): GPU is lost\n"
    assert alone(analyse, done + lost).verdict.cause == "pcie_drop"
    assert alone(analyse, done + CANCEL).verdict.cause == "cancelled"


def run(first: int, total: int, losses: list[float]) -> str:
    """Step lines of one run, its steps one after another."""
    return "".join(
        f" iteration {first + n:8}/{total:8} | consumed samples:       488048 | elapsed time per iteration (ms): 61947.6 | learning rate: 6.000E-05 | global batch size:   176 | lm loss: {loss:E} | loss scale: 65536.0 | grad norm: {90.0 if loss > 6 else 0.8} |\n"
        for n, loss in enumerate(losses)
    )


def test_losses_of_another_run_are_no_yardstick(analyse: Analyse) -> None:
    before = run(1, 1000, [8.0, 7.9, 7.9, 7.8, 7.8])
    assert alone(analyse, before + run(8738, 159576, [3.3, 3.4, 3.3, 3.4, 7.2, 7.3, 7.6])).verdict.cause == "numeric"
    assert alone(analyse, run(1, 1000, [3.3] * 5) + run(8738, 159576, [7.3] * 6)).verdict.cause != "numeric"


def test_a_rival_and_a_weak_sign_make_less_sure() -> None:
    clear = confidence(standing(0.9, 0.9, 0.0, 0.0, is_hang=False))
    assert clear >= 0.9
    assert confidence(standing(0.9, 0.9, 0.85, 0.0, is_hang=False)) < clear
    assert confidence(standing(0.95, 0.5, 0.0, 0.0, is_hang=False)) < OPEN
    assert confidence(standing(0.9, 0.5, 0.0, 1.0, is_hang=False)) >= 0.9
    assert confidence(standing(0.2, 0.9, 0.0, 0.0, is_hang=False)) < 0.4


ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of 31.47 GiB of which 12.73 GiB is free.\n"


@pytest.mark.parametrize(("below", "cause"), [(40, "gpu_oom"), (0, "gpu_memory")])
def test_what_stands_above_many_steps_was_survived(analyse: Analyse, below: int, cause: str) -> None:
    """A4 without times: the order of the lines of one file says that the job went on."""
    text = run(1, 9000, [7.3] * 20) + ECC + run(21, 9000, [7.3] * below) + (FULL if below else "")
    assert alone(analyse, text).verdict.cause == cause
