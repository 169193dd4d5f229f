"""Rows and drawings of the report's part on stragglers: workers of traces, ranks, queue pairs, congestion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb
from markupsafe import Markup

from postmortem.analysis.model import Analysis, SlowQueuePair, SlowRank
from postmortem.analysis.model_slow import Congestion, QueuePairs, TraceView
from postmortem.report.figures import UNKNOWN, agrees, percent, plural, significant, stamp
from postmortem.report.queries import rows_of
from postmortem.report.svg_qp import HOSTS, Strips, Tail, strips
from postmortem.report.svg_qp import description as strips_in_words
from postmortem.report.svg_ranks import Worker, rank_strips
from postmortem.report.svg_ranks import description as ranks_in_words
from postmortem.report.view_rows import NAME_LIMIT, TextTable, words

MAX_WORKERS = 4000
MAX_TAILS = 2000
DRAWN_TRACES = 3


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing with its words."""

    svg: Markup
    words: str


@dataclass(frozen=True, slots=True)
class SlowView:
    """The part on stragglers; empty texts and tables where there is nothing to say."""

    traces_said: tuple[str, ...]
    traces: TextTable
    workers: tuple[Drawing, ...]
    ranks: TextTable
    collect: tuple[str, ...]
    pairs_said: tuple[str, ...]
    pairs: Drawing | None
    slow_pairs: TextTable
    hosts: TextTable
    congestion: TextTable

    @property
    def is_empty(self) -> bool:
        """Nothing was measured and nothing was slow."""
        return not (
            self.traces.rows
            or self.workers
            or self.ranks.rows
            or self.collect
            or self.pairs_said
            or self.pairs
            or self.slow_pairs.rows
            or self.congestion.rows
        )


def slow_view(analysis: Analysis, con: duckdb.DuckDBPyConnection) -> SlowView:
    """The part on stragglers of `analysis`; `con` holds the public tables, any of which may be empty."""
    picture = _strips(analysis, con)
    drawn = None if picture is None else Drawing(Markup(strips(picture)), strips_in_words(picture))
    return SlowView(
        traces_said=tuple(f"{words(t.trace, NAME_LIMIT)}: {words(t.summary)}" for t in analysis.traces if t.summary),
        traces=trace_table(analysis.traces),
        workers=_workers(con),
        ranks=rank_table(analysis.slow_ranks),
        collect=tuple(words(text) for text in analysis.to_name_a_rank),
        pairs_said=_pairs_said(analysis.queue_pairs),
        pairs=drawn,
        slow_pairs=queue_pair_table(analysis.slow_queue_pairs),
        hosts=_host_table(picture),
        congestion=congestion_table(analysis.congestion),
    )


def trace_table(traces: tuple[TraceView, ...]) -> TextTable:
    """What each trace says of the job's pace."""
    rows = tuple(
        (
            words(one.trace, NAME_LIMIT),
            f"{one.workers:,}",
            f"{one.stages:,}",
            f"{one.steps:,}",
            UNKNOWN if one.slowdown is None else f"{one.slowdown:.3f}",
            percent(one.waste_share),
            percent(one.worker_share),
            percent(one.stage_share),
            percent(one.variation_share),
        )
        for one in traces
    )
    heads = (
        "trace", "workers", "stages", "steps", "slowdown S", "GPU-hours wasted", "by the worst workers", "by the longest stage",
        "by unequal microbatches",
    )  # fmt: skip
    caption = "Steps as they were against steps with equal work everywhere; the last columns: what of the difference goes away with each repaired alone"
    return TextTable(caption, heads, frozenset(range(1, 9)), rows)


def rank_table(slow: tuple[SlowRank, ...], limit: int = 50) -> TextTable:
    """Ranks slower than their peers."""
    has_own = any(one.own_ratio is not None for one in slow)
    rows = tuple(
        (
            f"{one.rank:,}",
            *((f"{one.own_ratio:.2f} times" if one.own_ratio is not None else "",) if has_own else ()),
            f"{one.slowdown:.2f} times",
            "" if one.since_step is None else f"{one.since_step:,}",
            one.kind,
            f"{one.confidence:.2f}",
        )
        for one in slow[:limit]
    )
    own = ("own work, of its peers'", "steps of the job are longer") if has_own else ("time of its peers",)
    heads = ("rank", *own, "since step", "kind", "confidence")
    numeric = frozenset(i for i, h in enumerate(heads) if h != "kind")
    return TextTable("Ranks slower than their peers", heads, numeric, rows, max(0, len(slow) - limit))


def queue_pair_table(slow: tuple[SlowQueuePair, ...], limit: int = 50) -> TextTable:
    """Queue pairs with a long tail."""
    rows = tuple(
        (
            f"{one.qpn}",
            _name(one.dev) + (f" port {words(one.port, 40)}" if one.port else ""),
            _name(one.host),
            "" if one.rank is None else f"{one.rank:,}",
            _name(one.peer),
            words(f"{one.switch} {one.switch_port or ''}".strip(), NAME_LIMIT) if one.switch else UNKNOWN,
            significant(one.p50_us),
            significant(one.p99_us),
            "" if one.windows is None else f"{one.windows} of 20",
            f"{one.samples:,}",
            f"{one.confidence:.2f}",
        )
        for one in slow[:limit]
    )
    heads = (
        "queue pair",
        "NIC",
        "host",
        "rank",
        "peer",
        "switch port",
        "median, µs",
        "99th percentile, µs",
        "slow windows",
        "samples",
        "confidence",
    )
    return TextTable("Queue pairs with a long tail", heads, frozenset({0, 3, 6, 7, 8, 9, 10}), rows, max(0, len(slow) - limit))  # fmt: skip


