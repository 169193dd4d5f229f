"""What the bundle lets be seen: a fault that is not seen from its own side, or without the job, stays a possibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

    from postmortem.analysis.candidates import Candidate
    from postmortem.analysis.model import Finding, Loss, Verdict

SLOWED: Final = 0.15
"""Share of its throughput that a job lost to slow steps from which on people stop it for that."""
LASTING: Final = 20
"""Slow steps from which on somebody has seen them: those of a warm-up are over before."""
STOPPED: Final = 0.6
_JOB: Final = ("nccl", "torch", "trainer", "scheduler", "profiler")
_MOMENT: Final = timedelta(seconds=2)
"""Within this a switch, its subnet manager and who listens to them say the same thing once."""
_SEVERAL: Final = 2
"""Hosts from which on logs are a collection, not what somebody cut out as the fault itself."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The nodes whose kernel is heard, how many hosts there are, and whether anything of the job is."""

    kernels: frozenset[str]
    hosts: int
    has_job: bool

    @property
    def is_jobless(self) -> bool:
        """Logs of several machines, of which none says that a job ran, or ended."""
        return not self.has_job and self.hosts >= _SEVERAL

    def is_open(self, group: Sequence[Candidate]) -> bool:
        """Whether other causes would look the same from here, since what would tell them apart isn't in the bundle.

        That holds for all faults where nothing of the job is seen. And for a link that only the switch saw go down, once and for good, while
        nothing of the host's kernel is there: cable, adapter, PCIe and host all end it so.
        """
        if self.is_jobless:
            return True
        best = group[0]
        is_heard = bool(self.kernels) if best.port_host is None else best.port_host in self.kernels
        # Any row of the host itself that speaks for the link, the adapter's own event in NCCL, say, is the other side.
        is_told = any(c.tier == "direct" and not c.is_switch and c.host == best.port_host for c in group)
        is_once = (
            best.back is None and best.first is not None and best.last is not None and best.last - best.first < _MOMENT
        )
        is_link = best.cause == "link_flap" and best.tier == "direct"
        return is_link and best.is_switch and is_once and not is_heard and not is_told

    def wanted(self, group: Sequence[Candidate]) -> tuple[str, ...]:
        """What would settle a link of which only one end was heard."""
        if self.is_jobless or not self.is_open(group):
            return ()
        host = group[0].port_host or "the host at the other end"
        return (
            f"Get the kernel log of {host}: from the switch a cable, an adapter, PCIe and a dead host look the same.",
        )

    def gaps(self) -> tuple[str, ...]:
        """A sentence for what isn't there."""
        if not self.is_jobless:
            return ()
        return (
            "Nothing of the job itself is in the bundle, so whether it failed, and of what, cannot be established.",
        )


def sight(con: duckdb.DuckDBPyConnection) -> Sight:
    """Reads events, hosts, steps and names of pods."""
    kernels = con.execute("""
        SELECT DISTINCT coalesce(p.node, e.host) FROM events e LEFT JOIN pod_node p ON p.pod = e.host
        WHERE e.source = 'kernel' AND e.host IS NOT NULL""").fetchall()
    row = con.execute(f"""
        SELECT (SELECT count(*) FROM hosts WHERE role IS DISTINCT FROM 'switch'),
               EXISTS (FROM events WHERE source IN {_JOB}) OR EXISTS (FROM steps)""").fetchone()
    assert row is not None
    return Sight(frozenset(r[0] for r in kernels), int(row[0]), bool(row[1]))


def stopped_for_slowness(found: list[Finding], verdict: Verdict, loss: Loss) -> tuple[list[Finding], Verdict]:
    """Somebody stopped a job whose steps had become slow: that they did so is known, what made it slow isn't, and the verdict says both."""
    share = loss.throughput_loss or 0.0
    if (
        verdict.cause != "cancelled"
        or loss.throughput_basis != "steps"
        or (loss.slow_steps or 0) < LASTING
        or share < SLOWED
        or found[0].cause != "cancelled"
    ):
        return found, verdict
    said = f"{verdict.summary.rstrip('.')}, after slow steps had cost it {share:.0%} of its throughput; what slowed them is not established."
    p = min(verdict.confidence, STOPPED)
    return [replace(found[0], confidence=p, summary=said), *found[1:]], replace(verdict, confidence=p, summary=said)
