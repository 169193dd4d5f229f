"""What is said of bundles of a few lines: who is blamed, who is not, and when nothing is established."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import pytest

from postmortem.analysis.model import Analysis
from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
BEGIN = datetime(2026, 2, 3, 14, 0, 0)
FAULT = 300.0
HOSTS = ("node-1", "node-2")


def stamp(second: float, form: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    return (BEGIN + timedelta(seconds=second)).strftime(form)


def kernel(host: str, second: float, text: str, clock: float = 0.0) -> str:
    """A line of a kernel log whose clock is `clock` seconds ahead."""
    return f"{stamp(second + clock, '%Y-%m-%dT%H:%M:%S.%f')}+00:00 {host} kernel: [{1000 + second:.6f}] {text}\n"


def job(host: str, end: Iterable[tuple[float, str]], last_step: float = FAULT - 1, clock: float = 0.0) -> str:
    """The output of a host's two ranks: start, a step every ten seconds, then lines of (second, text)."""
    first = 2 * HOSTS.index(host)
    lines = []
    for local in (0, 1):
        comm = f"ncclCommInitRank comm 0x55d0 rank {first + local} nranks 4 cudaDev {local} nvmlDev {local} busId {9 + local}d000"
        lines.append(
            (0.0, f"{host}:{100 + local}:{200 + local} [{local}] NCCL INFO {comm} commId 0x5f1d - Init COMPLETE")
        )
    for number in range(int(last_step) // 10 + 1):
        step = f"iteration {number + 1:8}/    9000 | consumed samples: {number * 128:12} | elapsed time per iteration (ms): 10000.0"
        lines.append((10.0 * number, f"{step} | global batch size:   128 | lm loss: 7.317421E+00 | grad norm: 0.790 |"))
    return "".join(f"[{stamp(s + clock)}] {text}\n" for s, text in [*lines, *end])


def broken_pair(host: str, second: float) -> tuple[float, str]:
    """A queue pair whose retries are exceeded."""
    local = "transport/net_ib.cc:1695 NCCL WARN NET/IB : Got completion from peer 10.40.2.12<58626>"
    return second, f"{host}:100:300 [0] {local} with status=12 opcode=0 len=0 vendor err 129 (Send)"


def crash(second: float) -> list[tuple[float, str]]:
    return [
        (
            second,
            "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error",
        )
    ]


DOWN, UP = "mlx5_core 0000:bc:00.0 enp188s0np0: Link down", "mlx5_core 0000:bc:00.0 enp188s0np0: Link up"
XID79 = "NVRM: Xid (PCI:0000:9d:00): 79, pid=100, GPU has fallen off the bus."
KILLED = "Memory cgroup out of memory: Killed process 101 (python3) total-vm:2002280kB, anon-rss:1326132kB, file-rss:97748kB, shmem-rss:0kB, UID:0 pgtables:3128kB oom_score_adj:0"
RETRIED = [broken_pair("node-1", FAULT + 30), *crash(FAULT + 32)]
DIED = [
    (
        FAULT + 3,
        "[rank0]: RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId: Connection reset by peer",
    )
]


def analysis(analyse: Analyse, files: Mapping[str, str]) -> Analysis:
    return analyse(files).analysis


def test_a_link_goes_down_and_retries_run_out(analyse: Analyse) -> None:
    found = analysis(
        analyse,
        {
            "node-1.log": job("node-1", RETRIED),
            "node-2.log": job("node-2", []),
            "node-1/kern.log": kernel("node-1", FAULT, DOWN),
            "node-2/kern.log": kernel("node-2", 5, "perf: interrupt took too long"),
        },
    )
    assert (found.verdict.cause, found.verdict.culprit.host, found.verdict.culprit.ifname) == (
        "link_flap",
        "node-1",
        "enp188s0np0",
    )
    assert found.verdict.confidence >= 0.7
    assert found.verdict.onset == BEGIN + timedelta(seconds=FAULT)
    assert found.job.outcome == "crashed"
    roles = {(e.file, e.role) for e in found.findings[0].evidence}
    assert ("node-1/kern.log", "cause") in roles
    assert any(file == "node-1.log" and role in {"link", "effect"} for file, role in roles)


def test_a_flap_that_the_job_outlived_is_not_blamed(analyse: Analyse) -> None:
    found = analysis(
        analyse,
        {
            "node-1.log": job(
                "node-1", [(FAULT, "[rank0]: ValueError: cannot reshape array of size 3 into shape (2,)")]
            ),
            "node-2.log": job("node-2", []),
            "node-2/kern.log": kernel("node-2", 50, DOWN) + kernel("node-2", 51, UP),
        },
    )
    assert found.verdict.cause == "software_exception"
    assert [(s.event, s.host) for s in found.survived if s.event == "link.down"] == [("link.down", "node-2")]


def test_only_a_flap_long_ago_establishes_nothing(analyse: Analyse) -> None:
    found = analysis(
        analyse,
        {
            "node-1.log": job("node-1", []),
            "node-2.log": job("node-2", []),
            "node-2/kern.log": kernel("node-2", 50, DOWN) + kernel("node-2", 51, UP),
        },
    )
    assert found.verdict.cause in {"unknown", "none"}
    assert found.verdict.word in {"not established"} or found.verdict.cause == "none"


def test_a_gpu_lost_on_a_host_of_the_job(analyse: Analyse) -> None:
    found = analysis(
        analyse,
        {
            "node-1.log": job("node-1", DIED),
            "node-2.log": job("node-2", []),
            "node-2/kern.log": kernel("node-2", FAULT, XID79),
        },
    )
    culprit = found.verdict.culprit
    assert (found.verdict.cause, culprit.host, culprit.pci) == ("pcie_drop", "node-2", "0000:9d:00.0")
    assert culprit.rank == 2


def test_a_gpu_lost_on_another_host_is_not_blamed(analyse: Analyse) -> None:
    files = {
        "node-1.log": job("node-1", DIED),
        "node-2.log": job("node-2", []),
        # The same slot, as in any two servers of a kind, but a process that is none of the job's.
        "node-9/kern.log": kernel("node-9", FAULT, XID79.replace("pid=100", "pid=4711")),
        # That the job's nodes have kernel logs of their own says that its names are names of machines.
        "node-1/kern.log": kernel(
            "node-1", -900, "Linux version 6.8.0-45-generic (buildd@x) (gcc 13.2.0) #45-Ubuntu SMP"
        ),
    }
    found = analysis(analyse, files)
    assert found.verdict.culprit.host != "node-9"
    assert found.verdict.cause != "pcie_drop"


def test_the_kernel_kills_a_rank(analyse: Analyse) -> None:
    end = [
        (
            FAULT + 1,
            "E0203 14:05:01.302000 99 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 101) of binary: /opt/python3",
        )
    ]
    found = analysis(
        analyse,
        {
            "node-1.log": job("node-1", end),
            "node-2.log": job("node-2", []),
            "node-1/kern.log": kernel("node-1", FAULT, KILLED),
        },
    )
    culprit = found.verdict.culprit
    assert (found.verdict.cause, culprit.host, culprit.pid, culprit.rank) == ("host_oom", "node-1", 101, 1)
    assert found.verdict.confidence >= 0.9


SACCT = "JobID|State|ExitCode|NodeList|Start|End|AllocTRES\n7|{state}|{code}|node-[1-2]|2026-02-03T14:00:00|2026-02-03T14:05:10|gres/gpu=4,node=2\n"


def test_a_cancelled_job(analyse: Analyse) -> None:
    end = [(FAULT, "slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-02-03T14:05:00 ***")]
    files = {"node-1.log": job("node-1", end), "node-2.log": job("node-2", [])}
    found = analysis(analyse, {**files, "sacct.txt": SACCT.format(state="CANCELLED by 1000", code="0:15")})
    assert (found.job.outcome, found.verdict.cause, found.verdict.culprit.host) == ("cancelled", "cancelled", None)


def test_a_completed_job(analyse: Analyse) -> None:
    files = {"node-1.log": job("node-1", []), "node-2.log": job("node-2", [])}
    kern = kernel("node-1", 60, DOWN) + kernel("node-1", 61, UP)
    found = analysis(
        analyse, {**files, "sacct.txt": SACCT.format(state="COMPLETED", code="0:0"), "node-1/kern.log": kern}
    )
    assert (found.job.outcome, found.verdict.cause) == ("completed", "none")


def skewed(clock: float) -> dict[str, str]:
    """A flap on node-1, whose clock is `clock` seconds ahead."""
    return {
        "node-1.log": job("node-1", RETRIED, clock=clock),
        "node-2.log": job("node-2", crash(FAULT + 32)),
        "node-1/kern.log": kernel("node-1", FAULT, DOWN, clock),
    }


@pytest.mark.parametrize("clock", [-4.0, 4.0])
def test_a_clock_that_is_some_seconds_off_changes_nothing(analyse: Analyse, clock: float) -> None:
    found = analysis(analyse, skewed(clock))
    assert (found.verdict.cause, found.verdict.culprit.host) == ("link_flap", "node-1")
    assert found.verdict.confidence >= 0.7


@pytest.mark.parametrize("clock", [-90.0, 90.0])
def test_a_clock_that_is_far_off_leads_to_nothing_wrong(analyse: Analyse, clock: float) -> None:
    found = analysis(analyse, skewed(clock))
    assert found.verdict.cause in {"link_flap", "unknown"}
    assert found.findings[0].cause == "link_flap"


def test_without_kernel_logs_nothing_is_certain(analyse: Analyse) -> None:
    found = analysis(analyse, {"node-1.log": job("node-1", RETRIED), "node-2.log": job("node-2", [])})
    assert found.verdict.confidence < 0.7
    assert "kernel" in found.coverage.missing_sources


def test_what_the_kernel_logs_add(analyse: Analyse) -> None:
    files = {"node-1.log": job("node-1", RETRIED), "node-2.log": job("node-2", [])}
    without = analysis(analyse, files).verdict.confidence
    assert analysis(analyse, {**files, "node-1/kern.log": kernel("node-1", FAULT, DOWN)}).verdict.confidence > without


def test_order_of_files_changes_nothing(analyse: Analyse) -> None:
    files = {
        "node-1.log": job("node-1", RETRIED),
        "node-2.log": job("node-2", []),
        "node-1/kern.log": kernel("node-1", FAULT, DOWN),
    }
    renamed = {
        f"{'z' if n.endswith('1.log') else 'a'}-{n}".replace("a-node-1/", "node-1/"): t for n, t in files.items()
    }
    first, second = analysis(analyse, files).verdict, analysis(analyse, renamed).verdict
    assert (first.cause, first.confidence, first.culprit) == (second.cause, second.confidence, second.culprit)


def alone(analyse: Analyse, text: str) -> Analysis:
    """The analysis of one file of undated lines."""
    return analysis(analyse, {"train.log": text})


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", "resource_limit"),
        ("OSError: [Errno 116] Stale file handle: '/data/shard-00017.tar'", "storage_stall"),
        ("ValueError: too many values to unpack (expected 2)", "software_exception"),
    ],
)
def test_an_exception_that_says_why_is_no_fault_of_the_program(analyse: Analyse, line: str, cause: str) -> None:
    text = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n{line}\n'
    found = alone(analyse, text)
    assert [f.cause for f in found.findings] == [cause]


