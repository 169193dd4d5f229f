"""Checkpoint trackers: files that name the last complete checkpoint.

`latest_checkpointed_iteration.txt` (Megatron-LM, verl: one number), `latest` (DeepSpeed: `global_step500`), `latest_universal`
(`global_step500_universal`), `last_checkpoint` (MMEngine: `/work/iter_500.pth`), `latest-rank0.pt.symlink` (Composer: `ep0-ba500-rank0.pt`),
`checkpoint` (TensorFlow: `model_checkpoint_path: "model.ckpt-500"`): written after the checkpoint is whole, so they show that it is
durable. They carry no time.
"""

from __future__ import annotations

import re
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, evidence, read_text, stamp
from postmortem.patterns import later

_NAMES: Final = later(
    r"(?:^|[/!])(?:latest_checkpointed_iteration\.txt|latest(?:_universal|_checkpoint(?:ed_step)?|-rank0\.pt\.symlink)?(?:\.txt)?"
    r"|last_checkpoint|checkpoint)$"
)
_CONTENT: Final = later(
    r"\s*(?:model_checkpoint_path: \"?)?(?P<path>(?:[^\s\"]*/)?(?:global_step|step[-_]?|iter_|epoch_[0-9]+_iter_|checkpoint[-_]|ep[0-9]+-ba|model\.ckpt-|ckpt-)?"
    r"(?P<step>[0-9]{1,12})(?:_universal|-unsharded|-rank[0-9]+)?(?:/|\.pth?|\.ckpt)?)\"?\s*(?:all_model_checkpoint_paths: .*|$)",
    re.DOTALL,
)


def is_tracker(name: str, head: bytes) -> bool:
    """Named like a tracker and holding nothing but a step."""
    return len(head) < 4096 and bool(_NAMES.search(name)) and bool(_CONTENT.fullmatch(head.decode("utf-8", "replace")))


def decode_tracker(member: MemberLike) -> Decoded:
    """One event `train.checkpoint_done` with its step."""
    decoded = Decoded()
    text = read_text(member, decoded, 4096)
    found = _CONTENT.fullmatch(text)
    if found:
        line = next(line for line in text.split("\n") if line.strip())
        row = {**evidence(member, 1 + text.split("\n").index(line), line, "trainer"), **stamp(None), "severity": "info"}
        path = found["path"] if "/" in found["path"] or not found["path"].isdigit() else None
        step = int(found["step"])
        decoded.put("events", [{**row, "event": "train.checkpoint_done", "step": step, "durable": True, "path": path}])
    return decoded


FORMATS: Final = (
    Format(
        "tracker",
        "checkpoint tracker: step of the last complete checkpoint",
        "Megatron-LM, DeepSpeed, verl, MMEngine, Composer, TensorFlow",
        "NVIDIA/Megatron-LM megatron/training/checkpointing.py; deepspeedai/DeepSpeed deepspeed/runtime/engine.py; open-mmlab/mmengine",
        lambda head: is_tracker(head.name, head.raw),
        lambda member, hints: decode_tracker(member),
    ),
)
