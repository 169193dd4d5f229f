"""The chain from switch port to training step, and the network of the fault, as report and terminal print them."""

from __future__ import annotations

from dataclasses import dataclass

from postmortem.analysis.model import Finding, Hop
from postmortem.report.figures import plural
from postmortem.report.view_rows import words

_NETWORKS = {
    "back": "back-end network, which carries the collectives",
    "front": "front-end network, not on the one that carries the collectives",
}


@dataclass(frozen=True, slots=True)
class HopView:
    """One hop: two names, what joins them, the line that shows it; `anchor` is that of the line among the evidence, `basis` how it was inferred."""

    source: str
    target: str
    what: str
    where: str
    anchor: str
    basis: str


def chain(finding: Finding) -> str:
    """The hops in one line, `leaf-3 Ethernet1/17 → mlx5_3 on node-07 → …`; cables of a whole switch as a count; empty without hops."""
    hops = finding.hops
    if not hops:
        return ""
    if is_list(hops):
        return f"{plural(len(hops), 'cable')} to hosts of the job: {', '.join(words(h.target, 80) for h in hops)}"
    names = [hops[0].source]
    for hop in hops:
        if hop.kind == "pod":
            continue
        name = hop.target.split(" on ")[0] if hop.kind == "netdev" else hop.target
        names.append(f"{name} (inferred)" if hop.basis.startswith("inferred") else name)
    return " → ".join(words(name, 120) for name in names)


def is_list(hops: tuple[Hop, ...]) -> bool:
    """Cables side by side rather than one chain."""
    return len(hops) > 1 and all(hop.kind == "port" for hop in hops)


def network_sentence(finding: Finding) -> str:
    """On which network the fault lay, with the line that tells; empty where it is not known."""
    network = finding.network
    if network is None:
        return ""
    return f"The fault lay on the {_NETWORKS[network.which]} ({words(network.name, 80)}, {words(f'{network.file}:{network.line}', 300)})."


def hop_views(finding: Finding, anchors: dict[tuple[str, int], str]) -> tuple[HopView, ...]:
    """The hops in order; `anchors` are those of the evidence shown, by file and line."""
    return tuple(
        HopView(
            words(hop.source, 120),
            words(hop.target, 120),
            words(hop.what, 120),
            words(f"{hop.file}:{hop.line}", 300),
            anchors.get((hop.file, hop.line), ""),
            words(hop.basis, 120),
        )
        for hop in finding.hops
    )


def reach_sentence(finding: Finding) -> str:
    """How many of the ranks or hosts that failed the finding explains; empty where it explains none or where one only failed."""
    found = finding.reach
    if found is None or not found.explained:
        return ""
    unit = f"{found.unit}s"
    if found.explained == found.failed:
        return f"It explains all {found.failed} {unit} that failed."
    return f"It explains {found.explained} of the {found.failed} {unit} that failed."