ENTRY = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-02-03_14:05:09
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 101)
  error_file: <N/A>
"""


def test_an_entry_of_the_block_of_failures_is_quoted_whole(analyse: Analyse) -> None:
    files = {
        "node-1.log": job("node-1", []) + ENTRY,
        "node-2.log": job("node-2", []),
        "node-2/kern.log": kernel("node-2", FAULT, XID79),
    }
    quoted = [e.text for e in analysis(analyse, files).findings[0].evidence if e.role == "effect"]
    assert quoted == ["[0]: time : 2026-02-03_14:05:09 host : node-1 rank : 1 (local_rank: 1) exitcode : 1 (pid: 101)"]


@pytest.mark.parametrize(
    ("last_error", "cause"),
    [
        ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 2000", "software_exception"),
        (
            "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'.",
            "nvlink_fault",
        ),
        (
            "Error while creating shared memory segment /dev/shm/nccl-3Xhm1r (size 33030528), error: No space left on device (28)",
            "resource_limit",
        ),
    ],
)
def test_what_stands_below_last_error_is_the_cause(analyse: Analyse, last_error: str, cause: str) -> None:
    head = "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:93, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.29.3"
    found = alone(
        analyse, f"{head}\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n{last_error}\n"
    )
    assert found.verdict.cause == cause
    assert last_error in found.findings[0].evidence[0].text


def test_a_task_that_failed_before_the_step_was_cancelled(analyse: Analyse) -> None:
    """srun cancels the step when a task of it fails; that is no cancel of anybody's."""
    slurm = "srun: error: node-1: task 0: Exited with exit code 1\nslurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-02-03T14:05:02 ***\n"
    files = {
        "node-1.log": job("node-1", [(FAULT, "[rank0]: ValueError: too many values to unpack (expected 2)")]),
        "node-2.log": job("node-2", []),
        "slurm-7.out": slurm,
    }
    found = analysis(analyse, files)
    assert (found.job.outcome, found.verdict.cause) == ("crashed", "software_exception")


