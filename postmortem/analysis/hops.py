"""Where a culprit sits, hop by hop: switch port → NIC → PCI address → GPU → rank → last step, each hop with its line.

A hop is drawn only where a row of the table `joins` shows it; an inferred one says how. The chain begins where the evidence does
and leaves out what nothing shows: without a topology, for instance, it may go from the NIC to the rank that sends by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import duckdb

from postmortem.analysis.model import Culprit, Finding, Hop, Network
from postmortem.tables.statements import statements

MAX_CABLES: Final = 8
ON_THE_NETWORK: Final = frozenset(
    {"link_flap", "optic_fault", "nic_fault", "link_degraded", "congestion", "switch_failure", "qp_straggler", "network_config", "pcie_drop"}
)  # fmt: skip
"""Causes of which it is worth saying on which network they lay."""

_INFERRED: Final = {
    "name": "inferred: the interface's name is made of the address",
    "order": "inferred: devices are numbered in the order of their addresses",
    "same PCI address": "both have one PCI address",
    "same GUID": "both have one GUID",
    "traffic": "inferred: only this GPU's process sends by it",
    "bus numbers": "inferred: nearest by PCI bus number",
    "coincidence": "inferred: both ends went down together",
    "CUDA index": "inferred: index as CUDA counts",
}


@dataclass(frozen=True, slots=True)
class _Nic:
    """A NIC by its names; all but the host may be unknown."""

    host: str
    dev: str | None = None
    ifname: str | None = None
    pci: str | None = None
    network: str | None = None

    @property
    def name(self) -> str | None:
        return self.dev or self.ifname or self.pci


@lru_cache(maxsize=1)
def _queries() -> dict[str, str]:
    return dict(statements("postmortem.analysis", "hops.sql"))


def _row(con: duckdb.DuckDBPyConnection, query: str, **values: Any) -> dict[str, Any]:
    """The first row of a query of hops.sql by column; empty when there is none."""
    rows = _rows(con, query, **values)
    return rows[0] if rows else {}


def _rows(con: duckdb.DuckDBPyConnection, query: str, **values: Any) -> list[dict[str, Any]]:
    cursor = con.execute(_queries()[query], values)
    names = [d[0] for d in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def with_hops(con: duckdb.DuckDBPyConnection, found: Iterable[Finding], attempt: int) -> list[Finding]:
    """`found` with `hops` and `network` filled in; `attempt` is the one that failed, whose last step ends the chain."""
    return [replace(f, hops=find_hops(con, f.culprit, attempt), network=find_network(con, f)) for f in found]


def find_hops(con: duckdb.DuckDBPyConnection, culprit: Culprit, attempt: int) -> tuple[Hop, ...]:
    """The chain through the culprit, from the switch to the step; empty when it names neither NIC, GPU, rank nor port.

    Of a whole switch: its cables to nodes of the job, at most MAX_CABLES.
    """
    if culprit.switch and not culprit.switch_port:
        cables = _rows(con, "cables", switch=culprit.switch)[:MAX_CABLES]
        return tuple(_hop("port", c["port"], f"{c['dev']} on {c['host']}", "cable", c) for c in cables)
    nic, is_nic = _find_nic(con, culprit)
    gpu = None if is_nic or culprit.host is None else _gpu(con, culprit)
    if nic is None and gpu and culprit.host:
        near = _row(con, "nic_of_gpu", host=culprit.host, pci=gpu)
        nic = _named(con, culprit.host, near.get("name"), near.get("name"), None)
    hops: list[Hop] = []
    place = ""
    if nic is not None:
        hops += _to_nic(con, culprit, nic)
        place = f"{nic.name} on {nic.host}"
        if nic.pci and nic.pci != nic.name:
            joined = _row(con, "join", kind="nic-pci", host=nic.host, a=nic.dev or nic.ifname, b=nic.pci)
            hops += [_hop("pci", place, nic.pci, "its PCI address", joined)] if joined else []
            place = nic.pci if joined else place
    return tuple(hops + _to_rank(con, culprit, nic, gpu, place, attempt))


def _find_nic(con: duckdb.DuckDBPyConnection, culprit: Culprit) -> tuple[_Nic | None, bool]:
    """The culprit's NIC, or what hangs on the culprit's port; and whether the culprit is a NIC or port rather than a GPU."""
    if culprit.host and (culprit.dev or culprit.ifname):
        return _named(con, culprit.host, culprit.dev, culprit.ifname, culprit.pci), True
    if culprit.host and culprit.pci:
        found = _row(con, "nic", host=culprit.host, dev=None, ifname=None, pci=culprit.pci)
        if found:
            return _Nic(**found), True
    if culprit.switch and culprit.switch_port:
        end = _row(con, "far_end", switch=culprit.switch, port=culprit.switch_port)
        if end:
            return _named(con, end["host"], end["dev"], end["dev"], None), True
        return None, True
    return None, False


def _named(
    con: duckdb.DuckDBPyConnection, host: str, dev: str | None, ifname: str | None, pci: str | None
) -> _Nic | None:
    """The NIC of `host` with any of these names; as it is named where no table knows it."""
    if not (dev or ifname or pci):
        return None
    found = _row(con, "nic", host=host, dev=dev, ifname=ifname, pci=pci)
    return _Nic(**found) if found else _Nic(host, dev, ifname if ifname != dev else None, pci)


def _to_nic(con: duckdb.DuckDBPyConnection, culprit: Culprit, nic: _Nic) -> list[Hop]:
    """Switch port → NIC, with a hop between the names that switch and host use for it."""
    cable = _row(con, "port", host=nic.host, dev=nic.dev, ifname=nic.ifname)
    if not cable:
        return []
    # As the culprit spells the port, where both speak of one.
    port = culprit.switch_port if culprit.switch == cable["switch"] and culprit.switch_port else cable["port"]
    hops = [_hop("port", f"{cable['switch']} {port}", f"{cable['dev']} on {nic.host}", "cable", cable)]
    if cable["dev"] != nic.name and nic.dev and cable["dev"] == nic.ifname:
        same = _row(con, "join", kind="nic-netdev", host=nic.host, a=nic.dev, b=nic.ifname)
        if same:
            hops.append(_hop("netdev", f"{nic.ifname} on {nic.host}", f"{nic.dev} on {nic.host}", "one device", same))
    return hops


def _gpu(con: duckdb.DuckDBPyConnection, culprit: Culprit) -> str | None:
    """PCI address of the culprit's GPU, as the table `gpus` has it."""
    row = con.execute(
        """
        SELECT pci FROM gpus WHERE host = ? AND (split_part(pci, '.', 1) = split_part(?, '.', 1) OR ? IS NULL AND rank = ?) ORDER BY pci LIMIT 1""",
        [culprit.host, culprit.pci, culprit.pci, culprit.rank if len(culprit.ranks) <= 1 else None],
    ).fetchone()
    return row[0] if row else None


