"""The report as Markdown, to be pasted into an incident ticket and gone on with by people.

Its headings are those of a usual post-mortem. What the logs don't hold (who was paged, what was repaired, who does what) is not made up but
marked as to be filled in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import duckdb

from postmortem.analysis.model import Analysis, Evidence, Finding, Loss, Span
from postmortem.report.figures import agrees, clock, duration, money, plural, significant, size, stamp
from postmortem.report.markdown_text import code, fence, prose, table
from postmortem.report.queries import switch_names
from postmortem.report.view_hops import chain, network_sentence, reach_sentence
from postmortem.report.words import bin_title, cause_title, headline, unsaid

EVIDENCE, RIVALS, OTHERS, STEPS, ROWS = 8, 6, 4, 10, 25
LINE_LIMIT = 500


def render(analysis: Analysis, version: str, con: duckdb.DuckDBPyConnection | None = None) -> str:
    """The document, ending with a newline; `con` holds the tables (for later attempts of the job) and may be left out.

    The same analysis gives the same text.
    """
    blocks = [f"# {prose(headline(analysis), 600)}", *_head(analysis, version)]
    for title, part in (
        ("Summary", _summary(analysis)),
        ("Impact", _impact(analysis)),
        ("Root cause", _root_cause(analysis)),
        ("Trigger", _trigger(analysis)),
        ("Detection", _detection(analysis)),
        ("Resolution", _resolution(analysis, con)),
        ("Timeline", _timeline(analysis)),
        ("What to do", _actions(analysis)),
        ("Lessons", iter([_open("what went well, what went badly, where we were lucky.")])),
        ("What the logs cover", _coverage(analysis, con)),
    ):
        blocks += [f"## {title}", *part]
    return "\n\n".join(blocks) + "\n"


def _open(text: str) -> str:
    """What only people know."""
    return f"> **To fill in:** {text}"


def _is_named(analysis: Analysis) -> bool:
    return analysis.verdict.cause not in ("unknown", "none")


def _best(analysis: Analysis) -> Finding | None:
    return analysis.findings[0] if analysis.findings else None


def _where(file: str, line: int) -> str:
    return code(f"{file}:{line}")


def _span(span: Span, write: object = significant) -> str:
    assert callable(write)
    bounds = "" if agrees(span) else f" ({write(span.lo)} to {write(span.hi)})"
    return f"{write(span.best)}{bounds}"


def _head(analysis: Analysis, version: str) -> Iterator[str]:
    moment = analysis.verdict.onset or analysis.detected or analysis.job.end or analysis.job.start
    lines = [f"- **Date:** {moment.date().isoformat() if moment else 'not known'}"]
    lines.append("- **Authors:** to fill in")
    lines.append(
        f"- **Status:** draft. Written by postmortem {prose(version)} from the logs in {code(analysis.bundle)}; "
        "no person has checked it yet. Times are UTC."
    )
    yield "\n".join(lines)


def _summary(analysis: Analysis) -> Iterator[str]:
    verdict, job = analysis.verdict, analysis.job
    if verdict.cause == "none":
        yield "Nothing went wrong, as far as the logs show."
    elif verdict.cause == "unknown":
        yield "**The cause is not established.** What is possible stands below."
    else:
        yield f"**{cause_title(verdict.cause)}**, {verdict.word} ({verdict.confidence:.2f} of 1)."
    if verdict.summary:
        yield prose(verdict.summary)
    facts = [prose(f"job {job.name}", 120)] if job.name else []
    facts += [plural(n, noun) for n, noun in ((job.hosts, "host"), (job.gpus, "GPU"), (job.world_size, "rank")) if n]
    facts += [prose(job.framework, 60)] if job.framework else []
    facts += [f"ended as {job.outcome}"] if job.outcome != "unknown" else []
    if facts:
        text = ", ".join(facts)
        yield f"{text[0].upper()}{text[1:]}."


def _impact(analysis: Analysis) -> Iterator[str]:
    loss = analysis.loss
    lines = []
    if analysis.verdict.cause != "none":
        if loss.gpu_hours is not None:
            gpus = f" on {plural(loss.gpus, 'GPU')}" if loss.gpus is not None else ""
            lines.append(f"- {_span(loss.gpu_hours)} GPU-hours lost{gpus}")
        if loss.lost_s is not None:
            lines.append(f"- {_span(loss.lost_s, duration)} of the job's time lost")
        if loss.cost is not None:
            lines.append(f"- cost: {_span(loss.cost, money)}")
        lines += _lost_steps(analysis)
    if lines:
        yield "\n".join(lines)
    lost = [part for part in loss.bins if part.is_lost and (part.best_s or part.hi_s)]
    if lost:
        rows = [
            (bin_title(p.bin), duration(p.lo_s), duration(p.best_s), duration(p.hi_s), p.basis) for p in lost[:ROWS]
        ]
        yield table(("Where the time went", "low", "best", "high", "basis"), rows)
    if not lines and not lost:
        yield "The logs show no loss." if analysis.verdict.cause == "none" else "The logs do not tell what was lost."
    yield _open("who was affected, which deadline moved.")


def _lost_steps(analysis: Analysis) -> Iterator[str]:
    last, durable = analysis.job.last_step, analysis.loss.last_durable_step
    if last is not None and durable is not None and last >= durable:
        yield f"- {plural(last - durable, 'step')} to be made again: last step {last:,}, last durable checkpoint {durable:,}"
    elif last is not None:
        yield f"- last step {last:,}; no durable checkpoint is seen"


def _root_cause(analysis: Analysis) -> Iterator[str]:
    best = _best(analysis)
    if analysis.verdict.cause == "none":
        yield "None: nothing had to be explained."
        return
    if best is None:
        yield "Not established: no possible cause left a trace in the logs."
        return
    if _is_named(analysis):
        yield from _finding(best)
    else:
        yield "Not established. Possible, best first:"
        for finding in analysis.findings[:OTHERS]:
            yield from _finding(finding)
    others = analysis.findings[1 : OTHERS + 1] if _is_named(analysis) else ()
    if others:
        yield "Also considered:"
        yield "\n".join(f"- {cause_title(f.cause)} ({f.confidence:.2f}): {prose(f.summary)}" for f in others)
    yield _open("why it could happen (age, configuration, missing check), which the logs do not tell.")


def _finding(finding: Finding) -> Iterator[str]:
    named = unsaid(finding)
    who = f": {prose(named, 300)}" if named else ""
    yield f"**{cause_title(finding.cause)}** ({finding.confidence:.2f}){who}. {prose(finding.summary)}"
    for text in (chain(finding), network_sentence(finding), reach_sentence(finding)):
        if text:
            yield prose(text)
    if not finding.evidence:
        yield "No line of the logs proves it."
    for line in finding.evidence[:EVIDENCE]:
        when = f", {stamp(line.ts)}" if line.ts else ""
        yield f"{_where(line.file, line.line)} ({line.role}{when}):"
        yield fence([line.text], LINE_LIMIT)
    if len(finding.evidence) > EVIDENCE:
        yield f"{plural(len(finding.evidence) - EVIDENCE, 'more line')} in the report."
    if finding.chosen_over:
        rivals = [f"- {cause_title(rival.cause)}: {prose(rival.why, 500)}" for rival in finding.chosen_over[:RIVALS]]
        yield "Chosen over:"
        yield "\n".join(rivals)


def _trigger(analysis: Analysis) -> Iterator[str]:
    best = _best(analysis)
    signs = [line for line in best.evidence if line.role == "cause"] if best and _is_named(analysis) else []
    if signs:
        first = min(signs, key=lambda line: (line.ts is None, line.ts or datetime.min, line.file, line.line))
        when = f" at {stamp(first.ts)}" if first.ts else ""
        yield f"The first sign{when} is {_where(first.file, first.line)}. What set it off the logs do not tell, unless that line says it."
    elif analysis.verdict.cause == "none":
        yield "None."
    else:
        yield "Not established."
    if analysis.verdict.cause != "none":
        yield _open("what changed before (maintenance, deployment, load), if anything.")


def _detection(analysis: Analysis) -> Iterator[str]:
    onset, detected = analysis.verdict.onset, analysis.detected
    if analysis.verdict.cause == "none":
        yield "Nothing to detect."
        return
    if detected is None:
        yield "The logs do not tell when the job noticed."
    else:
        after = (
            f", {duration((detected - onset).total_seconds())} after the onset" if onset and detected >= onset else ""
        )
        yield f"The job's own processes noticed at {stamp(detected)}{after}."
    if analysis.last_progress is not None:
        yield f"The last sign of progress is of {stamp(analysis.last_progress)}."
    yield _open("which alert or person noticed, and when.")


def _resolution(analysis: Analysis, con: duckdb.DuckDBPyConnection | None) -> Iterator[str]:
    if analysis.verdict.cause == "none":
        yield "Nothing to resolve."
        return
    end = analysis.job.end
    later = _later_attempts(con, end) if con is not None and end is not None else []
    yield f"The attempt ended at {stamp(end)}." if end is not None else "The logs do not show the end of the attempt."
    if later:
        yield "Later attempts of the job in these logs:"
        yield table(("start", "end", "outcome"), [(stamp(a), stamp(b), prose(o or "unknown")) for a, b, o in later])
    else:
        yield "The logs show no later attempt of the job."
    yield _open("what was repaired or replaced, when the job ran again, whether it still does.")


def _later_attempts(
    con: duckdb.DuckDBPyConnection, end: datetime
) -> list[tuple[datetime, datetime | None, str | None]]:
    return con.execute(
        "SELECT start, finish, outcome FROM attempts WHERE start >= ? ORDER BY start, attempt LIMIT 10", [end]
    ).fetchall()


def _timeline(analysis: Analysis) -> Iterator[str]:
    """Key times, the lines that prove the first finding, and what was survived, by time."""
    verdict, job = analysis.verdict, analysis.job
    rows: list[tuple[datetime, str, str]] = []
    last = f"last progress, step {job.last_step:,}" if job.last_step is not None else "last progress"
    lo, hi = verdict.onset_lo, verdict.onset_hi
    between = f" (between {clock(lo)} and {clock(hi)})" if lo is not None and hi is not None and lo != hi else ""
    for moment, what in (
        (job.start, "job started"),
        (analysis.last_progress, last),
        (verdict.onset, f"onset{between}"),
        (analysis.detected, "detected by the job"),
        (job.end, "job ended"),
    ):
        if moment is not None:
            rows.append((moment, f"**{what}**", ""))
    best = _best(analysis)
    for line in best.evidence[:EVIDENCE] if best else ():
        if line.ts is not None:
            rows.append((line.ts, _event(line), _where(line.file, line.line)))
    for fault in analysis.survived[:OTHERS]:
        if fault.start is not None:
            place = ", ".join(name for name in (fault.host, fault.entity) if name)
            rows.append((fault.start, f"{code(fault.event)} survived: {prose(fault.why, 200)}", prose(place, 120)))
    rows.sort(key=lambda row: row[0])
    if rows:
        yield table(("time (UTC)", "what", "where"), [(stamp(at), what, where) for at, what, where in rows[:ROWS]])
    else:
        yield "The logs tell no time."
    yield _open("what people did and when.")


def _event(line: Evidence) -> str:
    return f"{code(line.event)} {code(line.text, 120)}" if line.event else code(line.text, 140)


def _actions(analysis: Analysis) -> Iterator[str]:
    findings = analysis.findings[: 3 if analysis.verdict.cause == "unknown" else 1]
    wanted = [
        (
            "What the causes call for, without owners yet:",
            [text for finding in findings for text in finding.next_steps],
        ),
        ("What would settle it, to be collected:", [text for finding in findings for text in finding.collect]),
    ]
    for title, texts in wanted if analysis.verdict.cause != "none" else ():
        distinct = list(dict.fromkeys(texts))[:STEPS]
        if distinct:
            yield title
            yield "\n".join(f"- [ ] {prose(text, 600)}" for text in distinct)
    yield _open("owner and date of each; what prevents it next time.")


def _coverage(analysis: Analysis, con: duckdb.DuckDBPyConnection | None) -> Iterator[str]:
    coverage = analysis.coverage
    lines = [
        f"- {plural(coverage.files, 'file')}, {size(coverage.bytes)}, {plural(coverage.lines, 'line')}, "
        f"{plural(coverage.events, 'event')} recognised"
    ]
    if coverage.missing_sources:
        lines.append(f"- missing: {prose(', '.join(coverage.missing_sources), 400)}")
    if coverage.odd:
        lines.append(f"- {plural(len(coverage.odd), 'odd place')} (damaged, too long or no text)")
    lines += [f"- {prose(one, 400)}" for one in coverage.left_out]
    given = switch_names(con, OTHERS + 1) if con is not None else []
    if given:
        named = ", ".join(f"{code(printed, 120)} is {code(name, 120)}" for printed, name, _, _ in given[:OTHERS])
        lines.append(f"- switches go by names that were given: {named}{' …' if len(given) > OTHERS else ''}")
    lines += [f"- {prose(note, 400)}" for note in _notes(analysis.loss)]
    yield "\n".join(lines)


def _notes(loss: Loss) -> tuple[str, ...]:
    return loss.notes[:STEPS]
