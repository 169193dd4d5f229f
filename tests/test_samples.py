"""`analyze` on every incident of sample_logs/ gives what its expected.json, written by hand, says must hold."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from postmortem.incident import Options, open_incident
from postmortem.report.document import to_document

SAMPLES = sorted(p.parent for p in (Path(__file__).resolve().parent.parent / "sample_logs").glob("*/expected.json"))
ONSET_S = 2.0
GPU_HOURS = 0.02


def differences(want: Any, got: Any, at: str = "") -> list[str]:
    """Where `got` lacks what `want` asks for: every key of a dictionary, times to seconds, GPU-hours to two per cent."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{at}: {got!r} is no object"]
        return [d for k, v in want.items() for d in differences(v, got.get(k), f"{at}.{k}")]
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) < len(want):
            return [f"{at}: {got!r}, expected {want!r}"]
        return [d for i, v in enumerate(want) for d in differences(v, got[i], f"{at}[{i}]")]
    if at.endswith(".onset") and isinstance(want, str):
        if not isinstance(got, str):
            return [f"{at}: {got!r}, expected {want}"]
        apart = abs((datetime.fromisoformat(got) - datetime.fromisoformat(want)).total_seconds())
        return [] if apart <= ONSET_S else [f"{at}: {got}, expected {want}"]
    if isinstance(want, float) and isinstance(got, (int, float)):
        return [] if abs(got - want) <= max(GPU_HOURS * abs(want), 1e-6) else [f"{at}: {got}, expected {want}"]
    return [] if want == got else [f"{at}: {got!r}, expected {want!r}"]


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda p: p.name)
def test_sample_gives_what_is_expected(folder: Path) -> None:
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    lines = expected.pop("evidence_lines", [])
    accepted = expected.pop("also_accept", [])
    with open_incident([folder / "bundle"], Options(workers=1, context=False)) as incident:
        document: Any = json.loads(json.dumps(to_document(incident.analysis, "test")))
    if document["verdict"]["cause"] in accepted:
        expected["verdict"].pop("cause", None)
    wrong = differences(expected, document)
    assert not wrong, "\n".join(wrong)
    if lines:
        cited = {(e["file"], e["line"]) for e in document["findings"][0]["evidence"]}
        assert cited & {(e["file"], e["line"]) for e in lines}, cited
