"""Loaded by the workers of test_cluster.py: units of certain names raise, or kill the worker once some rows are written."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

from postmortem.tables import ingest

PLACE = Path(os.environ["POSTMORTEM_TEST_PLACE"])
# dask imports a preload twice.
_read = vars(ingest).setdefault("_member_itself", ingest._member)


def _member(member: Any, work: Any) -> int:
    if member.name == "poison.log":
        (PLACE / f"poison-{uuid.uuid4().hex}").touch()
        raise RuntimeError("no way to read this\nand a second line")
    size = _read(member, work)
    if member.name == "deadly.log" and not (PLACE / "killed").exists():
        ingest._flush(work)
        (PLACE / "killed").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return int(size)


ingest._member = _member