def congestion_table(places: tuple[Congestion, ...], limit: int = 30) -> TextTable:
    """Signs of congestion by switch and host, and how steps went with them."""
    rows = tuple(
        (
            _name(one.place),
            f"{one.minutes:,}",
            f"{one.ports:,}",
            f"{one.storms:,}",
            f"{one.marks:,}",
            f"{one.drops:,}",
            f"{one.waits:,}",
            f"{one.grown:,}",
            f"{stamp(one.first)[:16]} to {stamp(one.last)[11:16]}",
            words(one.summary),
        )
        for one in places[:limit]
    )
    heads = (
        "switch or host",
        "minutes",
        "ports",
        "PFC storms",
        "ECN marks",
        "drops",
        "full buffers",
        "counters that grew",
        "when (UTC)",
        "the job's steps in these minutes",
    )
    return TextTable("Congestion, by switch and minute", heads, frozenset(range(1, 8)), rows, max(0, len(places) - limit))  # fmt: skip


def _name(value: str | None) -> str:
    return words(value, NAME_LIMIT) if value else UNKNOWN


def _workers(con: duckdb.DuckDBPyConnection) -> tuple[Drawing, ...]:
    """A drawing per trace, of at most `DRAWN_TRACES` traces."""
    found: dict[str, list[Worker]] = {}
    for row in rows_of(con, "rank_ratios", rows=MAX_WORKERS):
        found.setdefault(row[0], []).append(Worker(*row))
    return tuple(
        Drawing(
            Markup(rank_strips(tuple(workers), number)), f"{words(trace, NAME_LIMIT)}: {ranks_in_words(tuple(workers))}"
        )
        for number, (trace, workers) in enumerate(list(found.items())[:DRAWN_TRACES])
    )


def _strips(analysis: Analysis, con: duckdb.DuckDBPyConnection) -> Strips | None:
    """The strips of hosts, those with slow queue pairs first; None without samples."""
    requests: dict[str, dict[int, int]] = {}
    for host, number, count in rows_of(con, "qp_hosts"):
        requests.setdefault(host, {})[int(number)] = int(count)
    if not requests:
        return None
    tails = [Tail(*row) for row in rows_of(con, "qp_tails", rows=MAX_TAILS)]
    order = sorted(requests, key=lambda h: (-sum(t.is_slow for t in tails if t.host == h), h))
    known = {(q.dev or "", q.qpn): q for q in analysis.slow_queue_pairs}
    named = tuple(replace(t, label=_label(t, known.get((t.dev, t.qpn)))) for t in tails)
    return Strips({h: requests[h] for h in order[:HOSTS]}, named, max(0, len(order) - HOSTS))


def _label(tail: Tail, known: SlowQueuePair | None) -> str:
    """Number, NIC, port and peer of a slow queue pair, in a line."""
    if not tail.is_slow:
        return ""
    nic = words(tail.dev, 40) if tail.dev else "an unnamed NIC"
    port = f" port {words(known.port, 10)}" if known and known.port else ""
    where = (
        f", {words(known.switch, 30)} {words(known.switch_port or '', 30)}".rstrip() if known and known.switch else ""
    )
    peer = f" to {words(known.peer, 40)}" if known and known.peer else ""
    return f"queue pair {tail.qpn}, {nic}{port}{where}{peer}"


def _host_table(picture: Strips | None) -> TextTable:
    """The strips in figures."""
    rows = []
    for host in picture.requests if picture else ():
        own = [t for t in picture.tails if t.host == host] if picture else []
        middle = sorted(t.p50_us for t in own)
        tails = sorted(t.p99_us for t in own)
        rows.append(
            (
                words(host, NAME_LIMIT),
                f"{sum(picture.requests[host].values()):,}" if picture else "",
                f"{len(own):,}",
                significant(middle[len(middle) // 2]) if middle else UNKNOWN,
                significant(tails[len(tails) // 2]) if tails else UNKNOWN,
                significant(max(t.max_us for t in own)) if own else UNKNOWN,
                f"{sum(t.is_slow for t in own):,}",
            )
        )
    heads = ("host", "timed requests", "queue pairs", "median, µs", "usual 99th percentile, µs", "longest, µs", "slow")
    more = picture.more if picture else 0
    return TextTable("Queue pairs by host, at equal message size", heads, frozenset(range(1, 7)), tuple(rows), more)


def _pairs_said(pairs: QueuePairs) -> tuple[str, ...]:
    """How many were measured and slow, what the slow ones share, what they cost."""
    if not pairs.measured:
        return ()
    said = [
        f"{plural(pairs.measured, 'queue pair')} on {plural(pairs.hosts, 'host')} measured, {pairs.slow:,} slow"
        + (f": {words(pairs.summary)}." if pairs.summary else ".")
    ]
    if pairs.lost is not None and pairs.lost_basis:
        bounds = (
            ""
            if agrees(pairs.lost) or pairs.lost.lo < 0.001
            else f" ({percent(pairs.lost.lo)} by the traced requests alone)"
        )
        said.append(f"Throughput lost to them: {percent(pairs.lost.best)}, from {pairs.lost_basis}{bounds}.")
    if pairs.per_step:
        said.append(
            f"A slow request takes {significant(pairs.extra_us)} µs longer; {significant(pairs.per_step)} of them one after another in a step account for that."
        )
    return tuple(said)