def test_the_node_that_failed_is_not_the_one_that_says_so(analyse: Analyse) -> None:
    text = (
        "srun: error: Node failure on node-37\n"
        "slurmstepd: error: *** STEP 7.0 ON node-17 CANCELLED AT 2026-02-03T14:05:02 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
    )
    found = alone(analyse, text)
    assert (found.verdict.cause, found.verdict.culprit.host) == ("host_crash", "node-37")


def test_the_boot_at_the_head_of_a_kernel_log_is_no_crash(analyse: Analyse) -> None:
    boot = kernel("node-1", FAULT - 200, "Linux version 6.8.0-45-generic (buildd@x) (gcc 13.2.0) #45-Ubuntu SMP")
    found = analysis(
        analyse,
        {
            "node-1.log": job("node-1", [(FAULT, "[rank0]: ValueError: too many values to unpack (expected 2)")]),
            "node-2.log": job("node-2", []),
            "node-1/kern.log": kernel("node-1", FAULT - 250, "perf: interrupt took too long") + boot,
        },
    )
    assert found.verdict.cause == "software_exception"


MEGATRON = "iteration {n:8}/    9000 | consumed samples:       480000 | elapsed time per iteration (ms): 10000.0 | learning rate: 6.000E-05 | global batch size:   128 | lm loss: {loss:E} | loss scale: 1.0 | grad norm: {norm:.3f} |\n"


