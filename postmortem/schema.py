"""Names and Arrow types of every table and column, and the closed sets of the vocabulary.

Imports nothing of ours and is imported by all. A table is a tuple of `Column`s; types are the
strings that both polars (`POLARS_TYPES`) and DuckDB understand. The documentation strings are
what `COMMENT ON` carries into the database and what docs/schema.md is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, DuckDB type, and the sentence that documents it."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """One public table: name, what one row is, and its columns."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [c.name for c in self.columns]


SOURCES: Final = ("nccl", "torch", "trainer", "kernel", "switch", "scheduler", "profiler", "host", "unknown")
SEVERITIES: Final = ("debug", "info", "warning", "error", "fatal")
TS_KINDS: Final = ("exact", "inferred", "none")

EVENTS: Final[dict[str, tuple[str, ...]]] = {
    "link": (
        "link.down", "link.up", "link.admin_down", "link.degraded", "link.errors", "link.err_disabled", "optic.alarm",
        "optic.fault", "optic.removed", "optic.inserted", "lag.down", "lag.up", "lag.member_down", "lag.member_up",
        "bgp.down", "bgp.up", "bfd.down", "bfd.up", "igp.down", "igp.up",
    ),
    "congestion": (
        "pfc.storm", "pfc.restored", "ecn.mark", "buffer.drop", "buffer.threshold", "congestion.wait", "nic.rx_drop",
    ),
    "switch": (
        "switch.reboot", "switch.process_crash", "switch.psu", "switch.fan", "switch.thermal", "switch.asic_error",
        "switch.config", "switch.maintenance", "sm.trap", "sm.error", "sm.port_up", "sm.port_unreachable", "sm.sweep",
        "sm.handover",
    ),
    "pcie": (
        "pcie.aer_corrected", "pcie.aer_nonfatal", "pcie.aer_fatal", "pcie.link_down", "pcie.link_degraded", "pcie.dpc",
        "pcie.device_removed", "pcie.recovery_failed", "pcie.link_up", "pcie.iommu_fault",
    ),
    "gpu": (
        "gpu.xid", "gpu.sxid", "gpu.fallen_off_bus", "gpu.rm_init_failed", "gpu.nvlink_error", "gpu.thermal",
        "gpu.fabric_error", "gpu.driver_error", "gpu.hang", "gpu.reset", "gpu.ras_error",
    ),
    "nic": (
        "nic.health", "nic.fw_error", "nic.cqe_error", "nic.tx_timeout", "nic.reset", "nic.module", "nic.port_state",
        "nic.async_event",
    ),
    "host": (
        "host.boot", "host.panic", "host.oom_kill", "host.hung_task", "host.soft_lockup", "host.hard_lockup",
        "host.rcu_stall", "host.mce", "host.edac", "host.segfault", "host.thermal_throttle", "host.fs_error",
        "host.storage_stall", "host.disk_error", "host.clock_step", "host.clock_unsync", "host.oops",
        "host.storage_restored", "host.resource_limit",
    ),
    "nccl": (
        "nccl.version", "nccl.env", "nccl.net", "nccl.ib_device", "nccl.topology", "nccl.channel", "nccl.qp",
        "nccl.init_start", "nccl.init_done", "nccl.abort", "nccl.destroy", "nccl.collective", "nccl.ib_completion_error",
        "nccl.ib_async_event", "nccl.ib_verbs_error", "nccl.socket_error", "nccl.remote_closed", "nccl.cuda_error",
        "nccl.system_error", "nccl.error_path", "nccl.mismatch", "nccl.ras", "nccl.warn",
    ),
    "torch": (
        "torch.watchdog_timeout", "torch.watchdog_error", "torch.heartbeat_timeout", "torch.fr_dump", "torch.abort",
        "torch.store_error", "torch.rendezvous", "torch.elastic_failure", "torch.elastic_restart", "torch.exception",
        "torch.cuda_error", "torch.oom", "torch.collective_mismatch", "process.signal", "process.exit",
    ),
    "trainer": (
        "train.start", "train.resume", "train.step", "train.slow_step", "train.checkpoint_start", "train.checkpoint_done",
        "train.checkpoint_failed", "train.checkpoint_loaded", "train.nan", "train.loss_spike", "train.eval",
        "train.data_stall", "train.end",
    ),
    "scheduler": (
        "job.start", "job.end", "job.cancelled", "job.timeout", "job.node_fail", "job.requeue", "job.preempted",
        "node.down", "node.drain", "node.up", "pod.oom_killed", "pod.evicted", "pod.restarted",
    ),
    "profiler": ("qp.sample", "coll.sample"),
}
EVENT_NAMES: Final = frozenset(name for family in EVENTS.values() for name in family)

