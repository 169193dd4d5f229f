"""Who is at fault: from the row that speaks for a cause to host, device, port, GPU and ranks."""

from __future__ import annotations

import re
from typing import Any, Final

import duckdb

from postmortem.analysis.candidates import Candidate
from postmortem.analysis.model import Culprit

NETWORK: Final = frozenset(
    {"link_flap", "optic_fault", "nic_fault", "link_degraded", "congestion", "switch_failure", "qp_straggler"}
)
PEERED: Final = frozenset({"storage_stall", "data_stall", "network_config", "clock_skew"})


_LNET: Final = re.compile(r"@(?:o2ib|tcp|kfi|gni)[0-9]*$")
"""The network of Lustre's own address of a server."""


def _row(con: duckdb.DuckDBPyConnection, sql: str, values: list[Any]) -> dict[str, Any]:
    cursor = con.execute(sql, values)
    row = cursor.fetchone()
    return dict(zip([d[0] for d in cursor.description or []], row, strict=True)) if row else {}


def find_culprit(con: duckdb.DuckDBPyConnection, c: Candidate) -> Culprit:
    """The culprit of candidate `c`; everything that no row shows stays None."""
    event = _row(con, "SELECT * FROM events WHERE event_id = ?", [c.event_id])
    if not event:
        return Culprit(host=c.host)
    if c.is_switch:
        return _switch(con, c, event)
    if event["event"] == "job.node_fail" and "slurmstepd" in (event["text"] or event["message"] or ""):
        return Culprit()
    pod = _row(con, "SELECT pod FROM pod_node WHERE node = ? AND is_pod ORDER BY pod LIMIT 1", [c.host]).get("pod")
    rank = _rank(con, c, event)
    nic = _nic(con, c, event) if c.cause in NETWORK or event["event"].startswith(("nic.", "link.")) else {}
    port = _port(con, c.host, nic.get("dev"), nic.get("ifname")) if nic else {}
    gpu_pci = None if nic else event["pci"] or rank.get("pci") or _gpu_beside(con, event)
    ranks = _many(con, c, event)
    return Culprit(
        host=c.host or rank.get("node"),
        pod=event["pod"] or pod,
        gpu=event["gpu"] if event["gpu"] is not None and event["source"] != "nccl" else rank.get("gpu"),
        pci=nic.get("pci") or gpu_pci,
        rank=ranks[0] if ranks else rank.get("rank"),
        ranks=ranks or ((rank["rank"],) if rank.get("rank") is not None else ()),
        local_rank=event["local_rank"] if event["local_rank"] is not None else rank.get("local_rank"),
        pid=(event["pid"] or rank.get("pid")) if event["source"] != "kernel" or c.cause == "host_oom" else None,
        dev=nic.get("dev"),
        port=event["port"],
        ifname=nic.get("ifname") or (event["ifname"] if c.cause in NETWORK else None),
        qpn=event["qpn"],
        link=event["link"],
        switch=port.get("switch"),
        switch_port=port.get("port"),
        peer=_LNET.sub("", event["peer"]) if c.cause in PEERED and event["peer"] else None,
    )


def _switch(con: duckdb.DuckDBPyConnection, c: Candidate, event: dict[str, Any]) -> Culprit:
    whole = c.cause == "switch_failure"
    port = None if whole else event["ifname"] or event["port"]
    host, dev = (None, None) if whole else (c.port_host, c.port_dev)
    if host is None and not whole and isinstance(event["peer"], str) and " " in event["peer"]:
        first, _, second = event["peer"].partition(" ")
        known = _row(con, "SELECT host FROM hosts WHERE host = ?", [first])
        host, dev = (first, second.split()[0]) if known else (None, None)
    nic = _nic_named(con, host, dev) if host else {}
    pod = (
        _row(con, "SELECT pod FROM pod_node WHERE node = ? AND is_pod ORDER BY pod LIMIT 1", [host]).get("pod")
        if host
        else None
    )
    blames = c.cause not in {"congestion"}
    return Culprit(
        host=host if blames else None,
        pod=pod if blames else None,
        dev=(nic.get("dev") or (dev if not nic else None)) if blames else None,
        ifname=nic.get("ifname") if blames else None,
        pci=nic.get("pci") if blames else None,
        switch=c.host,
        switch_port=port,
        port=event["port"] if not whole else None,
    )


