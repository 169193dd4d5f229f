"""Cause classes that no sample incident shows: the line that speaks for each, and the like of it that does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from postmortem.analysis.signs import load_rules
from postmortem.analysis.windows import job_times
from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
BEGIN = datetime(2026, 2, 3, 14, 0, 0)
XID = "[ 1000.000000] NVRM: Xid (PCI:0000:9d:00): {}\n"


def steps(count: int = 30) -> str:
    """A trainer's lines of ten-second steps, the last at BEGIN + 10 s * count."""
    return "".join(
        f"[{BEGIN + timedelta(seconds=10 * n):%Y-%m-%d %H:%M:%S}.000000] iteration {n:8}/    9000 | consumed samples: {n * 128:12} | elapsed time per iteration (ms): 10000.0 | global batch size:   128 | lm loss: 7.317421E+00 | grad norm: 0.790 |\n"
        for n in range(1, count + 1)
    )


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of 31.47 GiB of which 12.73 GiB is free.\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\n'


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        pytest.param({"node-3/kern.log": "2026-02-03T14:05:00.000000+00:00 node-3 kernel: EDAC MC1: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x2031c14 offset:0x940 grain:32)\n"}, "cpu_fault", id="memory of the host"),
        pytest.param({"train.log": steps(3) + TRACEBACK + OOM}, "gpu_oom", id="gpu memory full"),
        pytest.param({"train.log": steps(3), "slurm.out": "slurmstepd: error: *** JOB 1234 ON node-01 CANCELLED AT 2026-02-03T14:00:41 DUE TO PREEMPTION ***\n"}, "preempted", id="preempted"),
        pytest.param({"train.log": steps(3), "slurm.out": "slurmstepd: error: *** JOB 1234 ON node-01 CANCELLED AT 2026-02-03T14:00:41 DUE TO TIME LIMIT ***\n"}, "job_timeout", id="time limit"),
        pytest.param({"switches/leaf-1.log": "<187>leaf-1: 2026 Feb  3 14:05:00.123 UTC: %MODULE-2-MOD_SOMEPORTS_FAILED: Module 13 (Serial number: ABC12345678) reported failure on ports Eth13/17-20 (Ethernet) due to hardware not accessible in device DEV_CLP_FWD(device error 0xca804200)\n"}, "switch_failure", id="ASIC of a switch"),
        pytest.param({"node-3/kern.log": "2026-02-03T14:05:00.000000+00:00 node-3 kernel: mlx5_core 0000:9c:00.0: Port module event[error]: module 0, Cable error, Bus stuck(I2C or data shorted)\n"}, "optic_fault", id="a module's own error"),
        pytest.param({"node-3/sel.txt": "  1a | 02/03/2026 | 14:05:38 UTC | Power Unit #0x01 | AC lost | Asserted\n"}, "host_crash", id="power lost"),
        pytest.param({"train.log": TRACEBACK + "ImportError: /opt/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n"}, "version_mismatch", id="libraries of two builds"),
    ],
)  # fmt: skip
def test_the_line_that_speaks_for_it(analyse: Analyse, files: Mapping[str, str], cause: str) -> None:
    verdict = analyse(files).analysis.verdict
    assert verdict.cause == cause
    assert verdict.confidence >= 0.7


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        pytest.param({"node-3/kern.log": "2026-02-03T14:05:00.000000+00:00 node-3 kernel: EDAC MC1: 262 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x2031c14 offset:0x940 grain:32)\n"}, "cpu_fault", id="corrected errors"),
        pytest.param({"node-3/sel.txt": "  1a | 02/03/2026 | 14:05:38 UTC | Power Supply #0x51 | Power Supply AC lost | Asserted\n"}, "host_crash", id="one supply of several"),
        pytest.param({"node-3/kern.log": "2026-02-03T14:05:00.000000+00:00 node-3 kernel: mlx5_core 0000:9c:00.0: Port module event: module 0, Cable plugged\n"}, "optic_fault", id="a module put in"),
        pytest.param({"train.log": steps(3), "chronyd.log": "2026-02-03T14:00:00Z System clock wrong by 0.002 seconds\n"}, "clock_skew", id="a clock in good order"),
        pytest.param({"switches/leaf-1.log": "2020 Apr 29 00:25:20 leaf-1 %$ VDC-1 %$ %PLATFORM-2-PS_OK: Power supply 1 ok (Serial number ABC00000000)\n"}, "switch_failure", id="a supply that is well"),
    ],
)  # fmt: skip
def test_the_like_of_it_that_does_not(analyse: Analyse, files: Mapping[str, str], cause: str) -> None:
    found = analyse(files).analysis
    assert found.verdict.cause != cause or found.verdict.confidence < 0.4


