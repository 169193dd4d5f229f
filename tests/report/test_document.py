"""The JSON document: keys, their order, and values that cannot break a reader."""

from __future__ import annotations

import json
from dataclasses import replace

from report_samples import VERSION, crash, quiet, unknown

from postmortem.analysis.model import Culprit, Evidence, Span
from postmortem.report.document import to_document, to_json

CULPRIT = "host pod gpu pci rank ranks local_rank pid dev port ifname qpn link switch switch_port peer"


def load(text: str) -> dict[str, object]:
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def at(document: object, *path: str | int) -> object:
    for key in path:
        assert isinstance(document, dict | list)
        document = document[key]  # type: ignore[index]
    return document


def keys(document: object, *path: str | int) -> list[str]:
    found = at(document, *path)
    assert isinstance(found, dict)
    return list(found)


def test_keys_come_in_the_order_of_the_schema() -> None:
    document = load(to_json(crash(), VERSION))
    assert " ".join(document) == "schema tool version job verdict findings survived stragglers loss coverage clocks"
    expected = {
        ("job",): "name start end outcome world_size gpus hosts last_step framework",
        ("verdict",): "cause confidence word culprit onset onset_lo onset_hi summary",
        ("findings", 0): "rank cause confidence culprit onset summary evidence chosen_over next_steps collect",
        ("findings", 0, "evidence", 0): "file line ts text role",
        ("findings", 0, "chosen_over", 0): "cause why",
        ("survived", 0): "event host entity start end why",
        ("stragglers",): "ranks queue_pairs traces measured congestion collect",
        ("stragglers", "ranks", 0): "rank slowdown since_step kind confidence own_ratio",
        (
            "stragglers",
            "queue_pairs",
            0,
        ): "host dev qpn peer p50_us p99_us samples confidence port rank windows switch switch_port",
        (
            "loss",
        ): "gpus last_durable_step bins lost_s gpu_hours cost ettr_attempt throughput_loss throughput_basis slow_steps checkpoint_advice what_if "
        "last_step healthy_step_s span_s basis ettr_run ettr_wall goodput idle_gpu_hours degraded_gpu_hours ckpt_stall_gpu_hours "
        "energy_kwh notes",
        ("loss", "bins", 0): "bin lo_s best_s hi_s basis",
        ("loss", "gpu_hours"): "lo best hi",
        ("coverage",): "files bytes lines events odd missing_sources left_out",
        ("coverage", "odd", 0): "file line why",
        ("clocks", 0): "host offset_ms uncertainty_ms zone basis",
    }
    for path, words in expected.items():
        assert keys(document, *path) == words.split(), path
    assert keys(document, "verdict", "culprit") == CULPRIT.split()
    assert keys(document, "findings", 1, "culprit") == CULPRIT.split()


def test_values_have_the_forms_of_the_schema() -> None:
    document = load(to_json(crash(), VERSION))
    assert at(document, "schema") == 1
    assert at(document, "version") == VERSION
    assert at(document, "verdict", "confidence") == 0.9346
    assert at(document, "verdict", "word") == "almost certain"
    assert at(document, "verdict", "onset") == "2026-01-02T03:04:05.000000Z"
    assert at(document, "verdict", "onset_hi") == "2026-01-02T03:04:05.500000Z"
    assert at(document, "verdict", "culprit", "ranks") == [59]
    assert at(document, "verdict", "culprit", "port") == 1
    assert at(document, "verdict", "culprit", "pod") is None
    assert at(document, "findings", 1, "rank") == 2
    assert at(document, "loss", "checkpoint_advice") is None
    assert at(document, "loss", "what_if") == []


def test_unknown_is_null() -> None:
    document = to_document(unknown(), VERSION)
    assert at(document, "verdict", "cause") == "unknown"
    assert at(document, "verdict", "word") == "not established"
    assert at(document, "verdict", "onset") is None
    assert at(document, "loss", "lost_s") is None
    assert at(document, "loss", "cost") is None
    assert at(to_document(quiet(), VERSION), "findings") == []


def test_a_port_that_is_no_number_stays_text() -> None:
    analysis = crash()
    for port, expected in (("1/2", "1/2"), ("7", 7), ("²", "²"), ("9" * 40, "9" * 40), (None, None)):
        verdict = replace(analysis.verdict, culprit=Culprit(port=port))
        document = to_document(replace(analysis, verdict=verdict), VERSION)
        assert at(document, "verdict", "culprit", "port") == expected


def test_odd_values_cannot_break_the_text() -> None:
    analysis = crash()
    line = Evidence("a\udcff/log", 1, "\x00 \ud800 </script>", "cause")
    finding = replace(analysis.findings[0], evidence=(line,), confidence=float("nan"))
    loss = replace(analysis.loss, gpu_hours=Span(float("-inf"), float("nan"), 1.0))
    text = to_json(replace(analysis, findings=(finding,), loss=loss), VERSION)
    document = load(text.encode("utf-8").decode("utf-8"))
    assert at(document, "findings", 0, "confidence") is None
    assert at(document, "findings", 0, "evidence", 0, "file") == "a\\udcff/log"
    assert at(document, "loss", "gpu_hours") == {"lo": None, "best": None, "hi": 1.0}


def test_the_same_analysis_gives_the_same_bytes() -> None:
    assert to_json(crash(), VERSION) == to_json(crash(), VERSION)
