"""Formats that are no lines: recognised by content, each read by one decoder into rows of public tables."""

from __future__ import annotations

from typing import Final

from postmortem.decoders.rows import Decoded, MemberLike
from postmortem.decoders.flight_recorder import decode_flight_recorder, looks_like_dump
from postmortem.decoders.hostlist import expand_hostlist
from postmortem.decoders.profiles import (
    decode_inspector,
    decode_steps,
    decode_trace,
    looks_like_inspector,
    looks_like_steps,
    looks_like_trace,
)
from postmortem.decoders.sacct import decode_sacct, is_sacct
from postmortem.decoders.tracker import decode_tracker, is_tracker
from postmortem.decoders.topology import decode_topology, sniff_topology

DECODERS: Final[dict[str, str]] = {
    "flight_recorder": "PyTorch flight-recorder dump, pickle or JSON",
    "nccl_profiler": "trace of NCCL's example profiler plug-in (queue pairs)",
    "nccl_inspector": "NCCL Inspector, one JSON object per line",
    "step_table": "CSV of training steps",
    "tracker": "checkpoint tracker",
    "sacct": "table of Slurm's sacct --parsable",
    "lldp_text": "LLDP neighbours of a switch",
    "lldp_json": "LLDP neighbours as JSON",
    "ibnetdiscover": "InfiniBand topology",
    "iblinkinfo": "InfiniBand links",
    "ndt": "UFM cable list",
}
_TOPOLOGY: Final = frozenset({"lldp_text", "lldp_json", "ibnetdiscover", "iblinkinfo", "ndt"})


def sniff(name: str, head: bytes) -> str | None:
    """The decoder for a member by its first bytes; None: ordinary lines."""
    if looks_like_dump(name, head):
        return "flight_recorder"
    if looks_like_trace(head):
        return "nccl_profiler"
    if looks_like_inspector(head):
        return "nccl_inspector"
    if is_tracker(name, head):
        return "tracker"
    if looks_like_steps(head):
        return "step_table"
    text = head[:16_384].decode("utf-8", "replace")
    return "sacct" if is_sacct(text) else sniff_topology(name, text)


def decode(decoder: str, member: MemberLike, *, host_hint: str | None, rank_hint: int | None) -> Decoded:
    """Rows of `member` by the decoder of that name. Odd data becomes notes, never an exception."""
    if decoder == "flight_recorder":
        return decode_flight_recorder(member, rank_hint)
    if decoder == "nccl_profiler":
        return decode_trace(member, host_hint)
    if decoder == "nccl_inspector":
        return decode_inspector(member, host_hint)
    if decoder == "step_table":
        return decode_steps(member, host_hint, rank_hint)
    if decoder == "tracker":
        return decode_tracker(member)
    if decoder == "sacct":
        return decode_sacct(member)
    if decoder in _TOPOLOGY:
        return decode_topology(decoder, member, host_hint)
    raise KeyError(decoder)


__all__ = ["DECODERS", "Decoded", "MemberLike", "decode", "expand_hostlist", "sniff"]
