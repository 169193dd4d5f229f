"""Any bytes: twenty seconds of the corpus mutator, and properties of its parts; the long run is `benchmarks/fuzz.py`."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postmortem.lines.blocks import Block, read_blocks
from postmortem.lines.documents import document_shape, read_document
from postmortem.redaction import Masks
from postmortem.redaction.check import leftovers
from postmortem.redaction.names import Names

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 15.0


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    """benchmarks/fuzz.py, which is no module of the package."""
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "benchmarks" / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


def test_damaged_files_break_nothing(fuzz: ModuleType) -> None:
    result = fuzz.run(SECONDS, seed=random.randrange(10**9), most=40)
    assert result.crashes == [], f"python benchmarks/fuzz.py --seed {result.seed} --keep DIR"
    assert result.inputs > 0
    assert result.bundles > 0


def test_an_input_is_made_again_from_its_number(fuzz: ModuleType) -> None:
    corpus = fuzz.seeds()
    assert len(corpus) > 30
    made = [fuzz.one_input(random.Random(f"1/{n}"), corpus) for n in range(5)]
    assert made == [fuzz.one_input(random.Random(f"1/{n}"), corpus) for n in range(5)]
    assert len({data for _, data in made}) == 5


def test_a_crash_is_counted_and_its_input_kept(fuzz: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"1")
    result = fuzz.Result(1)

    def fails() -> None:
        raise ValueError("broken")

    fuzz._timed(result, tmp_path / "x.log", fails, "input 1", tmp_path / "kept")
    assert "ValueError" in result.crashes[0]
    assert [p.read_bytes() for p in (tmp_path / "kept").iterdir()] == [b"1"]


class Chunks:
    """A stream that gives at most `size` bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data = data
        self.size = size

    def read(self, size: int = -1, /) -> bytes:
        count = self.size if size < 0 else min(size, self.size)
        out, self.data = self.data[:count], self.data[count:]
        return out


LINES = st.lists(
    st.one_of(st.binary(max_size=80), st.text(max_size=40).map(lambda t: t.encode("utf-8", "replace"))), max_size=30
).map(b"\n".join)


@settings(max_examples=120, deadline=None)
@given(data=LINES, size=st.integers(1, 64))
def test_lines_numbers_and_offsets_fit_the_bytes(data: bytes, size: int) -> None:
    blocks: list[Block] = list(read_blocks(Chunks(data, size), block_bytes=64))
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    assert sum(block.lines for block in blocks) == whole.count(b"\n")
    number = 1
    for block in blocks:
        assert block.first_line == number
        number += block.lines
        for offset in block.offsets:
            assert offset == 0 or whole[offset - 1 : offset] == b"\n"


HEADS = [
    b'{"kind":"List","items":[',
    b'[{"',
    b'{"streams":[{"stream":{',
    b'{"data":{"result":[',
    b'time,host,message\n"',
    b"__CURSOR=s=1\n",
    b'{"hits":{"hits":[',
    b"{\n",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(head=st.sampled_from(HEADS), tail=st.binary(max_size=300), size=st.integers(1, 50))
def test_documents_of_any_bytes_end(head: bytes, tail: bytes, size: int) -> None:
    data = head + tail
    shape = document_shape(data)
    if shape is not None:
        assert sum(block.lines for block in read_document(shape, Chunks(data, size))) >= 0


WORDS = st.text(alphabet="ab1-._/@:é", min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(names=st.lists(WORDS, max_size=6), text=st.lists(WORDS, max_size=12).map(" ".join))
def test_what_was_masked_holds_no_name(names: list[str], text: str) -> None:
    found = Names()
    for name in names:
        found.host(name)
    masks = Masks.of(found)
    masked = masks.text(text)
    assert list(leftovers([masked], masks)) == []
    assert masks.column(pl.Series([text])).to_list() == [masked]


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=200))
def test_names_are_searched_in_any_text(text: str) -> None:
    found = Names()
    found.find(pl.Series([text.encode("utf-8", "replace").decode()]))
    assert all(not any(c.isspace() for c in name) for names in found.by_kind.values() for name in names)
