"""Slow workers, queue pairs and congestion: each rule with the case it is for and its near miss."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest
from conftest import Analyse, Run
from trace_samples import MOVE, jitter, parquet, trace

from postmortem.analysis.model import Analysis, Loss
from postmortem.analysis.model_slow import QueuePairs, TraceView
from postmortem.analysis.peers import SlowPeer, change_points, slow_peers
from postmortem.analysis.queue_pairs import common_ground, with_lost_throughput
from postmortem.analysis.stragglers import Traced, taxed
from postmortem.analysis.what_if import course_of
from postmortem.incident import Incident


def noise(peers: int, steps: int, spread: float = 0.004, seed: int = 1) -> Any:
    return 1 + spread * np.random.default_rng(seed).standard_normal((peers, steps))


def named(peers: list[SlowPeer]) -> list[int]:
    return [p.index for p in peers]


# Peers (I1, I2, I9)


@pytest.mark.parametrize("peers", [2, 3, 4, 32])
def test_a_peer_that_is_slow_all_along_is_found(peers: int) -> None:
    times = noise(peers, 40)
    times[1] *= 1.1
    (found,) = slow_peers(times)
    assert found.index == 1
    assert found.ratio == pytest.approx(1.1, abs=0.01)
    assert found.since is None


@pytest.mark.parametrize("peers", [2, 3, 4, 32])
def test_equal_peers_are_not_told_apart(peers: int) -> None:
    assert all(not slow_peers(noise(peers, 40, seed=seed)) for seed in range(40))


def test_a_peer_slow_in_turns_is_noise() -> None:
    times = noise(4, 40)
    for step in range(40):
        times[step % 4, step] *= 1.5
    assert not slow_peers(times)


def test_two_percent_is_not_slow() -> None:
    times = noise(4, 40, spread=0.001)
    times[2] *= 1.02
    assert not slow_peers(times)


def test_unequal_work_makes_no_slow_peer() -> None:
    """Times that differ by a third from step to step, as with sequences of unequal length."""
    assert all(
        not slow_peers(noise(peers, 40, spread=0.3, seed=seed).clip(0.2)) for peers in (2, 8) for seed in range(30)
    )


def test_two_slow_peers_do_not_hide_each_other() -> None:
    times = noise(6, 40)
    times[0] *= 1.3
    times[4] *= 1.1
    assert named(slow_peers(times)) == [0, 4]


def test_half_of_the_peers_at_most_are_slow() -> None:
    times = noise(4, 40)
    times[:3] *= 1.2
    assert len(slow_peers(times)) <= 2


def test_since_when_a_peer_is_slow() -> None:
    times = noise(4, 44)
    times[3, 25:] *= 1.1
    (found,) = slow_peers(times)
    assert found.index == 3
    assert found.since in {24, 25, 26}


def test_a_short_spell_is_no_change() -> None:
    times = noise(4, 44)
    times[3, 20:25] *= 1.2
    assert change_points(times)[3] is None
    assert not slow_peers(times)


def test_gaps_and_few_steps() -> None:
    times = noise(3, 30)
    times[0] *= 1.2
    times[1, ::2] = np.nan
    assert named(slow_peers(times)) == [0]
    assert not slow_peers(times[:, :4])
    assert not slow_peers(times[:1])


# What a trace's steps would take (lost_compute.md section 4)


def columns(rows: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows)
    return frame.select(
        "stage", "dp_rank", "step", pl.col("optype").alias("op"), pl.col("seq_id").alias("seq"), pl.col("start_ts").alias("start_s"),
        pl.col("duration").alias("duration_s"), pl.when(pl.col("gmc") >= 0).then("gmc").alias("chunk"),
    )  # fmt: skip


def test_a_course_takes_as_long_as_the_trace() -> None:
    rows = trace(
        lambda op, replica, stage, step, k: (0.1 + 0.02 * stage) * (1.5 if (replica, stage) == (1, 0) else 1.0)
    )
    course = course_of(columns(rows))
    assert course is not None
    real = max(r["start_ts"] + r["duration"] for r in rows if r["step"] == 100)
    assert course.step_s(course.seconds) == pytest.approx(real, rel=1e-6)
    assert course.step_s(course.ideal()) < real


def test_equal_work_is_its_own_ideal() -> None:
    course = course_of(columns(trace(lambda *_: 0.1)))
    assert course is not None
    assert course.step_s(course.ideal()) == pytest.approx(course.step_s(course.seconds), rel=1e-3)


def test_sends_without_receives_have_no_course() -> None:
    rows = [r for r in trace(lambda *_: 0.1) if not (r["optype"] == "forward-recv" and r["seq_id"] == 2)]
    assert course_of(columns(rows)) is None


# Traces as bundles


def stragglers(incident: Incident) -> Analysis:
    assert incident.is_readable
    return incident.analysis


def even(op: str, replica: int, stage: int, step: int, k: int) -> float:
    return 0.1 * jitter(step, replica, k)


def test_a_trace_alone_names_its_slow_rank(analyse: Analyse) -> None:
    rows = trace(
        lambda op, replica, stage, step, k: (
            even(op, replica, stage, step, k) * (1.2 if (replica, stage) == (2, 1) else 1)
        )
    )
    found = stragglers(analyse({"trace.parquet": parquet(rows)}))
    (slow,) = found.slow_ranks
    assert (slow.rank, slow.kind, slow.since_step) == (5, "compute", None)
    assert slow.own_ratio == pytest.approx(1.2, abs=0.02)
    assert found.verdict.cause == "rank_straggler"
    assert found.verdict.culprit.ranks == (5,)
    assert found.findings[0].evidence[0].text.startswith("rank=5 dp_rank=2 stage=1 ")
    assert found.traces[0].slowdown is not None
    assert found.loss.throughput_loss == pytest.approx(1 - 1 / found.traces[0].slowdown, abs=1e-4)


def test_a_trace_says_since_when(analyse: Analyse) -> None:
    since = 100 + 3 * 12
    rows = trace(
        lambda op, replica, stage, step, k: (
            even(op, replica, stage, step, k) * (1.1 if (replica, stage) == (0, 0) and step >= since else 1)
        )
    )
    (slow,) = stragglers(analyse({"trace.parquet": parquet(rows)})).slow_ranks
    assert (slow.rank, slow.since_step) == (0, since)


def test_an_even_trace_blames_nobody(analyse: Analyse) -> None:
    found = stragglers(analyse({"trace.parquet": parquet(trace(even))}))
    assert not found.slow_ranks
    assert found.verdict.cause == "none"
    assert found.traces[0].cause == "even"


def test_a_long_stage_is_no_slow_machine(analyse: Analyse) -> None:
    rows = trace(lambda op, replica, stage, step, k: even(op, replica, stage, step, k) * (1.6 if stage == 1 else 1))
    found = stragglers(analyse({"trace.parquet": parquet(rows)}))
    assert not found.slow_ranks
    assert found.traces[0].cause == "stage"
    assert "the last of 2 pipeline stages has 1.60 times the work" in found.verdict.summary
    assert found.verdict.cause == "none"


def test_a_slow_rank_of_a_long_stage_is_found_among_its_peers(analyse: Analyse) -> None:
    rows = trace(
        lambda op, replica, stage, step, k: (
            even(op, replica, stage, step, k) * (1.6 if stage == 1 else 1) * (1.1 if (replica, stage) == (0, 0) else 1)
        )
    )
    assert [r.rank for r in stragglers(analyse({"trace.parquet": parquet(rows)})).slow_ranks] == [0]


def test_slow_transfers_of_one_worker_are_the_network(analyse: Analyse) -> None:
    """Stage 1 of replica 1 talks slowly to both neighbours; of a link that is slow alone nobody knows which end it is."""

    def both(op: str, replica: int, stage: int, step: int, k: int) -> float:
        ends = {stage, stage + (1 if op == "forward-send" else -1)}
        return MOVE * (60 if replica == 1 and 1 in ends else 1)

    found = stragglers(analyse({"trace.parquet": parquet(trace(even, stages=3, transfer=both))}))
    assert [(r.rank, r.kind) for r in found.slow_ranks] == [(4, "network")]

    def one(op: str, replica: int, stage: int, step: int, k: int) -> float:
        ends = {stage, stage + (1 if op == "forward-send" else -1)}
        return MOVE * (60 if replica == 1 and ends == {0, 1} else 1)

    assert not stragglers(analyse({"trace.parquet": parquet(trace(even, stages=3, transfer=one))})).slow_ranks


def test_parts_of_one_trace_are_one(analyse: Analyse) -> None:
    rows = trace(
        lambda op, replica, stage, step, k: (
            even(op, replica, stage, step, k) * (1.2 if (replica, stage) == (1, 0) else 1)
        )
    )
    parts = {f"trace/rank{n}.parquet": parquet([r for r in rows if r["rank"] == n]) for n in range(6)}
    found = stragglers(analyse(parts))
    assert [(t.workers, t.cause) for t in found.traces] == [(6, "rank")]
    twice = stragglers(analyse({"a.parquet": parquet(rows), "b.parquet": parquet(trace(even))}))
    assert [(t.trace, t.cause) for t in twice.traces] == [("a.parquet", "rank"), ("b.parquet", "even")]


def test_a_trace_without_stages_is_compared_only_without_a_pipeline(analyse: Analyse) -> None:
    rows = trace(lambda op, replica, stage, step, k: even(op, replica, stage, step, k) * (1.5 if stage == 1 else 1))
    bare = [{k: v for k, v in r.items() if k != "stage"} for r in rows]
    assert not stragglers(analyse({"trace.parquet": parquet(bare)})).slow_ranks
    flat = trace(
        lambda op, replica, stage, step, k: even(op, replica, stage, step, k) * (1.2 if replica == 1 else 1), stages=1
    )
    bare = [{k: v for k, v in r.items() if k != "stage"} for r in flat]
    assert [r.rank for r in stragglers(analyse({"trace.parquet": parquet(bare)})).slow_ranks] == [1]


def test_odd_rows_of_a_trace_are_noted(analyse: Analyse) -> None:
    rows = trace(even)
    rows[3]["duration"] = float("nan")
    rows[4]["rank"] = -1
    found = stragglers(analyse({"trace.parquet": parquet(rows)}))
    assert [why for _, _, why in found.coverage.odd] == ["2 operations without a worker, a step or a duration"]
    assert found.traces


@pytest.mark.parametrize(("name", "ranks"), [("AR", [0]), ("ST", [])])
def test_published_traces(shared: Path, postmortem: Run, tmp_path: Path, name: str, ranks: list[int]) -> None:
    folder = shared / "data" / "straggler"
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "trace.parquet").write_bytes((folder / f"trace-{name}.parquet").read_bytes())
    result = postmortem("analyze", bundle, "--format", "json")
    assert result.returncode == 0
    document = json.loads(result.stdout)
    truth = json.loads((folder / "truth.json").read_text())[name]
    assert [r["rank"] for r in document["stragglers"]["ranks"]] == ranks == truth["guilty_ranks"]
    (view,) = document["stragglers"]["traces"]
    assert view["slowdown"] == pytest.approx(truth["S"], rel=0.001)
    assert view["waste_share"] == pytest.approx(truth["waste_share"], rel=0.005)
    assert view["stage_share"] == pytest.approx(truth["M_S"], abs=0.01) or name == "AR"
    assert document["verdict"]["cause"] == {"AR": "rank_straggler", "ST": "none"}[name]
    if name == "AR":
        assert document["stragglers"]["ranks"][0]["slowdown"] == pytest.approx(truth["S"], rel=0.02)
    else:
        assert "the last of 4 pipeline stages" in document["verdict"]["summary"]
    # Worked example 10.3 of the bill: S within 2 %, from the share of the throughput that it says was lost, and its two step times.
    loss = document["loss"]
    assert 1 / (1 - loss["throughput_loss"]) == pytest.approx(truth["S"], rel=0.02)
    (said,) = [note for note in loss["notes"] if note.startswith("Trace ")]
    real, ideal = re.findall(r"\(([0-9.]+) s against ([0-9.]+) s\)", said)[0]
    assert (float(real), float(ideal)) == pytest.approx((truth["T_s"], truth["T_ideal_s"]), rel=0.02)
    assert loss["lost_s"] is None


def test_of_a_trace_and_steps_the_bill_takes_the_steps_and_notes_the_trace() -> None:
    """Against its own past the job lost a tenth, against equal work everywhere a half: the first is the figure, the second a note."""
    view = TraceView("a.parquet", 16, 4, 44, slowdown=2.0, waste_share=0.5, cause="rank", summary="Rank 0.")
    both = taxed(Loss(throughput_loss=0.1, throughput_basis="steps"), [Traced(view, (), ())])
    assert (both.throughput_loss, both.throughput_basis) == (0.1, "steps")
    assert both.notes == ("Trace a.parquet: Rank 0.",)
    alone = taxed(Loss(), [Traced(view, (), ())])
    assert (alone.throughput_loss, alone.throughput_basis) == (0.5, "trace")


@pytest.mark.parametrize(
    ("share", "basis", "taken"),
    [
        # Slow from the first step on: the job's own past says nothing of it.
        (0.0, "steps", (0.5, "trace")),
        (0.0, "few steps", (0.5, "trace")),
        (0.1, "few steps", (0.5, "trace")),
        (0.1, "steps", (0.1, "steps")),
    ],
)
def test_the_share_that_is_measured_counts(
    share: float, basis: Literal["steps", "few steps"], taken: tuple[float, str]
) -> None:
    view = TraceView("a.parquet", 16, 4, 44, slowdown=2.0, waste_share=0.5, cause="rank", summary="Rank 0.")
    found = taxed(Loss(throughput_loss=share, throughput_basis=basis), [Traced(view, (), ())])
    assert (found.throughput_loss, found.throughput_basis) == taken
    untraced = replace(view, waste_share=None)
    assert (
        taxed(Loss(throughput_loss=share, throughput_basis=basis), [Traced(untraced, (), ())]).throughput_loss == share
    )


def test_a_traces_share_is_not_laid_on_queue_pairs() -> None:
    picture = QueuePairs(slow=1, traced_share=0.02, extra_us=50.0)
    shared_out = with_lost_throughput(picture, Loss(throughput_loss=0.5, throughput_basis="trace", healthy_step_s=4.0))
    assert shared_out.lost_basis == "the traced requests alone: a lower bound"
    assert shared_out.lost is not None
    assert shared_out.lost.best == 0.02


# Step times of each rank, compared within the pipeline stage (I1)

STAGES = "  world_size ...................................... 16\n  pipeline_model_parallel_size .................... {}\n  use_tp_pp_dp_mapping ............................ {}\n"


def per_rank(slow: dict[int, float]) -> str:
    """A table of the steps of 16 ranks: the last four, a long stage, take 20 % longer than the others, ranks of `slow` so many times as long again."""
    lines = ["rank,step,time,step_time_ms"]
    for step in range(1, 31):
        for rank in range(16):
            took = (
                1000.0 * (1.2 if rank >= 12 else 1.0) * slow.get(rank, 1.0) * (1 + 0.002 * ((7 * step + 3 * rank) % 5))
            )
            lines.append(f"{rank},{step},{1772359872 + 2 * step},{took:.1f}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("slow", "stages", "order", "named"),
    [
        ({}, 4, "False", []),
        ({14: 1.1}, 4, "False", [14]),
        ({2: 1.1}, 4, "False", [2]),
        ({}, 1, "False", [12, 13, 14, 15]),
        ({}, 4, "True", [12, 13, 14, 15]),
    ],
    ids=["a long stage", "slow in the long stage", "slow in another", "no stages", "ranks in another order"],
)
def test_step_times_of_ranks_are_compared_within_their_stage(
    analyse: Analyse, slow: dict[int, float], stages: int, order: str, named: list[int]
) -> None:
    files = {"steps_per_rank.csv": per_rank(slow), "train.log": STAGES.format(stages, order)}
    assert sorted(r.rank for r in stragglers(analyse(files)).slow_ranks) == named


def test_half_of_the_ranks_slow_are_held_against_the_other_half(analyse: Analyse) -> None:
    """By how much, and since when, though all wait for a save now and then and a sound rank is slow once."""
    lines = ["rank,step,time,step_time_ms"]
    for step in range(1, 81):
        for rank in range(8):
            took = 1500.0 if rank < 4 and step >= 31 else 1000.0
            took = 1800.0 if (rank, step) == (6, 60) else took
            took = 9000.0 if step in (20, 40, 70) else took
            lines.append(
                f"{rank},{step},{1772359872 + 2 * step},{took * (1 + 0.002 * ((7 * step + 3 * rank) % 5)):.1f}"
            )
    found = stragglers(analyse({"steps_per_rank.csv": "\n".join(lines) + "\n"}))
    assert [(r.rank, r.since_step) for r in sorted(found.slow_ranks, key=lambda r: r.rank)] == [
        (n, 31) for n in range(4)
    ]
    assert [r.slowdown for r in found.slow_ranks] == pytest.approx([1.5] * 4, rel=0.01)
    assert found.findings[0].onset == datetime(2026, 3, 1, 10, 12, 14)


# Collective timings: who waits least (I4)

START = datetime(2026, 3, 1, 10)


def inspector(late: int | None, *, ratio: float = 3.0, calls: int = 30, ranks: int = 4) -> dict[str, str]:
    """NCCL Inspector's files of `ranks` processes: all wait for rank `late`, or for another one each time."""
    files = {}
    for rank in range(ranks):
        lines = []
        for call in range(calls):
            comes_last = (late if late is not None else call % ranks) == rank
            at = int((START + timedelta(seconds=call)).timestamp() * 1e6)
            lines.append(
                json.dumps(
                    {
                        "header": {"id": "0x7f8cf08e1d3a0b", "rank": rank, "n_ranks": ranks, "nnodes": 1},
                        "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                                     "dump_timestamp_us": at, "hostname": f"node-{rank}", "pid": 100 + rank},
                        "coll_perf": {"coll": "AllReduce", "coll_sn": call, "coll_msg_size_bytes": 1 << 26, "coll_exec_time_us": 1000 if comes_last else int(1000 * ratio),
                                      "coll_algobw_gbs": 67.1, "coll_busbw_gbs": 117.4},
                    }
                )
            )  # fmt: skip
        files[f"inspector/node-{rank}-pid{100 + rank}.log"] = "\n".join(lines) + "\n"
    return files


