"""Every sample of parsers/ gives its own events and no other, offered to the whole catalogue."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.catalogue.lint import lint
from postmortem.catalogue.matcher import HIT_SCHEMA, ROW_SCHEMA, Matcher

PARSERS = Path(__file__).resolve().parents[2] / "parsers"
FILES = sorted(p.relative_to(PARSERS).as_posix() for p in PARSERS.rglob("*.toml"))


@pytest.fixture(scope="module")
def complaints(matcher: Matcher) -> dict[str, list[str]]:
    """What is wrong, by file; the catalogue is run once over all samples."""
    out: dict[str, list[str]] = defaultdict(list)
    for complaint in lint(matcher):
        out[complaint.message.file].append(str(complaint))
    return out


@pytest.mark.parametrize("file", FILES)
def test_samples_give_their_own_events(file: str, complaints: dict[str, list[str]]) -> None:
    assert not complaints[file], "\n".join(complaints[file])


def test_every_file_is_loaded_and_every_message_has_a_sample(matcher: Matcher) -> None:
    assert {m.file for m in matcher.messages} == set(FILES)
    assert [m.id for m in matcher.messages if not m.samples] == []


def test_every_sample_passes_the_prefilter(matcher: Matcher) -> None:
    lines = [(m.id, s.line) for m in matcher.messages for s in m.samples if s.events and not m.continues]
    frame = pl.DataFrame(lines, schema=["id", "line"], orient="row")
    missed = frame.filter(~pl.col("line").str.contains(matcher.prefilter))
    assert missed["id"].to_list() == []


@pytest.fixture(scope="module")
def words(matcher: Matcher) -> list[str]:
    """Literals of the catalogue and pieces of its samples: text that comes near to what is recognised."""
    literals = [c for m in matcher.messages for c in m.contains]
    pieces = [s.line[i : i + 40] for m in matcher.messages for s in m.samples for i in (0, 25, 60)]
    return sorted({*literals, *filter(None, pieces)})


NOISE = st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20)


def test_a_line_whose_list_of_parts_is_cut_short_gives_no_row(matcher: Matcher) -> None:
    rows = [("f", 1, 0, " NCCL INFO Bootstrap : Using bond0:172.2")]
    assert matcher.recognise(pl.DataFrame(rows, schema=dict(HIT_SCHEMA), orient="row")).is_empty()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_text_makes_the_catalogue_raise(matcher: Matcher, words: list[str], data: st.DataObject) -> None:
    piece = st.one_of(st.sampled_from(words), NOISE, st.sampled_from(["{", '"', "[", "-1", "9" * 25, "\r", "\x1b[0m"]))
    lines = data.draw(st.lists(st.lists(piece, max_size=6).map("".join), min_size=1, max_size=6))
    rows = [("f", n, 0, line) for n, line in enumerate(lines, 1)]
    found = matcher.recognise(pl.DataFrame(rows, schema=dict(HIT_SCHEMA), orient="row"))
    assert found.schema == pl.Schema(ROW_SCHEMA)
    assert set(found["line"]) <= set(range(1, len(lines) + 1))
