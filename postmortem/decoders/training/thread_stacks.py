"""Stacks of all threads of a process, dumped from outside or by Python itself -> `stacks`, one row per thread.

    Process 14653: python3 train.py --rank=3        (py-spy dump, also of several processes; --native, --locals, --json)
    Python v3.11.7 (/usr/bin/python3.11)

    Thread 14653 (idle): "MainThread"
        all_reduce (torch/distributed/distributed_c10d.py:2501)
        clock_nanosleep (libc.so.6)

    Thread 3 (Thread 0x7f7945bc56c0 (LWP 14696) "python3"):            (gdb: thread apply all bt)
    #1  0x00007f7946e50a40 in _PyEval_EvalFrame (throwflag=0) at ./Include/internal/pycore_ceval.h:73
    TID 14696:                                                         (eu-stack)
    #0  0x00007f7946aed545 __clock_nanosleep
    Current thread 0x00007f4373248b80 (most recent call first):        (faulthandler)
      File "train.py", line 5 in step
    Traceback for thread 2175 (python3.12) [Has the GIL] (most recent call last):   (pystack)
        (Python) File "/usr/lib/python3.12/threading.py", line 1032, in _bootstrap

Read from py-spy 0.4 (src/dump.rs, src/stack_trace.rs) and from what the other programs printed. The rank comes from a heading (`rank 3`)
or the command line (`--rank=3`, `RANK=3`), else from the file's name; a local rank is none. Dumps carry no time.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, Hints, MemberLike, Row, read_text, whole
from postmortem.patterns import later

MAX_THREADS: Final = 100_000
MAX_FRAMES: Final = 64
"""Innermost frames kept of a thread."""

_MAX_LINE: Final = 600
_HEAD_LINES: Final = 12
_ANSI: Final = later(r"\x1b\[[0-9;]*m")
_PROCESS: Final = later(r"(?:Process|PID) ([0-9]{1,10})(?:: (.*)| - process.*)?$")
_PYTHON: Final = later(r"Python v[0-9]+\.[0-9]+\S* \(.*\)$")
_THREADS: Final = (
    later(r'Thread (?P<id>0x[0-9A-Fa-f]+|[0-9]+)(?: \((?P<state>idle|active|gil|active\+gil)\))?(?:: "(?P<name>.*)")?$'),
    later(r'Thread (?P<n>[0-9]+) \((?:Thread 0x[0-9a-f]+ )?\(?LWP (?P<id>[0-9]+)\)?(?: "(?P<name>.*)")?(?: \(Exiting\))?\)?:$'),
    later(r"TID (?P<id>[0-9]+):$"),
    later(
        r"(?P<state>Current )?[Tt]hread (?P<id>0x[0-9a-f]+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):$"
    ),
    later(
        r"Traceback for thread (?P<id>[0-9]+) \((?P<name>[^)]*)\) \[(?P<state>[^\]]*)\] \((?P<last>most recent call last)\):$"
    ),
)  # fmt: skip
_FRAMES: Final = (
    later(r" {4}(?P<function>\S.*) \((?P<file>[^()]*(?:\([^()]*\))?[^()]*)\)$"),
    later(r"#[0-9]+ +(?:0x[0-9a-f]+ (?:in )?)?(?P<function>.+?)(?: \(.*\))?(?: (?:at|from|-) (?P<file>\S+))?$"),
    later(r' +(?:\((?:Python|C)\) )?File "(?P<path>[^"]*)", line (?P<at>[0-9?]+),? in (?P<function>.+)$'),
    later(r" {4}(?P<function>[A-Za-z_0-9:.<>~]+)$"),
)
_HEADINGS: Final = ("Thread ", "TID ", "Current thread ", "Traceback for thread ")
_EXTRA: Final = later(
    r" {8,}|\s*$|-{3,}$|Parent Process [0-9]|\.\.\.$|\(More stack frames follow|\[(?:New LWP|Thread debugging|Inferior |Detaching)|warning: |Using host libthread_db|0x[0-9a-f]+ in "
)
_RANK: Final = later(r"(?:^|[^A-Za-z_-])(?:--)?rank[\s=:_-]{0,2}([0-9]{1,6})\b", re.IGNORECASE)
_HOST: Final = later(r"\b(?:host|hostname|node)\s*[:=]\s*([A-Za-z][A-Za-z0-9.-]{0,62})", re.IGNORECASE)
_NO_HEADING: Final = later(r"[0-9]:[0-5][0-9]:[0-5][0-9]|Traceback \(most|Error\b|Fatal |^.{400}")
_JSON: Final = later(r'\s*\[\s*\{\s*"pid"\s*:\s*[0-9]+\s*,\s*"thread_id"\s*:\s*[0-9]+\s*,')
_JSON_THREAD: Final = later(r'\{\s*"pid"\s*:\s*[0-9]+\s*,\s*"thread_id"')
_DECODER: Final = json.JSONDecoder()


def looks_like_stacks(head: str) -> bool:
    """A heading of a process or thread near the top, and mostly frames below it: a log that quotes a stack is none."""
    if not any(word in head for word in _HEADINGS):
        return False
    lines = [_ANSI.sub("", line[:_MAX_LINE]).rstrip() for line in head.split("\n")[:1000]]
    begin = next((i for i, line in enumerate(lines) if _thread(line)), None)
    if begin is None:
        return False
    above = [line for line in lines[:begin] if not _EXTRA.match(line) and not line[:1].isspace()]
    if len(above) > _HEAD_LINES or any(_NO_HEADING.search(line) for line in above):
        return False
    body = [line for line in lines[begin:] if line]
    frames = sum(1 for line in body if _frame(line) and not _thread(line))
    others = sum(
        1 for line in body if not (_thread(line) or _frame(line) or _EXTRA.match(line) or _PROCESS.match(line))
    )
    return frames > 0 and others * 4 <= len(body)


def looks_like_json(head: str) -> bool:
    """A list of py-spy's traces."""
    return _JSON.match(head) is not None


