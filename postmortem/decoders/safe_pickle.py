"""Pickles that hold nothing but dictionaries, lists, text and numbers; anything else is refused before it is loaded.

TorchScript's Pickler (protocol 2) writes such pickles. Every opcode is held against an allow-list first, then an unpickler
that knows no classes builds the object: no name in a pickle is ever looked up, nothing in it is ever run.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any, Final

MAX_OPCODES: Final = 12_000_000
"""A dump of 20,000 entries with ten frames each has about 2.5 million; this bounds time (12 s) and memory (1 GB)."""

OPCODES: Final = frozenset(
    "PROTO FRAME MARK STOP EMPTY_DICT EMPTY_LIST EMPTY_TUPLE SETITEM SETITEMS APPEND APPENDS BINPUT LONG_BINPUT MEMOIZE "
    "BINGET LONG_BINGET BINUNICODE SHORT_BINUNICODE BINUNICODE8 BININT BININT1 BININT2 LONG1 BINFLOAT NONE NEWTRUE "
    "NEWFALSE TUPLE TUPLE1 TUPLE2 TUPLE3".split()
)
DAMAGED: Final = "cut off or damaged"


class RefusedPickleError(ValueError):
    """The pickle is damaged or holds what plain data does not: the text says what, as a part of a sentence."""


class _Unpickler(pickle.Unpickler):
    """Knows no classes: the second lock behind the list of opcodes."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise RefusedPickleError(f"refused: it names {module_name}.{global_name}"[:200])

    def persistent_load(self, pid: Any, /) -> Any:
        raise RefusedPickleError("refused: it refers to objects outside of itself")


def load_plain(raw: bytes) -> Any:
    """The object in `raw`. RefusedPickleError when it is cut off, damaged, too large or more than plain data."""
    _check(raw)
    try:
        return _Unpickler(io.BytesIO(raw)).load()
    except RefusedPickleError:
        raise
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise RefusedPickleError(DAMAGED) from error


def _check(raw: bytes) -> None:
    """Hold every opcode against the list. A Python loop: pickletools has no other form, and it must come first."""
    count = 0
    try:
        for opcode, argument, position in pickletools.genops(raw):
            count += 1
            if opcode.name not in OPCODES:
                raise RefusedPickleError(f"refused: {opcode.name} at byte {position} is not plain data")
            # The unpickler's memo is an array as long as its largest index: 6 bytes could ask for 64 GB.
            if opcode.name == "LONG_BINPUT" and (not isinstance(argument, int) or argument > (position or 0)):
                raise RefusedPickleError(DAMAGED)
            if count > MAX_OPCODES:
                raise RefusedPickleError(f"refused: more than {MAX_OPCODES} items")
    except RefusedPickleError:
        raise
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        raise RefusedPickleError(DAMAGED) from error
