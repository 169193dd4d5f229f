"""Pickles that hold nothing but dictionaries, lists, text and numbers; anything else is refused before it is loaded.

TorchScript's Pickler (protocol 2) writes such pickles. Every opcode is held against an allow-list first, then an unpickler
that knows no classes builds the object: no name in a pickle is ever looked up, nothing in it is ever run. Of a pickle that was cut off
`load_cut` builds what stands before the cut with the same opcodes.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    if not _check(raw):
        raise RefusedPickleError(DAMAGED)
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


def _check(raw: bytes) -> bool:
    """Hold every opcode against the list; False when the pickle ends before its end. A Python loop: pickletools has no other form."""
    try:
        for _ in _opcodes(raw):
            pass
    except _CutError:
        return False
    return True


class _CutError(Exception):
    """The pickle ends, or is damaged, in an opcode."""


def _opcodes(raw: bytes) -> Iterator[tuple[str, Any]]:
    """(name, argument) of each opcode. RefusedPickleError for one that plain data has not, _CutError where the pickle breaks off."""
    codes = pickletools.genops(raw)
    count = 0
    while True:
        try:
            opcode, argument, position = next(codes)
        except StopIteration:
            return
        except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
            raise _CutError from error
        count += 1
        if opcode.name not in OPCODES:
            raise RefusedPickleError(f"refused: {opcode.name} at byte {position} is not plain data")
        # The unpickler's memo is an array as long as its largest index: 6 bytes could ask for 64 GB.
        if opcode.name == "LONG_BINPUT" and (not isinstance(argument, int) or argument > (position or 0)):
            raise RefusedPickleError(DAMAGED)
        if count > MAX_OPCODES:
            raise RefusedPickleError(f"refused: more than {MAX_OPCODES} items")
        yield opcode.name, argument


@dataclass(slots=True)
class Cut:
    """What stands before the cut: the outermost object, and the identities of the containers that the cut left open."""

    value: Any
    is_open: set[int] = field(default_factory=set)


def load_cut(raw: bytes) -> Cut | None:
    """What can be built of a pickle that was cut off; None when that is nothing. RefusedPickleError as for `load_plain`."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for name, argument in _opcodes(raw):
            _do(name, argument, stack, memo)
    except _CutError:
        pass
    except (LookupError, TypeError, AttributeError, ValueError, MemoryError) as error:
        if isinstance(error, RefusedPickleError):
            raise
        return None
    return _closed(stack)


_MARK: Final = object()
_VALUES: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _do(name: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """One opcode upon the stack; raises what lists and dictionaries raise when it does not fit."""
    if name in {"PROTO", "FRAME", "STOP"}:
        return
    if name == "MARK":
        stack.append(_MARK)
    elif name == "EMPTY_DICT":
        stack.append({})
    elif name == "EMPTY_LIST":
        stack.append([])
    elif name in _VALUES:
        stack.append(_VALUES[name])
    elif name in {"BINPUT", "LONG_BINPUT", "MEMOIZE"}:
        memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
    elif name in {"BINGET", "LONG_BINGET"}:
        stack.append(memo[argument])
    elif name in _TUPLES:
        items = _pop(stack, _TUPLES[name])
        stack.append(tuple(items))
    elif name in {"TUPLE", "APPENDS", "SETITEMS"}:
        items = _pop_to_mark(stack)
        if name == "TUPLE":
            stack.append(tuple(items))
        else:
            _put(stack[-1], items)
    elif name == "APPEND":
        _put(stack[-2], _pop(stack, 1))
    elif name == "SETITEM":
        items = _pop(stack, 2)
        _put(stack[-1], items)
    else:
        stack.append(argument)


def _pop(stack: list[Any], number: int) -> list[Any]:
    if len(stack) < number:
        raise IndexError
    items = stack[len(stack) - number :]
    del stack[len(stack) - number :]
    return items


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    at = len(stack) - 1
    while stack[at] is not _MARK:
        at -= 1
        if at < 0:
            raise IndexError
    items = stack[at + 1 :]
    del stack[at:]
    return items


def _put(container: Any, items: list[Any]) -> None:
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        container.update(zip(items[::2], items[1::2], strict=False))
    else:
        raise TypeError


def _closed(stack: list[Any]) -> Cut | None:
    """The outermost object, with all that was still open put into what it belongs to; a key without a value is dropped."""
    # A container that was just begun has no mark yet.
    is_open = {id(top) for top in stack[-1:] if isinstance(top, list | dict) and not top}
    while len(stack) > 1:
        items: list[Any] = []
        while stack and stack[-1] is not _MARK and not (isinstance(stack[-1], list | dict) and len(stack) == 1):
            items.append(stack.pop())
        items.reverse()
        if stack and stack[-1] is _MARK:
            stack.pop()
        if not stack or not isinstance(stack[-1], list | dict):
            continue
        is_open.add(id(stack[-1]))
        try:
            _put(stack[-1], items)
        except TypeError:
            return None
    return Cut(stack[0], is_open) if stack and isinstance(stack[0], list | dict) and stack[0] else None