@dataclass(slots=True)
class _Thread:
    """What a heading says of a thread, and its frames, innermost first."""

    line: int
    thread: str
    name: str | None
    state: str | None
    is_last_first: bool = False
    is_main: bool = False
    frames: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def add(self, function: str, place: str | None) -> None:
        """Take a frame; of a stack printed outermost first the first ones give way."""
        if len(self.frames) >= MAX_FRAMES:
            if not self.is_last_first:
                return
            del self.frames[0], self.functions[0]
        self.functions.append(function[:300])
        self.frames.append(f"{function[:300]} ({place})" if place else function[:300])


@dataclass(slots=True)
class _Owner:
    """Whose threads follow: `headed` is the rank of a heading that no process has taken yet, `first` the row of its first thread."""

    host: str | None
    rank: int | None
    pid: int | None = None
    headed: int | None = None
    first: int = 0


def decode_stacks(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `stacks`. A Python loop: a frame belongs to the heading above it, and dumps have some thousand lines."""
    decoded = Decoded()
    owner = _Owner(hints.host, hints.rank, headed=hints.rank)
    rows: list[Row] = []
    current: _Thread | None = None
    for number, raw in enumerate(read_text(member, decoded).split("\n"), 1):
        line = _ANSI.sub("", raw[: _MAX_LINE * 4]).rstrip()
        if found := _thread(line):
            _finish(rows, current, owner, member)
            current = _Thread(
                number,
                found["id"],
                found.get("name") or None,
                (found.get("state") or "").strip() or None,
                is_last_first="last" in found,
                is_main=found.get("n") == "1",
            )
        elif current is not None and (frame := _frame(line)):
            current.add(*frame)
        elif line and not _EXTRA.match(line):
            _finish(rows, current, owner, member)
            current = None
            _learn(owner, line)
    _finish(rows, current, owner, member)
    _put(decoded, rows)
    return decoded


def decode_json(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of `stacks` from `py-spy dump --json`; dumps of several processes may follow one another."""
    decoded = Decoded()
    text = read_text(member, decoded)
    breaks = [m.start() for m in re.finditer("\n", text)]
    rows: list[Row] = []
    at = failed = 0
    while (begin := _JSON_THREAD.search(text, at)) and len(rows) < MAX_THREADS and failed < 20:
        try:
            trace, at = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            at, failed = begin.end(), failed + 1
            continue
        thread = _of_json(trace, bisect_right(breaks, begin.start()) + 1)
        owner = _Owner(hints.host, hints.rank, whole(trace.get("pid")))
        info = trace.get("process_info")
        command = info.get("command_line") if isinstance(info, dict) else None
        owner.rank = _rank_in(command) if isinstance(command, str) and _rank_in(command) is not None else owner.rank
        _finish(rows, thread, owner, member)
    if failed:
        decoded.notes.append(f"{failed} stacks that are cut off or damaged")
    _put(decoded, rows)
    return decoded


def _of_json(trace: dict[str, Any], line: int) -> _Thread:
    is_active, has_gil = trace.get("active") is True, trace.get("owns_gil") is True
    state = "active+gil" if is_active and has_gil else "active" if is_active else "idle"
    name = trace.get("thread_name")
    number = whole(trace.get("os_thread_id")) or whole(trace.get("thread_id"))
    thread = _Thread(line, str(number), name[:200] if isinstance(name, str) else None, state)
    frames = trace.get("frames")
    for frame in frames[:MAX_FRAMES] if isinstance(frames, list) else []:
        if isinstance(frame, dict) and isinstance(frame.get("name"), str):
            file, at = frame.get("short_filename") or frame.get("filename"), whole(frame.get("line"))
            place = f"{file}:{at}" if at else file
            thread.add(frame["name"], place[:300] if isinstance(place, str) else None)
    return thread


def _put(decoded: Decoded, rows: list[Row]) -> None:
    if len(rows) >= MAX_THREADS:
        decoded.notes.append(f"only the first {MAX_THREADS} threads were kept")
    decoded.put("stacks", rows[:MAX_THREADS])


def _finish(rows: list[Row], thread: _Thread | None, owner: _Owner, member: MemberLike) -> None:
    if thread is None or len(rows) > MAX_THREADS:
        return
    if thread.is_last_first:
        thread.frames.reverse()
        thread.functions.reverse()
    pid = owner.pid
    if thread.is_main:
        # gdb numbers the main thread 1 and prints it last; its thread id is that of the process.
        pid = whole(thread.thread)
        for row in rows[owner.first :]:
            row["pid"] = pid
        owner.first = len(rows) + 1
    rows.append(
        {
            "host": owner.host,
            "pid": pid,
            "rank": owner.rank,
            "thread": thread.thread,
            "name": thread.name,
            "state": thread.state,
            "function": thread.functions[0] if thread.functions else None,
            "frames": "\n".join(thread.frames) or None,
            "file": member.name,
            "line": thread.line,
        }
    )


def _learn(owner: _Owner, line: str) -> None:
    """What a line between stacks says of those below it: a process with its command, a rank, a host."""
    process = _PROCESS.match(line)
    if process:
        owner.pid = int(process[1])
        named = _rank_in(process[2] or "")
        # A heading above a process counts for that one alone.
        owner.rank, owner.headed = named if named is not None else owner.headed, None
    elif not _PYTHON.match(line) and len(line) < 200:
        rank, host = _rank_in(line), _HOST.search(line)
        if rank is not None:
            owner.rank = owner.headed = rank
        owner.host = host[1] if host else owner.host


def _rank_in(text: str) -> int | None:
    found = _RANK.search(text)
    return int(found[1]) if found else None


def _thread(line: str) -> dict[str, str] | None:
    if not line.startswith(_HEADINGS):
        return None
    found = next((m for pattern in _THREADS if (m := pattern.match(line))), None)
    return {k: v for k, v in found.groupdict().items() if v is not None} if found else None


def _frame(line: str) -> tuple[str, str | None] | None:
    """(function, file and line) of a frame."""
    for pattern in _FRAMES:
        if found := pattern.match(line):
            parts = found.groupdict()
            place = f"{parts['path']}:{parts['at']}" if parts.get("path") is not None else parts.get("file")
            return parts["function"], place
    return None


FORMATS: Final = (
    Format(
        "py_spy_json",
        "stacks of all threads of Python processes as JSON",
        "py-spy dump --json",
        "benfred/py-spy src/stack_trace.rs",
        lambda head: looks_like_json(head.text),
        decode_json,
        in_section=True,
    ),
    Format(
        "thread_stacks",
        "stacks of all threads of a process",
        "py-spy dump, gdb thread apply all bt, eu-stack, faulthandler, pystack",
        "benfred/py-spy src/dump.rs; python/cpython Python/traceback.c; bloomberg/pystack",
        lambda head: looks_like_stacks(head.text),
        decode_stacks,
        in_section=True,
    ),
)
