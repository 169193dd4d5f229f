"""Templates are compiled once, and anew when they or the module with their options change."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from postmortem import prepared
from postmortem.report.compiled import Compiled


def rendered(text: str, module: bytes) -> str:
    environment = Environment(
        loader=DictLoader({"page": text}), autoescape=True, bytecode_cache=Compiled(module), cache_size=0
    )
    return environment.get_template("page").render(x="<")


def test_a_template_is_kept_until_it_or_its_module_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_folder", lambda: tmp_path)
    assert rendered("a {{ x }}", b"one") == "a &lt;"
    (kept,) = tmp_path.iterdir()
    monkeypatch.setattr(Environment, "compile", None)  # whoever compiles again fails
    assert rendered("a {{ x }}", b"one") == "a &lt;"
    monkeypatch.undo()
    monkeypatch.setattr(prepared, "_folder", lambda: tmp_path)
    assert rendered("b {{ x }}", b"one") == "b &lt;"
    assert list(tmp_path.iterdir()) == [kept]
    assert rendered("b {{ x }}", b"two") == "b &lt;"
    assert len(list(tmp_path.iterdir())) == 1
    assert not kept.exists()


def test_a_damaged_file_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_folder", lambda: tmp_path)
    rendered("a {{ x }}", b"one")
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:60])
    assert rendered("a {{ x }}", b"one") == "a &lt;"


def test_a_page_is_made_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_folder", lambda: Path("/proc/none"))
    assert rendered("a {{ x }}", b"one") == "a &lt;"
