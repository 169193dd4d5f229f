"""Headers that NCCL, PyTorch's C++ and Python loggers and trainers print (nccl.md 1, torch.md 1, trainer.md)."""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers import trainer
from postmortem.lines.headers.grammar import DATE, HMS, ISO, MON, REST, Header

LEVEL: Final = r"(?P<lvl>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"

# The rank within a process group is the global one only in the default group (`pgrank` yields to an outer `[rankN]:`).
_DESCRIPTION: Final = r"(?: ?\([^)]*\))?"
PROCESS_GROUP: Final = (
    Header("pg", r"^\[PG ID 0 PG GUID (?P<pg>[^ (\]]+)" + _DESCRIPTION + r" Rank (?P<pgrank>[0-9]+)\] *" + REST),
    Header("pg", r"^\[PG ID [0-9]+ PG GUID (?P<pg>[^ (\]]+) ?\(default_pg\) Rank (?P<pgrank>[0-9]+)\] *" + REST),
    Header("pg", r"^\[PG ID [0-9]+ PG GUID (?P<pg>[^ (\]]+)" + _DESCRIPTION + r" Rank [0-9]+\] *" + REST),
    Header("pg", r"^\[PG (?P<pg>0)" + _DESCRIPTION + r" Rank (?P<pgrank>[0-9]+)\] *" + REST),
    Header("pg", r"^\[PG (?P<pg>[^ \]]+) \(default_pg\) Rank (?P<pgrank>[0-9]+)\] *" + REST),
    Header("pg", r"^\[PG (?P<pg>[^ \]]+)" + _DESCRIPTION + r" Rank [0-9]+\] *" + REST),
    # Other programs print `[Rank 0] ` too, so without a group the words after it decide.
    Header(
        "pg",
        r"^\[Rank (?P<pgrank>[0-9]+)\] *(?P<rest>(?:Watchdog|NCCL|Process group|ProcessGroup|To avoid|Some NCCL|Timeout at|Exception \("
        r"|failure detected|Heartbeat|First PG|Received a|Observed|Terminating|Failed to check|Could not acquire|Found key|Collective) ?.*)$",
    ),
)