CAUSES: Final = (
    "link_flap", "link_degraded", "optic_fault", "switch_failure", "congestion", "qp_straggler", "pcie_drop", "gpu_memory",
    "gpu_fault", "nvlink_fault", "nic_fault", "host_oom", "gpu_oom", "host_crash", "cpu_fault", "storage_stall",
    "clock_skew", "rank_straggler", "data_stall", "collective_mismatch", "collective_hang", "software_exception",
    "gpu_software", "network_config", "version_mismatch", "resource_limit", "numeric", "checkpoint_failure", "preempted",
    "cancelled", "job_timeout", "unknown",
)
VERDICT_ONLY: Final = "none"

# ---- columns that a parsed row may carry (vocabulary.md) -------------------------------------------------------------

IDENTITY: Final = (
    Column("ts", "TIMESTAMP", "when, UTC; null when the line has no time and none can be inferred"),
    Column("ts_kind", "VARCHAR", "exact: date and zone were printed; inferred: year, zone, boot or neighbour assumed; none: ts is null"),
    Column("host", "VARCHAR", "machine that the line speaks of as the place of the event"),
    Column("source", "VARCHAR", "nccl, torch, trainer, kernel, switch, scheduler, profiler, host or unknown"),
    Column("event", "VARCHAR", "name from the vocabulary"),
    Column("severity", "VARCHAR", "debug, info, warning, error or fatal: what the line means for a job"),
    Column("file", "VARCHAR", "path inside the bundle; archives are separated by !/"),
    Column("line", "BIGINT", "1-based line in the uncompressed file"),
    Column("offset", "BIGINT", "byte offset in the uncompressed file of where the event's text begins"),
    Column("message", "VARCHAR", "the line without its header"),
)

