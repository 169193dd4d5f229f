"""Checkpoint trackers: files that name the last complete checkpoint.

`latest_checkpointed_iteration.txt` (Megatron-LM, one number), `latest` (DeepSpeed, `global_step500`): written after the checkpoint
is whole, so they show that it is durable. They carry no time.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, evidence, read_text, stamp

_NAMES: Final = re.compile(r"(?:^|[/!])(?:latest_checkpointed_iteration\.txt|latest(?:_checkpoint)?(?:\.txt)?)$")
_CONTENT: Final = re.compile(r"\s*(?:global_step|step[-_]?)?([0-9]{1,12})\s*")


def is_tracker(name: str, head: bytes) -> bool:
    """Named like a tracker and holding nothing but a step."""
    return len(head) < 64 and bool(_NAMES.search(name)) and bool(_CONTENT.fullmatch(head.decode("utf-8", "replace")))


def decode_tracker(member: MemberLike) -> Decoded:
    """One event `train.checkpoint_done` with its step."""
    decoded = Decoded()
    text = read_text(member, decoded, 1024)
    found = _CONTENT.fullmatch(text)
    if found:
        row = {**evidence(member, 1, text.strip(), "trainer"), **stamp(None), "severity": "info"}
        decoded.put("events", [{**row, "event": "train.checkpoint_done", "step": int(found[1]), "durable": True}])
    return decoded


FORMATS: Final = (
    Format(
        "tracker",
        "checkpoint tracker: step of the last complete checkpoint",
        "Megatron-LM, DeepSpeed",
        "NVIDIA/Megatron-LM megatron/training/checkpointing.py; deepspeedai/DeepSpeed deepspeed/runtime/engine.py",
        lambda head: is_tracker(head.name, head.raw),
        lambda member, hints: decode_tracker(member),
    ),
)
