"""The HTML report: every section, hostile text, no request, size, determinism."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import duckdb
import pytest
from report_samples import ONSET, VERSION, after, crash, filled, insert, quiet, tables, unknown

from postmortem.analysis.model import (
    Analysis,
    Bin,
    Culprit,
    Evidence,
    Finding,
    Job,
    Loss,
    Rival,
    Saving,
    Span,
    Survived,
    Verdict,
)
from postmortem.errors import UsageError
from postmortem.report.document import to_document
from postmortem.report.html import render
from postmortem.resources import data_folder

SECTIONS = {
    "verdict": "left the PCIe bus",
    "times": "last progress",
    "causes": "Chosen over",
    "timeline": "<svg",
    "gaps": "switch logs",
    "steps": "degraded",
    "settings": "No line states",
    "cost": "lost_work",
    "evidence": "line 11",
    "next": "Drain node-7.",
    "survived": "host.thermal_throttle",
    "stragglers": "1032",
    "clocks": "+08:00",
    "coverage": "core.77",
}
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Outline(HTMLParser):
    """Collects tags, ids, links and headings, and checks that elements nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?(?=<section id=|</main>)', page, re.DOTALL)
    assert found, name
    return found.group()


@pytest.fixture(scope="module")
def page() -> str:
    return render(crash(), filled(), VERSION)


def embedded(page: str) -> object:
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


@pytest.mark.parametrize("name", SECTIONS)
def test_each_section_is_there_with_its_content(page: str, name: str) -> None:
    assert SECTIONS[name] in section(page, name)


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("make", [unknown, quiet])
def test_each_section_says_something_when_there_is_nothing(make: object, name: str) -> None:
    assert callable(make)
    text = re.sub("<[^>]+>", " ", section(render(make(), tables(), VERSION), name))
    assert len(text.split()) > 3


def test_the_first_screen_says_what_matters(page: str) -> None:
    top = page[: page.index('<section id="steps"')]
    for words in (
        "Job gpt crashed: GPU 0000:1b:00.0 of node-7 left the PCIe bus at 2026-01-02 03:04:05 UTC (almost certain); "
        "302 GPU-hours lost.",
        "node-7/dmesg:12",
        "GPU has fallen off the bus.",
        "Host crash",
        "30.1 s after onset",
        "step 60",
    ):
        assert words in top


def test_an_unknown_cause_names_the_possible_and_what_to_collect() -> None:
    page = render(unknown(), tables(), VERSION)
    assert "The job hung, and why is not established" in page
    assert "To settle it, collect" in section(page, "causes")
    assert 'class="doubt"' in page


def test_a_quiet_run_is_not_red() -> None:
    page = render(quiet(), filled(), VERSION)
    assert 'class="good"' in page
    assert "Nothing went wrong: the job completed after step 1,200." in page


def test_claims_and_evidence_link_both_ways(page: str) -> None:
    found = outline(page)
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] or "" for tag, attrs in found.tags if tag in ("a", "use")]
    assert {"#e1-1", "#c1", "#e2-1"} <= set(links)
    assert all(link.startswith("#") and link[1:] in ids for link in links)


def test_headings_do_not_skip_a_level_and_tables_have_captions_and_scopes(page: str) -> None:
    found = outline(page)
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in zip(found.headings, found.headings[1:], strict=False))
    assert page.count("<table") == page.count("<caption>")
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in found.tags if tag == "th")


def test_each_drawing_has_title_description_and_a_table(page: str) -> None:
    for name in ("timeline", "steps"):
        text = section(page, name)
        assert re.search(
            r'role="img" aria-labelledby="(\w+-t) (\w+-d)"><title id="\1">[^<]+</title><desc id="\2">', text
        )
        assert "<table" in text


def test_the_culprit_has_the_first_lane_and_times_are_marked(page: str) -> None:
    names = re.findall(r'class="lane-name"[^>]*>([^<]+)<', section(page, "timeline"))
    assert names[0] == "node-7"
    assert names[-1] == "job (no place named)"
    for mark in ("onset 03:04:05", "detected 03:04:35.100", "last progress 03:04:02"):
        assert f">{mark}<" in page


