"""A stuck job: which ranks the others wait for, from flight recorders, watchdog lines, NCCL's calls, RAS and stacks.

Fills the public tables `hang_groups` and `stack_groups`. A dump is a snapshot and no hang (rule H5): ranks are named only where others wait
for them, and not where two dumps of a rank show that it moved on, unless a log says that something timed out. What only
counts without waiting (NCCL's calls, RAS, stacks, gloo) names ranks only then.
"""

from __future__ import annotations

import json
from typing import Any, Final

import duckdb

from postmortem.analysis.derived import Derived, table_rows
from postmortem.analysis.hang_absence import judge
from postmortem.analysis.hang_graph import Found, Group, Picture, Standing, Wait
from postmortem.analysis.model import Culprit
from postmortem.tables.statements import run

SEEN_P: Final = 0.85
ABSENT_P: Final = 0.6
LINES_P: Final = 0.55
THIN_P: Final = 0.35
"""Chances that the ranks named are the right ones, by what names them. Their own dumps (H2, H2b: all right on the labelled folders, four sets of one
tree, hence not "almost certain"); absence alone (H7: a suspect, below H2); lines of logs that give no group's members (J6: more than half of such timeouts
have their cause in the host of one rank, and counts, RAS and stacks show one that stands apart, not why: "possible"); absence where the others have
called nothing after what is open, as in a running job (H5: a snapshot is no hang, so not established). `benchmarks/hangs.py` measures the dumps."""
MAX_NAMED: Final = 64
MAX_SHOWN: Final = 8


def hang(con: duckdb.DuckDBPyConnection) -> Derived | None:
    """The ranks at fault in a stuck job by its flight recorders; None where nobody can be named. Fills the tables."""
    run(con, "postmortem.analysis", "hangs.sql")
    con.execute("CREATE TEMP TABLE hang_culprits (rank BIGINT, how VARCHAR, pg VARCHAR, seq BIGINT, is_weak BOOLEAN)")
    is_confirmed = _is_confirmed(con)
    picture = _dumps(con)
    found = judge(picture, is_confirmed=is_confirmed) if is_confirmed or not _has_moved(con) else Found()
    if not picture.ranks:
        found = judge(_watchdogs(con), is_confirmed=True) if is_confirmed else Found()
    if not found.guilty and is_confirmed:
        found = _counted(con)
    if not 0 < len(found.guilty) <= MAX_NAMED or len(found.guilty) * 2 > max(2, _size(con, picture)):
        return None
    _mark(con, found)
    if not picture.ranks:
        return _from_lines(con, found)
    is_thin = found.by_absence and not is_confirmed and not _went_on(picture, found)
    return _derived(con, picture, found, THIN_P if is_thin else ABSENT_P if found.by_absence else SEEN_P)


def hung_ranks(con: duckdb.DuckDBPyConnection, *, is_weak: bool) -> tuple[int, ...]:
    """The ranks that `hang` has found: by dumps, or (`is_weak`) by lines and counts."""
    rows = con.execute("SELECT rank FROM hang_culprits WHERE is_weak = ? ORDER BY rank", [is_weak]).fetchall()
    return tuple(int(r[0]) for r in rows)


def _is_confirmed(con: duckdb.DuckDBPyConnection) -> bool:
    """A log says that something waited in vain."""
    row = con.execute("SELECT count(*) FROM signs WHERE cause = 'collective_hang'").fetchone()
    return bool(row and row[0])


def _has_moved(con: duckdb.DuckDBPyConnection) -> bool:
    row = con.execute("SELECT count(DISTINCT rank) FROM hang_dumps WHERE has_moved").fetchone()
    return bool(row and row[0])


def _size(con: duckdb.DuckDBPyConnection, picture: Picture) -> int:
    """Ranks of the job, as far as is known."""
    row = con.execute("SELECT count(DISTINCT rank) FROM hang_groups").fetchone()
    return max(len({m for g in picture.groups.values() for m in g.members} | picture.ranks), int(row[0]) if row else 0)


def _dumps(con: duckdb.DuckDBPyConnection) -> Picture:
    """What the flight recorders say. A Python loop over ranks times groups: the chain of waiting is followed there."""
    groups = {
        r["pg"]: Group(r["pg"], r["description"] or "", tuple(json.loads(r["members"])))
        for r in table_rows(con, "SELECT * FROM hang_groups_seen")
    }
    standings = {
        (r["pg"], int(r["rank"])): Standing(r["enqueued"], r["completed"], r["waits"], r["file"], int(r["line"]))
        for r in table_rows(con, "SELECT * FROM hang_standings")
    }
    waits = []
    for r in table_rows(con, "SELECT * FROM hang_waits ORDER BY rank, line, pg, seq"):
        peer = None
        if r["peer_rank"] is not None:
            members = groups[r["pg"]].members if r["pg"] in groups else ()
            if not 0 <= r["peer_rank"] < len(members):
                continue
            peer = members[r["peer_rank"]]
        waits.append(Wait(int(r["rank"]), r["pg"], int(r["seq"]), peer, int(r["line"])))
    ranks = frozenset(int(r[0]) for r in con.execute("SELECT DISTINCT rank FROM hang_dumps").fetchall())
    return Picture(groups, standings, tuple(waits), ranks)