def test_codes_of_the_same_gpu_in_two_processes_are_the_gpus(analyse: Analyse) -> None:
    """J1: again on the same unit within a day, other process: hardware. Once, the same process, or another GPU too: the program."""
    line = "2026-02-03T{}:00:00.000000+00:00 node-3 kernel: NVRM: Xid (PCI:0000:{}:00): 13, pid={}, name=python3, Graphics SM Warp Exception on (GPC 2, TPC 3, SM 1): Out Of Range Address\n"
    assert (
        analyse({"kern.log": line.format(14, "9d", 100) + line.format(15, "9d", 200)}).analysis.verdict.cause
        == "gpu_fault"
    )
    both = line.format(14, "9d", 100) + line.format(15, "9d", 100) + line.format(16, "9e", 300)
    assert analyse({"kern.log": both}).analysis.verdict.cause == "gpu_software"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("13, pid=7062, name=python3, Graphics SM Warp Exception on (GPC 2, TPC 3, SM 1): Out Of Range Address", "gpu_software"),
        ("95, pid=7062, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", "gpu_memory"),
        ("146, TLW_CTRL Fatal XC0 i0 Link 05 (0x00000004 0x00000004 0x00000000 0x00000000)", "nvlink_fault"),
        ("150, MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x0000000a 0x00000001 0x00000000 0x00000000)", "nvlink_fault"),
    ],
)  # fmt: skip
def test_codes_that_settle_the_matter(analyse: Analyse, text: str, cause: str) -> None:
    verdict = analyse({"dmesg.txt": XID.format(text)}).analysis.verdict
    assert (verdict.cause, verdict.culprit.pci) == (cause, "0000:9d:00.0")
    assert verdict.confidence >= 0.9


@pytest.mark.parametrize("text", ["146, TLW_RX/TLW_RX_PIPE0 Nonfatal XC0 i0 Link 00 (0x0000000a)", "148, NVLPW_CTRL Fatal XC0 i0 Link 00 (0x0000000a)", "137, RLW_RXPIPE interrupt hit on link 11 on GPU0: PRIV Error", "152, pid=1, text", "153, pid=1, text"])  # fmt: skip
def test_codes_that_kill_no_job(analyse: Analyse, text: str) -> None:
    assert analyse({"dmesg.txt": XID.format(text)}).analysis.verdict.confidence < 0.7


RAS = "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different operation counts\n  7 ranks have launched up to operation 15\n  1 ranks have launched up to operation 14\n  Rank 1 -- GPU 0 managed by process 60004 on node 10.4.109.13\n"
WATCHDOG = "[rank0]:[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"


def test_counts_that_differ_are_a_hang_only_where_something_waits(analyse: Analyse) -> None:
    """H5: of one snapshot different counts are ordinary; beside a watchdog that fired they are what it waited for."""
    assert analyse({"ras.txt": RAS}).analysis.verdict.cause == "unknown"
    stuck = analyse({"ras.txt": RAS, "train.log": WATCHDOG}).analysis.verdict
    assert stuck.cause == "collective_hang"
    assert stuck.confidence < 0.9


FRAME = '  File "/opt/lib/python3.9/site-packages/torch/serialization.py", line 309, in _open_zipfile_writer\n'
LOADING = '  File "/opt/lib/python3.9/site-packages/torch/nn/modules/module.py", line 1130, in _call_impl\n'


@pytest.mark.parametrize(("frame", "cause"), [(FRAME, "checkpoint_failure"), (LOADING, "software_exception")])
def test_an_exception_raised_while_saving(analyse: Analyse, frame: str, cause: str) -> None:
    text = steps(3) + TRACEBACK + frame + "RuntimeError: File out/checkpoint_0.pt cannot be opened.\n"
    assert analyse({"train.log": text}).analysis.verdict.cause == cause


PREPARES = (
    '  File "/opt/lib/python3.10/site-packages/transformers/training_args.py", line 2035, in main_process_first\n'
)
STORE = "RuntimeError: [6] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout\n"


