"""Checkpoint trackers: files that name the last complete checkpoint.

`latest_checkpointed_iteration.txt` (Megatron-LM, one number), `latest` (DeepSpeed, `global_step500`): written after the checkpoint
is whole, so they show that it is durable. They carry no time.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.rows import Decoded, MemberLike, event_frame, read_text

_NAMES: Final = re.compile(r"(?:^|[/!])(?:latest_checkpointed_iteration\.txt|latest(?:_checkpoint)?(?:\.txt)?)$")
_CONTENT: Final = re.compile(rb"^\s*(?:global_step|step[-_]?)?(\d{1,12})\s*$")


def is_tracker(name: str, head: bytes) -> bool:
    """Named like a tracker and holding nothing but a step."""
    return len(head) < 64 and bool(_NAMES.search(name)) and bool(_CONTENT.match(head))


def decode_tracker(member: MemberLike) -> Decoded:
    """One event train.checkpoint_done with its step."""
    decoded = Decoded()
    text = read_text(member, decoded, 1024)
    found = _CONTENT.match(text.encode())
    if found:
        decoded.tables["events"] = event_frame([{
            "file": member.name, "line": 1, "offset": 0, "text": text.strip(), "message": text.strip(), "event": "train.checkpoint_done", "severity": "info",
            "source": "trainer", "step": int(found[1]), "durable": True,
        }])
    return decoded
