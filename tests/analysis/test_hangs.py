"""Stuck jobs: each rule of who holds up whom, and beside it the near miss that blames nobody or somebody else."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Analyse

from postmortem.analysis.hang_absence import judge
from postmortem.analysis.hang_graph import Group, Picture, Standing, Wait

DATA = Path(__file__).resolve().parents[1] / "data" / "flight_recorder"
STARTED = 1_782_885_633_000_000_000

# ---- the graph -------------------------------------------------------------------------------------------------------------------


def group(name: str, *members: int, description: str = "") -> Group:
    return Group(name, description or f"GROUP_{name}", members)


def picture(
    groups: Sequence[Group],
    ranks: Mapping[int, Mapping[str, tuple[int, int]]],
    transfers: Iterable[Wait] = (),
    order: Mapping[tuple[int, str], int] | None = None,
) -> Picture:
    """`ranks` has (last enqueued, last completed) of each dump by group; what is between the two is open, in the order of the groups."""
    standings: dict[tuple[str, int], Standing] = {}
    waits = list(transfers)
    for rank, counts in ranks.items():
        for place, (pg, (enqueued, completed)) in enumerate(counts.items(), 10):
            line = (order or {}).get((rank, pg), place)
            is_open = enqueued > completed
            standings[pg, rank] = Standing(
                enqueued, completed, completed + 1 if is_open else None, f"_dump_{rank}", line
            )
            if is_open:
                waits.append(Wait(rank, pg, completed + 1, None, line))
    return Picture({g.name: g for g in groups}, standings, tuple(waits), frozenset(ranks))


WORLD = [group("0", 0, 1, 2, 3)]


def blamed(found: Picture, *, is_confirmed: bool = False) -> dict[int, str]:
    return {rank: how for rank, (how, _, _) in judge(found, is_confirmed=is_confirmed).guilty.items()}


def test_a_rank_that_never_called_what_the_others_wait_in_is_named() -> None:
    counts = {0: (8, 7), 1: (8, 7), 2: (7, 7), 3: (8, 7)}
    assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {2: "missing"}


def test_counts_that_differ_while_nobody_waits_blame_nobody() -> None:
    counts = {0: (8, 8), 1: (8, 8), 2: (7, 7), 3: (9, 9)}
    assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {}


def test_a_collective_that_all_have_joined_blames_nobody() -> None:
    assert blamed(picture(WORLD, {r: {"0": (8, 7)} for r in range(4)})) == {}


def test_a_rank_that_runs_ahead_is_not_the_one_that_is_missing() -> None:
    counts = {0: (8, 7), 1: (8, 7), 2: (12, 7), 3: (8, 7)}
    assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {}


def test_a_rank_whose_collectives_the_others_have_seen_the_end_of_has_stopped() -> None:
    counts = {0: (12, 10), 1: (12, 10), 2: (12, 5), 3: (12, 10)}
    assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {2: "lags"}


def test_one_collective_behind_is_what_ranks_of_a_running_job_are() -> None:
    counts = {0: (12, 10), 1: (12, 10), 2: (12, 9), 3: (12, 10)}
    made = picture(WORLD, {r: {"0": c} for r, c in counts.items()})
    assert blamed(made) == {}
    assert blamed(made, is_confirmed=True) == {2: "lags"}


def test_most_of_a_group_behind_one_is_not_most_of_it_at_fault() -> None:
    counts = {0: (12, 6), 1: (12, 6), 2: (12, 10), 3: (12, 6)}
    assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {}


NESTED = [group("tp0", 0, 1), group("tp1", 2, 3), group("dp0", 0, 2), group("dp1", 1, 3)]


def test_the_chain_over_nested_groups_ends_at_its_sink() -> None:
    # 3 is stopped; 2 waits for it in their tensor group, 0 for 2 in the data group, 1 for 0 in the other tensor group.
    made = picture(
        NESTED,
        {
            0: {"tp0": (4, 4), "dp0": (9, 8)},
            1: {"tp0": (5, 4), "dp1": (8, 8)},
            2: {"tp1": (5, 4), "dp0": (8, 8)},
            3: {"tp1": (4, 4), "dp1": (8, 8)},
        },
    )
    assert blamed(made) == {3: "missing"}


def test_the_same_in_the_other_order_of_groups_ends_elsewhere() -> None:
    made = picture(
        NESTED,
        {
            0: {"tp0": (4, 4), "dp0": (8, 8)},
            1: {"tp0": (5, 4), "dp1": (8, 8)},
            2: {"tp1": (4, 4), "dp0": (9, 8)},
            3: {"tp1": (5, 4), "dp1": (8, 8)},
        },
    )
    assert blamed(made) == {0: "missing"}


def test_an_idle_rank_that_nobody_waits_for_is_let_alone() -> None:
    groups = [group("a", 0, 1, 2), group("b", 3, 4)]
    made = picture(groups, {0: {"a": (5, 4)}, 1: {"a": (5, 4)}, 2: {"a": (4, 4)}, 3: {"b": (7, 7)}, 4: {"b": (6, 6)}})
    assert blamed(made) == {2: "missing"}


STAGES = [group("pp", 0, 1, 2, 3, description="PIPELINE")]


def test_a_pipeline_is_followed_to_the_stage_that_stopped() -> None:
    made = picture(STAGES, {r: {} for r in range(4)}, [Wait(0, "pp", 3, 1), Wait(1, "pp", 3, 2), Wait(3, "pp", 3, 2)])
    assert blamed(made) == {2: "missing"}


def test_two_stages_that_wait_for_each_others_transfer_blame_nobody() -> None:
    made = picture(
        STAGES,
        {r: {} for r in range(4)},
        [Wait(0, "pp", 3, 1), Wait(1, "pp", 3, 0), Wait(2, "pp", 3, 1), Wait(3, "pp", 3, 2)],
    )
    assert blamed(made) == {}


def test_of_groups_called_in_another_order_the_minority_is_named() -> None:
    groups = [group("a", 0, 1, 2, 3), group("b", 0, 1, 2, 3)]
    made = picture(groups, {**{r: {"a": (5, 4), "b": (6, 6)} for r in range(3)}, 3: {"a": (4, 4), "b": (7, 6)}})
    assert blamed(made) == {3: "missing"}


def test_with_a_tie_both_sides_are_named() -> None:
    groups = [group("a", 0, 1), group("b", 0, 1)]
    made = picture(groups, {0: {"a": (5, 4), "b": (6, 6)}, 1: {"a": (4, 4), "b": (7, 6)}})
    assert set(blamed(made)) == {0, 1}


def test_a_rank_without_a_dump_is_named_when_all_others_have_joined() -> None:
    made = picture(WORLD, {r: {"0": (8, 7)} for r in (0, 1, 3)})
    assert blamed(made) == {2: "absent"}
    assert judge(made).by_absence


def test_an_innocent_rank_without_a_dump_is_not_named_beside_a_guilty_one() -> None:
    counts = {0: (8, 7), 1: (7, 7), 3: (8, 7)}
    assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {1: "missing"}


def test_a_missing_dump_of_a_job_that_does_not_wait_is_nothing() -> None:
    assert blamed(picture(WORLD, {r: {"0": (8, 8)} for r in (0, 1, 3)})) == {}


def test_a_missing_stage_is_passed_over_when_a_collective_names_another() -> None:
    # 1 waits for 0 (no dump) in the pipeline; 2 and 3 wait in a collective for 5 (no dump) and all there have joined.
    groups = [group("pp", 0, 1, description="PIPELINE"), group("tp", 2, 3, 5)]
    made = picture(groups, {1: {}, 2: {"tp": (4, 3)}, 3: {"tp": (4, 3)}}, [Wait(1, "pp", 3, 0)])
    assert blamed(made) == {5: "absent"}


def siblings(other: Mapping[int, tuple[int, int]], here: Mapping[int, tuple[int, int]]) -> Picture:
    """Two tensor groups of one stage, 0 to 3 and 4 to 7, all in one expert group; rank 7 is stopped, rank 0 has left no dump."""
    groups = [
        group("tp0", 0, 1, 2, 3, description="TP"),
        group("tp1", 4, 5, 6, 7, description="TP"),
        group("ep", *range(8), description="EP"),
    ]
    ranks: dict[int, dict[str, tuple[int, int]]] = {r: {"ep": (6, 5), "tp0": here[r]} for r in (1, 2, 3)}
    ranks |= {r: {"ep": (6, 5), "tp1": other[r]} for r in (4, 5, 6)}
    ranks[7] = {"ep": (5, 5), "tp1": (8, 8)}
    return picture(groups, ranks)


def test_a_missing_dump_beside_a_guilty_rank_is_named_when_its_group_stands_as_the_guilty_ones_does() -> None:
    stands = siblings({r: (9, 8) for r in (4, 5, 6)}, {r: (9, 8) for r in (1, 2, 3)})
    assert blamed(stands) == {7: "missing", 0: "absent"}


def test_it_is_not_named_when_its_group_has_nothing_open() -> None:
    goes = siblings({r: (9, 8) for r in (4, 5, 6)}, {r: (9, 9) for r in (1, 2, 3)})
    assert blamed(goes) == {7: "missing"}


def test_it_is_not_named_when_a_group_without_a_guilty_rank_stands_so_too() -> None:
    """Pairs behind a collective of all: that a pair waits there says nothing, for one without any fault does as well (H7)."""
    groups = [group(f"tp{n}", 2 * n, 2 * n + 1, description="TP") for n in range(3)] + [
        group("ep", *range(6), description="EP")
    ]
    ranks: dict[int, dict[str, tuple[int, int]]] = {r: {"ep": (6, 5), f"tp{r // 2}": (9, 8)} for r in (1, 2, 4, 5)}
    ranks[3] = {"ep": (5, 5), "tp1": (8, 8)}
    assert blamed(picture(groups, ranks)) == {3: "missing"}
    # The same without the pair of 4 and 5: whether it stood so is not known, so nobody is named for it.
    assert blamed(picture(groups, {r: c for r, c in ranks.items() if r not in (4, 5)})) == {3: "missing"}


def stages(behind: Mapping[int, dict[str, tuple[int, int]]]) -> Picture:
    """Two stages of three ranks, each with a group of its own; rank 5 is stopped, rank 1 has left no dump; a pipeline over each pair."""
    groups = [
        group("ep0", 0, 1, 2, description="EP"),
        group("ep1", 3, 4, 5, description="EP"),
        *(group(f"pp{n}", n, n + 3, description="PP") for n in range(3)),
    ]
    ranks: dict[int, dict[str, tuple[int, int]]] = {r: {"ep0": (6, 5)} for r in (0, 2)}
    ranks |= {3: {"ep1": (6, 5)}, 4: {"ep1": (6, 5)}, 5: {"ep1": (5, 5)}}
    return picture(groups, {**ranks, **behind})


def test_a_missing_dump_is_named_beside_a_guilty_rank_when_nothing_else_explains_what_others_wait_in() -> None:
    assert blamed(stages({})) == {5: "missing", 1: "absent"}


def test_it_is_not_named_when_the_stage_that_feeds_it_stands_elsewhere() -> None:
    """Rank 4 waits in another collective than 3 does: 1 may wait for it, in a pipeline in which neither 0 nor 2 is."""
    assert blamed(stages({4: {"ep1": (5, 4)}})) == {5: "missing"}


def test_the_order_of_ranks_says_nothing() -> None:
    for late in range(4):
        counts = {r: (7, 7) if r == late else (8, 7) for r in range(4)}
        assert blamed(picture(WORLD, {r: {"0": c} for r, c in counts.items()})) == {late: "missing"}


# ---- from dumps to the verdict -----------------------------------------------------------------------------------------------------


def entry(seq: int, state: str, name: str = "nccl:all_reduce", pg: str = "0", size: int = 8) -> dict[str, Any]:
    return {
        "record_id": seq,
        "pg_id": 0,
        "process_group": (pg, "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": name,
        "time_created_ns": STARTED + seq * 1_000_000_000,
        "input_sizes": [[size]],
        "output_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": state,
        "is_p2p": False,
    }


def dump(
    enqueued: int, completed: int, *, world: int = 4, name: str = "nccl:all_reduce", size: int = 8
) -> dict[str, Any]:
    return {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": enqueued,
                "last_started_collective": -1,
                "last_completed_collective": completed,
            }
        },
        "entries": [entry(s, "scheduled", name, size=size) for s in range(completed + 1, enqueued + 1)],
    }


def pickled(made: Mapping[int, dict[str, Any]]) -> dict[str, str | bytes]:
    return {f"nccl_trace_rank_{r}": pickle.dumps(d, protocol=2) for r, d in made.items()}


STUCK = {0: dump(8, 7), 1: dump(8, 7), 2: dump(7, 7), 3: dump(8, 7)}


def test_the_verdict_says_who_in_which_group_and_shows_it(analyse: Analyse) -> None:
    incident = analyse(pickled(STUCK))
    verdict = incident.analysis.verdict
    assert (verdict.cause, verdict.culprit.ranks) == ("collective_hang", (2,))
    assert verdict.summary == "Rank 2 never called collective 8 of group 0 (default_pg), in which the others wait."
    (finding,) = incident.analysis.findings
    assert [(e.file, e.line, e.text) for e in finding.evidence] == [
        (
            "nccl_trace_rank_2",
            1,
            "rank 2 in group 0 (default_pg): last enqueued 7, last completed 7, no open entry (missing)",
        ),
        (
            "nccl_trace_rank_0",
            1,
            "rank 0 in group 0 (default_pg): last enqueued 8, last completed 7, waits in collective 8",
        ),
    ]
    assert incident.is_readable
    rows = incident.con.execute(
        "SELECT rank, last_enqueued, last_completed, seq, op, state, verdict, is_culprit FROM hang_groups ORDER BY rank"
    ).fetchall()
    waits = (8, 7, 8, "allreduce", "waits", None, False)
    assert rows == [(0, *waits), (1, *waits), (2, 7, 7, None, None, "idle", "missing", True), (3, *waits)]


def test_json_says_the_same(analyse: Analyse) -> None:
    files = {f"dump_{r}.json": json.dumps({k: v for k, v in d.items() if v != []}) for r, d in STUCK.items()}
    assert analyse(files).analysis.verdict.culprit.ranks == (2,)


def test_a_healthy_snapshot_blames_nobody(analyse: Analyse) -> None:
    incident = analyse(pickled({0: dump(8, 8), 1: dump(9, 9), 2: dump(7, 7), 3: dump(8, 8)}))
    assert incident.analysis.verdict.culprit.ranks == ()
    assert incident.analysis.findings == ()
    assert incident.is_readable


def test_an_empty_dump_is_a_missing_one_and_is_to_be_collected(analyse: Analyse) -> None:
    files = pickled(STUCK) | {"nccl_trace_rank_1": b""}
    incident = analyse(files)
    assert incident.analysis.verdict.culprit.ranks == (2,)
    assert "No dump of rank 1; nothing speaks against it." in incident.analysis.verdict.summary
    assert incident.analysis.findings[0].collect[0] == "flight recorder dumps of rank 1: they are missing or empty"


def test_only_its_absence_speaks_against_a_rank_so_more_must_show_that_the_job_hung(analyse: Analyse) -> None:
    """Three ranks in one collective and a dump that is not there: as well a running job."""
    once = analyse(pickled({r: dump(8, 7) for r in (0, 1, 3)})).analysis
    assert (once.verdict.cause, once.verdict.culprit.ranks) == ("unknown", ())
    assert once.findings[0].culprit.ranks == (2,)
    went_on = analyse(pickled({r: dump(9, 7) for r in (0, 1, 3)})).analysis
    assert went_on.verdict.culprit.ranks == (2,)
    assert went_on.verdict.confidence < 0.7
    said = "".join(watchdog(r, 8) for r in (0, 1, 3))
    told = analyse(pickled({r: dump(8, 7) for r in (0, 1, 3)}) | {"job.log": said}).analysis
    assert told.verdict.culprit.ranks == (2,)


def test_a_dump_that_was_cut_off_before_its_entries_is_a_missing_one(analyse: Analyse) -> None:
    files = pickled(STUCK)
    whole = files["nccl_trace_rank_1"]
    assert isinstance(whole, bytes)
    files["nccl_trace_rank_1"] = whole[: whole.index(b"entries") + 12]
    assert analyse(files).analysis.verdict.culprit.ranks == (2,)


def test_two_dumps_of_a_rank_that_moved_on_are_no_hang(analyse: Analyse) -> None:
    files = pickled(STUCK) | {
        f"before/nccl_trace_rank_{r}": pickle.dumps(dump(d, c), protocol=2)
        for r, (d, c) in {0: (5, 4), 1: (5, 4), 2: (4, 4), 3: (5, 4)}.items()
    }
    assert analyse(files).analysis.verdict.culprit.ranks == ()
    same = pickled(STUCK) | {f"before/{name}": content for name, content in pickled(STUCK).items()}
    assert analyse(same).analysis.verdict.culprit.ranks == (2,)


def test_a_log_that_timed_out_confirms_it(analyse: Analyse) -> None:
    made = {r: dump(12, 10) for r in (0, 1, 3)} | {2: dump(12, 9)}
    assert analyse(pickled(made)).analysis.verdict.culprit.ranks == ()
    said = "".join(watchdog(r, 11) for r in (0, 1, 3))
    assert analyse({**pickled(made), "job.log": said}).analysis.verdict.culprit.ranks == (2,)


def test_another_operation_at_the_same_place_is_a_mismatch(analyse: Analyse) -> None:
    made = {r: dump(8, 7) for r in (0, 1, 3)} | {2: dump(8, 7, name="nccl:_all_gather_base")}
    verdict = analyse(pickled(made)).analysis.verdict
    assert (verdict.cause, verdict.culprit.ranks) == ("collective_mismatch", (2,))


def test_amounts_of_an_all_to_all_may_differ(analyse: Analyse) -> None:
    made = {r: dump(8, 7, name="nccl:all_to_all", size=7 if r == 2 else 8) for r in range(4)}
    assert analyse(pickled(made)).analysis.verdict.culprit.ranks == ()


def test_gloo_calls_nothing_done_so_its_dumps_alone_are_no_hang(analyse: Analyse) -> None:
    made = {r: dump(9, 0, name="gloo:all_reduce") for r in (0, 1, 3)} | {2: dump(8, 0, name="gloo:all_reduce")}
    for d in made.values():
        status = d["pg_status"]["0"]
        status["last_completed_collective"] = status["last_enqueued_collective"]
    assert analyse(pickled(made)).analysis.verdict.culprit.ranks == ()


def test_the_rank_is_the_one_in_all_groups_whatever_the_file_is_called(analyse: Analyse) -> None:
    stopped, waiting = (DATA / "_dump_9").read_bytes(), (DATA / "_dump_0").read_bytes()
    incident = analyse({"a.bin": stopped, "_dump_3": waiting})
    assert incident.con.execute('SELECT DISTINCT file, rank FROM "groups" ORDER BY file').fetchall() == [
        ("_dump_3", 0),
        ("a.bin", 9),
    ]


# ---- from lines --------------------------------------------------------------------------------------------------------------------


def watchdog(rank: int, seq: int, op: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E321 02:07:08.40827125{rank} ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
    )


def test_of_watchdog_lines_the_rank_that_is_behind_is_named(analyse: Analyse) -> None:
    verdict = analyse({"job.log": "".join(watchdog(r, 90 if r == 2 else 94) for r in range(4))}).analysis.verdict
    assert (verdict.cause, verdict.culprit.ranks) == ("collective_hang", (2,))


def test_where_all_time_out_in_the_same_collective_nobody_is_named(analyse: Analyse) -> None:
    incident = analyse({"job.log": "".join(watchdog(r, 94) for r in range(4))})
    assert incident.analysis.verdict.culprit.ranks == ()
    assert incident.con.execute("SELECT basis, count(*) FROM hang_groups GROUP BY basis").fetchall() == [
        ("watchdog", 4)
    ]


def launches(last: Mapping[int, int]) -> str:
    out = []
    for rank, count in last.items():
        head = f"node-01:10{rank}:10{rank} [{rank}] NCCL INFO "
        out.append(
            f"{head}comm 0x55d{rank} rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank + 1}b000 commId 0xabc1 - Init COMPLETE"
        )
        out += [
            f"{head}AllReduce: opCount {n:x} sendbuff 0x7f10 recvbuff 0x7f20 count 1024 datatype 7 op 0 root 0 comm 0x55d{rank} [nranks=4] stream 0x33"
            for n in range(count + 1)
        ]
    return "\n".join(out) + "\n"


TIMED_OUT = "[rank0]:[E321 02:07:12.449400920 ProcessGroupNCCL.cpp:1709] [PG 1 Rank 0] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"


def test_of_nccls_own_calls_the_rank_with_fewer_is_named_when_something_timed_out(analyse: Analyse) -> None:
    calls = launches({0: 5, 1: 5, 2: 4, 3: 5})
    quiet = analyse({"nccl.log": calls})
    assert quiet.analysis.verdict.culprit.ranks == ()
    rows = quiet.con.execute(
        "SELECT rank, last_enqueued, verdict FROM hang_groups WHERE basis = 'nccl' ORDER BY rank"
    ).fetchall()
    assert rows == [(0, 5, None), (1, 5, None), (2, 4, "missing"), (3, 5, None)]
    assert analyse({"nccl.log": calls, "job.log": TIMED_OUT}).analysis.verdict.culprit.ranks == (2,)


def test_of_ras_the_rank_that_does_not_answer_is_named_when_something_timed_out(analyse: Analyse) -> None:
    """A communicator that lacks a rank in one snapshot is no hang (H5); the same beside a timeout is."""
    ras = "#1-0 (fa93daea854b060b) INCOMPLETE\n  Missing communicator data from 1 job process\n  The missing rank: 2\n"
    assert analyse({"ncclras.txt": ras}).analysis.verdict.culprit.ranks == ()
    verdict = analyse({"ncclras.txt": ras, "job.log": TIMED_OUT}).analysis.verdict
    assert (verdict.cause, verdict.culprit.ranks) == ("collective_hang", (2,))


def test_a_fault_that_a_log_shows_is_the_cause_and_not_the_hang(analyse: Analyse) -> None:
    kernel = "Jul  1 06:00:41 node-07 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    verdict = analyse({**pickled(STUCK), "hosts/node-07/kern.log": kernel}).analysis.verdict
    assert verdict.cause not in {"collective_hang", "unknown"}
    assert verdict.culprit.host == "node-07"


@pytest.mark.parametrize(("odd", "is_outlier"), [(1, True), (2, False)])
def test_stacks_are_grouped_and_few_that_stand_elsewhere_set_apart(
    analyse: Analyse, odd: int, is_outlier: bool
) -> None:
    def stack(rank: int) -> str:
        inner = "_next_data (dataloader.py:672)" if rank < odd else "all_reduce (distributed_c10d.py:2501)"
        return f'Process {100 + rank}: python train.py\nPython v3.11.4 (/usr/bin/python3.11)\n\nThread {100 + rank} (active): "MainThread"\n    {inner}\n    train (train.py:{10 + rank})\n'

    incident = analyse({f"pyspy_rank_{r}.txt": stack(r) for r in range(4)})
    rows = incident.con.execute(
        "SELECT functions, ranks, count, is_outlier FROM stack_groups ORDER BY functions"
    ).fetchall()
    assert rows[0] == ("_next_data < train", json.dumps(list(range(odd))).replace(" ", ""), odd, is_outlier)
    assert rows[1][2:] == (4 - odd, False)
    assert incident.analysis.verdict.culprit.ranks == ()
    confirmed = analyse({f"pyspy_rank_{r}.txt": stack(r) for r in range(4)} | {"job.log": TIMED_OUT})
    assert confirmed.analysis.verdict.culprit.ranks == ((0,) if is_outlier else ())