def _to_rank(
    con: duckdb.DuckDBPyConnection, culprit: Culprit, nic: _Nic | None, gpu: str | None, place: str, attempt: int
) -> list[Hop]:
    """NIC → GPU → rank → step; `place` is the name at which the chain stands."""
    hops: list[Hop] = []
    host = nic.host if nic else culprit.host
    if nic is not None:
        near = _row(con, "gpu_of_nic", host=nic.host, dev=nic.dev, ifname=nic.ifname)
        if near and gpu in {None, near["pci"]}:
            gpu = near["pci"]
            name = _gpu_name(near["gpu"], near["pci"])
            hops.append(_hop("gpu", place, name, "nearest GPU", near))
            place = name
    rank: dict[str, Any] = {}
    if gpu and host:
        rank = _row(con, "rank_of_gpu", host=host, pci=gpu)
        if rank and not hops:
            index = con.execute("SELECT gpu FROM gpus WHERE host = ? AND pci = ?", [host, gpu]).fetchone()
            joined = _row(con, "join", kind="pci-gpu", host=host, a=gpu, b=str(index[0]) if index else None)
            place = gpu
            if joined and index:
                hops.append(_hop("gpu", gpu, f"GPU {index[0]}", "its index", joined))
                place = f"GPU {index[0]}"
    if rank and host and rank["host"] != host:
        joined = _row(con, "join", kind="pod-node", host=host, a=rank["host"], b=host)
        hops += [_hop("pod", host, rank["host"], "what runs there", joined)] if joined else []
    if rank:
        process = f"process {rank['pid']} on {rank['host']}" if rank["pid"] is not None else "its process"
        hops.append(_hop("rank", place, f"rank {rank['rank']}", process, rank))
    elif nic is not None and nic.dev and not gpu:
        rank = _row(con, "rank_of_nic", host=nic.host, dev=nic.dev)
        what = "its failed connection names the NIC" if rank.get("basis") == "failed connection" else "sends by it"
        hops += [_hop("rank", place, f"rank {rank['rank']}", what, {**rank, "basis": "stated"})] if rank else []
    number = rank["rank"] if rank else culprit.rank if len(culprit.ranks) <= 1 and nic is None else None
    if number is not None and not rank:
        there = _row(con, "host_of_rank", rank=number)
        hops += [_hop("rank", there["host"], f"rank {number}", "where it ran", there)] if there else []
    return hops + _to_step(con, number, attempt) if number is not None else hops


