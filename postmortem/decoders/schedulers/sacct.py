"""`sacct` as a table -> start and end of each job, its GPUs and nodes.

    JobID|State|ExitCode|DerivedExitCode|NodeList|Start|End|Elapsed|Timelimit|AllocTRES
    8907460|FAILED|1:0|0:0|node-[06,08-09]|2026-04-20T20:57:05|2026-04-20T21:06:30|00:09:25|2-00:00:00|billing=576,gres/gpu=24,node=3

    JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
    ------------ ---------- ---------- ---------- ---------- ---------- --------
    2563198            bash      debug     acct-1          1     FAILED      2:0
    2563198.ext+     extern                acct-1          1  COMPLETED      0:0

A header of field names, then a row per job and per step (slurm/src/sacct/sacct.c; `--parsable` ends each row with a bar). Without
`--parsable` columns have fixed widths, and what is cut ends with `+` (slurm/src/common/print_fields.c). Times are local to the cluster
and carry no zone. Rows of steps (`8907460.batch`) count only when their job's own row is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, evidence, read_text
from postmortem.decoders.schedulers.slurm_jobs import Job, Jobs, exit_pair, gpus_in, slurm_time
from postmortem.patterns import later

MAX_ROWS: Final = 100_000

_IDS: Final = ("JobID", "JobIDRaw")
_FIELDS: Final = frozenset(
    "State ExitCode DerivedExitCode NodeList Start End Elapsed Timelimit AllocTRES NNodes JobName Partition Account User "
    "Submit Reason FailedNode AllocCPUS NCPUS ReqTRES Restarts".split()
)
_DASHES: Final = later(r"[ \t]*-+(?: -+)*[ \t\r]*")
_ROW: Final = later(r"[ \t]*(?:[0-9][0-9_.+\[]|[0-9] |[0-9]$|$)")
_Split = Callable[[str], list[str]]


def looks_like_sacct(head: str) -> bool:
    """The first line is a header: a job id and at least two more of sacct's fields between bars."""
    return _is_header(head.split("\n", 1)[0].strip().strip("|").split("|"))


def looks_like_sacct_table(head: str) -> bool:
    """A header of fields, dashes under each of them, and below them only rows that begin with a job id."""
    lines = head.split("\n", 2)
    if len(lines) < 2 or not _DASHES.fullmatch(lines[1]) or not _is_header(lines[0].split()):
        return False
    rows = lines[2].split("\n")[:-1] if len(lines) > 2 else []
    return len(lines[0].split()) == len(lines[1].split()) and all(_ROW.match(row.rstrip("\r")) for row in rows)


def _is_header(names: list[str]) -> bool:
    return bool(set(names) & set(_IDS)) and len(set(names) & _FIELDS) >= 2 and len(set(names)) >= 3


def decode_sacct(member: MemberLike) -> Decoded:
    """Rows of `Jobs.add` for each job of a table with bars or with fixed widths."""
    decoded = Decoded()
    rows, odd = _table(read_text(member, decoded))
    listed = {row["id"] for _, _, row in rows if "." not in row["id"]}
    jobs = Jobs()
    for number, line, row in rows[:MAX_ROWS]:
        job, _, step = row["id"].partition(".")
        if step and (job in listed or step.startswith("ext")):
            continue
        code, signal = exit_pair(row.get("ExitCode", ""))
        jobs.add(
            Job(
                job,
                row.get("State", ""),
                slurm_time(row.get("Start", "")),
                slurm_time(row.get("End", "")),
                code,
                signal,
                row.get("NodeList", ""),
                row.get("FailedNode", ""),
                row.get("Reason", ""),
                gpus_in(row.get("AllocTRES", "")),
            ),
            evidence(member, number, line, "scheduler"),
        )
    if odd:
        decoded.notes.append(f"{odd} rows with too few fields")
    if len(rows) > MAX_ROWS:
        decoded.notes.append(f"only the first {MAX_ROWS} of {len(rows)} rows were read")
    jobs.fill(decoded)
    return decoded


def _table(text: str) -> tuple[list[tuple[int, str, dict[str, str]]], int]:
    """(line number, line, fields) of each row, and how many rows are cut. A Python loop: a table of jobs, not a log."""
    header, _, body = text.partition("\n")
    under = body.split("\n", 1)[0]
    split: _Split = _by_dashes(under) if _DASHES.fullmatch(under) else _by_bars
    names = [name for name in split(header) if name]
    rows: list[tuple[int, str, dict[str, str]]] = []
    odd = 0
    for number, raw in enumerate(body.split("\n"), 2):
        line = raw.rstrip("\r")
        if not line.strip() or _DASHES.fullmatch(line):
            continue
        cells = split(line)
        if len(cells) < len(names):
            odd += 1
            continue
        fields = dict(zip(names, cells, strict=False))
        fields["id"] = next((fields[k] for k in _IDS if fields.get(k)), "")
        if fields["id"] not in _IDS:
            rows.append((number, line, fields))
    return rows, odd


def _by_bars(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def _by_dashes(dashes: str) -> _Split:
    """The cells above or below each run of dashes; blanks at a line's end may be gone."""
    spans = [found.span() for found in re.finditer("-+", dashes)]
    return lambda line: [line[a:b].strip() for a, b in spans]


FORMATS: Final = (
    Format(
        "sacct",
        "sacct --parsable: start, end, state, nodes and GPUs of jobs",
        "Slurm 17 and later",
        "SchedMD/slurm src/sacct",
        lambda head: looks_like_sacct(head.text),
        lambda member, hints: decode_sacct(member),
        in_section=True,
    ),
    Format(
        "sacct_table",
        "sacct with columns of fixed width: the same of what its columns show",
        "Slurm 17 and later",
        "SchedMD/slurm src/sacct/print.c, src/common/print_fields.c",
        lambda head: looks_like_sacct_table(head.text),
        lambda member, hints: decode_sacct(member),
        in_section=True,
    ),
)
