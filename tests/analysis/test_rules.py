"""The tables of rules name only events, causes and tiers that exist."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, get_args

import duckdb
import pytest

from postmortem.analysis.naming import Subject
from postmortem.analysis.signs import SAID, create_macros
from postmortem.schema import CAUSES, EVENT_NAMES
from postmortem.tables.store import create_tables

# Computed from other tables, so no line gives them.
COMPUTED = {"qp.slow", "switch.many_ports_down"}
RELATIONS = {"host", "device", "job", "switch"}
TIERS = {"direct", "told", "own", "victim", "lifecycle"}


@cache
def table(name: str) -> dict[str, Any]:
    return tomllib.loads(files("postmortem.analysis").joinpath(name).read_text(encoding="utf-8"))


RULES = table("rules.toml")["rule"]
SYMPTOMS = table("symptoms.toml")["symptom"]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r["name"])
def test_a_rule_names_known_events(rule: dict[str, Any]) -> None:
    assert set(rule["cause"]) | set(rule["effect"]) <= EVENT_NAMES | COMPUTED
    assert rule["relation"] in RELATIONS
    assert 0 < rule["strength"] <= 1


def test_names_of_rules_are_unique() -> None:
    names = [r["name"] for r in RULES]
    # Explanations print the number and the words apart.
    assert all(re.fullmatch(r"[A-Z][0-9]+ .+", name) for name in names)
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("number", range(len(SYMPTOMS)))
def test_a_symptom_names_known_events_and_a_cause(number: int) -> None:
    symptom = SYMPTOMS[number]
    assert set(symptom["events"]) <= EVENT_NAMES | COMPUTED
    assert symptom["cause"] in CAUSES
    assert symptom["tier"] in TIERS
    assert 0 < symptom["weight"] <= 1


def test_conditions_are_sql_over_events() -> None:
    con = duckdb.connect()
    create_tables(con)
    create_macros(con)
    wheres = [s["where"] for s in SYMPTOMS if "where" in s]
    assert len(wheres) > 10
    for where in wheres:
        con.execute(f"SELECT 1 FROM (SELECT *, {SAID} AS said FROM events) WHERE {where}")


def test_every_cause_has_words_and_steps_to_take() -> None:
    causes = table("causes.toml")
    assert {*CAUSES, "none"} == set(causes)
    keys = {"title", "did", "unnamed", "subjects", "next", "next_ranks", "collect", "sources"}
    for cause, about in causes.items():
        assert set(about) <= keys, cause
        assert set(about.get("subjects", ())) <= set(get_args(Subject)), cause
        # What a culprit did needs a culprit, and a culprit something that it did.
        assert bool(about.get("subjects")) <= bool(about.get("did")), cause
    for cause in set(CAUSES) - {"unknown"}:
        assert causes[cause]["title"]
        assert causes[cause]["next"]


def test_every_cause_can_be_found() -> None:
    """By a symptom, or by what is computed."""
    computed = {
        "qp_straggler",
        "rank_straggler",
        "collective_mismatch",
        "collective_hang",
        "unknown",
    }
    assert set(CAUSES) - {s["cause"] for s in SYMPTOMS} <= computed


def test_what_a_row_stands_beside_is_told_row_by_row() -> None:
    """A macro's argument must not be taken for the column of the same name inside it."""
    con = duckdb.connect()
    con.execute("CREATE TABLE events (event VARCHAR, file VARCHAR, line BIGINT)")
    con.execute("CREATE TABLE facts (fact VARCHAR, value VARCHAR, file VARCHAR, line BIGINT)")
    con.execute("INSERT INTO events VALUES ('one', 'a.log', 1), ('other', 'b.log', 50), ('one', 'b.log', 52)")
    con.execute("INSERT INTO facts VALUES ('exception.during', 'save', 'b.log', 51)")
    create_macros(con)
    for condition in ("beside('other', file, line)", "raised_during('save', file, line, 0)"):
        shown = con.execute(f"SELECT file, line FROM events WHERE event = 'one' AND {condition}").fetchall()
        assert shown == [("b.log", 52)], condition