def test_nothing_is_requested_and_only_our_scripts_may_run(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = dict(part.strip().split(" ", 1) for part in unescape(policy[1]).split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy[1]
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in texts]
        assert rules[name].split() == [f"'sha256-{digest}'" for digest in digests]
    # The minified plot library builds no address and loads nothing; what is ours and the page itself must not either.
    ours = re.sub(r"<(script|style)>/\*! https.*?</\1>|<script>/\*!.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(?:src|href|action|data)\s*=\s*["\']?\s*(?:https?:)?//', ours, re.IGNORECASE)
    assert not re.search(r"url\((?!#)|@import", ours)
    kinds = re.findall("<script([^>]*)>", page)
    assert [kind for kind in kinds if kind] == [
        ' type="application/json" id="postmortem-document"',
        ' type="application/json" id="step-data"',
    ]
    assert not re.search(r"<[^>]+\s(?:on[a-z]+|style)\s*=", ours)


def test_the_json_document_is_embedded(page: str) -> None:
    assert embedded(page) == to_document(crash(), VERSION)


NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{ 7*7 }}\x00\x1b[31m\u202eevil\u2066"


def nasty() -> tuple[Analysis, duckdb.DuckDBPyConnection]:
    con = filled()
    culprit = Culprit(host=NASTY, dev=NASTY, switch=NASTY, switch_port=NASTY, peer=NASTY + "\udcff")
    line = Evidence(NASTY, 7, NASTY + "x" * 100_000, "cause", ONSET, NASTY, before=(NASTY, NASTY), after=(NASTY,))
    finding = Finding(
        "link_flap", 0.9, culprit, NASTY, (line,) * 3, ONSET, chosen_over=(Rival(NASTY, NASTY),), next_steps=(NASTY,),
        collect=(NASTY,),
    )  # fmt: skip
    base = crash()
    analysis = replace(
        base,
        bundle=NASTY,
        job=replace(base.job, name=NASTY, framework=NASTY),
        verdict=Verdict("link_flap", 0.9, culprit, NASTY, ONSET),
        findings=(finding,),
        survived=(Survived(NASTY, NASTY, NASTY, ONSET, ONSET, NASTY),),
        loss=replace(base.loss, bins=(Bin(NASTY, 0, 1, float("nan"), "measured"),), notes=(NASTY,)),
        coverage=replace(base.coverage, missing_sources=(NASTY,), odd=((NASTY, 1, NASTY),)),
    )
    insert(
        con, "events", "event_id, ts, host, event, severity, file, line", [(99, ONSET, NASTY, NASTY, "fatal", NASTY, 1)]
    )
    insert(con, "coverage", "file, bytes, lines, recognised, events, odd, sources", [(NASTY, 1, 1, 0, 0, 1, NASTY)])
    insert(con, "files", "file, kind, note", [(NASTY, "unreadable", NASTY)])
    insert(con, "odd_lines", "file, line, why, text", [(NASTY, 1, NASTY, NASTY)])
    return analysis, con


def test_hostile_text_stays_text() -> None:
    analysis, con = nasty()
    page = render(analysis, con, VERSION)
    found = outline(page)
    harmless = outline(render(crash(), filled(), VERSION))
    assert [tag for tag, _ in found.tags].count("script") == [tag for tag, _ in harmless.tags].count("script")
    assert not [tag for tag, _ in found.tags if tag in ("img", "iframe", "object", "embed", "base", "form")]
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]
    assert "&lt;img src=x onerror=" in page
    assert "49" not in re.findall(r"alert\(1\)&gt;&#34;&#39;`(.{9})", page)
    body = page[: page.index("<script")]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", body)
    assert isinstance(embedded(page), dict)
    page.encode("utf-8")
    assert len(page) < 1_000_000


