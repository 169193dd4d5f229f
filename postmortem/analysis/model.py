"""What the analysis says: typed records that report, terminal, JSON and database all print.

Times are naive datetimes in UTC. Durations are seconds. Unknown is None. The JSON document of
`analyze --format json` is made from these by postmortem.report.document and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from postmortem.analysis.model_slow import Congestion, QueuePairs, TraceView

Role = Literal["cause", "link", "effect", "context"]
Basis = Literal["measured", "inferred", "assumed"]
Outcome = Literal["crashed", "hung", "slow", "cancelled", "completed", "unknown"]
WORDS: tuple[tuple[float, str], ...] = ((0.9, "almost certain"), (0.7, "likely"), (0.4, "possible"))


def word_for(confidence: float) -> str:
    """The word for a confidence: correlation.md K; below 0.4 nothing is established."""
    return next((word for limit, word in WORDS if confidence >= limit), "not established")


@dataclass(frozen=True, slots=True)
class Culprit:
    """Who is at fault, as far as the bundle shows it; all fields may be None."""

    host: str | None = None
    pod: str | None = None
    gpu: int | None = None
    pci: str | None = None
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    local_rank: int | None = None
    pid: int | None = None
    dev: str | None = None
    port: str | None = None
    ifname: str | None = None
    qpn: int | None = None
    link: int | None = None
    switch: str | None = None
    switch_port: str | None = None
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line that proves something: path inside the bundle, 1-based line, verbatim text.

    `before` and `after` are up to three neighbouring lines each, for the report.
    """

    file: str
    line: int
    text: str
    role: Role
    ts: datetime | None = None
    host: str | None = None
    event: str | None = None
    event_id: int | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rival:
    """A cause that was considered and lost, and why."""

    cause: str
    why: str


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of the chain from switch port to training step: two names of what belongs together, and the line that joins them.

    `kind` is what is reached (port, netdev, pci, gpu, rank, pod, step; `port` reaches the NIC on it), `what` says it in words; `basis` is empty where
    the line states it, else how it was inferred; `confidence` is 0 to 1.
    """

    kind: str
    source: str
    target: str
    what: str
    file: str
    line: int
    basis: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Network:
    """The network a fault lay on, the device or address that tells, and the line that says what that one is used for."""

    which: Literal["back", "front"]
    name: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Reach:
    """Blast radius of a finding: of `failed` ranks or hosts that failed, how many it explains."""

    unit: str
    """`rank` or `host`."""
    explained: int
    failed: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One possible cause with what proves it."""

    cause: str
    confidence: float
    culprit: Culprit
    summary: str
    evidence: tuple[Evidence, ...]
    onset: datetime | None = None
    onset_lo: datetime | None = None
    onset_hi: datetime | None = None
    chosen_over: tuple[Rival, ...] = ()
    next_steps: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    hops: tuple[Hop, ...] = ()
    network: Network | None = None
    reach: Reach | None = None
    """Of the first finding only."""
    features: tuple[tuple[str, float], ...] = ()
    """What its confidence was made of (weights.toml); none for a computed cause or a deliberate end."""


@dataclass(frozen=True, slots=True)
class Job:
    """The job as the bundle shows it (its last attempt that did work)."""

    name: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    outcome: Outcome = "unknown"
    world_size: int | None = None
    gpus: int | None = None
    gpus_lo: int | None = None
    gpus_hi: int | None = None
    hosts: int | None = None
    last_step: int | None = None
    framework: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: `cause` is `none` (nothing went wrong), `unknown` (not established) or a class."""

    cause: str
    confidence: float
    culprit: Culprit
    summary: str
    onset: datetime | None = None
    onset_lo: datetime | None = None
    onset_hi: datetime | None = None

    @property
    def word(self) -> str:
        """Word of the confidence; an unknown cause is not established whatever its best guess."""
        return "not established" if self.cause == "unknown" else word_for(self.confidence)


@dataclass(frozen=True, slots=True)
class Survived:
    """A fault that the job lived through."""

    event: str
    host: str | None
    entity: str | None
    start: datetime | None
    end: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank slower than its peers.

    `slowdown`: how many times as long the job's steps are for it, where a trace tells; else its own time over that of its
    peers. `own_ratio`: its own work (or transfers) over that of its peers, where a trace tells.
    """

    rank: int
    slowdown: float
    since_step: int | None
    kind: Literal["compute", "network", "unknown"]
    confidence: float
    own_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class SlowQueuePair:
    """A queue pair with a long tail."""

    host: str | None
    dev: str | None
    qpn: int
    peer: str | None
    p50_us: float
    p99_us: float
    samples: int
    confidence: float
    port: str | None = None
    rank: int | None = None
    windows: int | None = None
    switch: str | None = None
    switch_port: str | None = None


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of the partition of lost_compute.md section 1, seconds."""

    bin: str
    lo_s: float
    best_s: float
    hi_s: float
    basis: Basis
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A value with its bounds."""

    lo: float
    best: float
    hi: float