def _watchdogs(con: duckdb.DuckDBPyConnection) -> Picture:
    """What the watchdog lines say of the ranks that printed some; the silent ones are not judged here."""
    rows = table_rows(con, "SELECT * FROM hang_watchdogs ORDER BY rank, pg")
    standings = {
        (r["pg"], int(r["rank"])): Standing(r["enqueued"], r["completed"], r["seq"], r["file"], int(r["line"]))
        for r in rows
    }
    waits = tuple(Wait(int(r["rank"]), r["pg"], int(r["seq"]), None, int(r["line"])) for r in rows)
    return Picture({}, standings, waits, frozenset(int(r["rank"]) for r in rows))


def _counted(con: duckdb.DuckDBPyConnection) -> Found:
    """Ranks that counts alone set apart, at most a quarter: calls of NCCL, RAS, then stacks."""
    found = Found()
    for basis in ("nccl", "ras"):
        rows = table_rows(
            con,
            """
            SELECT rank, verdict, pg, coalesce(seq, last_enqueued, 0) AS seq FROM hang_groups h WHERE basis = ? AND verdict IN ('missing', 'absent')
              AND (basis = 'ras' OR 4 * (SELECT count(*) FROM hang_groups x WHERE x.basis = h.basis AND x.pg = h.pg AND x.verdict = 'missing')
                   <= (SELECT count(*) FROM hang_groups x WHERE x.basis = h.basis AND x.pg = h.pg))
              AND pg = (SELECT x.pg FROM hang_groups x WHERE x.basis = h.basis GROUP BY x.pg ORDER BY count(*) DESC, x.pg LIMIT 1) ORDER BY rank""",
            [basis],
        )
        # Ranks count anew from 0 in each communicator: only the largest has those of the job.
        if rows:
            found.guilty = {int(r["rank"]): (r["verdict"], r["pg"], int(r["seq"])) for r in rows}
            return found
    waiting = (
        r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier|\bwait|synchronize|\brecv|nccl"
    )
    for (text,) in con.execute(
        """
        SELECT ranks FROM stack_groups s WHERE source = 'stack' AND is_outlier
          AND (SELECT regexp_matches(arg_max(functions, count), ?) FROM stack_groups x WHERE x.source = s.source)""",
        [waiting],
    ).fetchall():
        found.guilty.update({int(r): ("differs", "", 0) for r in json.loads(text)})
    return found


def _mark(con: duckdb.DuckDBPyConnection, found: Found) -> None:
    is_weak = not con.execute("SELECT 1 FROM hang_dumps LIMIT 1").fetchone()
    for rank, (how, pg, seq) in found.guilty.items():
        con.execute("INSERT INTO hang_culprits VALUES (?, ?, ?, ?, ?)", [rank, how, pg, seq, is_weak])
    con.execute("UPDATE hang_groups SET is_culprit = true WHERE rank IN (SELECT rank FROM hang_culprits)")


def _went_on(picture: Picture, found: Found) -> bool:
    """Hosts of ranks that wait have made more calls since: it has lasted."""
    held = {(pg, seq) for _, pg, seq in found.guilty.values()}
    return any(
        s.enqueued is not None and s.enqueued > seq
        for (pg, _), s in picture.standings.items()
        for p, seq in held
        if p == pg
    ) or any(len(picture.waits_of[w.rank]) > 1 for w in picture.waits if w.peer in found.guilty)


def _derived(con: duckdb.DuckDBPyConnection, picture: Picture, found: Found, p: float) -> Derived:
    ranks = tuple(sorted(found.guilty))
    place = table_rows(con, "SELECT node, gpu, pci, local_rank FROM ranks WHERE rank = ?", [ranks[0]])
    one: dict[str, Any] = place[0] if place and len(ranks) == 1 else {}
    gone = sorted({m for g in picture.groups.values() for m in g.members} - picture.ranks)
    collect = (f"flight recorder dumps of {_listed(gone)}: they are missing or empty",) if gone else ()
    onset = con.execute(
        "SELECT min(ts) FROM hang_standings WHERE waits IS NOT NULL AND rank NOT IN (SELECT rank FROM hang_culprits)"
    ).fetchone()
    return Derived(
        "collective_hang",
        p,
        Culprit(
            host=one.get("node"),
            gpu=one.get("gpu"),
            pci=one.get("pci"),
            local_rank=one.get("local_rank"),
            rank=ranks[0],
            ranks=ranks,
        ),
        _summary(picture, found, gone),
        onset[0] if onset else None,
        shown=_evidence(con, picture, found),
        collect=collect,
    )