def test_the_rank_that_waits_least_is_late(analyse: Analyse) -> None:
    found = stragglers(analyse(inspector(2)))
    assert [r.rank for r in found.slow_ranks] == [2]


@pytest.mark.parametrize("files", [inspector(None), inspector(2, ratio=1.4), inspector(2, calls=6)])
def test_ranks_that_wait_in_turns_or_little_are_not(analyse: Analyse, files: dict[str, str]) -> None:
    assert not stragglers(analyse(files)).slow_ranks


# Queue pairs (I8)


def samples(
    slow: Sequence[int] = (),
    *,
    pairs: int = 8,
    per_nic: int = 2,
    factor: float = 30.0,
    share: float = 0.2,
    parts: int = 20,
) -> str:
    """A table of latencies: 5 µs at 8 kB and 50 µs at 1 MB; every fifth request of a slow pair takes `factor` times as long, in the first `parts` twentieths."""
    lines = ["ts,host,dev,qpn,peer,size,latency_us"]
    for n in range(1600):
        for pair in range(pairs):
            size = (8192, 1 << 20)[(n + pair) % 2]
            usual = (5.0 if size == 8192 else 50.0) * (1 + 0.1 * ((n * 7 + pair * 3) % 5))
            hit = pair in slow and (n // 2) % round(1 / share) == 0 and n < 80 * parts
            lines.append(
                f"{1772359872 + n * 0.5:.1f},node-{pair // 4},mlx5_{pair % 4 // per_nic},{100 + pair},10.0.{pair % 3}.1,{size},{usual * (factor if hit else 1):.2f}"
            )
    return "\n".join(lines) + "\n"


def test_a_queue_pair_with_a_tail_is_named(analyse: Analyse) -> None:
    incident = analyse({"probe.csv": samples([5])})
    found = stragglers(incident)
    (slow,) = found.slow_queue_pairs
    assert (slow.host, slow.dev, slow.qpn, slow.peer) == ("node-1", "mlx5_0", 105, "10.0.2.1")
    assert slow.p99_us > 1000
    assert slow.windows == 20
    assert (found.queue_pairs.measured, found.queue_pairs.slow, found.queue_pairs.where) == (8, 1, "path")
    row = incident.con.execute("SELECT min(size), max(p50_us) FROM qp_windows WHERE NOT is_flagged").fetchone()
    assert row is not None
    assert row[1] < 100


def test_the_onset_of_a_slow_queue_pair_is_where_its_tail_begins(analyse: Analyse) -> None:
    """Slow in the last half of 800 s: the onset is its first slow request there, and the line that shows it."""
    lines = samples([5]).splitlines()
    steady = samples().splitlines()
    at = 1 + 800 * 8
    incident = analyse({"probe.csv": "\n".join(steady[:at] + lines[at:]) + "\n"})
    finding = incident.analysis.findings[0]
    begun = datetime.fromtimestamp(1772359872 + 400, UTC).replace(tzinfo=None)
    assert finding.onset is not None
    assert begun <= finding.onset <= begun + timedelta(seconds=2)
    assert f"since {finding.onset:%H:%M:%S} UTC" in finding.summary
    assert min(e.line for e in finding.evidence) in range(at, at + 40)


@pytest.mark.parametrize("parts", [20, 5], ids=["all along", "in the first quarter"])
def test_a_queue_pair_slow_from_its_first_sample_on_has_no_onset(analyse: Analyse, parts: int) -> None:
    finding = stragglers(analyse({"probe.csv": samples([5], parts=parts)})).findings[0]
    assert finding.onset is None
    assert "from its first sample on" in finding.summary


@pytest.mark.parametrize(
    "table",
    [
        samples(),
        samples([5], factor=5.0),
        samples([5], parts=2),
        samples(range(8)),
    ],
    ids=["none", "five times", "two windows", "all alike"],
)
def test_no_queue_pair_is_named(analyse: Analyse, table: str) -> None:
    assert not stragglers(analyse({"probe.csv": table})).slow_queue_pairs


def place(node: str, nic: str, switch: str | None = None, peer: tuple[str, str, str] | None = None) -> dict[str, Any]:
    far = peer or (None, None, None)
    return {"node": node, "nic": nic, "switch": switch, "peer_host": far[0], "peer_nic": far[1], "peer_switch": far[2]}


@pytest.mark.parametrize(
    ("slow", "others", "where"),
    [
        ([place("a", "mlx5_0")] * 3, [place("a", "mlx5_1")] * 3, "nic"),
        ([place("a", "mlx5_0")], [place("a", "mlx5_0")] * 3, "path"),
        ([place("a", "mlx5_0")], [place("a", "mlx5_1")] * 3, "pair"),
        ([place(h, "mlx5_0", "leaf-1", ("z", "mlx5_0", "leaf-9")) for h in "abc"], [], "peer nic"),
        ([place(h, "mlx5_0", "leaf-1") for h in "abc"], [place("d", "mlx5_0", "leaf-2")] * 3, "switch"),
        ([place(h, "mlx5_0", "leaf-1", (p, "mlx5_0", "leaf-9")) for h, p in ("ax", "by", "cz")], [], "path"),
        ([place(h, "mlx5_0", s) for h, s in (("a", "leaf-1"), ("b", "leaf-2"), ("c", "leaf-3"))], [], "spread"),
        ([], [place("a", "mlx5_0")], "none"),
    ],
)
def test_what_slow_queue_pairs_share(slow: list[dict[str, Any]], others: list[dict[str, Any]], where: str) -> None:
    assert common_ground(slow, slow + others)[0] == where


def test_throughput_lost_to_queue_pairs(analyse: Analyse) -> None:
    picture = stragglers(analyse({"probe.csv": samples([5])})).queue_pairs
    alone = with_lost_throughput(picture, Loss())
    assert alone.lost is not None
    assert alone.lost.best == picture.traced_share
    by_steps = with_lost_throughput(picture, Loss(throughput_loss=0.2, healthy_step_s=4.0))
    assert by_steps.lost is not None
    assert by_steps.lost.best == 0.2
    assert by_steps.per_step == pytest.approx(1.0 / (picture.extra_us * 1e-6), rel=0.01)


# Congestion by switch and minute


def steps_and_storms(slow: range, storms: range) -> dict[str, str]:
    """Steps of 6 s that take 12 s in the minutes of `slow`, and PFC storms in those of `storms`, on a SONiC switch."""
    lines, at, number = [], START, 0
    while at < START + timedelta(minutes=20):
        took = 12.0 if (at - START).seconds // 60 in slow else 6.0
        at += timedelta(seconds=took)
        number += 1
        lines.append(
            f"[titan] {at:%Y-%m-%d %H:%M:%S},000 - root - INFO - step: {number:2d}  loss:  5.00000  grad_norm:  1.0000  memory:  9.00GiB(9.00%)  tps: 10,050  tflops: 50.00  mfu: 9.00%"
        )
    storm = "leaf-1a NOTICE swss#orchagent: :- report_pfc_storm: PFC Watchdog detected PFC storm on port Ethernet96, queue index 3, queue id 0x15000000000060 and port id 0x1000000000060"
    seen = [f"{START + timedelta(minutes=m, seconds=20):%Y %b %d %H:%M:%S}.000000 {storm}" for m in storms]
    return {"train.log": "\n".join(lines) + "\n", "leaf-1a.log": "\n".join(seen) + "\n"}


def test_storms_are_joined_with_slow_steps(analyse: Analyse) -> None:
    incident = analyse(steps_and_storms(range(8, 14), range(8, 14)))
    (place,) = incident.analysis.congestion
    assert (place.place, place.minutes, place.storms, place.slow_with) == ("leaf-1a", 6, 6, 1.0)
    assert place.slow_without is not None
    assert place.slow_without < 0.2
    assert place.summary.startswith("steps slow down with it")
    rows = incident.con.execute("SELECT count(*), min(step_ratio) FROM congestion_minutes").fetchone()
    assert rows is not None
    assert rows[0] == 6
    assert rows[1] > 1.5


def test_storms_beside_steady_steps_are_not(analyse: Analyse) -> None:
    (place,) = analyse(steps_and_storms(range(0), range(8, 14))).analysis.congestion
    assert place.slow_with == 0.0
    assert place.summary.startswith("steps do not slow down with it")


# What to collect where steps alone are slow


def test_slow_steps_alone_name_no_rank_and_say_what_to_collect(analyse: Analyse) -> None:
    files = steps_and_storms(range(12, 20), range(0))
    found = analyse({"train.log": files["train.log"]}).analysis
    assert not found.slow_ranks
    assert found.to_name_a_rank[0].startswith("Times of each rank's own work")
    steady = steps_and_storms(range(0), range(0))
    assert not analyse({"train.log": steady["train.log"]}).analysis.to_name_a_rank