@dataclass(frozen=True, slots=True)
class Advice:
    """How often to save (lost_compute.md section 8). Seconds; `tau_s` is from the end of one save to the start of the next.

    `now_s`: the present interval from save to save. Overheads and ETTRs are shares of time expected at the advised and the present interval.
    """

    tau_s: Span
    tau_steps: int
    young_s: float
    daly_s: float
    availability_s: float
    floor_s: float
    save_stall_s: float
    save_lag_s: float
    mtbf_s: Span
    mtbf_basis: Basis
    mtbf_source: str
    overhead: float
    ettr: float
    conditions: tuple[str, ...]
    now_s: float | None = None
    now_overhead: float | None = None
    now_ettr: float | None = None
    is_near: bool | None = None
    """The present interval is within a factor of 1.5 of the advised one."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What would have saved some of the loss: a shorter checkpoint_interval, a detection within a minute, an earlier repair of the straggler."""

    what: Literal["checkpoint_interval", "detection", "straggler"]
    saved_s: Span
    gpu_hours: Span | None = None
    cost: Span | None = None
    interval_s: float | None = None
    since_step: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """What it cost (lost_compute.md). `lost_s` and `gpu_hours` are None when no time is known."""

    gpus: int | None = None
    last_durable_step: int | None = None
    last_step: int | None = None
    bins: tuple[Bin, ...] = ()
    lost_s: Span | None = None
    gpu_hours: Span | None = None
    cost: Span | None = None
    basis: Basis | None = None
    healthy_step_s: float | None = None
    ettr_attempt: float | None = None
    ettr_run: float | None = None
    ettr_wall: float | None = None
    throughput_loss: float | None = None
    idle_gpu_hours: float | None = None
    span_s: float | None = None
    notes: tuple[str, ...] = ()
    goodput: float | None = None
    """Durable step time over all time of the partition, queue and restart included."""
    tax_gpu_hours: float | None = None
    save_gpu_hours: float | None = None
    """The price of running, beside the loss: excess of slow steps, and stalls of saves."""
    energy_kwh: Span | None = None
    """Of what was lost; only when asked for."""
    watts: float | None = None
    advice: Advice | None = None
    savings: tuple[Saving, ...] = ()
    throughput_basis: Literal["steps", "few steps", "trace"] | None = None
    """What `throughput_loss` is of: the job against its own past (fewer than 20 healthy steps are few), or ranks against their peers."""
    slow_steps: int | None = None
    """Steps in the degraded periods that `throughput_loss` is of; None where it is of ranks."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How one host's clock runs."""

    host: str
    offset_ms: float | None
    uncertainty_ms: float | None
    zone: str | None
    basis: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the bundle was understood."""

    files: int = 0
    bytes: int = 0
    lines: int = 0
    events: int = 0
    odd: tuple[tuple[str, int, str], ...] = ()
    """(file, line or 0 for the whole file, why)"""
    missing_sources: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Sentences on what was recognised and yet not weighed, since there was too much of it."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything `analyze` has to say about one bundle."""

    bundle: str
    job: Job
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    survived: tuple[Survived, ...] = ()
    slow_ranks: tuple[SlowRank, ...] = ()
    slow_queue_pairs: tuple[SlowQueuePair, ...] = ()
    traces: tuple[TraceView, ...] = ()
    queue_pairs: QueuePairs = field(default_factory=QueuePairs)
    congestion: tuple[Congestion, ...] = ()
    to_name_a_rank: tuple[str, ...] = ()
    """What to collect where the job was slow and nothing in the bundle tells which rank."""
    loss: Loss = field(default_factory=Loss)
    coverage: Coverage = field(default_factory=Coverage)
    clocks: tuple[Clock, ...] = ()
    detected: datetime | None = None
    last_progress: datetime | None = None
