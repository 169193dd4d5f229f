"""Symptoms and rules as data → the tables `signs` (event speaks for a cause) and `edges` (episode explains episode)."""

from __future__ import annotations

import ast
import operator
import re
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from postmortem.analysis.windows import SKEW_S, JobTimes
from postmortem.prepared import prepared_toml

TIERS: Final = ("direct", "told", "own", "victim", "lifecycle")
SAID: Final = "concat_ws(' ', coalesce(text, message), reason, value)"
"""All that a row says, a record's other lines included: what the conditions of symptoms call `said`."""
_LOOKS_UP: Final = re.compile(r"(?i)\b(?:exists|select|from|raised_during|while_saving)\b")
_OPERATORS: Final = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


@dataclass(frozen=True, slots=True)
class Symptom:
    """Events that speak for a cause; `where` is SQL of our own data file over the columns of events and `said`."""

    cause: str
    events: tuple[str, ...]
    tier: str
    weight: float
    where: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A chain from cause events to effect events; bounds in seconds, effect minus cause."""

    name: str
    cause: tuple[str, ...]
    effect: tuple[str, ...]
    relation: str
    lo_s: float
    hi_s: float
    strength: float
    cause_where: str
    effect_where: str


def _data(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = prepared_toml("postmortem.analysis", name)
    return loaded


def load_symptoms() -> tuple[Symptom, ...]:
    """All symptoms of symptoms.toml, in order."""
    return tuple(
        Symptom(s["cause"], _with_entries(s), s["tier"], float(s["weight"]), s.get("where", "true"))
        for s in _data("symptoms.toml")["symptom"]
    )


def _with_entries(symptom: dict[str, Any]) -> tuple[str, ...]:
    """The events of a symptom. What an exception says, the launcher's entry that quotes the exception says, too."""
    events = tuple(symptom["events"])
    if (
        "torch.exception" in events
        and symptom["cause"] != "software_exception"
        and "torch.elastic_failure" not in events
    ):
        return *events, "torch.elastic_failure"
    return events