def _nic_named(con: duckdb.DuckDBPyConnection, host: str, name: str | None) -> dict[str, Any]:
    """dev, ifname, pci of the NIC that a cable list calls `name`: a network device or an HCA."""
    found = _row(
        con,
        "SELECT dev, ifname, pci FROM nics WHERE host = ? AND (dev = ? OR ifname = ?) ORDER BY dev NULLS LAST LIMIT 1",
        [host, name, name],
    )
    if not found.get("dev"):
        hca = _row(
            con,
            """
            SELECT min(e.dev) AS dev, count(DISTINCT e.dev) AS n FROM events e LEFT JOIN pod_node p ON p.pod = e.host
            WHERE e.event IN ('nccl.ib_completion_error', 'nccl.ib_async_event') AND e.dev IS NOT NULL AND coalesce(p.node, e.host) = ?""",
            [host],
        )
        found = {
            "dev": hca["dev"] if hca.get("n") == 1 and name not in {None, hca.get("dev")} else None,
            "ifname": name,
            "pci": None,
            **{k: v for k, v in found.items() if v},
        }
    return found


def _rank(con: duckdb.DuckDBPyConnection, c: Candidate, event: dict[str, Any]) -> dict[str, Any]:
    """The rank of a GPU (by PCI address without function), of a process on its host, or as the row says."""
    columns = "SELECT rank, gpu, pci, local_rank, host, node FROM ranks WHERE "
    if event["pci"]:
        found = _row(
            con,
            columns + "node = ? AND split_part(pci, '.', 1) = split_part(?, '.', 1) ORDER BY rank LIMIT 1",
            [c.host, event["pci"]],
        )
        if found:
            return found
    if event["source"] in {"torch", "nccl", "trainer"}:
        if event["source"] in {"torch", "trainer"} and event["rank"] is not None:
            return _row(con, columns + "rank = ?", [event["rank"]]) or {"rank": event["rank"]}
        if event["pid"] is not None and event["host"] is not None:
            found = _row(con, columns + "host = ? AND pid = ? ORDER BY rank LIMIT 1", [event["host"], event["pid"]])
            if found:
                return found
    if event["pid"] is not None and c.cause in {"host_oom", "gpu_software"}:
        found = _row(con, columns + "node = ? AND pid = ? ORDER BY rank LIMIT 1", [c.host, event["pid"]])
        return found or _died(con, event["pid"])
    if event["source"] == "torch" and event["local_rank"] is not None:
        alone = _row(con, "SELECT count(DISTINCT coalesce(node, '')) AS n, max(rank) AS top FROM ranks", [])
        if alone.get("n") == 1:
            found = _row(
                con,
                columns + "local_rank = ? OR (local_rank IS NULL AND rank = ?) ORDER BY rank LIMIT 1",
                [event["local_rank"], event["local_rank"]],
            )
            if found:
                return found
    if (
        event["event"] in {"torch.exception", "torch.oom", "torch.cuda_error"}
        and event["pid"] is None
        and event["rank"] is None
    ):
        alone = _first_failure(con, event["file"])
        if alone:
            return alone
    if event["source"] in {"torch", "trainer"}:
        named = _row(con, "SELECT rank FROM file_rank WHERE file = ?", [event["file"]])
        if named:
            return _row(con, columns + "rank = ?", [named["rank"]]) or named
    return {}


def _first_failure(con: duckdb.DuckDBPyConnection, file: str) -> dict[str, Any]:
    """The process behind a traceback that names none: the one that the launcher in the same file says failed, if it is one."""
    rows = con.execute(
        """
        SELECT DISTINCT rank, local_rank, pid, host FROM events
        WHERE event = 'torch.elastic_failure' AND file = ? AND pid IS NOT NULL AND coalesce(exit_code, 1) > 0""",
        [file],
    ).fetchall()
    if len({r[2] for r in rows}) != 1:
        return {}
    rank = next((r[0] for r in rows if r[0] is not None), None)
    known = (
        _row(con, "SELECT rank, gpu, pci, local_rank, host, node FROM ranks WHERE rank = ?", [rank])
        if rank is not None
        else {}
    )
    return {"rank": rank, "local_rank": rows[0][1], **known, "pid": rows[0][2]}


def _died(con: duckdb.DuckDBPyConnection, pid: int) -> dict[str, Any]:
    """The rank whose launcher says that this process died; none when several launchers use the number."""
    rows = con.execute(
        """
        SELECT DISTINCT coalesce(e.rank, r.rank), e.local_rank FROM events e LEFT JOIN ranks r ON r.local_rank = e.local_rank AND (SELECT count(DISTINCT node) FROM ranks) <= 1
        WHERE e.event = 'torch.elastic_failure' AND e.pid = ? AND coalesce(e.rank, r.rank) IS NOT NULL""",
        [pid],
    ).fetchall()
    return {"rank": rows[0][0], "local_rank": rows[0][1]} if len(rows) == 1 else {}


