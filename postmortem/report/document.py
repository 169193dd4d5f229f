"""The JSON document of `analyze --format json` (schema 1): the one place that makes it.

Key order is part of the interface. Unknown is null; a number that is not finite is unknown too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from postmortem.analysis.model import (
    Advice,
    Analysis,
    Bin,
    Clock,
    Coverage,
    Culprit,
    Evidence,
    Finding,
    Job,
    Loss,
    Saving,
    SlowQueuePair,
    SlowRank,
    Span,
    Survived,
    Verdict,
)
from postmortem.analysis.model_slow import Congestion, QueuePairs, TraceView
from postmortem.report.figures import ascii_escaped, iso, storable

SCHEMA = 1
Json = dict[str, object]


def to_document(analysis: Analysis, version: str) -> Json:
    """The document as plain values; strings can be encoded as UTF-8, numbers are finite."""
    return {
        "schema": SCHEMA,
        "tool": "postmortem",
        "version": version,
        "job": _job(analysis.job),
        "verdict": _verdict(analysis.verdict),
        "findings": [_finding(rank, finding) for rank, finding in enumerate(analysis.findings, start=1)],
        "survived": [_survived(fault) for fault in analysis.survived],
        "stragglers": {
            "ranks": [_slow_rank(slow) for slow in analysis.slow_ranks],
            "queue_pairs": [_slow_queue_pair(slow) for slow in analysis.slow_queue_pairs],
            "traces": [_trace(view) for view in analysis.traces],
            "measured": _queue_pairs(analysis.queue_pairs),
            "congestion": [_congestion(one) for one in analysis.congestion],
            "collect": _texts(analysis.to_name_a_rank),
        },
        "loss": _loss(analysis.loss),
        "coverage": _coverage(analysis.coverage),
        "clocks": [_clock(clock) for clock in analysis.clocks],
    }


def to_json(analysis: Analysis, version: str) -> str:
    """The document as indented JSON text, without a newline at its end."""
    return ascii_escaped(json.dumps(to_document(analysis, version), ensure_ascii=False, allow_nan=False, indent=1))


def _text(value: str | None) -> str | None:
    return None if value is None else storable(value)


def _texts(values: Iterable[str]) -> list[str]:
    return [storable(value) for value in values]


def _number(value: float | None, places: int = 6) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, places)


def _port(value: str | None) -> int | str | None:
    # A host's port is a number in this document; what is no number stays as printed.
    if value is not None and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return _text(value)


def _job(job: Job) -> Json:
    return {
        "name": _text(job.name),
        "start": iso(job.start),
        "end": iso(job.end),
        "outcome": job.outcome,
        "world_size": job.world_size,
        "gpus": job.gpus,
        "hosts": job.hosts,
        "last_step": job.last_step,
        "framework": _text(job.framework),
    }


def _culprit(culprit: Culprit) -> Json:
    return {
        "host": _text(culprit.host),
        "pod": _text(culprit.pod),
        "gpu": culprit.gpu,
        "pci": _text(culprit.pci),
        "rank": culprit.rank,
        "ranks": list(culprit.ranks),
        "local_rank": culprit.local_rank,
        "pid": culprit.pid,
        "dev": _text(culprit.dev),
        "port": _port(culprit.port),
        "ifname": _text(culprit.ifname),
        "qpn": culprit.qpn,
        "link": culprit.link,
        "switch": _text(culprit.switch),
        "switch_port": _text(culprit.switch_port),
        "peer": _text(culprit.peer),
    }


def _verdict(verdict: Verdict) -> Json:
    return {
        "cause": verdict.cause,
        "confidence": _number(verdict.confidence, 4),
        "word": verdict.word,
        "culprit": _culprit(verdict.culprit),
        "onset": iso(verdict.onset),
        "onset_lo": iso(verdict.onset_lo),
        "onset_hi": iso(verdict.onset_hi),
        "summary": storable(verdict.summary),
    }


def _finding(rank: int, finding: Finding) -> Json:
    return {
        "rank": rank,
        "cause": finding.cause,
        "confidence": _number(finding.confidence, 4),
        "culprit": _culprit(finding.culprit),
        "onset": iso(finding.onset),
        "summary": storable(finding.summary),
        "evidence": [_evidence(line) for line in finding.evidence],
        "chosen_over": [{"cause": rival.cause, "why": storable(rival.why)} for rival in finding.chosen_over],
        "next_steps": _texts(finding.next_steps),
        "collect": _texts(finding.collect),
    }


def _evidence(line: Evidence) -> Json:
    return {
        "file": storable(line.file),
        "line": line.line,
        "ts": iso(line.ts),
        "text": storable(line.text),
        "role": line.role,
    }


def _survived(fault: Survived) -> Json:
    return {
        "event": fault.event,
        "host": _text(fault.host),
        "entity": _text(fault.entity),
        "start": iso(fault.start),
        "end": iso(fault.end),
        "why": storable(fault.why),
    }


def _slow_rank(slow: SlowRank) -> Json:
    return {
        "rank": slow.rank,
        "slowdown": _number(slow.slowdown, 4),
        "since_step": slow.since_step,
        "kind": slow.kind,
        "confidence": _number(slow.confidence, 4),
        "own_ratio": _number(slow.own_ratio, 4),
    }


def _trace(view: TraceView) -> Json:
    return {
        "trace": storable(view.trace),
        "cause": view.cause,
        "summary": storable(view.summary),
        "workers": view.workers,
        "stages": view.stages,
        "steps": view.steps,
        "step_s": _number(view.step_s),
        "ideal_s": _number(view.ideal_s),
        "slowdown": _number(view.slowdown),
        "waste_share": _number(view.waste_share),
        "worker_share": _number(view.worker_share),
        "longest_stage": view.longest_stage,
        "stage_ratio": _number(view.stage_ratio),
        "stage_share": _number(view.stage_share),
        "variation_share": _number(view.variation_share),
    }


def _slow_queue_pair(slow: SlowQueuePair) -> Json:
    return {
        "host": _text(slow.host),
        "dev": _text(slow.dev),
        "qpn": slow.qpn,
        "peer": _text(slow.peer),
        "p50_us": _number(slow.p50_us, 3),
        "p99_us": _number(slow.p99_us, 3),
        "samples": slow.samples,
        "confidence": _number(slow.confidence, 4),
        "port": _port(slow.port),
        "rank": slow.rank,
        "windows": slow.windows,
        "switch": _text(slow.switch),
        "switch_port": _text(slow.switch_port),
    }


def _congestion(one: Congestion) -> Json:
    return {
        "place": storable(one.place),
        "minutes": one.minutes,
        "storms": one.storms,
        "marks": one.marks,
        "drops": one.drops,
        "waits": one.waits,
        "counters": one.grown,
        "ports": one.ports,
        "first": iso(one.first),
        "last": iso(one.last),
        "slow_with": _number(one.slow_with, 4),
        "slow_without": _number(one.slow_without, 4),
        "worst_step": _number(one.worst_step, 4),
        "summary": one.summary,
    }


def _queue_pairs(all_of: QueuePairs) -> Json:
    return {
        "queue_pairs": all_of.measured,
        "slow": all_of.slow,
        "hosts": all_of.hosts,
        "where": all_of.where,
        "summary": storable(all_of.summary),
        "extra_us": _number(all_of.extra_us, 3),
        "lost_share": _span(all_of.lost),
        "lost_basis": all_of.lost_basis,
        "requests_per_step": all_of.per_step,
    }


def _span(span: Span | None) -> Json | None:
    if span is None:
        return None
    return {"lo": _number(span.lo), "best": _number(span.best), "hi": _number(span.hi)}


def _bin(part: Bin) -> Json:
    return {
        "bin": part.bin,
        "lo_s": _number(part.lo_s),
        "best_s": _number(part.best_s),
        "hi_s": _number(part.hi_s),
        "basis": part.basis,
    }


def _loss(loss: Loss) -> Json:
    return {
        "gpus": loss.gpus,
        "last_durable_step": loss.last_durable_step,
        "bins": [_bin(part) for part in loss.bins],
        "lost_s": _span(loss.lost_s),
        "gpu_hours": _span(loss.gpu_hours),
        "cost": _span(loss.cost),
        "ettr_attempt": _number(loss.ettr_attempt),
        "throughput_loss": _number(loss.throughput_loss),
        "throughput_basis": loss.throughput_basis,
        "slow_steps": loss.slow_steps,
        "checkpoint_advice": _advice(loss.advice),
        "what_if": [_saving(saving) for saving in loss.savings],
        "last_step": loss.last_step,
        "healthy_step_s": _number(loss.healthy_step_s),
        "span_s": _number(loss.span_s),
        "basis": loss.basis,
        "ettr_run": _number(loss.ettr_run),
        "ettr_wall": _number(loss.ettr_wall),
        "goodput": _number(loss.goodput),
        "idle_gpu_hours": _number(loss.idle_gpu_hours),
        "degraded_gpu_hours": _number(loss.tax_gpu_hours),
        "ckpt_stall_gpu_hours": _number(loss.save_gpu_hours),
        "energy_kwh": _span(loss.energy_kwh),
        "notes": _texts(loss.notes),
    }


def _advice(advice: Advice | None) -> Json | None:
    if advice is None:
        return None
    return {
        "interval_s": _span(advice.tau_s),
        "interval_steps": advice.tau_steps,
        "young_s": _number(advice.young_s),
        "daly_s": _number(advice.daly_s),
        "availability_s": _number(advice.availability_s),
        "least_s": _number(advice.floor_s),
        "save_stall_s": _number(advice.save_stall_s),
        "save_lag_s": _number(advice.save_lag_s),
        "mtbf_s": _span(advice.mtbf_s),
        "mtbf_basis": advice.mtbf_basis,
        "mtbf_source": advice.mtbf_source,
        "overhead": _number(advice.overhead),
        "expected_ettr": _number(advice.ettr),
        "now_s": _number(advice.now_s),
        "now_overhead": _number(advice.now_overhead),
        "now_expected_ettr": _number(advice.now_ettr),
        "near_optimal": advice.is_near,
        "conditions": _texts(advice.conditions),
    }


def _saving(saving: Saving) -> Json:
    return {
        "what": saving.what,
        "saved_s": _span(saving.saved_s),
        "gpu_hours": _span(saving.gpu_hours),
        "cost": _span(saving.cost),
        "interval_s": _number(saving.interval_s),
        "since_step": saving.since_step,
    }


def _coverage(coverage: Coverage) -> Json:
    return {
        "files": coverage.files,
        "bytes": coverage.bytes,
        "lines": coverage.lines,
        "events": coverage.events,
        "odd": [{"file": storable(file), "line": line, "why": storable(why)} for file, line, why in coverage.odd],
        "missing_sources": _texts(coverage.missing_sources),
        "left_out": _texts(coverage.left_out),
    }


def _clock(clock: Clock) -> Json:
    return {
        "host": storable(clock.host),
        "offset_ms": _number(clock.offset_ms, 3),
        "uncertainty_ms": _number(clock.uncertainty_ms, 3),
        "zone": _text(clock.zone),
        "basis": storable(clock.basis),
    }
