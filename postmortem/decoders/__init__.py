"""Formats that are no lines: recognised by content, each read by one decoder into rows of public tables.

Any bytes may come in: what is damaged, hostile or too large becomes a note or is left out, never an exception, and nothing
in a file is ever run. Memory is bounded by the limits that each module names.
"""

from __future__ import annotations

from typing import Final

from postmortem.decoders import counters
from postmortem.decoders.base import Decoded, Format, Head, Hints, MemberLike
from postmortem.decoders.collectives import flight_recorder, nccl_inspector, nccl_profiler, nccl_ras, nccl_topology
from postmortem.decoders.fabric import infiniband, lldp
from postmortem.decoders.hosts import dcgm, host_inventory, ipmi, rasdaemon
from postmortem.decoders.schedulers import (
    kubectl_describe,
    kubernetes,
    kubernetes_tables,
    sacct,
    slurm_json,
    slurm_text,
)
from postmortem.decoders.schedulers.hostlist import expand_hostlist
from postmortem.decoders.training import (
    checkpoint_list,
    parquet_table,
    qp_table,
    run_records,
    step_csv,
    tensorboard,
    thread_stacks,
    tracker,
)

HEAD_BYTES: Final = 64 << 10
"""What `sniff` looks at, at most."""

_TEXT_BYTES: Final = 16 << 10

# The first format that recognises a file reads it: strict ones stand before those that other formats could resemble.
_MODULES: Final = (
    flight_recorder,
    nccl_profiler,
    nccl_inspector,
    nccl_ras,
    nccl_topology,
    tensorboard,
    parquet_table,
    run_records,
    tracker,
    qp_table,
    step_csv,
    thread_stacks,
    checkpoint_list,
    sacct,
    slurm_json,
    slurm_text,
    kubectl_describe,
    kubernetes,
    kubernetes_tables,
    lldp,
    infiniband,
    counters,
    host_inventory,
    dcgm,
    ipmi,
    rasdaemon,
)
DECODERS: Final[dict[str, Format]] = {f.name: f for module in _MODULES for f in module.FORMATS}


def sniff(name: str, head: bytes, *, in_section: bool = False) -> str | None:
    """The decoder for a member by its first bytes; None for ordinary lines, also for logs whose lines are JSON.

    Content decides. The name only helps where content is silent: a pickle without a dump's keys in its first bytes.
    With `in_section` only formats that may stand among other output are asked.
    """
    head = head[:HEAD_BYTES]
    seen = Head(name, head, head[:_TEXT_BYTES].decode("utf-8", "replace"))
    return next((f.name for f in DECODERS.values() if (f.in_section or not in_section) and f.looks(seen)), None)


def decode(decoder: str, member: MemberLike, *, host_hint: str | None, rank_hint: int | None) -> Decoded:
    """Rows of `member` by the decoder of that name, one of `DECODERS`.

    Tables have the columns of `postmortem.schema` that the decoder fills; see `Decoded` for `events` and `facts`.
    """
    return DECODERS[decoder].run(member, Hints(host_hint, rank_hint))


__all__ = ["DECODERS", "Decoded", "Format", "Head", "Hints", "MemberLike", "decode", "expand_hostlist", "sniff"]