@pytest.mark.parametrize(
    ("losses", "cause"),
    [
        ([2.2, 2.1, 2.2, 2.1, 5.2, 6.3, 6.1], "numeric"),
        ([2.2, 2.1, 2.2, 2.1, 2.3, 2.2, 2.1], "unknown"),
        ([9.0, 7.0, 5.0, 4.2, 3.9, 3.7, 3.6], "unknown"),
    ],
)
def test_a_loss_that_jumps_and_stays_there(analyse: Analyse, losses: list[float], cause: str) -> None:
    lines = [
        MEGATRON.format(n=n, loss=loss, norm=0.8 if loss < 5 or n < 4 else 90.0)
        for n, loss in enumerate(losses, start=1)
    ]
    assert alone(analyse, "".join(lines)).verdict.cause == cause


def test_a_rank_that_prepares_data_until_the_others_give_up(analyse: Analyse) -> None:
    bar = " 35%|████████████                | 73811210851/208140108456 [30:01<57:14, 39115047.81MB/s]\n"
    hang = "[E ProcessGroupNCCL.cpp:485] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802246 milliseconds before timing out.\n"
    assert alone(analyse, bar + hang).verdict.cause == "data_stall"
    assert alone(analyse, bar.replace("30:01", "07:12") + hang).verdict.cause != "data_stall"


def test_a_save_that_was_begun_when_the_collective_got_stuck(analyse: Analyse) -> None:
    save = "2026-02-18 10:28:25,496 - root - INFO - Saving checkpoint to /remote/run/step_4000\n"
    hang = "[rank7]:[E218 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1512677, OpType=ALLREDUCE, NumelIn=306176, NumelOut=306176, Timeout(ms)=1200000) ran for 1200027 milliseconds before timing out.\n"
    assert alone(analyse, save + hang).verdict.cause == "checkpoint_failure"
    done = "2026-02-18 10:30:25,496 - root - INFO - Saved checkpoint to /remote/run/step_4000\n"
    assert alone(analyse, save + done + hang).verdict.cause != "checkpoint_failure"


def test_a_process_is_named_by_its_launcher(analyse: Analyse) -> None:
    text = (
        "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nKeyError: 'attention_mask'\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 76781) of binary: /opt/python3\n"
    )
    found = alone(analyse, text)
    assert (found.verdict.cause, found.verdict.culprit.pid, found.verdict.culprit.local_rank) == (
        "software_exception",
        76781,
        0,
    )


def test_a_barrier_names_who_did_not_come(analyse: Analyse) -> None:
    found = alone(
        analyse, "[E ProcessGroupGloo.cpp:138] [Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 1800000 ms\n"
    )
    assert (found.verdict.cause, found.verdict.culprit.rank) == ("collective_hang", 2)


def test_at_start_an_unreachable_peer_is_a_matter_of_the_network(analyse: Analyse) -> None:
    line = "node-1:100:300 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 10.0.0.7<38847> failed : Connection refused\n"
    assert alone(analyse, line).verdict.cause == "network_config"
    running = {"node-1.log": job("node-1", [(FAULT, line.strip())]), "node-2.log": job("node-2", [])}
    assert analysis(analyse, running).verdict.cause != "network_config"