HEADERS: Final = (
    Header(
        "nccl",
        r"^(?P<host>[^ :\[\]]+):(?P<pid>[0-9]+):(?P<tid>[0-9]+) \[(?P<gpu>-?[0-9]+)\] (?:(?P<src>[^ ]+:[0-9]+) (?:\([^)]*\) )?)?NCCL (?P<lvl>INFO|WARN|ABORT) "
        + REST,
    ),
    Header(
        "nccl",
        r"^(?P<host>[^ :\[\]]+):(?P<pid>[0-9]+):(?P<tid>[0-9]+) \[(?P<gpu>-?[0-9]+)\] (?P<ms>[0-9.]+) (?P<src>[^ ]+:[0-9]+) NCCL (?P<lvl>TRACE) "
        + REST,
    ),
    Header("nccl", r"^(?P<host>[^ :\[\]]+):(?P<pid>[0-9]+):(?P<tid>[0-9]+) NCCL (?P<lvl>CALL) " + REST),
    # NCCL before 2.3 did not say that it was NCCL.
    Header(
        "nccl",
        r"^(?P<host>[^ :\[\]]+):(?P<pid>[0-9]+):(?P<tid>[0-9]+) \[(?P<gpu>-?[0-9]+)\] (?:(?P<src>[a-z][^ ]*\.(?:h|cc|cu):[0-9]+) )?(?P<lvl>INFO|WARN) "
        + REST,
    ),
    # Reports mask numbers (`host:XXXXXX [5]`), and one vendor puts rank/world, time, source and host in brackets.
    Header(
        "nccl",
        r"^(?P<host>[^ :\[\]]+):[Xx*]+(?::[Xx*]+)? \[(?P<gpu>-?[0-9]+)\] (?:(?P<src>[^ ]+:[0-9]+) (?:\([^)]*\) )?)?NCCL (?P<lvl>INFO|WARN) "
        + REST,
    ),
    Header(
        "nccl",
        r"^\[(?P<rank>[0-9]+)/[0-9]+\]\["
        + ISO
        + r"\] \[(?P<src>[^\]]+:[0-9]+)\] \[(?P<host>[^:\]]+):pid=(?P<pid>[0-9]+)\] NCCL (?P<lvl>INFO|WARN) "
        + REST,
    ),
    Header(
        "nccl",
        r"^\[(?P<host>[^ :\[\]]+)\] ?\[(?P<pid>[0-9]+):(?P<tid>[0-9]+)\] ?\[(?P<gpu>-?[0-9]+)\] ?(?:\[(?P<src>[^ \]]+:[0-9]+)\] ?)?NCCL (?P<lvl>INFO|WARN) "
        + REST,
    ),
    Header("rankno", r"^\[(?P<rank>[0-9]+)\] (?P<rest>[^ :\[\]]+:[0-9]+:[0-9]+ \[[0-9]+\] .*NCCL .*)$"),
    Header("ray", r"^\(pid=(?P<pid>[0-9]+)(?:, ip=(?P<ip>[0-9.]+))?\) (?P<rest>.*NCCL .*)$"),
    Header(
        "nccl",
        r"^(?:(?P<host>[A-Za-z][^ :\[\]]*) )?(?:\[(?P<gpu>[0-9]+)\] )?(?:(?P<src>[^ ]+:[0-9]+) (?:\([^)]*\) )?)?NCCL (?P<lvl>INFO|WARN) "
        + REST,
    ),
    Header(
        "glog",
        r"^\[?(?P<lvl>[IWEF])(?P<md>[0-9]{3,4}) "
        + HMS
        + r"(?:\.(?P<frac>[0-9]{1,9}))? +(?:(?P<tid>[0-9]+) )?(?P<src>[^ \]]+:[0-9]+)\] ?"
        + REST,
    ),
    # Google's logging since 0.6 prints the year.
    Header(
        "glog",
        r"^\[?(?P<lvl>[IWEF])(?P<y>20[0-9]{2})(?P<mo>[01][0-9])(?P<d>[0-3][0-9]) "
        + HMS
        + r"(?:\.(?P<frac>[0-9]{1,9}))? +(?:(?P<tid>[0-9]+) )?(?P<src>[^ \]]+:[0-9]+)\] ?"
        + REST,
    ),
    # 3FS: `[2025-04-13T07:18:58.223072746+00:00 hf3fs_fuse_main:235453 StorageClientImpl.cc:1173 ERROR]`.
    Header(
        "hf3fs",
        r"^\["
        + ISO
        + r" (?P<tag>[A-Za-z][A-Za-z0-9_]*): *(?P<tid>[0-9]+) (?P<src>[A-Za-z0-9_]+\.(?:cc|cpp|h):[0-9]+) "
        + LEVEL
        + r"\] "
        + REST,
    ),
    Header("glog", r"^\[(?P<lvl>[IWEF]) (?P<src>[^ \]]+:[0-9]+)\] ?" + REST),
    Header(
        "raylog",
        r"^\["
        + ISO
        + r" (?P<lvl>[DIWECF]) (?P<pid>[0-9]+) (?P<tid>[0-9]+)\] (?:\([^)]*\) )?(?P<src>[^ ]+:[0-9]+): +"
        + REST,
    ),
    Header("what", r"^ *(?:Unhandled exception: [^ ]+ )?what\(\): +" + REST),
    *PROCESS_GROUP,
    Header("pylog", r"^\[" + ISO + r"\] (?P<tag>[A-Za-z_][A-Za-z0-9_.]*): \[" + LEVEL + r"\] ?" + REST),
    Header("pylog", r"^\[" + ISO + r"\] \[" + LEVEL + r"\] \[(?P<src>[^\]]+)\] ?" + REST),
    Header("pylog", r"^\[" + ISO + r"\] \[" + LEVEL + r"\] ?" + REST),
    Header("pylog", r"^" + LEVEL + r":(?P<tag>[A-Za-z_][A-Za-z0-9_.]*): ?" + REST),
    Header("pylog", r"^\[titan\] " + ISO + r" - [^ ]+ - " + LEVEL + r" - " + REST),
    Header("pylog", r"^(?:- )?" + ISO + r" - (?P<tag>[^ ]+) - " + LEVEL + r" - " + REST),
    *trainer.HEADERS,
    Header("pylog", r"^\[" + LEVEL + r"\|(?P<src>[^\]]+)\](?: *" + ISO + r")?[ >]*" + REST),
    Header(
        "fabricmanager",
        r"^\["
        + MON
        + r" +(?P<d>[0-9]{1,2}) (?P<y>20[0-9]{2}) "
        + HMS
        + r"\] \["
        + LEVEL
        + r"\] (?:\[tid [0-9]+\] )?"
        + REST,
    ),
    Header("fabricmanager", r"^\[" + LEVEL + r"\] \[tid [0-9]+\] " + REST),
    Header("pidrank", r"^\[PID:(?P<pid>[0-9]+)\] (?:\[RANK:(?P<rank>[0-9]+)\] )?" + REST),
    Header("stamp", r"^\[" + ISO + r"\] ?" + REST),
    Header("stamp", r"^" + ISO + r" (?:\| )?" + LEVEL + r"(?: \||:)? " + REST),
    Header("stamp", r"^" + ISO + r" (?P<rest>[^ ].*)$"),
    # NCCL's time format is free text, and wrappers print what they like: last of all, anything before the header proper
    # (but no JSON object: the envelope is opened later).
    Header(
        "lead",
        r"^[^{].{0,159}?[ \]|>](?P<rest>[^ :\[\]|<>]+:[0-9]+:[0-9]+ \[-?[0-9]+\] (?:NCCL INFO |[^ ]+:[0-9]+ (?:\([^)]*\) )?NCCL WARN ).*)$",
    ),
)
_ = DATE