@pytest.mark.parametrize(("frame", "cause"), [(PREPARES, "data_stall"), (LOADING, "network_config")])
def test_a_store_that_was_asked_while_one_rank_prepared_data(analyse: Analyse, frame: str, cause: str) -> None:
    assert analyse({"train.log": TRACEBACK + frame + STORE}).analysis.verdict.cause == cause


ENTRY = """train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-03-11_18:33:20
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 340055)
  error_file: /tmp/torchelastic/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/opt/train.py", line 16, in main
      dist.barrier()
  RuntimeError: {}
"""


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=1OpType=BARRIER), but Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=BARRIER).", "collective_mismatch"),
        ("The NVIDIA driver on your system is too old (found version 11040).", "version_mismatch"),
        ("expected scalar type Half but found Float", "unknown"),
    ],
)  # fmt: skip
def test_what_the_launchers_entry_quotes(analyse: Analyse, said: str, cause: str) -> None:
    assert analyse({"train.log": ENTRY.format(said)}).analysis.verdict.cause == cause


def batches(data_s: list[float], compute_s: float = 0.5) -> str:
    """Step lines with the time that each waited for data."""
    return "".join(
        f"Epoch: [1][{20 * n}/5005]\tTime {data + compute_s:.3f} (0.4)\tData {data:.3f} (0.2)\tLoss 1.2987 (1.2753)\n"
        for n, data in enumerate(data_s)
    )


@pytest.mark.parametrize(
    ("data_s", "cause"),
    [
        ([0.04] * 5 + [8.6, 8.8, 8.4], "data_stall"),
        ([12.0] + [0.04] * 7, "unknown"),
        ([0.6] * 8, "unknown"),
        ([0.04] * 7 + [0.4], "unknown"),
    ],
    ids=["waits", "the first step fills the loaders", "bound by its input all along", "a little longer"],
)
def test_steps_that_wait_for_data(analyse: Analyse, data_s: list[float], cause: str) -> None:
    assert analyse({"train.log": batches(data_s)}).analysis.verdict.cause == cause


@pytest.mark.parametrize(("why", "cause"), [("No route to host", "network_config"), ("Connection refused", "unknown")])
def test_connections_that_are_tried_again(analyse: Analyse, why: str, cause: str) -> None:
    """A refused connection comes before its other end is up; a missing route does not come up."""
    line = f"node-01:1183664:1184669 [0] NCCL INFO socketPollConnect: connect returned {why}, retrying (34/34) after sleep for 3400 msec\n"
    assert analyse({"nccl.log": line * 3}).analysis.verdict.cause == cause


@pytest.mark.parametrize(
    ("said", "is_sure"),
    [
        ("Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2827", True),
        ("Assertion failed: Invalid state in call [NV_ERR_INVALID_STATE] (0x00000040) returned from status @ kernel_channel.c:2827", False),
    ],
)  # fmt: skip
def test_a_gpu_that_demands_a_reset(analyse: Analyse, said: str, is_sure: bool) -> None:
    line = f"[373871.354096] NVRM: nvAssertOkFailedNoLog: {said}\n"
    found = analyse({"dmesg.txt": line}).analysis.verdict
    assert found.cause == "gpu_fault"
    assert (found.confidence >= 0.7) == is_sure


STUCK = "[rank2]:[F1019 01:14:03.356851194 ProcessGroupNCCL.cpp:1224] [PG 3 Rank 2] [PG 3 Rank 2] ProcessGroupNCCL's watchdog got stuck for {} seconds without making progress in monitoring enqueued collectives.\n"


@pytest.mark.parametrize(
    ("files", "heartbeat", "slurmd"),
    [
        ({"train.log": steps(3)}, 1000.0, 2400.0),
        ({"train.log": STUCK.format(1800), "slurm.conf": "SlurmdTimeout=900\n"}, 2200.0, 3000.0),
    ],
    ids=["by default", "as the job says"],
)
def test_windows_are_the_jobs_own(analyse: Analyse, files: Mapping[str, str], heartbeat: float, slurmd: float) -> None:
    rules = {r.name.split()[0]: r for r in load_rules(job_times(analyse(files).con))}
    assert (rules["F6"].hi_s, rules["F12"].hi_s) == (heartbeat, slurmd)
