"""docs/causes.md from causes.toml, symptoms.toml, rules.toml and weights.toml: `python -m postmortem.analysis.docs > docs/causes.md`."""

from __future__ import annotations

import sys
import tomllib
from importlib.resources import files
from typing import Any, Final

from postmortem.analysis.confidence import WEIGHTS
from postmortem.analysis.model import WORDS
from postmortem.analysis.signs import Symptom, load_symptoms
from postmortem.schema import CAUSES

TIER_WORDS: Final[dict[str, str]] = {
    "direct": "first-hand: the thing itself or its driver says so",
    "told": "second-hand but specific: a program names the fault of something else",
    "own": "a program's own failure",
    "victim": "says that somebody else is gone or late; a cause only when nothing better is there",
    "lifecycle": "deliberate or administrative end; a cause only when nothing failed before",
}
FEATURE_WORDS: Final[dict[str, str]] = {
    "base": "constant",
    "sign": "weight of the symptom × how well time and place fit the end of the job (0 to 1)",
    "strong": "0 up to a sign of 0.5, 1 from 0.8 on, a line between: what only hints is worth less than its share",
    "order": "1 when nothing as strong came before, 0.5 when the clocks can't tell, else 0",
    "chain": "strength of the best rule by which it explains something else",
    "corrob": "1 when another kind of source says the same of the same thing at about the same time",
    "explained": "strength of the best rule by which an earlier sign explains it",
    "gap": "1 for second-hand signs when the bundle holds no kernel log",
    "undated": "1 when no time is known",
    "rival": "sign of the strongest other cause that no rule ties to it; counts for the confidence, not for the order",
}
NOTES: Final[dict[str, str]] = {
    "qp_straggler": "Computed from `qp_samples`: a queue pair whose requests take far longer than those of its peers; without it from `proxy_steps`: a channel to a peer whose sends do.",
    "rank_straggler": "Also computed from `steps`: a rank that stays slower than the median of its pipeline stage, of all ranks where the stages are not known.",
    "software_exception": "An exception whose own line is a sign of another cause, told or direct and of weight 0.5 or more, is no sign of this one.",
    "numeric": "Also computed from `steps` and loss scales: a loss that jumps, vanishes or overflows again and again.",
    "data_stall": "Also computed: a data preparation that stood unfinished at the time limit of the ranks that waited for it.",
    "checkpoint_failure": "Also computed: a save begun when the stuck collective was, and never finished.",
    "collective_mismatch": "Also computed: ranks that wait in another collective than most at the same sequence number.",
}
_HEAD: Final = """\
<!-- Generated from postmortem/analysis/*.toml by `python -m postmortem.analysis.docs > docs/causes.md`; change them there. -->
# Causes

A cause is one of the classes below. [Symptoms](#symptoms-by-cause) tie events of the log to a class, [rules](#rules) say which
fault explains which, and the [score](#score) makes a confidence of it. `{host}`, `{nic}` … in the next steps are filled from the culprit.
"""


def _data(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads(files("postmortem.analysis").joinpath(name).read_text(encoding="utf-8"))
    return loaded


def causes_page() -> str:
    """The whole page; causes stand in the order of the vocabulary, symptoms and rules in that of their files."""
    about = _data("causes.toml")
    symptoms = load_symptoms()
    contents = "\n".join(f"- [`{c}`](#{c}): {about[c]['title']}" for c in CAUSES)
    sections = "\n".join(_cause(c, about[c], [s for s in symptoms if s.cause == c]) for c in CAUSES)
    return "\n".join(
        [
            _HEAD,
            contents,
            "",
            "## Symptoms by cause",
            "",
            _tiers(),
            sections,
            _rules(_data("rules.toml")["rule"]),
            _score(),
        ]
    )


def _tiers() -> str:
    rows = [f"| {tier} | {words} |" for tier, words in TIER_WORDS.items()]
    return "\n".join(
        [
            "The weight, 0 to 1, is how far the sign alone carries. The tier says how the event knows:",
            "",
            "| tier | meaning |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )


def _cause(name: str, about: dict[str, Any], symptoms: list[Symptom]) -> str:
    said = str(about["unnamed"])
    lines = [f"### {name}", "", f"{said[0].upper()}{said[1:]}.", ""]
    for head, key in (
        ("Next steps:", "next"),
        ("Next steps where the guilty ranks are known:", "next_ranks"),
        ("To collect when it is not established:", "collect"),
    ):
        if about.get(key):
            lines += [head, "", *(f"- {step}" for step in about[key]), ""]
    if symptoms:
        lines += ["| events | only where | tier | weight |", "| --- | --- | --- | --- |", *map(_symptom, symptoms), ""]
    if name in NOTES:
        lines += [NOTES[name], ""]
    if about.get("sources"):
        lines += ["Sources: " + "; ".join(about["sources"]) + ".", ""]
    return "\n".join(lines)


def _symptom(symptom: Symptom) -> str:
    where = "" if symptom.where == "true" else _code(symptom.where)
    return f"| {_events(symptom.events)} | {where} | {symptom.tier} | {symptom.weight:g} |"


def _code(text: str) -> str:
    """Code inside a table cell: a bar would end the cell, a line feed the row."""
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def _events(names: tuple[str, ...] | list[str]) -> str:
    return " ".join(f"`{n}`" for n in names)


def _rules(rules: list[dict[str, Any]]) -> str:
    rows = [
        f"| {r['name']} | {_side(r, 'cause')} | {_side(r, 'effect')} | {r['relation']} | {_code(r['lo_s'])} to {_code(r['hi_s'])} | {r['strength']:g} |"
        for r in rules
    ]
    return "\n".join(
        [
            "## Rules",
            "",
            "A fault of the first column explains one of the second when it lies on the same host or device, or anywhere in the job, and the second",
            "begins within the bounds, seconds. `t_retry` is 4.096 µs · 2^timeout · retries and `watchdog` the timeout, both as the job's own log states them.",
            "",
            "| rule | fault | explains | on the same | begins within | strength |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _side(rule: dict[str, Any], side: str) -> str:
    where = rule.get(f"{side}_where")
    return _events(rule[side]) + (f", where {_code(where)}" if where else "")


def _score() -> str:
    source, date = _data("weights.toml")["source"], _data("weights.toml")["date"]
    rows = [f"| {name} | {weight:g} | {FEATURE_WORDS.get(name, '')} |" for name, weight in WEIGHTS.items()]
    words = [f"| {limit:g} and more | {word} |" for limit, word in WORDS]
    return "\n".join(
        [
            "## Score",
            "",
            "Confidence is 1 / (1 + e^-x), x = Σ weight · feature; a deliberate end has the weight of its symptom, a computed cause a chance of its own.",
            f"The weights are in `postmortem/analysis/weights.toml`: {source} ({date}), fitted by `benchmarks/fit_confidence.py`.",
            "",
            "| feature | weight | value |",
            "| --- | --- | --- |",
            *rows,
            "",
            "| confidence | word |",
            "| --- | --- |",
            *words,
            f"| below {WORDS[-1][0]:g} | not established |",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(causes_page())