def _gpu_beside(con: duckdb.DuckDBPyConnection, event: dict[str, Any]) -> str | None:
    """The address of the GPU whose driver names none in this line: the one that it names in the lines around, if it is one."""
    if event["source"] != "kernel" or not event["event"].startswith("gpu."):
        return None
    row = _row(
        con,
        """
        SELECT min(pci) AS pci, count(DISTINCT pci) AS n FROM events
        WHERE file = ? AND source = 'kernel' AND event LIKE 'gpu.%' AND pci IS NOT NULL AND abs(line - ?) <= 20
          AND coalesce(abs(epoch_us(ts) - epoch_us(?::TIMESTAMP)) <= 5000000, true)""",
        [event["file"], event["line"], event["ts"]],
    )
    return row.get("pci") if row.get("n") == 1 else None


def _many(con: duckdb.DuckDBPyConnection, c: Candidate, event: dict[str, Any]) -> tuple[int, ...]:
    """Ranks named as laggards in a desync report, in order."""
    if c.cause != "collective_mismatch" or event["rank"] is None:
        return ()
    return (int(event["rank"]),)


def _nic(con: duckdb.DuckDBPyConnection, c: Candidate, event: dict[str, Any]) -> dict[str, Any]:
    """dev, ifname, pci of the NIC, joined over whichever of them the row prints."""
    dev, ifname, pci = event["dev"], event["ifname"], event["pci"]
    found = _row(
        con,
        """
        SELECT max(dev) AS dev, max(ifname) AS ifname, max(pci) AS pci FROM nics
        WHERE host = ? AND ((? IS NOT NULL AND dev = ?) OR (? IS NOT NULL AND pci = ?) OR (? IS NOT NULL AND ifname = ?))""",
        [c.host, dev, dev, pci, pci, ifname, ifname],
    )
    nic = {"dev": dev or found.get("dev"), "ifname": ifname or found.get("ifname"), "pci": pci or found.get("pci")}
    if nic["dev"] is None:
        # No line joins address and HCA: the HCA that this host's own failed connections name, if it is one.
        hca = _row(
            con,
            """
            SELECT min(e.dev) AS dev, count(DISTINCT e.dev) AS n FROM events e LEFT JOIN pod_node p ON p.pod = e.host
            WHERE e.event IN ('nccl.ib_completion_error', 'nccl.ib_async_event') AND e.dev IS NOT NULL AND coalesce(p.node, e.host) = ?""",
            [c.host],
        )
        if hca.get("n") == 1:
            nic["dev"] = hca["dev"]
    if nic["dev"] is None:
        cable = _row(con, "SELECT dev FROM ports WHERE host = ? AND dev IN (?, ?) LIMIT 1", [c.host, ifname, dev])
        nic["dev"] = (
            cable.get("dev") if str(cable.get("dev") or "").startswith(("mlx", "bnxt", "irdma", "efa")) else None
        )
    return nic


def _port(con: duckdb.DuckDBPyConnection, host: str | None, dev: str | None, ifname: str | None) -> dict[str, Any]:
    """Switch and port that the NIC hangs on: the cable list, else switch and host going down in the same seconds."""
    if host is None:
        return {}
    found = _row(
        con,
        "SELECT switch, port FROM ports WHERE host = ? AND dev IN (?, ?) ORDER BY switch, port LIMIT 1",
        [host, dev, ifname],
    )
    if found:
        # As the switch itself spells the port, where it speaks of it.
        spelt = _row(
            con,
            "SELECT entity FROM episodes WHERE host = ? AND same_port(entity, ?) AND entity NOT LIKE '%.0' ORDER BY episode LIMIT 1",
            [found["switch"], found["port"]],
        )
        return {**found, "port": spelt.get("entity") or found["port"]}
    return _row(
        con,
        """
        SELECT s.host AS switch, s.entity AS port FROM episodes s JOIN episodes h ON h.host = ? AND h.event IN ('link.down', 'nic.port_state')
         AND abs(epoch_us(s.first_ts - h.first_ts)) <= 3000000
        WHERE s.event IN ('link.down', 'link.err_disabled') AND s.host IN (SELECT host FROM hosts WHERE role = 'switch') AND s.entity NOT LIKE '%.0'
        GROUP BY ALL HAVING (SELECT count(DISTINCT (x.host, x.entity)) FROM episodes x WHERE x.event = 'link.down' AND x.host IN (SELECT host FROM hosts WHERE role = 'switch')
         AND x.entity NOT LIKE '%.0' AND abs(epoch_us(x.first_ts - any_value(h.first_ts))) <= 3000000) = 1 LIMIT 1""",
        [host],
    )
