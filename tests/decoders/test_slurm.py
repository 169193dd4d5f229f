"""Slurm's tools: sacct as a table and as JSON, scontrol, sinfo."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from decoder_samples import pick, rows, run, sniffed
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.decoders import sniff
from postmortem.decoders.schedulers.slurm_nodes import states_of


def us(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc,arg-type]


# ---- sacct with columns of fixed width: the default columns, and some of --format

DEFAULT = """\
JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
2563198            bash      debug     acct-1          1     FAILED      2:0
2563198.ext+     extern                acct-1          1  COMPLETED      0:0
2563198.0          bash                acct-1          1     FAILED      2:0
2563199       long name      debug     acct-1          1 CANCELLED+     0:15
"""
CHOSEN = """\
       JobID      State               Start                 End        NodeList  AllocTRES FailedNo
------------ ---------- ------------------- ------------------- --------------- ---------- --------
1234          NODE_FAIL 2025-06-01T00:00:10 2025-06-01T03:24:40      node-[1-2] gres/gpu=2  node-2
1235            RUNNING 2025-06-01T03:30:00             Unknown node-[01-08,10+ billing=2+
"""


def test_the_default_columns_of_sacct() -> None:
    found = rows(sniffed("sacct.txt", DEFAULT), "events")
    assert pick(found, "event", "job_id", "exit_code", "signal", "value", "line") == [
        ("job.end", "2563198", 2, None, "FAILED", 3),
        ("job.cancelled", "2563199", None, 15, "CANCELLED", 6),
    ]


def test_chosen_columns_of_sacct() -> None:
    decoded = sniffed("sacct.txt", CHOSEN)
    assert pick(rows(decoded, "events"), "event", "job_id", "stamp_us", "stamp_zone_s") == [
        ("job.start", "1234", us(2025, 6, 1, 0, 0, 10), None),
        ("job.node_fail", "1234", us(2025, 6, 1, 3, 24, 40), None),
        ("job.end", "1234", us(2025, 6, 1, 3, 24, 40), None),
        ("job.start", "1235", us(2025, 6, 1, 3, 30), None),
    ]
    # What a column cut off is no list of nodes and no number of GPUs.
    assert pick(rows(decoded, "facts"), "fact", "job_id", "value") == [
        ("job.gpus", "1234", "2"),
        ("job.nodes", "1234", "node-1,node-2"),
    ]


def test_a_table_with_other_lines_is_left_to_the_line_pass() -> None:
    assert (
        sniff("x", (DEFAULT + "slurmstepd: error: *** JOB 1 ON node-1 CANCELLED AT 2025-06-01T03:20:11 ***\n").encode())
        is None
    )


def test_jobs_that_ran_at_the_same_time_state_no_nodes() -> None:
    head = "JobID|State|NodeList|Start|End|AllocTRES\n"
    first = "1|COMPLETED|node-1|2025-06-01T00:00:00|2025-06-01T02:00:00|gres/gpu=8\n"
    after = "2|FAILED|node-2|2025-06-01T02:00:00|2025-06-01T03:00:00|gres/gpu=8\n"
    during = "3|RUNNING|node-3|2025-06-01T01:00:00|Unknown|gres/gpu=4096\n"
    attempts = sniffed("s", head + first + after)
    assert pick(rows(attempts, "facts"), "value") == [("8",), ("node-1",), ("8",), ("node-2",)]
    crowd = sniffed("s", head + first + during + after)
    assert rows(crowd, "facts") == []
    assert "at the same time" in crowd.notes[0]
    assert len(rows(crowd, "events")) == 5


# ---- JSON. The shapes are those of data_parser/v0.0.43 parsers.c, v0.0.39 and openapi/dbv0.0.37.


def no_val(number: int | None) -> dict[str, Any]:
    return {"set": number is not None, "infinite": False, "number": number or 0}


def job(version: int, state: str, code: int | None, signal: int | None) -> dict[str, Any]:
    is_new = version >= 40
    exit_code: dict[str, Any] = {"status": ["ERROR"] if is_new else "ERROR"}
    exit_code["return_code"] = no_val(code) if is_new else code
    if is_new:
        exit_code["signal"] = {"id": no_val(signal), "name": "KILL" if signal else ""}
    elif signal:
        exit_code["signal"] = {"signal_id": signal, "name": "KILL"}
    return {
        "account": "acct-1",
        "allocation_nodes": 16,
        "derived_exit_code": exit_code,
        "time": {"elapsed": 12270, "start": 1748736010, "end": 1748748280, "limit": no_val(1440) if is_new else 1440},
        "exit_code": exit_code,
        "failed_node": "node-17" if state == "NODE_FAIL" else "",
        "job_id": 1234,
        "nodes": "node-[01-02]",
        "state": {"current": [state] if is_new else state, "reason": "None"},
        "steps": [{"nodes": {"count": 2, "range": "node-[01-02]", "list": ["node-01"]}, "state": "CANCELLED"}],
        "tres": {"allocated": [
            {"type": "cpu", "name": "", "id": 1, "count": 128},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 16},
            {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 16},
        ], "requested": []},
    }  # fmt: skip


META = {"plugins": {"data_parser": "data_parser/v0.0.43"}, "command": ["--json"], "Slurm": {"release": "25.05.1"}}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("version", [37, 39, 40, 43])
def test_sacct_json(version: int, indent: int | None) -> None:
    one = job(version, "NODE_FAIL", None if version >= 40 else 0, 9)
    document = {"meta": META, "errors": [], "jobs": [one]} if version < 40 else {"jobs": [one], "meta": META}
    text = json.dumps(document, indent=indent)
    decoded = sniffed("sacct.json", text)
    assert pick(rows(decoded, "events"), "event", "job_id", "stamp_us", "stamp_zone_s", "host", "signal", "exit_code") == [
        ("job.start", "1234", 1748736010_000_000, 0, None, None, None),
        ("job.node_fail", "1234", 1748748280_000_000, 0, "node-17", 9, None),
        ("job.end", "1234", 1748748280_000_000, 0, None, 9, None),
    ]  # fmt: skip
    assert pick(rows(decoded, "facts"), "fact", "value") == [("job.gpus", "16"), ("job.nodes", "node-01,node-02")]
    for row in rows(decoded, "events"):
        assert row["text"] in text.split("\n")[row["line"] - 1]
        assert text[row["offset"] :].lstrip().startswith(row["text"][:20])
        assert "NODE_FAIL" in row["message"]


def test_sacct_json_that_is_cut() -> None:
    text = json.dumps({"jobs": [job(43, "FAILED", 1, None), job(43, "FAILED", 1, None)], "meta": META}, indent=2)
    decoded = sniffed("s", text[: text.rindex('"job_id"')])
    assert pick(rows(decoded, "events"), "event") == [("job.start",), ("job.end",)]
    assert "damaged or cut" in decoded.notes[0]


@pytest.mark.parametrize(
    ("exit_code", "expected"),
    [
        (no_val(256), (1, 0)),  # 23.02: the status of wait(2)
        (139, (0, 11)),
        ({"status": ["SUCCESS"], "return_code": no_val(134), "signal": {"id": no_val(None), "name": ""}}, (134, 0)),
    ],
)
def test_scontrol_show_job_json(exit_code: object, expected: tuple[int, int]) -> None:
    value = {
        "job_id": 560, "job_state": ["FAILED"], "state_reason": "NonZeroExitCode", "nodes": "c[31-32]", "exit_code": exit_code,
        "start_time": no_val(1777941810), "end_time": 1777941910, "tres_alloc_str": "cpu=4,node=2,billing=4,gres/gpu=8",
        "job_resources": {"nodes": "c[31-32]", "allocated_nodes": [{"nodename": "c31"}]},
    }  # fmt: skip
    decoded = sniffed("squeue.json", json.dumps({"jobs": [value], "last_backfill": no_val(1), "meta": META}))
    found = rows(decoded, "events")
    assert pick(found, "event", "stamp_us") == [("job.start", 1777941810_000_000), ("job.end", 1777941910_000_000)]
    assert (found[1]["exit_code"], found[1]["signal"] or 0, found[1]["reason"]) == (*expected, "NonZeroExitCode")
    assert pick(rows(decoded, "facts"), "value") == [("8",), ("c31,c32",)]


def test_a_pending_job_gives_nothing() -> None:
    value = {
        "job_id": 5,
        "job_state": ["PENDING"],
        "start_time": no_val(1777941810),
        "nodes": "",
        "state_reason": "Priority",
    }
    assert sniffed("s", json.dumps({"jobs": [value], "meta": META})).tables == {}


def node(state: list[str] | str, reason: str, **more: object) -> dict[str, Any]:
    return {
        "name": "compute-0", "address": "10.216.61.171", "hostname": "compute-0", "state": state, "operating_system": "Linux 6.8",
        "reason": reason, "reason_changed_at": no_val(1769096589), "reason_set_by_user": "slurm", "boot_time": no_val(1769026000),
        "slurmd_start_time": no_val(1769026890), **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "event"),
    [
        (node(["DOWN", "DYNAMIC_NORM"], "Not responding"), ("node.down", "fatal")),
        (node("down", "Not responding", state_flags=["NOT_RESPONDING"]), ("node.down", "fatal")),
        (node(["IDLE", "DRAIN"], "Kill task failed"), ("node.drain", "error")),
        (node(["IDLE", "DRAIN"], "maintenance", reason_set_by_user="alice"), ("node.drain", "warning")),
        (node(["DOWN"], "Node unexpectedly rebooted"), ("host.boot", "error")),
    ],
)
def test_scontrol_show_node_json(value: dict[str, Any], event: tuple[str, str]) -> None:
    found = rows(sniffed("nodes.json", json.dumps({"nodes": [value], "meta": META}, indent=2)), "events")
    assert pick(found, "event", "severity", "host", "stamp_us") == [
        (*event, "compute-0", 1769096589_000_000),
        ("host.boot", "info", "compute-0", 1769026000_000_000),
    ]


def test_a_node_that_is_well_only_says_when_it_booted() -> None:
    found = rows(sniffed("n", json.dumps({"nodes": [node(["MIXED"], "")], "meta": META})), "events")
    assert pick(found, "event", "severity") == [("host.boot", "info")]


def test_sinfo_json() -> None:
    group = {
        "port": 6818, "node": {"state": ["DOWN", "NOT_RESPONDING"]}, "nodes": {"total": 2, "nodes": ["node-[1-2]"]},
        "reason": {"description": "Not responding", "time": 1769096589, "user": "slurm"}, "partition": {"name": "gpu"},
    }  # fmt: skip
    found = rows(sniffed("sinfo.json", json.dumps({"sinfo": [group], "meta": META})), "events")
    assert pick(found, "event", "host", "stamp_us") == [
        ("node.down", "node-1", 1769096589_000_000),
        ("node.down", "node-2", 1769096589_000_000),
    ]


# ---- scontrol as text: real output of 23.11 (SckyzO/slurm_exporter issue 198), 24.11 (soperator) and 24.05, shortened

NODES = """\
NodeName=gpu02 Arch=x86_64 CoresPerSocket=4 
   CPUAlloc=0 CPUEfctv=16 CPUTot=16 CPULoad=0.00
   AvailableFeatures=(null)
   Gres=gpu:1080:7,gpu:block:1
   NodeAddr=gpu02 NodeHostName=gpu02 Version=23.11.4
   OS=Linux 6.8.0-31-generic #31-Ubuntu SMP PREEMPT_DYNAMIC Sat Apr 20 00:40:06 UTC 2024 
   State=DOWN+NOT_RESPONDING ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=ifn,dll 
   BootTime=2025-10-24T11:23:24 SlurmdStartTime=2026-07-07T13:36:57
   LastBusyTime=2026-07-25T11:54:03 ResumeAfterTime=None
   CfgTRES=cpu=16,gres/gpu=7
   AllocTRES=
   CurrentWatts=0 AveWatts=0
   Reason=Not responding [slurm@2026-07-25T11:59:01]

NodeName=worker-1 Arch=x86_64 CoresPerSocket=32 
   State=IDLE+DYNAMIC_NORM ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   BootTime=2026-01-14 13:48:23.UTC SlurmdStartTime=2026-01-14 14:04:46.UTC

NodeName=c015 Arch=x86_64 CoresPerSocket=32
   State=DOWN*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   BootTime=None SlurmdStartTime=None
   Reason=Low RealMemory (reported 500 < 100.00% of 1000) [root@2022-07-23T15:27:10]
        second line of the reason
"""
JOB = """\
JobId=2563198 JobName=bash
   UserId=alice(3792) GroupId=users(100) MCS_label=N/A
   JobState=NODE_FAIL Reason=NodeDown FailedNode=hopper012 Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:9
   RunTime=00:02:01 TimeLimit=04:00:00 TimeMin=N/A
   SubmitTime=2024-06-10T22:40:00 EligibleTime=2024-06-10T22:40:00
   StartTime=2024-06-10T22:40:02 EndTime=2024-06-10T22:42:03 Deadline=N/A
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=hopper[011-012]
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=2,mem=2938M,node=2,billing=1,gres/gpu=4
   AllocTRES=cpu=2,mem=2938M,node=2,billing=1,gres/gpu=2
   Command=bash
"""


def test_scontrol_show_node() -> None:
    found = rows(sniffed("nodes.txt", NODES), "events")
    assert pick(found, "event", "severity", "host", "reason", "stamp_us", "line") == [
        ("node.down", "fatal", "gpu02", "Not responding", us(2026, 7, 25, 11, 59, 1), 14),
        ("host.boot", "info", "gpu02", None, us(2025, 10, 24, 11, 23, 24), 9),
        ("host.boot", "info", "worker-1", None, us(2026, 1, 14, 13, 48, 23), 18),
        (
            "node.down",
            "fatal",
            "c015",
            "Low RealMemory (reported 500 < 100.00% of 1000)",
            us(2022, 7, 23, 15, 27, 10),
            23,
        ),
    ]
    assert found[2]["stamp_zone_s"] == 0


@pytest.mark.parametrize("is_one_line", [False, True])
def test_scontrol_show_job(is_one_line: bool) -> None:
    text = " ".join(JOB.split()) + "\n" if is_one_line else JOB
    decoded = sniffed("job.txt", text)
    assert pick(rows(decoded, "events"), "event", "job_id", "host", "stamp_us", "signal", "reason", "line") == [
        ("job.start", "2563198", None, us(2024, 6, 10, 22, 40, 2), None, None, 1 if is_one_line else 3),
        ("job.node_fail", "2563198", "hopper012", us(2024, 6, 10, 22, 42, 3), 9, "NodeDown", 1 if is_one_line else 3),
        ("job.end", "2563198", None, us(2024, 6, 10, 22, 42, 3), 9, "NodeDown", 1 if is_one_line else 3),
    ]
    assert pick(rows(decoded, "facts"), "fact", "value") == [("job.gpus", "2"), ("job.nodes", "hopper011,hopper012")]


def test_jobs_and_nodes_may_share_a_file() -> None:
    found = rows(sniffed("x", JOB + "\n" + NODES), "events")
    assert len(found) == 7
    assert sniff("x", (JOB + "srun: error: Node failure on node-1\n").encode()) is None


# ---- sinfo: real output of several clusters (ArjunaUsers issue 69, hpc-community.unige.ch, elasticluster issue 272)

SINFO = """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
cpu          up 7-00:00:00      2  drng@ d[001-002]
cpu          up 7-00:00:00      1  fail* f005
gpu          up 14-00:00:0      7    mix c[006-007,014-015,017-018,023]
debug*       up      10:00      1   idle e001
big          up      10:00      1  idle~ cloud-1
big          up      10:00      1  idle* e002
all          up      10:00      1  down* node-17
old          up      10:00      1  down* node-17
empty        up      10:00      0    n/a
"""
LONG = """\
Thu Jun  9 22:22:36 2016
PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST
main*        up   infinite 1-infinite   no       NO        all      1   allocated             compute001
main*        up   infinite 1-infinite   no       NO        all      2       down*             compute[002-003]
main*        up   infinite 1-infinite   no       NO        all      1       maint   res-1     compute004
"""
REASONS = """\
REASON               USER      TIMESTAMP           NODELIST
issue-5894           alice     2025-04-02T16:01:38 cpu242
gres/gpu GRES core s slurm     2025-04-03T15:48:07 gpu[013,021]
Not responding       slurm     2025-04-03T15:49:07 gpu010
Node unexpectedly re slurm     2025-04-03T15:50:07 gpu011
Kill task failed     root      Unknown             gpu012
"""
NODES_LONG = """\
Thu Jun  9 22:22:36 2016
NODELIST    NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT FEATURES REASON
compute001      1     main*       down*   12   12:1:1  64267        0      1   (null) Not responding
compute002      1     main*        idle   12   12:1:1  64267        0      1   (null) none
compute003      1     main*    drained    12   12:1:1  64267        0      1   (null) Kill task failed
"""


def test_sinfo() -> None:
    found = rows(sniffed("sinfo.txt", SINFO), "events")
    assert pick(found, "event", "severity", "host", "line") == [
        ("node.drain", "warning", "d001", 2),
        ("node.drain", "warning", "d002", 2),
        ("node.drain", "warning", "f005", 3),
        ("node.down", "warning", "e002", 7),
        ("node.down", "warning", "node-17", 8),
    ]
    assert {row["stamp_us"] for row in found} == {None}


def test_sinfo_long() -> None:
    found = rows(sniffed("sinfo.txt", LONG), "events")
    assert pick(found, "event", "host") == [("node.down", "compute002"), ("node.down", "compute003")]


def test_sinfo_reasons() -> None:
    found = rows(sniffed("sinfo.txt", REASONS), "events")
    assert pick(found, "event", "severity", "host", "stamp_us") == [
        ("node.drain", "warning", "cpu242", us(2025, 4, 2, 16, 1, 38)),
        ("node.drain", "error", "gpu013", us(2025, 4, 3, 15, 48, 7)),
        ("node.drain", "error", "gpu021", us(2025, 4, 3, 15, 48, 7)),
        ("node.down", "fatal", "gpu010", us(2025, 4, 3, 15, 49, 7)),
        ("host.boot", "error", "gpu011", us(2025, 4, 3, 15, 50, 7)),
        ("node.drain", "error", "gpu012", None),
    ]


def test_sinfo_by_node() -> None:
    found = rows(sniffed("sinfo.txt", NODES_LONG), "events")
    assert pick(found, "event", "severity", "host", "reason", "line") == [
        ("node.down", "fatal", "compute001", "Not responding", 3),
        ("node.drain", "error", "compute003", "Kill task failed", 5),
    ]


def test_several_tables_of_sinfo_may_share_a_file() -> None:
    assert len(rows(sniffed("sinfo.txt", SINFO + "\n" + REASONS), "events")) == 11
    assert (
        sniff("x", (SINFO + "c015: Reason=Node unexpectedly rebooted [slurm@2022-07-23T15:27:10]\n").encode()) is None
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DOWN*+DRAIN", {"DOWN", "DRAIN", "NOT_RESPONDING"}),
        ("drng@", {"DRNG"}),
        ("MIXED+CLOUD+POWERED_DOWN", {"MIXED", "CLOUD", "POWERED_DOWN"}),
        ("", set()),
    ],
)
def test_states(text: str, words: set[str]) -> None:
    assert states_of(text) == words


SEEDS = [
    DEFAULT,
    CHOSEN,
    NODES,
    JOB,
    SINFO,
    LONG,
    REASONS,
    NODES_LONG,
    json.dumps({"jobs": [job(43, "FAILED", 1, 9)]}, indent=1),
]
DECODERS = ("sacct", "sacct_table", "slurm_json", "scontrol", "sinfo")


@settings(max_examples=150, deadline=None)
@given(seed=st.sampled_from(SEEDS), number=st.integers(0, 2**32))
def test_damaged_output_is_read_without_an_exception(seed: str, number: int) -> None:
    chance = random.Random(number)
    raw = bytearray(seed.encode())
    for _ in range(chance.randrange(1, 8)):
        raw[chance.randrange(len(raw))] = chance.choice(b'\x00\xff\n\t |[]{}"0129=*+@-:,')
    for decoder in DECODERS:
        run(decoder, "x", bytes(raw[: chance.randrange(len(raw) + 1)]))
    sniff("x", bytes(raw))


@pytest.mark.parametrize(
    "value",
    [
        {"job_id": 1, "derived_exit_code": 1, "state": {"current": []}, "time": 5, "tres": {"allocated": [1, None]}, "nodes": ["x"]},
        {"job_id": 10**400, "derived_exit_code": {}, "time": {"start": 10**300, "end": -5}, "state": "FAILED"},
        {"job_id": True, "derived_exit_code": None},
        {"job_id": "7", "derived_exit_code": 0, "exit_code": {"return_code": {"set": True, "number": "x"}}, "state": None},
    ],
)  # fmt: skip
def test_odd_values_are_no_exception(value: object) -> None:
    run("slurm_json", "x", json.dumps({"jobs": [value, 5, None]}))
    run("slurm_json", "x", '{"jobs": [' + '{"a":' * 5000)


def test_a_list_of_every_node_is_bounded() -> None:
    text = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n" + "p up 1:00 9 down* n[1-999999]\n" * 3
    assert len(rows(run("sinfo", "x", text), "events")) <= 100_000
