"""The sample incidents are complete, small, readable and free of private details."""

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import pytest

from postmortem import schema

SAMPLES = Path(__file__).resolve().parent.parent / "sample_logs"
INCIDENTS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
SIZE_LIMIT = 3_000_000
OUTCOMES = {"crashed", "hung", "slow", "cancelled", "completed", "unknown"}
EXPECTED_KEYS = {"job", "verdict", "stragglers", "loss", "survived", "evidence_lines", "also_accept"}
MACHINE_PATH = re.compile(r"/(?:tmp|root|work)/")
IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
QUIET = "none"


def expected(incident: str) -> dict[str, Any]:
    document = json.loads((SAMPLES / incident / "expected.json").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def members(incident: str) -> list[Path]:
    return sorted(path for path in (SAMPLES / incident / "bundle").rglob("*") if path.is_file())


def lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8").split("\n")


def test_there_are_enough_incidents_and_a_quiet_one() -> None:
    causes = [expected(incident)["verdict"]["cause"] for incident in INCIDENTS]
    assert len(INCIDENTS) >= 5
    assert QUIET in causes
    assert len(set(causes)) >= 5


def test_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < SIZE_LIMIT


def test_readme_describes_each_incident() -> None:
    text = (SAMPLES / "README.md").read_text(encoding="utf-8")
    for incident in INCIDENTS:
        assert f"\n## {incident}\n" in text
        assert f"[`{incident}`](#{incident})" in text


@pytest.mark.parametrize("incident", INCIDENTS)
def test_bundle_has_files_with_text(incident: str) -> None:
    found = members(incident)
    assert found
    for path in found:
        assert path.stat().st_size > 0, path
        assert lines(path)[-1] == "" or path.suffix == ".json", f"{path} is cut in its last line"


@pytest.mark.parametrize("incident", INCIDENTS)
def test_expected_uses_known_words(incident: str) -> None:
    document = expected(incident)
    assert set(document) <= EXPECTED_KEYS
    assert document["job"].get("outcome", "unknown") in OUTCOMES
    for cause in (document["verdict"]["cause"], *document.get("also_accept", [])):
        assert cause == QUIET or cause in schema.CAUSES
    onset = document["verdict"].get("onset")
    assert onset is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", onset)


@pytest.mark.parametrize("incident", INCIDENTS)
def test_evidence_lines_exist(incident: str) -> None:
    document = expected(incident)
    rows = document["evidence_lines"]
    assert bool(rows) == (document["verdict"]["cause"] != QUIET)
    for row in rows:
        text = lines(SAMPLES / incident / "bundle" / row["file"])
        assert 1 <= row["line"] <= len(text)
        assert text[row["line"] - 1].strip()


@pytest.mark.parametrize("incident", INCIDENTS)
def test_bundle_names_no_real_place(incident: str) -> None:
    for path in members(incident):
        text = path.read_bytes().decode("utf-8")
        assert not MACHINE_PATH.search(text), path
        public = [word for word in IPV4.findall(text) if is_public(word)]
        assert not public, f"{path}: {public[:3]}"


def is_public(word: str) -> bool:
    try:
        return ipaddress.IPv4Address(word).is_global
    except ValueError:
        return False