def _from_lines(con: duckdb.DuckDBPyConnection, found: Found) -> Derived:
    """The same by lines of logs: those of the ranks named first, then of two others of their group."""
    ranks = tuple(sorted(found.guilty))
    places = con.execute(
        """
        SELECT file, min(line) FROM hang_groups h WHERE basis <> 'dump' AND file IS NOT NULL
          AND (is_culprit OR pg IN (SELECT pg FROM hang_groups WHERE is_culprit AND basis = h.basis))
        GROUP BY file, basis, pg, rank, is_culprit ORDER BY is_culprit DESC, basis = 'watchdog' DESC, rank, file LIMIT 5""",
    ).fetchall()
    if any(how == "differs" and not pg for how, pg, _ in found.guilty.values()):
        # Stacks: those that stand elsewhere first, then the group of most.
        places = con.execute(
            "SELECT file, line FROM stack_groups WHERE source = 'stack' ORDER BY is_outlier DESC, count DESC, functions LIMIT 5"
        ).fetchall()
    return Derived(
        "collective_hang",
        LINES_P,
        Culprit(rank=ranks[0], ranks=ranks),
        _summary(Picture({}, {}, (), frozenset()), found, []),
        places=tuple((f, int(n)) for f, n in places),
    )


def _listed(ranks: list[int]) -> str:
    """`rank 3` or `ranks 3, 5, …`."""
    text = ", ".join(map(str, ranks[:MAX_SHOWN])) + (
        f" and {len(ranks) - MAX_SHOWN} more" if len(ranks) > MAX_SHOWN else ""
    )
    return f"rank{'s' if len(ranks) != 1 else ''} {text}"


def _group(picture: Picture, pg: str) -> str:
    group = picture.groups.get(pg)
    return f"group {pg}" + (f" ({group.description})" if group and group.description else "")


_SAYS: Final = {
    "missing": "never called collective {seq} of {group}, in which the others wait",
    "lags": "stopped in collective {seq} of {group}, whose end most others have seen",
    "absent": "left no dump while the others wait in collective {seq} of {group}",
    "transfer": "never took its part in a transfer of {group} that others wait for",
    "absent transfer": "left no dump while others wait for a transfer with it in {group}",
    "differs": "stand elsewhere than the others",
}


def _summary(picture: Picture, found: Found, gone: list[int]) -> str:
    """One sentence per way and group."""
    parts: dict[tuple[str, str, int], list[int]] = {}
    for rank, key in sorted(found.guilty.items()):
        parts.setdefault(key, []).append(rank)
    texts = []
    for (how, pg, seq), ranks in parts.items():
        text = _listed(ranks)
        if any(w.peer in ranks and (w.pg, w.seq) == (pg, seq) for w in picture.waits):
            how = "absent transfer" if how == "absent" else "transfer"
        texts.append(f"{text[0].upper()}{text[1:]} {_SAYS[how].format(seq=seq, group=_group(picture, pg))}.")
    other = [r for r in gone if r not in found.guilty]
    if other:
        texts.append(f"No dump of {_listed(other)}; nothing speaks against {'them' if len(other) > 1 else 'it'}.")
    return " ".join(texts)


def _evidence(con: duckdb.DuckDBPyConnection, picture: Picture, found: Found) -> tuple[tuple[str, int, str], ...]:
    """(file, entry, what it says): of each guilty rank its own dump, of each group it holds up one dump that waits."""
    out: list[tuple[str, int, str]] = []
    file_of = dict(con.execute("SELECT rank, min(file) FROM hang_dumps WHERE newest GROUP BY rank").fetchall())
    for rank, (how, pg, _) in sorted(found.guilty.items())[:MAX_SHOWN]:
        s = picture.standings.get((pg, rank))
        if rank in picture.ranks:
            state = "no open entry" if picture.is_idle(rank) else f"collective {s.waits if s else None} open"
            counts = f"last enqueued {s.enqueued}, last completed {s.completed}" if s else "not in its dump"
            place = (s.file, s.line) if s and s.file else (file_of[rank], 1)
            out.append((*place, f"rank {rank} in {_group(picture, pg)}: {counts}, {state} ({how})"))
    shown: set[tuple[str, int]] = set()
    for _, pg, seq in list(dict(sorted(found.guilty.items())).values())[:MAX_SHOWN]:
        if (pg, seq) in shown:
            continue
        shown.add((pg, seq))
        for (name, other), s in sorted(picture.standings.items()):
            if name == pg and other not in found.guilty and (s.waits is not None or (s.completed or -1) >= seq):
                waits = f"waits in collective {s.waits}" if s.waits is not None else "waits for nothing here"
                text = f"rank {other} in {_group(picture, pg)}: last enqueued {s.enqueued}, last completed {s.completed}, {waits}"
                out.append((s.file, s.line, text))
                break
        else:
            out += [
                (picture_file, w.line, f"rank {w.rank} in {_group(picture, pg)}: waits for rank {w.peer}")
                for w in picture.waits
                if w.pg == pg and w.peer in found.guilty and (picture_file := file_of.get(w.rank))
            ][:1]
    return tuple(dict.fromkeys(out))
