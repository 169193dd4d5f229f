"""The words for causes, bins and culprits, and the one sentence that says it all."""

from __future__ import annotations

from postmortem.analysis import naming
from postmortem.analysis.model import Analysis, Culprit, Finding, Job, Loss
from postmortem.analysis.naming import cause_title as cause_title
from postmortem.analysis.naming import opened, within
from postmortem.report.figures import agrees, clock, significant, stamp, visible

BIN_WORDS: dict[str, str] = {
    "init": "start-up, before the first step",
    "ckpt_load": "loading a checkpoint",
    "productive": "steps that were kept, at healthy pace",
    "degraded": "excess of slow steps",
    "data_wait": "waiting for input data",
    "ckpt_stall": "step loop stopped for a save",
    "eval": "evaluation",
    "lost_work": "steps after the last durable checkpoint",
    "partial_step": "the step under way at onset",
    "detection": "onset until the job noticed",
    "teardown": "noticed until the allocation ended",
    "queue": "waiting for the next start",
    "restart": "next start until new work",
    "other": "not accounted for",
}


def bin_title(name: str) -> str:
    """What a bin of the partition holds."""
    return BIN_WORDS.get(name, name.replace("_", " "))


def culprit_name(culprit: Culprit, cause: str = "") -> str | None:
    """Short name of the culprit as this cause sees it, odd characters made visible; None when nothing is known of it."""
    named = naming.culprit_name(culprit, cause)
    return visible(named) if named else None


def unsaid(finding: Finding) -> str | None:
    """The culprit's name where the finding's sentence does not have it already."""
    named = culprit_name(finding.culprit, finding.cause)
    return None if named is None or named.lower() in visible(finding.summary).lower() else named


def what_happened(cause: str, culprit: Culprit) -> str:
    """What the culprit did, without time and confidence, such as `GPU 3 of n7 left the PCIe bus`."""
    return visible(naming.what_happened(cause, culprit))


def is_stated(loss: Loss) -> bool:
    """Something is known of what was lost: no start, step, save or end in the bundle gives a 0 that is only assumed."""
    return loss.basis != "assumed" or loss.lost_s is None or loss.lost_s.best > 0


def lost_phrase(analysis: Analysis) -> str | None:
    """`302 GPU-hours lost`, with bounds unless they agree; None when no loss is known."""
    span = analysis.loss.gpu_hours
    if span is None or not is_stated(analysis.loss):
        return None
    if agrees(span):
        return f"{significant(span.best)} GPU-hours lost"
    return f"{significant(span.best)} GPU-hours lost ({significant(span.lo)} to {significant(span.hi)})"


def _quiet(job: Job) -> str:
    if job.outcome != "completed":
        return "nothing went wrong"
    after = f" after step {job.last_step:,}" if job.last_step is not None else ""
    return f"nothing went wrong: the job completed{after}"


def sentence(analysis: Analysis) -> str:
    """What died where, when, how sure, what it cost: one sentence with a full stop."""
    verdict = analysis.verdict
    if verdict.cause == "none":
        # The seconds of an ordinary end are in the loss table; here they would read like a fault.
        return f"{_quiet(analysis.job)}."
    if verdict.cause == "unknown":
        best = _best_guess(analysis)
        guess = f" (best guess {visible(best.cause)}, {best.confidence:.2f})" if best else ""
        return _with_loss(f"what ended the job is not established{guess}", analysis)
    when = f" at {clock(verdict.onset)} UTC" if verdict.onset else ""
    what = what_happened(verdict.cause, verdict.culprit)
    return _with_loss(f"{what}{when} ({visible(verdict.cause)}, {verdict.word})", analysis)


def headline(analysis: Analysis) -> str:
    """The sentence that opens the report: the job, what died where and when, how sure, what it cost."""
    verdict, job = analysis.verdict, analysis.job
    if verdict.cause == "none":
        quiet = _quiet(job)
        return f"{quiet[0].upper()}{quiet[1:]}."
    ended = OUTCOME_WORDS.get(job.outcome)
    subject = f"Job {visible(job.name)}" if job.name else "The job"
    if verdict.cause == "unknown":
        best = _best_guess(analysis)
        guess = f" (best guess: {within(cause_title(best.cause))}, {best.confidence:.2f})" if best else ""
        head = f"{subject} {ended}, and why is not established" if ended else "What happened is not established"
        return _with_loss(f"{head}{guess}", analysis)
    what = what_happened(verdict.cause, verdict.culprit)
    start = f"{subject} {ended}: {what}" if ended else opened(what, verdict.culprit)
    when = f" at {stamp(verdict.onset)} UTC" if verdict.onset else ""
    return _with_loss(f"{start}{when} ({verdict.word})", analysis)


OUTCOME_WORDS = {"crashed": "crashed", "hung": "hung", "slow": "was slow", "cancelled": "was cancelled"}


def _best_guess(analysis: Analysis) -> Finding | None:
    return next((finding for finding in analysis.findings if finding.cause != "unknown"), None)


def _with_loss(head: str, analysis: Analysis) -> str:
    cost = lost_phrase(analysis)
    return f"{head}; {cost}." if cost else f"{head}."
