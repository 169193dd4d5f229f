"""The Markdown report: its headings, its honesty, and log text that stays text, as a CommonMark parser with tables reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from report_samples import ONSET, VERSION, after, crash, insert, quiet, tables, unknown

from postmortem.analysis.model import (
    Analysis,
    Coverage,
    Culprit,
    Evidence,
    Finding,
    Job,
    Loss,
    Rival,
    Survived,
    Verdict,
)
from postmortem.report.figures import shown
from postmortem.report.markdown import render
from postmortem.report.markdown_text import code, fence, prose, table

READER = MarkdownIt("commonmark", {"html": True}).enable("table")
SECTIONS = [
    "Summary", "Impact", "Root cause", "Trigger", "Detection", "Resolution", "Timeline", "What to do", "Lessons", "What the logs cover",
]  # fmt: skip
HARMLESS = {"text", "code_inline", "strong_open", "strong_close", "softbreak"}
ATTACKS = (
    "# heading", "## Root cause", "- [ ] item", "1. one", "1) one", "> quote", "---", "===", "***", "```", "~~~", "    indented", "| a | b |",
    "<script>alert(1)</script>", "<!-- ", "</details>", "[x](http://evil)", "![x](http://evil/p.png)", "[x]: http://evil", "http://evil",
    "www.evil.com", "a@evil.com", "@somebody", "#123", "GH-12", "!45", "org/repo#1", "*a*", "_a_", "**b**", "~~c~~", "`code", "``", "` `",
    "a\\", "\\", "&lt;b&gt;", "&#64;me", ":smile:", "a:b:c", "line\nbreak\n# x", "\x1b[31m", "\u202e", "$x$", "[[x]]", "0f3a9bc1d", "+ x", "= x",
    "a | b", "a\\|b", "`|`", "", " ", "^x^", "%1", "{x}", "<a", "x\u2028y", "\ud800",
)  # fmt: skip


def inline(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield from token.children or []


def check(text: str) -> list[Token]:
    """The document has our headings and nothing that log text could have begun."""
    tokens = READER.parse(text)
    headings = [tokens[n + 1] for n, token in enumerate(tokens) if token.type == "heading_open"]
    assert [one.content for one in headings[1:]] == SECTIONS
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", *["h2"] * len(SECTIONS)]
    assert {token.type for token in tokens} <= {
        "heading_open", "heading_close", "inline", "paragraph_open", "paragraph_close", "bullet_list_open", "bullet_list_close",
        "list_item_open", "list_item_close", "blockquote_open", "blockquote_close", "fence",
        "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close",
        "th_open", "th_close", "td_open", "td_close",
    }  # fmt: skip
    assert {token.type for token in inline(tokens)} <= HARMLESS
    quoted = [token for token in tokens if token.type == "blockquote_open"]
    assert len(quoted) == text.count("> **To fill in:**")
    return tokens


def hostile(text: str) -> Analysis:
    """An analysis that says `text` wherever a log could."""
    culprit = Culprit(host=text, pod=text, dev=text, ifname=text, switch=text, switch_port=text, peer=text, pci=text)
    lines = (
        Evidence(text or "f", 1, text, "cause", ONSET, text, text or None),
        Evidence("f", 2, f"x {text}", "effect", after(1), event="torch.abort"),
    )
    finding = Finding(
        "link_flap",
        0.95,
        culprit,
        text,
        lines,
        ONSET,
        chosen_over=(Rival("host_crash", text),),
        next_steps=(text, f"do {text}"),
        collect=(text,),
    )
    job = Job(text, after(-9), after(9), "crashed", 8, 8, hosts=1, last_step=5, framework=text)
    verdict = Verdict("link_flap", 0.95, culprit, text, ONSET, after(-1), after(1))
    other = replace(finding, confidence=0.3, summary=f"{text} {text}")
    return Analysis(
        text, job, verdict, (finding, other), (Survived(text or "e", text, text, after(-5), None, text),),
        loss=Loss(notes=(text,)), coverage=Coverage(odd=((text, 1, text),), missing_sources=(text, text)), detected=after(3), last_progress=after(-2),
    )  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_log_text_stays_text(attack: str) -> None:
    for text in (attack, f"{attack} {attack}", f"x {attack}", f"{attack}\n\n{attack}", f"a: {attack}, b"):
        tokens = check(render(hostile(text), VERSION))
        lines = [token.content.rstrip("\n") for token in tokens if token.type == "fence"]
        assert lines[0] == shown(text, 500).rstrip("\n")
        assert lines[1] == shown(f"x {text}", 500)
        assert {token.info for token in tokens if token.type == "fence"} == {"text"}


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("`|\\*_[]()<>!#-+=~&@:;.,1aé \n\t'\""), max_size=30))
def test_any_text_stays_text(text: str) -> None:
    check(render(hostile(text), VERSION))


@settings(deadline=None)
@given(st.text(max_size=40))
def test_prose_keeps_every_word(text: str) -> None:
    """What a reader sees is the text as the other reports show it, white space folded."""
    paragraph = READER.parse(f"x {prose(text)}")
    seen = "".join(token.content for token in inline(paragraph))
    assert [token.type for token in paragraph] == ["paragraph_open", "inline", "paragraph_close"]
    assert seen.split() == f"x {shown(text, 1000)}".split()


@settings(deadline=None)
@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_cells_keep_to_their_columns(one: str, two: str) -> None:
    tokens = READER.parse(table(("a", "b"), [(code(one), prose(two)), (code(two), "x")]))
    cells = [token for token, before in zip(tokens[1:], tokens, strict=False) if before.type == "td_open"]
    assert len(cells) == 4
    first = [child.content for child in cells[0].children or []]
    # A backslash before a bar is read in more than one way.
    assert "\\|" in one or "".join(first).strip() == shown(one, 300).strip()


def test_plain_words_stay_plain() -> None:
    text = "GPU 3 of node-07 (rank 21) left the PCIe bus at 09:41:20.5, 12.3 % lost; it's node-1/dmesg:12 and 1,024 of 2 → 3."
    assert prose(text) == text
    assert prose("see mlx5_5 (at leaf-3 Ethernet6/1), #7.") == "see `mlx5_5` (at leaf-3 Ethernet6/1), `#7`."
    assert fence(["a ``` b"]) == "````text\na ``` b\n````"


def test_a_crash_has_all_sections_with_what_is_known() -> None:
    text = render(crash(), VERSION)
    check(text)
    parts = dict(zip(["head", *SECTIONS], [part.split("\n", 1)[-1] for part in text.split("\n## ")], strict=True))
    assert text.startswith(
        "# Job gpt crashed: GPU `0000:1b:00.0` of node-7 left the PCIe bus at 2026-01-02 03:04:05 UTC (almost certain)"
    )
    assert "no person has checked it yet" in parts["head"]
    assert "302 GPU-hours lost on 528 GPUs" in parts["Impact"]
    assert "20 steps to be made again: last step 60, last durable checkpoint 40" in parts["Impact"]
    assert "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus." in parts["Root cause"]
    assert "Host crash: node-7 kept logging" in parts["Root cause"]
    assert "`node-7/dmesg:12`" in parts["Trigger"]
    assert "30.1 s after the onset" in parts["Detection"]
    assert "no later attempt" in parts["Resolution"]
    assert "- [ ] Drain node-7." in parts["What to do"]
    assert "missing: switch logs" in parts["What the logs cover"]
    times = [row.split("|")[1].strip() for row in parts["Timeline"].splitlines() if row.startswith("| 2026")]
    assert times == sorted(times)
    assert len(times) == 8


@pytest.mark.parametrize(
    "section", ["Impact", "Root cause", "Trigger", "Detection", "Resolution", "Timeline", "What to do", "Lessons"]
)
@pytest.mark.parametrize("made", [crash, unknown])
def test_what_only_people_know_is_to_be_filled_in(section: str, made: object) -> None:
    assert callable(made)
    part = render(made(), VERSION).split(f"\n## {section}\n")[1].split("\n## ")[0]
    assert part.count("> **To fill in:**") == 1


def test_an_unknown_cause_is_not_named() -> None:
    text = render(unknown(), VERSION)
    check(text)
    assert "**The cause is not established.**" in text
    assert "Not established. Possible, best first:" in text
    assert "## Trigger\n\nNot established." in text
    assert "- [ ] dumps" in text


def test_a_quiet_run_says_so() -> None:
    text = render(quiet(), VERSION)
    check(text)
    assert "Nothing went wrong, as far as the logs show." in text
    assert "lost on" not in text
    assert "- [ ]" not in text


def test_later_attempts_are_listed() -> None:
    with tables() as con:
        rows = [(0, after(-9000), after(620), "crashed"), (1, after(900), after(1900), "completed")]
        insert(con, "attempts", "attempt, start, finish, outcome", rows)
        text = render(crash(), VERSION, con)
    assert "| 2026-01-02 03:19:05 | 2026-01-02 03:35:45 | completed |" in text
    assert "| 2026-01-02 00:34:05 | 2026-01-02 03:14:25 |" not in text


def test_an_empty_analysis_is_a_document() -> None:
    check(render(Analysis("b", Job(), Verdict("unknown", 0.0, Culprit(), "")), VERSION))
