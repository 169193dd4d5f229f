"""Formats that are no lines: recognised by content, each read by one decoder into rows of public tables.

Any bytes may come in: what is damaged, hostile or too large becomes a note or is left out, never an exception, and nothing
in a file is ever run. Memory is bounded by the limits that each module names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from postmortem.decoders import infiniband, lldp
from postmortem.decoders.base import Decoded, MemberLike
from postmortem.decoders.flight_recorder import decode_flight_recorder, looks_like_dump
from postmortem.decoders.hostlist import expand_hostlist
from postmortem.decoders.kubectl_describe import decode_describe, looks_like_describe
from postmortem.decoders.nccl_inspector import decode_inspector, looks_like_inspector
from postmortem.decoders.nccl_profiler import decode_trace, looks_like_trace
from postmortem.decoders.sacct import decode_sacct, looks_like_sacct
from postmortem.decoders.step_csv import decode_steps, looks_like_steps
from postmortem.decoders.tracker import decode_tracker, is_tracker

HEAD_BYTES: Final = 64 << 10
"""What `sniff` looks at, at most."""


@dataclass(frozen=True, slots=True)
class _Decoder:
    """What a decoder reads, in one line, and the function that does."""

    about: str
    run: Callable[[MemberLike, str | None, int | None], Decoded]


_REGISTRY: Final[dict[str, _Decoder]] = {
    "flight_recorder": _Decoder(
        "PyTorch flight-recorder dump, pickle or JSON: collectives and process groups of one rank",
        lambda member, host, rank: decode_flight_recorder(member, rank),
    ),
    "nccl_profiler": _Decoder(
        "trace of NCCL's example profiler plug-in: timings of queue pairs and collectives", decode_trace
    ),
    "nccl_inspector": _Decoder(
        "NCCL Inspector, one JSON object per line: timings of collectives",
        lambda member, host, rank: decode_inspector(member, host),
    ),
    "step_csv": _Decoder(
        "table of training steps, CSV or JSON lines", lambda member, host, rank: decode_steps(member, rank)
    ),
    "tracker": _Decoder(
        "checkpoint tracker: step of the last complete checkpoint", lambda member, host, rank: decode_tracker(member)
    ),
    "sacct": _Decoder(
        "Slurm's sacct --parsable: start, end, state, nodes and GPUs of jobs",
        lambda member, host, rank: decode_sacct(member),
    ),
    "kubectl_describe": _Decoder(
        "kubectl describe pod: nodes of pods, how containers ended", lambda member, host, rank: decode_describe(member)
    ),
    "lldp_text": _Decoder(
        "show lldp neighbors of EOS, NX-OS, Junos, SONiC or Cumulus: what hangs on a switch's ports",
        lambda member, host, rank: lldp.decode_table(member, host),
    ),
    "lldp_json": _Decoder(
        "lldpcli -f json or json0, of a switch or a host", lambda member, host, rank: lldp.decode_json(member, host)
    ),
    "ibnetdiscover": _Decoder(
        "InfiniBand topology of ibnetdiscover",
        lambda member, host, rank: infiniband.decode_fabric("ibnetdiscover", member),
    ),
    "iblinkinfo": _Decoder(
        "InfiniBand links of iblinkinfo", lambda member, host, rank: infiniband.decode_fabric("iblinkinfo", member)
    ),
    "node_name_map": _Decoder(
        "names of InfiniBand GUIDs", lambda member, host, rank: infiniband.decode_name_map(member)
    ),
    "ufm_ndt": _Decoder("planned cables of UFM (NDT file)", lambda member, host, rank: infiniband.decode_ndt(member)),
}
DECODERS: Final[dict[str, str]] = {name: decoder.about for name, decoder in _REGISTRY.items()}


def sniff(name: str, head: bytes) -> str | None:
    """The decoder for a member by its first bytes; None for ordinary lines, also for logs whose lines are JSON.

    Content decides. The name only helps where content is silent: a pickle without a dump's keys in its first bytes.
    """
    head = head[:HEAD_BYTES]
    if looks_like_dump(name, head):
        return "flight_recorder"
    if looks_like_trace(head):
        return "nccl_profiler"
    if looks_like_inspector(head):
        return "nccl_inspector"
    if is_tracker(name, head):
        return "tracker"
    if looks_like_steps(head):
        return "step_csv"
    text = head[:16_384].decode("utf-8", "replace")
    if looks_like_sacct(text):
        return "sacct"
    if looks_like_describe(text):
        return "kubectl_describe"
    if lldp.looks_like_json(text):
        return "lldp_json"
    if lldp.looks_like_table(text):
        return "lldp_text"
    return infiniband.sniff_infiniband(text)


def decode(decoder: str, member: MemberLike, *, host_hint: str | None, rank_hint: int | None) -> Decoded:
    """Rows of `member` by the decoder of that name, one of `DECODERS`.

    Tables have the columns of `postmortem.schema` that the decoder fills; see `Decoded` for `events` and `facts`.
    """
    return _REGISTRY[decoder].run(member, host_hint, rank_hint)


__all__ = ["DECODERS", "Decoded", "MemberLike", "decode", "expand_hostlist", "sniff"]