def test_a_huge_analysis_stays_below_ten_megabytes() -> None:
    long = '"<\u202e' * 40_000
    line = Evidence("f" * 500, 1, long, "cause", ONSET, "h", before=(long,) * 3, after=(long,) * 3)
    finding = Finding(
        "link_flap", 0.5, Culprit(host=long, ranks=tuple(range(20_000))), long, (line,) * 200, ONSET,
        chosen_over=(Rival("nic_fault", long),) * 50, next_steps=(long,) * 50,
    )  # fmt: skip
    analysis = replace(
        crash(), findings=(finding,) * 12, survived=(Survived("e", long, long, ONSET, ONSET, long),) * 500,
    )  # fmt: skip
    page = render(analysis, tables(), VERSION)
    assert len(page.encode("utf-8")) < 10_000_000
    assert "too large to embed" in page


def test_a_hundred_thousand_events_in_64_lanes_fit_the_budget() -> None:
    con = tables()
    con.execute(
        """INSERT INTO events (event_id, ts, host, event, severity, file, line)
        SELECT i, $onset::TIMESTAMP + to_microseconds(((i * 7919) % 600000) * 100 - 10000000), 'node-' || (i % 64),
          'nccl.warn', ['info', 'warning', 'error', 'fatal'][1 + i % 4], 'node.log', i
        FROM range(100000) t(i)""",
        {"onset": ONSET},
    )
    con.execute(
        "INSERT INTO steps (attempt, step, step_time_ms, is_main) SELECT 0, i, 1000 + i % 9, true FROM range(5000) t(i)"
    )
    page = render(crash(), con, VERSION)
    assert len(page.encode("utf-8")) < 1_000_000
    names = re.findall(r'class="lane-name"[^>]*>([^<]+)<', page)
    assert len(names) <= 12
    assert names[-1].endswith("more places")


def test_the_shell_is_small() -> None:
    page = render(Analysis("b", Job(), Verdict("unknown", 0.0, Culprit(), "")), tables(), VERSION)
    assert len(page.encode("utf-8")) < 100_000


def test_empty_tables_give_a_whole_page() -> None:
    for analysis in (crash(), unknown(), quiet(), Analysis("b", Job(), Verdict("unknown", 0.0, Culprit(), ""))):
        outline(render(analysis, tables(), VERSION))


def test_the_same_input_gives_the_same_bytes_whatever_the_order_of_rows(page: str) -> None:
    con = filled()
    for table in ("events", "steps", "checkpoints", "coverage", "files", "odd_lines"):
        con.execute(f"CREATE TABLE turned AS SELECT * FROM {table} ORDER BY ALL DESC")
        con.execute(f"DELETE FROM {table}")
        con.execute(f"INSERT INTO {table} SELECT * FROM turned")
        con.execute("DROP TABLE turned")
    assert render(crash(), con, VERSION) == page


def test_broken_clocks_do_not_break_the_drawings() -> None:
    con = filled()
    con.execute("INSERT INTO events (event_id, ts, host, event, severity) VALUES (7, 'infinity', 'x', 'e', 'fatal')")
    con.execute("INSERT INTO steps (attempt, step, ts, is_main) VALUES (0, 9223372036854775807, 'infinity', true)")
    con.execute(
        "INSERT INTO steps (attempt, step, step_time_ms, is_main) VALUES (0, -5, 'nan', true), (0, 70, 'inf', true)"
    )
    far = replace(crash(), last_progress=ONSET.replace(year=1971), detected=ONSET.replace(year=9999))
    outline(render(far, con, VERSION))
    only_events = replace(unknown(), job=Job())
    assert "<svg" in section(render(only_events, con, VERSION), "timeline")


def test_an_event_without_severity_is_drawn_as_ordinary() -> None:
    con = tables()
    insert(con, "events", "event_id, ts, host", [(1, after(1), "a"), (2, after(2), "b")])
    assert "no events" not in section(render(crash(), con, VERSION), "timeline")


def test_light_dark_and_print_styles_are_there(page: str) -> None:
    for part in ("prefers-color-scheme: dark", "@media print", "details::details-content"):
        assert part in page


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_contrast_in_light_and_dark() -> None:
    style = (data_folder("reports") / "report.css").read_text(encoding="utf-8")
    style = style[: style.index("\n}\n*")]
    light, dark = (
        dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})\b", part)) for part in style.split("@media (prefers")[:2]
    )
    for theme in (light, {**light, **dark}):
        for ink in ("ink", "soft", "link", "bad", "error", "doubt", "good"):
            for ground in ("paper", "panel"):
                bright, dim = sorted((luminance(theme[ink]), luminance(theme[ground])), reverse=True)
                assert (bright + 0.05) / (dim + 0.05) >= 4.5, (ink, ground)


