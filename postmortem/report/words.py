"""The words for causes, bins and culprits, and the one sentence that says it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from postmortem.analysis.model import Analysis, Culprit, Finding, Job
from postmortem.report.figures import agrees, clock, significant, stamp, visible

Subject = Literal["link", "port", "switch", "gpu", "nic", "queue pair", "rank", "host", "storage", "device"]

ANY_SUBJECT: tuple[Subject, ...] = ("gpu", "queue pair", "link", "rank", "switch", "host")


@dataclass(frozen=True, slots=True)
class CauseWords:
    """Title of a cause; what its culprit did; the sentence when no culprit is known."""

    title: str
    did: str
    anonymous: str
    subjects: tuple[Subject, ...] = ()


CAUSE_WORDS: dict[str, CauseWords] = {
    "link_flap": CauseWords("Link flap", "went down", "a network link went down", ("link", "host")),
    "link_degraded": CauseWords("Degraded link", "ran degraded", "a network link ran degraded", ("link", "host")),
    "optic_fault": CauseWords("Optic fault", "had a failing optic", "an optic failed", ("port", "link", "host")),
    "switch_failure": CauseWords("Switch failure", "failed", "a switch failed", ("switch",)),
    "congestion": CauseWords("Congestion", "was congested", "the network was congested", ("port", "switch", "link")),
    "qp_straggler": CauseWords("Slow queue pair", "was slow", "a queue pair was slow", ("queue pair", "nic", "host")),
    "pcie_drop": CauseWords("Device left the PCIe bus", "left the PCIe bus", "a device left the PCIe bus", ("device",)),
    "gpu_memory": CauseWords(
        "GPU memory error", "had an uncorrectable memory error", "a GPU had an uncorrectable memory error", ("gpu",)
    ),
    "gpu_fault": CauseWords("GPU fault", "failed", "a GPU failed", ("gpu", "host")),
    "nvlink_fault": CauseWords("NVLink fault", "had an NVLink fault", "an NVLink failed", ("gpu", "host")),
    "nic_fault": CauseWords("NIC fault", "failed", "a network adapter failed", ("nic", "host")),
    "host_oom": CauseWords("Host out of memory", "ran out of memory", "a host ran out of memory", ("host",)),
    "gpu_oom": CauseWords(
        "GPU out of memory", "ran out of GPU memory", "a rank ran out of GPU memory", ("rank", "gpu")
    ),
    "host_crash": CauseWords("Host crash", "crashed", "a host crashed", ("host",)),
    "cpu_fault": CauseWords(
        "CPU or memory fault",
        "had a CPU or memory hardware error",
        "a host had a CPU or memory hardware error",
        ("host",),
    ),
    "storage_stall": CauseWords("Storage stall", "stalled", "storage stalled", ("storage",)),
    "clock_skew": CauseWords("Clock skew", "had a wrong clock", "the clock of a host was wrong", ("host",)),
    "rank_straggler": CauseWords(
        "Slow rank", "slowed the job down", "a rank slowed the job down", ("rank", "gpu", "host")
    ),
    "data_stall": CauseWords("Data stall", "waited for input data", "training waited for input data", ("rank", "host")),
    "collective_mismatch": CauseWords(
        "Collective mismatch",
        "called a collective that does not match its peers",
        "ranks called collectives that do not match",
        ("rank",),
    ),
    "collective_hang": CauseWords(
        "Hung collective", "got stuck in a collective", "a collective got stuck, with no fault seen", ("rank", "host")
    ),
    "software_exception": CauseWords(
        "Software exception", "raised an exception", "the program raised an exception", ("rank", "host")
    ),
    "gpu_software": CauseWords(
        "GPU error made by the program",
        "hit a GPU error made by the program",
        "the program made an error on a GPU",
        ("rank", "gpu", "host"),
    ),
    "network_config": CauseWords(
        "Network configuration",
        "has a wrong network configuration",
        "the network is configured wrongly",
        ("nic", "host"),
    ),
    "version_mismatch": CauseWords(
        "Version mismatch", "runs software versions that do not fit", "software versions do not fit", ("host",)
    ),
    "resource_limit": CauseWords(
        "Resource limit", "hit a resource limit", "a resource limit was hit", ("host", "rank")
    ),
    "numeric": CauseWords(
        "Numeric failure", "produced NaN or diverging values", "training became numerically unstable", ("rank",)
    ),
    "checkpoint_failure": CauseWords(
        "Checkpoint failure", "failed to save or load a checkpoint", "a checkpoint failed", ("rank", "host")
    ),
    "preempted": CauseWords("Pre-emption", "was pre-empted", "the job was pre-empted"),
    "cancelled": CauseWords("Cancelled", "was cancelled", "the job was cancelled"),
    "job_timeout": CauseWords("Time limit", "ran into its time limit", "the job ran into its time limit"),
    "unknown": CauseWords("Cause not established", "", "the cause is not established"),
    "none": CauseWords("Nothing went wrong", "", "nothing went wrong"),
}

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


def cause_title(cause: str) -> str:
    """Title of a cause class; a class without words gets its own name."""
    words = CAUSE_WORDS.get(cause)
    return words.title if words else cause.replace("_", " ").capitalize()


def bin_title(name: str) -> str:
    """What a bin of the partition holds."""
    return BIN_WORDS.get(name, name.replace("_", " "))


def _joined(head: str | None, host: str | None) -> str | None:
    if head is None:
        return None
    return f"{head} of {host}" if host else head


def _gpu(c: Culprit) -> str | None:
    name = f"GPU {c.pci}" if c.pci else f"GPU {c.gpu}" if c.gpu is not None else None
    return _joined(name, c.host)


def _nic(c: Culprit) -> str | None:
    return _joined(c.dev or c.ifname, c.host)


def _port(c: Culprit) -> str | None:
    return f"port {c.switch_port} of {c.switch}" if c.switch and c.switch_port else None


def _link(c: Culprit) -> str | None:
    near, far = _nic(c), (f"{c.switch} {c.switch_port}" if c.switch_port else c.switch)
    if near and far:
        return f"the link {near} to {far}"
    if near or far:
        return f"the link {near or far}"
    return None


def _rank(c: Culprit) -> str | None:
    if len(c.ranks) > 1:
        shown = ", ".join(str(rank) for rank in c.ranks[:4])
        more = f" and {len(c.ranks) - 4:,} more" if len(c.ranks) > 4 else ""
        return f"ranks {shown}{more}"
    rank = c.rank if c.rank is not None else next(iter(c.ranks), None)
    if rank is None:
        return None
    return f"rank {rank} on {c.host}" if c.host else f"rank {rank}"


def _device(c: Culprit) -> str | None:
    # A NIC leaves the bus too: with no sign of a GPU the device's own name says which it was.
    if c.gpu is None and c.rank is None and c.dev:
        return _nic(c)
    return _gpu(c) or _nic(c) or c.host


def _storage(c: Culprit) -> str | None:
    return f"storage {c.peer}" if c.peer else f"storage of {c.host}" if c.host else None


def _queue_pair(c: Culprit) -> str | None:
    if c.qpn is None:
        return None
    far = f" to {c.peer}" if c.peer else ""
    return f"{_joined(f'queue pair {c.qpn} on {c.dev}' if c.dev else f'queue pair {c.qpn}', c.host)}{far}"


def _subject(kind: Subject, c: Culprit) -> str | None:
    match kind:
        case "gpu":
            return _gpu(c)
        case "nic":
            return _nic(c) or _joined(f"NIC {c.pci}" if c.pci else None, c.host)
        case "port":
            return _port(c)
        case "link":
            return _link(c)
        case "rank":
            return _rank(c)
        case "device":
            return _device(c)
        case "storage":
            return _storage(c)
        case "queue pair":
            return _queue_pair(c)
        case "switch":
            return f"switch {c.switch}" if c.switch else None
        case "host":
            return c.host or c.pod


def culprit_name(culprit: Culprit, cause: str = "") -> str | None:
    """Short name of the culprit as this cause sees it; None when nothing is known of it."""
    words = CAUSE_WORDS.get(cause)
    order: tuple[Subject, ...] = (
        *(words.subjects if words else ()),
        "gpu",
        "queue pair",
        "link",
        "rank",
        "switch",
        "host",
    )
    named = next((name for kind in order if (name := _subject(kind, culprit))), culprit.peer)
    return visible(named) if named else None


def what_happened(cause: str, culprit: Culprit) -> str:
    """What the culprit did, without time and confidence, such as `GPU 3 of n7 left the PCIe bus`."""
    words = CAUSE_WORDS.get(cause)
    if words is None:
        return f"the cause is {visible(cause)}"
    subject = next((name for kind in words.subjects if (name := _subject(kind, culprit))), None)
    return f"{visible(subject)} {words.did}" if subject else words.anonymous


def lost_phrase(analysis: Analysis) -> str | None:
    """`302 GPU-hours lost`, with bounds unless they agree; None when no loss is known."""
    span = analysis.loss.gpu_hours
    if span is None:
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
        guess = f" (best guess: {cause_title(best.cause).lower()}, {best.confidence:.2f})" if best else ""
        head = f"{subject} {ended}, and why is not established" if ended else "What happened is not established"
        return _with_loss(f"{head}{guess}", analysis)
    what = what_happened(verdict.cause, verdict.culprit)
    start = f"{subject} {ended}: {what}" if ended else f"{what[0].upper()}{what[1:]}"
    when = f" at {stamp(verdict.onset)} UTC" if verdict.onset else ""
    return _with_loss(f"{start}{when} ({verdict.word})", analysis)


OUTCOME_WORDS = {"crashed": "crashed", "hung": "hung", "slow": "was slow", "cancelled": "was cancelled"}


def _best_guess(analysis: Analysis) -> Finding | None:
    return next((finding for finding in analysis.findings if finding.cause != "unknown"), None)


def _with_loss(head: str, analysis: Analysis) -> str:
    cost = lost_phrase(analysis)
    return f"{head}; {cost}." if cost else f"{head}."
