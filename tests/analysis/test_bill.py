"""What the bill reads from the tables of a whole bundle: attempts, allocation, clocks, step lines and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from postmortem.analysis.allocation import finest
from postmortem.analysis.bill import middle
from postmortem.analysis.model import Bin
from postmortem.incident import Incident

Analyse = Callable[[Mapping[str, str]], Incident]
BEGIN = datetime(2026, 2, 3, 14, 0, 0)
STEP = (
    "iteration {:8}/    9000 | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
    "global batch size:   128 | lm loss: 7.317421E+00 | grad norm: 0.790 |"
)


def stamp(second: float, form: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    return (BEGIN + timedelta(seconds=second)).strftime(form)


def step(number: int, second: float, took: float = 10.0) -> str:
    return f"[{stamp(second)}] {STEP.format(number, number * 128, took * 1000)}\n"


def save(number: int, second: float) -> str:
    at = stamp(second)
    return (
        f"[{at}] saving checkpoint at iteration {number:7} to /ckpt in torch_dist format\n"
        f"[{at}]   successfully saved checkpoint from iteration {number:7} to /ckpt [ t 1/1, p 1/1 ]\n"
    )


def load(number: int) -> str:
    return f"  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration {number}\n"


def controller(second: float, text: str) -> str:
    return f"[{stamp(second, '%Y-%m-%dT%H:%M:%S.%f')[:-3]}] {text}\n"


def allocated(second: float, job: int, nodes: str) -> str:
    return controller(second, f"sched: Allocate JobId={job} NodeList={nodes} #CPUs=192 Partition=gpu")


def ended(second: float, job: int, how: str = "WEXITSTATUS 1") -> str:
    return controller(second, f"_job_complete: JobId={job} {how}")


def bins(incident: Incident) -> dict[str, Bin]:
    return {b.bin: b for b in incident.analysis.loss.bins}


FAILED = "RuntimeError: CUDA error: an illegal memory access was encountered\n"


def run(first: int, last: int, begun: float, took: float = 10.0) -> str:
    return "".join(step(n, begun + (n - first + 1) * took, took) for n in range(first, last + 1))


def test_a_load_between_two_steps_begins_an_attempt(analyse: Analyse) -> None:
    """Stopped just after a save: the numbers go on, and only the load tells that 1000 s lie between two runs."""
    log = run(1, 30, 0.0) + save(30, 300.3) + load(30) + run(31, 60, 1300.0) + FAILED
    incident = analyse({"train.log": log})
    assert incident.con.execute(
        "SELECT attempt, min(step), max(step) FROM steps WHERE is_main GROUP BY 1 ORDER BY 1"
    ).fetchall() == [(0, 1, 30), (1, 31, 60)]
    assert incident.con.execute("SELECT attempt FROM checkpoints WHERE kind = 'loaded'").fetchall() == [(1,)]


def test_a_load_before_the_first_step_begins_none(analyse: Analyse) -> None:
    incident = analyse({"train.log": load(30) + run(31, 60, 0.0) + FAILED})
    assert incident.con.execute("SELECT DISTINCT attempt FROM steps WHERE is_main").fetchall() == [(0,)]
    assert incident.con.execute("SELECT attempt FROM checkpoints").fetchall() == [(0,)]


def deepspeed(number: int, second: float, bar: int | None = None, total: int = 500, took: float = 10.0) -> str:
    at = stamp(second)[:-3].replace(".", ",")
    head = f"  0%|          | {bar}/{total} [00:05<78:32:45, {took:5.2f}s/it]" if bar is not None else ""
    return f"{head}[{at}] [INFO] [logging.py:96:log_dist] [Rank 0] step={number}, skipped=0, lr=[0.0003], mom=[(0.9, 0.95)]\n"


def test_a_bar_that_counts_from_the_restart_is_no_step(analyse: Analyse) -> None:
    """The bar says 1 where the trainer says 8951; its first rate is the plain duration of the first step."""
    log = "".join(deepspeed(8950 + n, 10.0 * n, n, took=14.25 if n == 1 else 10.0) for n in range(1, 31))
    incident = analyse({"train.log": log})
    found = incident.con.execute("SELECT attempt, step, step_time_ms FROM steps WHERE is_main ORDER BY step").fetchall()
    assert [row[:2] for row in found] == [(0, 8950 + n) for n in range(1, 31)]
    assert [row[2] for row in found[:2]] == [14250.0, None]


def test_a_bar_alone_counts_the_steps(analyse: Analyse) -> None:
    log = "".join(f"  0%|          | {n}/500 [00:05<78:32:45, 10.00s/it]\n" for n in range(1, 31))
    incident = analyse({"train.log": log})
    assert incident.con.execute("SELECT count(*) FROM steps WHERE is_main").fetchall() == [(30,)]


NODES = "".join(
    f"[{stamp(100.0)}] node-0{n}:{100 + n}:{200 + n} [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank {n} nranks 2 cudaDev 0 "
    f"nvmlDev 0 busId 1b000 commId 0x5f1d - Init COMPLETE\n"
    for n in (0, 1)
)


def test_another_job_of_the_scheduler_is_not_ours(analyse: Analyse) -> None:
    """A job on another node began and ended while ours ran; its start and its end are not ours."""
    slurm = (
        allocated(0.25, 11, "node-[00-01]") + allocated(250.25, 12, "node-07") + ended(402.25, 12) + ended(450.75, 11)
    )
    incident = analyse({"train.log": run(1, 30, 100.0) + FAILED, "nccl.log": NODES, "slurmctld.log": slurm})
    job = incident.analysis.job
    assert job.start == BEGIN + timedelta(seconds=0.25)
    assert job.end == BEGIN + timedelta(seconds=450.75)
    assert job.name == "11"


def test_the_start_of_the_next_attempt_that_nothing_shows(analyse: Analyse) -> None:
    """The first attempt took 100 s from its allocation to its first step; so does the next one, at least and at most as far as the gap."""
    log = run(1, 30, 100.0) + save(20, 300.3) + FAILED + load(20) + run(21, 40, 1000.0)
    slurm = allocated(0.25, 11, "node-[00-01]") + ended(450.75, 11)
    incident = analyse({"train.log": log, "slurmctld.log": slurm})
    restart = bins(incident)["restart"]
    assert restart.best_s == pytest.approx(100.0, abs=1.0)
    assert restart.hi_s == pytest.approx(1000 - 450.75, abs=1.0)
    assert restart.lo_s <= 1.0
    assert restart.basis == "assumed"


def test_a_start_that_the_scheduler_states_needs_no_stand_in(analyse: Analyse) -> None:
    log = run(1, 30, 100.0) + save(20, 300.3) + FAILED + load(20) + run(21, 40, 1000.0)
    slurm = allocated(0.25, 11, "node-[00-01]") + ended(450.75, 11) + allocated(600.25, 12, "node-[00-01]")
    restart = bins(analyse({"train.log": log, "slurmctld.log": slurm}))["restart"]
    assert restart.best_s == pytest.approx(400.0, abs=1.0)
    assert restart.basis == "measured"


def test_no_save_line_is_no_save_in_a_log_that_has_them(analyse: Analyse) -> None:
    """Megatron prints every save: 30 steps from step 1 on without one are all lost. A cut from the middle of a log proves nothing."""
    whole = analyse({"train.log": run(1, 30, 100.0) + FAILED}).analysis.loss
    assert whole.last_durable_step == 0
    assert {b.bin: b.best_s for b in whole.bins}["lost_work"] == pytest.approx(300.0)


def test_a_log_from_the_middle_proves_no_missing_save(analyse: Analyse) -> None:
    cut = analyse({"train.log": run(501, 530, 100.0) + FAILED}).analysis.loss
    assert cut.last_durable_step is None
    assert {b.bin: b.basis for b in cut.bins}["lost_work"] == "assumed"


def test_the_same_moment_written_finer() -> None:
    """sacct cuts an end to the second, slurmctld prints its milliseconds; another second is another moment."""
    whole = BEGIN
    assert finest([whole, whole + timedelta(milliseconds=536)]) == whole + timedelta(milliseconds=536)
    assert finest([whole, whole + timedelta(milliseconds=1536)]) == whole
    assert finest([]) is None


def test_a_cut_second_is_taken_in_its_middle() -> None:
    assert middle(BEGIN) == BEGIN + timedelta(milliseconds=500)
    fine = BEGIN + timedelta(milliseconds=250)
    assert middle(fine) == fine
    assert middle(None) is None


def test_clocks_that_nothing_ties_widen_the_bounds(analyse: Analyse) -> None:
    slurm = allocated(0.25, 11, "node-[00-01]") + ended(450.75, 11)
    lost = analyse(
        {"train.log": run(1, 30, 100.0) + save(30, 400.2) + FAILED, "slurmctld.log": slurm}
    ).analysis.loss.lost_s
    assert lost is not None
    assert lost.hi - lost.best >= 5.0
    assert lost.best - lost.lo >= 5.0
