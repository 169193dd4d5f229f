"""Templates of the report as compiled Python, kept beside Python's own compiled files: compiling them takes longer than the rest of a page."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from postmortem.prepared import place


class Compiled(BytecodeCache):
    """What was compiled of a template by the module whose text is given, which holds the options; jinja2 itself looks whether it is of this template and this Python.

    Done without where nothing can be written.
    """

    def __init__(self, module: bytes) -> None:
        self._digest = hashlib.sha256(module).hexdigest()[:8]

    def _name(self, bucket: Bucket) -> str:
        return f"template-{bucket.key}-{self._digest}.bin"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, if there is a file for it."""
        with suppress(OSError):
            data = place(self._name(bucket)).read_bytes()
            # jinja2 trusts what it is given to read: nothing that is damaged.
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                bucket.bytecode_from_string(data[32:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the bucket, whole or not at all."""
        path = place(self._name(bucket))
        partial = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            data = bucket.bytecode_to_string()
            partial.write_bytes(hashlib.sha256(data).digest() + data)
            partial.replace(path)
            for old in path.parent.glob(f"template-{bucket.key}-*.bin"):
                if old != path:
                    old.unlink()
