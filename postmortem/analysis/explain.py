"""What a code, a cause, an event or a log line means, and what the analysis makes of it: `postmortem explain`.

The meanings are in codes.toml and causes.toml. Which cause a code speaks for is not written down a second time: the conditions of
symptoms.toml are tried on a row that holds nothing but the code.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from postmortem.analysis.docs import TIER_WORDS
from postmortem.analysis.naming import cause_title, cause_words
from postmortem.analysis.signs import SAID, Symptom, create_macros, load_symptoms
from postmortem.analysis.wording import cause_texts, next_steps
from postmortem.errors import UsageError
from postmortem.schema import CAUSES, EVENT_NAMES, EVENT_TABLE

if TYPE_CHECKING:
    import duckdb

    from postmortem.catalogue.definition import Message

CODE_ROWS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "xid": ("NVIDIA Xid", {"event": "gpu.xid", "xid": "{n}"}),
    "sxid": ("NVSwitch SXid", {"event": "gpu.sxid", "xid": "{n}"}),
    "status": ("verbs completion status", {"event": "nccl.ib_completion_error", "status": "{n}"}),
    "vendor": ("mlx5 vendor error of a completion", {}),
    "async": ("verbs asynchronous event", {}),
    "exit": ("exit code", {"event": "process.exit", "exit_code": "{n}"}),
    "nccl": ("NCCL result", {}),
}
"""Kinds of codes: how one is called, and the row of `events` that carries nothing but the code."""
EARLY: Final = "no step was made yet"
RUNNING: Final = "the job had made steps"
KINDS: Final = (*CODE_ROWS, "cause", "event", "line")
_RANGE: Final = re.compile(r"(-?[0-9]+)(?:-([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Sign:
    """A cause that something speaks for: how far (0 to 1), and how the event knows (a tier of symptoms.toml)."""

    cause: str
    weight: float
    tier: str
    only_where: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`heading`, `facts` as (name, text) in reading order, causes it speaks for, steps to do next, `sources`."""

    heading: str
    facts: tuple[tuple[str, str], ...] = ()
    signs: tuple[Sign, ...] = ()
    steps: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def codes() -> tuple[dict[str, Any], ...]:
    """The entries of codes.toml, in order; `numbers` as printed."""
    text = files("postmortem.analysis").joinpath("codes.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["code"])


def numbers(text: str) -> list[int]:
    """`13, 39-41` as 13, 39, 40, 41."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"neither a number nor a range: {part!r}")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def explain(kind: str, value: str) -> Explanation:
    """What `value` of `kind` means; raises UsageError when it is not known."""
    if kind in CODE_ROWS:
        return _code(kind, value)
    if kind == "cause":
        return _cause(value)
    if kind == "event":
        return _event(value)
    return explain_line(value)


def _code(kind: str, value: str) -> Explanation:
    name, row = CODE_ROWS[kind]
    try:
        number = int(value, 0)
    except ValueError:
        raise UsageError(f"{value} is no number: give one as in `postmortem explain {kind} 12`") from None
    entry = next((c for c in codes() if c["kind"] == kind and number in numbers(c["numbers"])), None)
    if entry is None:
        raise UsageError(f"{name} {number} is not known: postmortem explain {kind} lists those that are")
    signs = _signs_of({k: v.format(n=number) for k, v in row.items()})
    facts = [("meaning", entry["meaning"]), ("kind of fault", entry["class"]), ("the job", entry["job"])]
    facts += [
        (words, entry[key]) for words, key in (("usually follows", "follows"), ("notes", "notes")) if key in entry
    ]
    return Explanation(f"{name} {number}", tuple(facts), signs, (entry["do"],), (), (entry["source"],))


def _signs_of(row: dict[str, str]) -> tuple[Sign, ...]:
    """The causes that symptoms.toml sees in an event of which only `row` is known, strongest first."""
    if not row:
        return ()
    import duckdb

    symptoms = [s for s in load_symptoms() if row["event"] in s.events]
    kinds = {"VARCHAR": "''", "BOOLEAN": "false"}
    con = duckdb.connect()
    columns = ", ".join(
        f"CAST({_literal(row[c.name]) if c.name in row else kinds.get(c.type, 'NULL')} AS {c.type}) AS {_quoted(c.name)}"
        for c in EVENT_TABLE.columns
    )
    con.execute(f"CREATE TABLE one AS SELECT *, NULL::BIGINT AS previous_xid, {SAID} AS said FROM (SELECT {columns})")
    # Some codes mean one thing at the start and another in a running job: both are tried.
    con.execute("CREATE TABLE steps (step BIGINT)")
    # Nothing stands beside it, and nothing is known of what was going on.
    con.execute("CREATE TABLE events (event VARCHAR, ts TIMESTAMP, file VARCHAR, line BIGINT)")
    con.execute("CREATE TABLE files (file VARCHAR)")
    con.execute("CREATE TABLE facts (fact VARCHAR, value VARCHAR, file VARCHAR, line BIGINT)")
    create_macros(con)
    early = _that_hold(con, symptoms)
    con.execute("INSERT INTO steps VALUES (1)")
    running = _that_hold(con, symptoms)
    out: dict[str, Sign] = {}
    for s in symptoms:
        if s in early or s in running:
            when = "" if s in early and s in running else EARLY if s in early else RUNNING
            if s.cause not in out or out[s.cause].weight < s.weight:
                out[s.cause] = Sign(s.cause, s.weight, s.tier, when)
    return tuple(sorted(out.values(), key=lambda sign: (-sign.weight, sign.cause)))


def _that_hold(con: duckdb.DuckDBPyConnection, symptoms: list[Symptom]) -> list[Symptom]:
    """The symptoms whose condition holds for the row of `one`; one on tables that are not there can't be judged."""
    import duckdb

    held = []
    for s in symptoms:
        with suppress(duckdb.Error):
            hit = con.execute(f"SELECT count(*) FROM one WHERE {s.where}").fetchone()
            if hit and hit[0]:
                held.append(s)
    return held


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cause(name: str) -> Explanation:
    from postmortem.analysis.model import Culprit

    if name not in CAUSES:
        raise UsageError(f"there is no cause {name}: postmortem explain cause lists them")
    about = cause_texts().get(name, {})
    signs = [s for s in load_symptoms() if s.cause == name]
    facts = [("meaning", cause_words()[name].anonymous)]
    facts += [
        (
            f"sign, {s.weight:g}",
            " ".join(s.events) + (f" where {_one_line(s.where)}" if s.where != "true" else "") + f" ({s.tier})",
        )
        for s in signs
    ]
    facts += [(r, text) for r, text in _rules_from(signs)]
    return Explanation(
        f"cause {name}",
        tuple(facts),
        (),
        next_steps(name, Culprit()),
        tuple(about.get("collect", ())),
        tuple(about.get("sources", ())),
    )


def _rules_from(signs: list[Symptom]) -> list[tuple[str, str]]:
    """Rules by which an event of this cause explains others."""
    mine = {event for s in signs if s.tier in {"direct", "told"} for event in s.events}
    text = files("postmortem.analysis").joinpath("rules.toml").read_text(encoding="utf-8")
    return [
        (
            "rule " + r["name"].split(" ", 1)[0],
            f"{r['name'].split(' ', 1)[1]}: explains {' '.join(r['effect'])} within {r['lo_s']} to {r['hi_s']} s",
        )
        for r in tomllib.loads(text)["rule"]
        if mine & set(r["cause"])
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=1)
def _messages() -> tuple[Message, ...]:
    from postmortem.catalogue.definition import load_folders
    from postmortem.resources import data_folder

    return tuple(load_folders([data_folder("parsers")]))


def _event(name: str) -> Explanation:
    if name not in EVENT_NAMES:
        raise UsageError(f"there is no event {name}: postmortem explain event lists them")
    messages = [m for m in _messages() if m.event == name]
    facts = [("sample", m.samples[0].line) for m in messages if m.samples][:5]
    facts.insert(0, ("printed by", f"{len(messages)} messages; postmortem formats list --event {name} shows them"))
    signs = tuple(
        Sign(s.cause, s.weight, s.tier, "" if s.where == "true" else _one_line(s.where))
        for s in sorted(load_symptoms(), key=lambda s: (-s.weight, s.cause))
        if name in s.events
    )
    sources = tuple(dict.fromkeys(m.reference for m in messages if m.reference))[:5]
    return Explanation(f"event {name}", tuple(facts), signs, (), (), sources)


def explain_line(line: str) -> Explanation:
    """What one log line is recognised as; raises UsageError when nothing in it is known."""
    import polars as pl

    from postmortem.catalogue.matcher import Matcher

    frame = pl.DataFrame({"file": ["line"], "line": [1], "offset": [0], "text": [line]}).cast(
        {"line": pl.Int64, "offset": pl.Int64}
    )
    rows = Matcher(_messages()).recognise(frame).to_dicts()
    if not rows:
        raise UsageError("nothing in this line is recognised: postmortem formats list shows what is")
    row = rows[0]
    known = {c.name for c in EVENT_TABLE.columns}
    facts = [
        (key, str(value))
        for key, value in row.items()
        if key in known | {"fact"} and value is not None and key not in {"file", "line", "offset", "text", "event_id"}
    ]
    fields = {k: str(v) for k, v in row.items() if k in known and v is not None and k not in {"file", "line", "offset"}}
    signs = _signs_of({**fields, "text": line}) if row.get("event") else ()
    return Explanation(f"line: {line}", tuple(facts), signs, next_steps_of(signs), (), ())


def next_steps_of(signs: tuple[Sign, ...]) -> tuple[str, ...]:
    """The steps for the strongest cause."""
    from postmortem.analysis.model import Culprit

    return next_steps(signs[0].cause, Culprit()) if signs else ()


def listed(kind: str) -> list[tuple[str, str]]:
    """(value, meaning) of everything of a kind, in the order of its data file."""
    if kind in CODE_ROWS:
        return [(c["numbers"], c["meaning"]) for c in codes() if c["kind"] == kind]
    if kind == "cause":
        return [(name, cause_title(name)) for name in CAUSES]
    if kind == "event":
        return [(name, "") for name in sorted(EVENT_NAMES)]
    raise UsageError("give the line to explain: postmortem explain line 'NVRM: Xid (PCI:0000:3b:00): 79, …'")


def tier_words(tier: str) -> str:
    """How an event of a tier knows, in words."""
    return TIER_WORDS[tier]