def test_the_first_card_says_what_the_headline_does_not() -> None:
    def card(summary: str) -> str:
        first, *rest = crash().findings
        page = render(replace(crash(), findings=(replace(first, summary=summary), *rest)), tables(), VERSION)
        return page[page.index('id="c1"') : page.index('id="c2"')]

    assert "<p>It left at gen 1, its peers run at gen 5.</p>" in card("It left at gen 1, its peers run at gen 5.")
    assert "left the PCIe bus at" not in card("GPU 0000:1b:00.0 of node-7 left the PCIe bus at 03:04:05 UTC.")


def test_a_loss_of_which_nothing_is_known_is_not_stated_as_none() -> None:
    none, some = Span(0.0, 0.0, 605.0), Span(0.0, 30.0, 605.0)
    hours = Span(0.0, 0.0, 2.69)
    unseen = replace(crash(), loss=Loss(16, lost_s=none, gpu_hours=hours, basis="assumed"))
    page = render(unseen, tables(), VERSION)
    assert "GPU-hours lost" not in page[page.index("<h1") : page.index("</h1>")]
    assert '<div class="impact unknown"><dt>GPU-hours lost</dt><dd><b>not known</b>' in page
    for loss in (
        Loss(16, lost_s=some, gpu_hours=hours, basis="assumed"),
        Loss(16, lost_s=none, gpu_hours=hours, basis="inferred"),
    ):
        page = render(replace(crash(), loss=loss), tables(), VERSION)
        assert "0 GPU-hours lost (0 to 2.69)" in page[page.index("<h1") : page.index("</h1>")]


def test_an_onset_without_a_time_says_from_which_step_it_was_slow() -> None:
    saving = Saving("straggler", Span(1, 2, 3), since_step=46)
    undated = replace(crash(), verdict=replace(crash().verdict, onset=None), loss=Loss(16, savings=(saving,)))
    assert "steps are slow from step 46 on" in render(undated, tables(), VERSION)
    assert "steps are slow from" not in render(replace(undated, verdict=crash().verdict), tables(), VERSION)


def test_a_file_that_a_decoder_read_is_not_called_unrecognised() -> None:
    con = tables()
    insert(con, "files", "file, kind, bytes", [("a.log", "text", 9), ("dump_1", "flight_recorder", 9)])
    insert(
        con,
        "coverage",
        "file, bytes, lines, recognised, events, odd",
        [("a.log", 9, 3, 0, 0, 0), ("dump_1", 9, 3, 0, 0, 0)],
    )
    assert "1 file without any line that was recognised" in render(crash(), con, VERSION)


def test_a_theme_is_the_only_one_of_its_page() -> None:
    pages = {theme: render(quiet(), tables(), VERSION, theme=theme) for theme in ("auto", "light", "dark")}
    assert pages["auto"] == render(quiet(), tables(), VERSION)
    for theme in ("light", "dark"):
        assert "prefers-color-scheme" not in pages[theme]
        assert f'<meta name="color-scheme" content="{theme}">' in pages[theme]
        assert f"color-scheme: {theme};" in pages[theme]
        # The policy allows a style sheet by the hash of what it is now.
        style = re.search(r"<style>(.*?)</style>", pages[theme], re.DOTALL)
        assert style is not None
        assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() in pages[theme]
    with pytest.raises(UsageError, match="'blue' is no theme: give auto, light or dark"):
        render(quiet(), tables(), VERSION, theme="blue")  # type: ignore[arg-type]


def test_a_loss_without_bounds_to_show_prints_one_number() -> None:
    page = render(replace(crash(), loss=Loss(gpus=8)), tables(), VERSION)
    assert "No time is known from which a loss could be computed." in page