ENTITY: Final = (
    Column("pid", "BIGINT", "process id as printed (containers have their own)"),
    Column("tid", "BIGINT", "thread id as printed"),
    Column("rank", "BIGINT", "rank as the line itself says it"),
    Column("local_rank", "BIGINT", "rank within its host"),
    Column("gpu", "BIGINT", "GPU index as printed"),
    Column("pci", "VARCHAR", "PCI address, dddd:bb:dd.f, lower case"),
    Column("xid", "BIGINT", "NVIDIA Xid code"),
    Column("sxid", "BIGINT", "NVSwitch SXid code"),
    Column("dev", "VARCHAR", "HCA, NIC or disk device, such as mlx5_0"),
    Column("port", "VARCHAR", "port number on the device or switch"),
    Column("ifname", "VARCHAR", "network interface as printed"),
    Column("peer", "VARCHAR", "far end: address or host, without port"),
    Column("qpn", "BIGINT", "queue pair number"),
    Column("comm", "VARCHAR", "communicator pointer, valid within one process"),
    Column("nranks", "BIGINT", "ranks of the communicator or world size"),
    Column("op", "VARCHAR", "collective, lower case"),
    Column("seq", "BIGINT", "sequence number or opCount"),
    Column("numel", "BIGINT", "elements"),
    Column("status", "VARCHAR", "status as printed: work completion, ncclResult, errno, port state"),
    Column("opcode", "BIGINT", "work completion opcode"),
    Column("vendor_err", "BIGINT", "vendor syndrome"),
    Column("signal", "BIGINT", "signal number"),
    Column("exit_code", "BIGINT", "exit code; negative: killed by that signal"),
    Column("step", "BIGINT", "training step"),
    Column("step_time_ms", "DOUBLE", "duration of a step, ms"),
    Column("loss", "DOUBLE", "training loss"),
    Column("tokens_per_s", "DOUBLE", "tokens per second, see scope"),
    Column("tflops", "DOUBLE", "TFLOP/s as printed, see scope"),
    Column("elapsed_ms", "DOUBLE", "duration that the line states, ms"),
    Column("timeout_ms", "DOUBLE", "timeout that the line states, ms"),
    Column("path", "VARCHAR", "file or folder the line speaks of"),
    Column("code", "VARCHAR", "vendor mnemonic, environment variable or error code"),
    Column("value", "VARCHAR", "the value the line gives"),
    Column("unit", "VARCHAR", "unit of value"),
    Column("gpu_instance", "VARCHAR", "MIG instance"),
    Column("gpu_uuid", "VARCHAR", "GPU UUID"),
    Column("process", "VARCHAR", "command name"),
    Column("link", "BIGINT", "NVLink index"),
    Column("previous_xid", "BIGINT", "Xid that caused this Xid 45"),
    Column("recovery_action", "VARCHAR", "remedy of Xid 154"),
    Column("uptime_s", "DOUBLE", "seconds since boot"),
    Column("boot", "BIGINT", "which boot of the host within the file, from 0"),
    Column("peer_rank", "BIGINT", "rank of the far end"),
    Column("peer_port", "VARCHAR", "port of the far end"),
    Column("channel", "BIGINT", "NCCL channel"),
    Column("comm_hash", "VARCHAR", "joins the processes of one communicator"),
    Column("pg", "VARCHAR", "process group name"),
    Column("stage", "BIGINT", "pipeline stage"),
    Column("last_enqueued", "BIGINT", "last enqueued collective of the group"),
    Column("last_completed", "BIGINT", "last completed collective of the group"),
    Column("src", "VARCHAR", "file:line in the program that printed the line"),
    Column("local_addr", "VARCHAR", "own address"),
    Column("reason", "VARCHAR", "reason as printed"),
    Column("state", "VARCHAR", "set or cleared"),
    Column("guid", "VARCHAR", "InfiniBand GUID"),
    Column("lid", "BIGINT", "InfiniBand LID"),
    Column("lane", "BIGINT", "optic lane"),
    Column("queue", "BIGINT", "queue index"),
    Column("task", "BIGINT", "Slurm task"),
    Column("job_id", "VARCHAR", "job id"),
    Column("pod", "VARCHAR", "Kubernetes pod"),
    Column("attempt", "BIGINT", "attempt of a restarted job"),
    Column("durable", "BOOLEAN", "the checkpoint survives the loss of a node"),
    Column("is_root", "BOOLEAN", "the launcher calls it the first failure"),
    Column("global_batch", "BIGINT", "samples per step"),
    Column("total_steps", "BIGINT", "planned steps"),
    Column("consumed_samples", "BIGINT", "samples so far"),
    Column("samples_per_s", "DOUBLE", "samples per second of the job"),
    Column("grad_norm", "DOUBLE", "gradient norm"),
    Column("data_time_ms", "DOUBLE", "part of the step spent waiting for data, ms"),
    Column("mfu", "DOUBLE", "model FLOPs utilisation"),
    Column("micro_step", "BIGINT", "micro step"),
    Column("scope", "VARCHAR", "device or job: what a rate is of"),
)

ALIGNED: Final = (
    Column("ts_aligned", "TIMESTAMP", "ts corrected by the host's estimated clock offset"),
    Column("ts_lo", "TIMESTAMP", "earliest true time"),
    Column("ts_hi", "TIMESTAMP", "latest true time"),
    Column("event_id", "BIGINT", "number of the row: by file, line, offset"),
    Column("text", "VARCHAR", "the physical line, verbatim, cut at 4096 characters"),
)

# What the line pass writes beside the public columns, so that time can be settled once the whole
# bundle is known. `facts` rows (anchors, names, settings) use the same layout.
RAW_TIME: Final = (
    Column("stamp_us", "BIGINT", "printed date and time as microseconds since 1970 as if UTC; year 1972 (a leap year) when not printed"),
    Column("stamp_has_year", "BOOLEAN", "the year was printed"),
    Column("stamp_zone_s", "INTEGER", "printed zone, seconds east of UTC; null: not printed"),
    Column("stamp_res_us", "BIGINT", "resolution of the printed time, microseconds"),
    Column("stamp2_us", "BIGINT", "second printed time of the line (the collector's), same form"),
    Column("stamp2_zone_s", "INTEGER", "zone of the second time"),
)

EVENT_TABLE: Final = Table(
    "events", "one row per recognised event of a line; key event_id", IDENTITY + ENTITY + ALIGNED,
)