def seconds(expression: str, names: dict[str, float]) -> float:
    """Value of a bound such as `0.4 * t_retry + 5`: numbers, names, + - * only."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return float(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
        raise ValueError(f"not a bound: {expression}")

    return value(ast.parse(expression, mode="eval").body)


def load_rules(times: JobTimes) -> tuple[Rule, ...]:
    """All rules of rules.toml with their bounds worked out for this job's settings."""
    names = {
        "t_retry": times.t_retry_s,
        "watchdog": times.watchdog_s,
        "heartbeat": times.heartbeat_s,
        "slurmd": times.slurmd_s,
    }
    return tuple(
        Rule(
            r["name"],
            tuple(r["cause"]),
            tuple(r["effect"]),
            r["relation"],
            seconds(r["lo_s"], names),
            seconds(r["hi_s"], names),
            float(r["strength"]),
            r.get("cause_where", "true"),
            r.get("effect_where", "true"),
        )
        for r in _data("rules.toml")["rule"]
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{n}'" for n in names)


def find_signs(con: duckdb.DuckDBPyConnection) -> None:
    """Temporary table `signs`: one row per event and symptom it shows (event_id, cause, tier, weight)."""
    con.execute(
        f"CREATE TEMP TABLE notable_events AS SELECT e.*, {SAID} AS said FROM events e SEMI JOIN episode_rows r ON r.event_id = e.event_id"
    )
    con.execute("CREATE TEMP TABLE signs (event_id BIGINT, cause VARCHAR, tier VARCHAR, weight DOUBLE)")
    seen = {row[0] for row in con.execute("SELECT DISTINCT event FROM notable_events").fetchall()}
    shown = [s for s in load_symptoms() if not seen.isdisjoint(s.events)]
    if not shown:
        return
    con.execute(_signs_of(shown))
    # That an exception was raised is no second explanation of a line that says why it was.
    con.execute("""
        DELETE FROM signs WHERE cause = 'software_exception' AND tier = 'own'
         AND event_id IN (SELECT event_id FROM signs WHERE cause <> 'software_exception' AND tier IN ('direct', 'told') AND weight >= 0.5)""")
    con.execute(_SAME_GPU_AGAIN)


def _signs_of(symptoms: list[Symptom]) -> str:
    """SQL that fills `signs`: one pass over the events for all symptoms but those that look up other rows, each of which has its own."""
    plain = [s for s in symptoms if not _LOOKS_UP.search(s.where)]
    parts = [
        f"SELECT event_id, '{s.cause}', '{s.tier}', {s.weight} FROM notable_events WHERE event IN ({_listed(s.events)}) AND ({s.where})"
        for s in symptoms
        if s not in plain
    ]
    if plain:
        tests = ", ".join(
            f"CASE WHEN event IN ({_listed(s.events)}) AND ({s.where}) THEN {n} END" for n, s in enumerate(plain)
        )
        rows = ", ".join(f"({n}, '{s.cause}', '{s.tier}', {s.weight}::DOUBLE)" for n, s in enumerate(plain))
        parts.append(f"""
            SELECT event_id, s.cause, s.tier, s.weight FROM (SELECT event_id, unnest([{tests}]) AS n FROM notable_events)
            JOIN (VALUES {rows}) s(n, cause, tier, weight) USING (n)""")
    return "INSERT INTO signs " + " UNION ALL ".join(parts)


_SAME_GPU_AGAIN: Final = """
    INSERT INTO signs
    WITH x AS (
      SELECT event_id, host, pci, coalesce(ts_aligned, ts) AS seen, pid, boot FROM notable_events WHERE event = 'gpu.xid' AND xid IN (13, 31, 11, 25, 32, 68) AND pci IS NOT NULL),
    again AS (
      SELECT host, pci FROM x GROUP BY host, pci
      HAVING count(DISTINCT (boot, pid)) >= 2 AND max(seen) - min(seen) BETWEEN INTERVAL 5 MINUTE AND INTERVAL 24 HOUR)
    SELECT event_id, 'gpu_fault', 'direct', 0.85 FROM x SEMI JOIN again USING (host, pci) WHERE (SELECT count(DISTINCT (host, pci)) FROM x) = 1"""
"""A code of the program's kind that one GPU alone gives again to other processes within a day is the GPU's (J1)."""


_TWO_ENDS: Final = """
    CREATE TEMP TABLE two_ends AS
    WITH ends AS (
      SELECT s.episode AS one, n.episode AS other
      FROM episodes s JOIN ports p ON p.switch = s.host AND (p.port = s.entity OR same_port(p.port, s.entity))
      LEFT JOIN nics q ON q.host = p.host AND p.dev IN (q.dev, q.ifname)
      JOIN episodes n ON n.host = p.host AND n.entity IN (p.dev, q.dev, q.ifname, q.pci))
    FROM ends UNION SELECT other, one FROM ends"""
"""Pairs of episodes (one, other) at the switch's and at the host's end of one cable, both ways."""


_OTHER_END: Final = """
    CREATE TEMP TABLE other_end AS
    SELECT DISTINCT n.episode, p.switch FROM ports p LEFT JOIN nics q ON q.host = p.host AND p.dev IN (q.dev, q.ifname)
    JOIN episodes n ON n.host = p.host AND n.entity IN (p.dev, q.dev, q.ifname, q.pci)"""
"""The switch at the other end of the cable, for episodes of a node's adapter or link."""


MAX_PAIRS: Final = 30_000
"""Pairs of one rule that are compared: past it only the earliest episodes of each cause event are taken, one at least."""

_OPEN: Final = f"""
    CREATE TEMP TABLE timed_episodes AS
    SELECT x.*, coalesce(epoch_us(v.ts_hi - v.ts_lo) // 2, {int(SKEW_S * 1e6)}) AS open_us FROM episodes x LEFT JOIN events v USING (event_id) WHERE x.first_ts IS NOT NULL"""
"""Episodes with a time, and half the width of what it leaves open; where that is not known, as much as counts."""


def draw_edges(con: duckdb.DuckDBPyConnection, times: JobTimes) -> None:
    """Fill `edges`: every rule over the episodes that lie near the job, time within the rule's bounds and clock errors.

    The two ends of a cable are one device. Where thousands of ranks say the same, a rule takes the earliest causes alone (MAX_PAIRS):
    what follows from one of them follows from the others, too.
    """
    con.execute(_OPEN)
    seen = {row[0] for row in con.execute("SELECT DISTINCT event FROM timed_episodes").fetchall()}
    has_ends = has_other_end = False
    for rule in load_rules(times):
        if seen.isdisjoint(rule.cause) or seen.isdisjoint(rule.effect):
            continue
        if rule.relation == "device" and not has_ends:
            con.execute(_TWO_ENDS)
            has_ends = True
        if rule.relation == "switch" and not has_other_end:
            con.execute(_OTHER_END)
            has_other_end = True
        _draw(con, rule)


def _draw(con: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    """The edges of one rule."""
    # Lines of one file that name no host are of one machine.
    same_host = "coalesce(c.host, '/' || c.file) = coalesce(e.host, '/' || e.file)"
    same = {
        "host": same_host,
        "job": "true",
        # A node's link hangs on the switch that the cable list says; on any, where it says nothing.
        "switch": "(c.host IS NULL OR e.episode NOT IN (SELECT episode FROM other_end) OR (e.episode, c.host) IN (FROM other_end))",
        "device": same_host
        + " AND (c.entity = e.entity OR c.entity IS NULL OR e.entity IS NULL OR starts_with(e.entity, c.entity) "
        "OR starts_with(c.entity, e.entity) OR same_port(c.entity, e.entity))",
    }[rule.relation]
    # Clocks of two hosts may be apart by the sum of their error bars (B5); on one host only a second's resolution is open.
    lo, hi = int((rule.lo_s - SKEW_S / 5) * 1e6), int((rule.hi_s + SKEW_S / 5) * 1e6)
    most = int(SKEW_S * 1e6)
    apart = f"CASE WHEN c.host IS NOT DISTINCT FROM e.host THEN 0 ELSE least(c.open_us + e.open_us, {most}) END"
    pairs = f"c JOIN e ON c.episode <> e.episode AND {same}"
    early = ""
    if rule.relation in {"job", "switch"}:
        early = f"""
            SEMI JOIN (SELECT min(first_ts) - to_microseconds({hi + most}) AS first, max(first_ts) - to_microseconds({lo - most}) AS last FROM e) w ON x.first_ts BETWEEN w.first AND w.last
            QUALIFY row_number() OVER (PARTITION BY event ORDER BY first_ts, episode) <= (SELECT greatest(1, {MAX_PAIRS} // greatest(1, count(*))) FROM e)"""
    if rule.relation == "device":  # first the pairs, then their times: an OR in the join would compare all with all
        pairs = (
            f"(SELECT c.episode AS one, e.episode AS other FROM {pairs} UNION FROM two_ends) t "
            "JOIN c ON c.episode = t.one JOIN e ON e.episode = t.other"
        )
    con.execute(
        f"""
        INSERT INTO edges
        WITH e AS (FROM timed_episodes WHERE event IN ({_listed(rule.effect)}) AND ({rule.effect_where})),
             c AS (SELECT x.* FROM (FROM timed_episodes WHERE event IN ({_listed(rule.cause)}) AND ({rule.cause_where}) AND in_job IS DISTINCT FROM false) x {early})
        SELECT c.episode, e.episode, ?, epoch_us(e.first_ts - c.first_ts) / 1e6, {rule.strength}
        FROM {pairs}
         AND e.first_ts BETWEEN c.first_ts + to_microseconds({lo} - {apart}) AND c.first_ts + to_microseconds({hi} + {apart})
        ORDER BY 1, 2""",
        [rule.name],
    )


def create_macros(con: duckdb.DuckDBPyConnection) -> None:
    """What conditions and joins use.

    `same_port(a, b)`: two spellings of one switch port (`sfp-0/0/0`, `et-0/0/0.0`, `Ethernet32`): their numbers agree.
    `raised_during(kind, file, line, after)`: a traceback in the 40 lines above, or `after` below, was at `kind` (fact exception.during).
    `beside(name, file, line)`: an event of that name stands within three lines.
    `while_saving(file, line)`: a save began or failed in the 40 lines above, or just below.

    The inner columns have names of their own: in a WHERE clause DuckDB takes the word `file` of a macro's argument for the innermost
    column of that name, and the condition would hold for a row of any file.
    """
    con.execute("""
        CREATE OR REPLACE TEMP MACRO while_saving(in_file, at_line) AS
          EXISTS (FROM (SELECT file AS its_file, line AS its_line FROM events WHERE event IN ('train.checkpoint_start', 'train.checkpoint_failed'))
                  WHERE its_file = in_file AND its_line BETWEEN at_line - 40 AND at_line + 3)""")
    con.execute("""
        CREATE OR REPLACE TEMP MACRO beside(name, in_file, at_line) AS
          EXISTS (FROM (SELECT event AS of, file AS its_file, line AS its_line FROM events) WHERE of = name AND its_file = in_file AND abs(its_line - at_line) <= 3)""")
    con.execute("""
        CREATE OR REPLACE TEMP MACRO raised_during(kind, in_file, at_line, after) AS
          EXISTS (FROM (SELECT value AS during, file AS its_file, line AS its_line FROM facts WHERE fact = 'exception.during')
                  WHERE during = kind AND its_file = in_file AND its_line BETWEEN at_line - 40 AND at_line + after)""")
    con.execute("""
        CREATE OR REPLACE TEMP MACRO same_port(a, b) AS
          regexp_extract(regexp_replace(a, '\\.[0-9]+$', ''), '[0-9][0-9/:]*$') <> ''
          AND regexp_extract(regexp_replace(a, '\\.[0-9]+$', ''), '[0-9][0-9/:]*$') = regexp_extract(regexp_replace(b, '\\.[0-9]+$', ''), '[0-9][0-9/:]*$')""")