def _gpu_name(index: int | None, pci: str) -> str:
    return f"GPU {index} ({pci})" if index is not None else f"GPU {pci}"


def _to_step(con: duckdb.DuckDBPyConnection, rank: int, attempt: int) -> list[Hop]:
    """Rank → the last step: its own line, else the job's."""
    own = _row(con, "step_of_rank", rank=rank, attempt=attempt)
    last = own or _row(con, "step_of_job", attempt=attempt)
    if not last:
        return []
    what = "last step that it printed" if own else "last step of the job"
    return [Hop("step", f"rank {rank}", f"step {last['step']:,}", what, last["file"], int(last["line"]), "", 1.0)]


def _hop(kind: str, source: str, target: str, what: str, row: dict[str, Any]) -> Hop:
    basis = "" if row["basis"] == "stated" else _INFERRED.get(row["basis"], f"inferred: {row['basis']}")
    return Hop(kind, source, target, what, row["file"], int(row["line"]), basis, float(row["confidence"]))


def find_network(con: duckdb.DuckDBPyConnection, finding: Finding) -> Network | None:
    """Front or back end, of faults of the network; null where nothing says what the thing is used for."""
    if finding.cause not in ON_THE_NETWORK:
        return None
    culprit = finding.culprit
    nic, is_nic = _find_nic(con, culprit)
    names = [nic] if nic is not None and is_nic else []
    if culprit.switch and not names:
        ends = [_named(con, c["host"], c["dev"], c["dev"], None) for c in _rows(con, "cables", switch=culprit.switch)]
        names = [n for n in ends if n is not None]
    known = {n.network for n in names if n.network in {"front", "back"}}
    if len(known) == 1:
        which = known.pop()
        for n in names:
            said = (
                _row(con, "network", host=n.host, network=which, dev=n.dev, ifname=n.ifname)
                if n.network == which
                else {}
            )
            if said:
                return Network(
                    "back" if which == "back" else "front", n.name or n.host, said["file"], int(said["line"])
                )
        return None
    if culprit.peer and not names:
        said = _row(con, "address", address=culprit.peer)
        if said:
            return Network(
                "back" if said["network"] == "back" else "front", culprit.peer, said["file"], int(said["line"])
            )
    return None