TABLES: Final[tuple[Table, ...]] = (
    EVENT_TABLE,
    Table("files", "one row per member of the bundle; key file", (
        Column("file", "VARCHAR", "path inside the bundle; archives are separated by !/"),
        Column("kind", "VARCHAR", "text, a decoder's name, binary, empty or unreadable"),
        Column("bytes", "BIGINT", "uncompressed bytes read"),
        Column("host", "VARCHAR", "host hint from the name, folder or content"),
        Column("host_basis", "VARCHAR", "how the host was found: name, folder, header or none"),
        Column("note", "VARCHAR", "what was wrong with it, if anything"),
    )),
    Table("coverage", "one row per member of the bundle: how much of it was understood; key file", (
        Column("file", "VARCHAR", "path inside the bundle"),
        Column("bytes", "BIGINT", "uncompressed bytes read"),
        Column("lines", "BIGINT", "physical lines"),
        Column("recognised", "BIGINT", "lines that gave at least one event or fact"),
        Column("events", "BIGINT", "events"),
        Column("odd", "BIGINT", "lines that were damaged, too long or no text"),
        Column("sources", "VARCHAR", "sources found in it, comma separated"),
        Column("first_ts", "TIMESTAMP", "earliest event"),
        Column("last_ts", "TIMESTAMP", "latest event"),
    )),
    Table("odd_lines", "examples of lines that could not be read as text (at most 20 a file); key file, line", (
        Column("file", "VARCHAR", "path inside the bundle"),
        Column("line", "BIGINT", "1-based line; 0 for the whole file"),
        Column("why", "VARCHAR", "what is odd about it"),
        Column("text", "VARCHAR", "the beginning of the line"),
    )),
    Table("facts", "one row per line that states who is who or how clocks run; key file, line, offset", (
        Column("fact", "VARCHAR", "name of the fact, such as clock.boot_epoch or host.name"),
        *IDENTITY[:3], *IDENTITY[6:], *ENTITY,
    )),
    Table("ranks", "one row per rank of the job; key rank", (
        Column("rank", "BIGINT", "global rank"),
        Column("host", "VARCHAR", "host as the rank prints it (may be a pod or container)"),
        Column("node", "VARCHAR", "node it runs on"),
        Column("pid", "BIGINT", "process id"),
        Column("local_rank", "BIGINT", "rank within its host"),
        Column("gpu", "BIGINT", "GPU index (nvmlDev where printed, else cudaDev)"),
        Column("pci", "VARCHAR", "PCI address of the GPU"),
        Column("nranks", "BIGINT", "size of the communicator it was read from"),
        Column("comm_hash", "VARCHAR", "that communicator"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("hosts", "one row per machine named in the bundle; key host", (
        Column("host", "VARCHAR", "name"),
        Column("node", "VARCHAR", "node name when host is a pod or container"),
        Column("role", "VARCHAR", "compute, switch, scheduler or unknown"),
        Column("in_job", "BOOLEAN", "a rank of the job runs on it; null: not known"),
        Column("first_ts", "TIMESTAMP", "first event"),
        Column("last_ts", "TIMESTAMP", "last event"),
        Column("events", "BIGINT", "events"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("gpus", "one row per GPU; key host, pci", (
        Column("host", "VARCHAR", "node"),
        Column("pci", "VARCHAR", "PCI address"),
        Column("gpu", "BIGINT", "index"),
        Column("gpu_uuid", "VARCHAR", "UUID"),
        Column("rank", "BIGINT", "rank that uses it"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("nics", "one row per HCA or NIC; key host, dev", (
        Column("host", "VARCHAR", "node"),
        Column("dev", "VARCHAR", "HCA name, such as mlx5_0"),
        Column("ifname", "VARCHAR", "network device"),
        Column("pci", "VARCHAR", "PCI address"),
        Column("network", "VARCHAR", "back (carries collectives), front or unknown"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("ports", "one row per cable: switch port and what hangs on it; key switch, port", (
        Column("switch", "VARCHAR", "switch"),
        Column("port", "VARCHAR", "switch interface as the switch prints it"),
        Column("host", "VARCHAR", "host or switch at the other end"),
        Column("dev", "VARCHAR", "device or interface at the other end"),
        Column("basis", "VARCHAR", "lldp, ibnetdiscover, description, fabric manager or coincidence"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("addresses", "one row per network address; key address", (
        Column("address", "VARCHAR", "IP address"),
        Column("host", "VARCHAR", "host it belongs to"),
        Column("ifname", "VARCHAR", "network device"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("clocks", "one row per host: how its clock runs; key host", (
        Column("host", "VARCHAR", "host; empty for lines without one"),
        Column("offset_ms", "DOUBLE", "estimated clock minus true time"),
        Column("uncertainty_ms", "DOUBLE", "half width of the error bar"),
        Column("zone", "VARCHAR", "zone assumed or printed, as +HH:MM"),
        Column("basis", "VARCHAR", "how it is known"),
    )),
    Table("attempts", "one row per attempt of the job; key attempt", (
        Column("attempt", "BIGINT", "from 0"),
        Column("start", "TIMESTAMP", "start of the allocation"),
        Column("finish", "TIMESTAMP", "end of the allocation"),
        Column("outcome", "VARCHAR", "crashed, hung, slow, cancelled, completed or unknown"),
        Column("basis", "VARCHAR", "which lines say so"),
    )),
    Table("steps", "one row per training step and printing rank; key attempt, step, rank, file, line", (
        Column("attempt", "BIGINT", "attempt of the job, from 0"),
        Column("step", "BIGINT", "step number as printed"),
        Column("rank", "BIGINT", "rank that printed it or whose time it is; null: the job's"),
        Column("ts", "TIMESTAMP", "when it was printed, UTC"),
        Column("ts_kind", "VARCHAR", "exact, inferred or none"),
        Column("step_time_ms", "DOUBLE", "duration as printed"),
        Column("loss", "DOUBLE", "loss"),
        Column("grad_norm", "DOUBLE", "gradient norm"),
        Column("data_time_ms", "DOUBLE", "waiting for data"),
        Column("tokens_per_s", "DOUBLE", "tokens per second"),
        Column("total_steps", "BIGINT", "planned steps"),
        Column("is_main", "BOOLEAN", "the one row that stands for this step of the job"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("checkpoints", "one row per checkpoint line; key file, line", (
        Column("attempt", "BIGINT", "attempt of the job, from 0"),
        Column("step", "BIGINT", "step it is of; inferred from the last step line where not printed"),
        Column("kind", "VARCHAR", "start, done, loaded, failed or deleted"),
        Column("ts", "TIMESTAMP", "when"),
        Column("elapsed_ms", "DOUBLE", "duration as printed"),
        Column("durable", "BOOLEAN", "survives the loss of a node"),
        Column("path", "VARCHAR", "where"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("collectives", "one row per collective call or flight-recorder entry; key file, line", (
        Column("ts", "TIMESTAMP", "when it was created"),
        Column("host", "VARCHAR", "host"),
        Column("rank", "BIGINT", "global rank"),
        Column("pg", "VARCHAR", "process group or communicator hash"),
        Column("op", "VARCHAR", "collective"),
        Column("seq", "BIGINT", "sequence number in the group"),
        Column("is_p2p", "BOOLEAN", "send or receive, numbered apart"),
        Column("numel_in", "BIGINT", "elements in"),
        Column("numel_out", "BIGINT", "elements out"),
        Column("dtype", "VARCHAR", "data type"),
        Column("state", "VARCHAR", "scheduled, started or completed"),
        Column("peer_rank", "BIGINT", "other rank within the group, send and receive only"),
        Column("elapsed_ms", "DOUBLE", "duration"),
        Column("timeout_ms", "DOUBLE", "timeout"),
        Column("frames", "VARCHAR", "innermost stack frames"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "entry number in a dump, line number in a log"),
    )),
    Table("groups", "one row per rank and process group of a flight-recorder dump; key file, rank, pg", (
        Column("rank", "BIGINT", "global rank of the dump"),
        Column("pg", "VARCHAR", "process group name"),
        Column("description", "VARCHAR", "its description"),
        Column("members", "VARCHAR", "global ranks of the group as a JSON list; null: not printed"),
        Column("last_enqueued", "BIGINT", "last enqueued collective"),
        Column("last_started", "BIGINT", "last started collective"),
        Column("last_completed", "BIGINT", "last completed collective"),
        Column("entries", "BIGINT", "entries of the group in the dump"),
        Column("file", "VARCHAR", "evidence"),
    )),
    Table("qp_samples", "one row per timed work request of a queue pair; key file, line", (
        Column("ts", "TIMESTAMP", "when it began; null when the trace's clock has no date"),
        Column("t_us", "DOUBLE", "begin on the trace's own clock, microseconds"),
        Column("host", "VARCHAR", "host"),
        Column("pid", "BIGINT", "process"),
        Column("rank", "BIGINT", "rank"),
        Column("dev", "VARCHAR", "HCA; index as printed when no name is known"),
        Column("qpn", "BIGINT", "queue pair number"),
        Column("peer", "VARCHAR", "far end"),
        Column("size", "BIGINT", "bytes"),
        Column("latency_us", "DOUBLE", "duration, microseconds"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("coll_samples", "one row per timed collective of a rank; key file, line", (
        Column("ts", "TIMESTAMP", "when it began"),
        Column("host", "VARCHAR", "host"),
        Column("pid", "BIGINT", "process"),
        Column("rank", "BIGINT", "rank"),
        Column("comm_hash", "VARCHAR", "communicator"),
        Column("op", "VARCHAR", "collective"),
        Column("seq", "BIGINT", "sequence number"),
        Column("bytes", "BIGINT", "message size"),
        Column("elapsed_us", "DOUBLE", "duration, microseconds"),
        Column("bus_gbps", "DOUBLE", "bus bandwidth, GB/s as printed"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("episodes", "events folded: one fault, one row; key episode", (
        Column("episode", "BIGINT", "number, by time"),
        Column("event", "VARCHAR", "event name"),
        Column("host", "VARCHAR", "host"),
        Column("entity", "VARCHAR", "what it happened to: PCI address, port, device, rank, process"),
        Column("code", "VARCHAR", "Xid, status, mnemonic or reason that tells it from others"),
        Column("severity", "VARCHAR", "worst of its rows"),
        Column("first_ts", "TIMESTAMP", "first row"),
        Column("last_ts", "TIMESTAMP", "last row"),
        Column("count", "BIGINT", "rows; a lower bound, kernels limit their rate"),
        Column("in_job", "BOOLEAN", "on a host of the job; null: not known"),
        Column("in_window", "BOOLEAN", "within the job's life and near its end"),
        Column("event_id", "BIGINT", "its first row in events"),
        Column("file", "VARCHAR", "evidence"),
        Column("line", "BIGINT", "evidence"),
    )),
    Table("edges", "episode explains episode; key cause_episode, effect_episode, rule", (
        Column("cause_episode", "BIGINT", "the earlier, explaining one"),
        Column("effect_episode", "BIGINT", "the explained one"),
        Column("rule", "VARCHAR", "rule that joins them"),
        Column("lag_s", "DOUBLE", "effect minus cause, seconds"),
        Column("strength", "DOUBLE", "0 to 1"),
    )),
    Table("findings", "possible causes, best first; key finding", (
        Column("finding", "BIGINT", "1 is the best"),
        Column("cause", "VARCHAR", "cause class"),
        Column("confidence", "DOUBLE", "chance that the named cause is right"),
        Column("culprit", "VARCHAR", "who, as JSON"),
        Column("onset", "TIMESTAMP", "when it began, UTC"),
        Column("onset_lo", "TIMESTAMP", "earliest"),
        Column("onset_hi", "TIMESTAMP", "latest"),
        Column("summary", "VARCHAR", "one sentence"),
    )),
    Table("evidence", "the lines that prove a finding; key finding, file, line", (
        Column("finding", "BIGINT", "finding"),
        Column("role", "VARCHAR", "cause, link, effect or context"),
        Column("file", "VARCHAR", "path inside the bundle"),
        Column("line", "BIGINT", "line in the uncompressed member"),
        Column("ts", "TIMESTAMP", "when"),
        Column("text", "VARCHAR", "verbatim line"),
        Column("event_id", "BIGINT", "row of events; null for computed evidence"),
    )),
    Table("losses", "where the wall time of the attempt went; key bin", (
        Column("bin", "VARCHAR", "bin of the partition"),
        Column("lo_s", "DOUBLE", "lower bound, seconds"),
        Column("best_s", "DOUBLE", "best estimate, seconds"),
        Column("hi_s", "DOUBLE", "upper bound, seconds"),
        Column("basis", "VARCHAR", "measured, inferred or assumed"),
        Column("is_lost", "BOOLEAN", "counts towards the loss"),
    )),
)
TABLE_BY_NAME: Final = {t.name: t for t in TABLES}

PARSED_COLUMNS: Final = IDENTITY + ENTITY
