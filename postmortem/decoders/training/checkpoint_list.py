"""Listings of a folder of checkpoints -> events `train.checkpoint_done` with the time of the newest file of each.

    drwxr-xr-x 2 user group 4096 Mar  1 10:11 iter_0001000                ls -l, ls -lR, ls -la --time-style=long-iso or full-iso, find -ls
    2026-03-01 10:11:12   1342177280 run/global_step500/mp_rank_00.pt     aws s3 ls --recursive, in the machine's own zone
     1342177280  2026-03-01T10:11:12Z  gs://bucket/run/step-500/model     gsutil ls -l, UTC

What a listing shows is that files are there. So a step is left out when its folder was listed with PyTorch's `*.distcp` but without `.metadata`,
which is written last (and which `ls` shows with -a alone). Times of `ls` are local; of a file older than half a year it prints a date without a time. `durable` is true
for object stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, evidence, read_text, stamp
from postmortem.patterns import later

MAX_CHECKPOINTS: Final = 100_000
_MAX_LINE: Final = 1_000
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_LEAP_YEAR: Final = 1972
"""Stands for a year that is not printed."""

_LS: Final = later(
    r"(?:\s*[0-9]+\s+[0-9]+\s+)?(?P<mode>[-dl][-rwxsStT]{9})[.+@]?\s+[0-9]+\s+\S+\s+(?:\S+\s+)?[0-9][0-9.,]*[KMGTP]?B?\s+"
    r"(?:(?P<month>[A-Z][a-z]{2})\s+(?P<day>[0-9]{1,2})\s+(?:(?P<clock>[0-9]{1,2}:[0-9]{2})|(?P<year>[0-9]{4}))"
    r"|(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) (?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.[0-9]+)?(?: (?P<zone>[+-][0-9]{4}))?)"
    r"\s+(?P<path>\S.*)$"
)
_S3: Final = later(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) (?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})\s+[0-9][0-9.]*(?: [KMGTP]?i?B(?:ytes)?)?\s+(?P<path>\S+)$"
)
_GS: Final = later(
    r"\s*[0-9]+\s+(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?P<zone>Z)\s+(?P<path>gs://\S.*)$"
)
_FORMS: Final = (_LS, _S3, _GS)
_LISTED: Final = later(
    r"(?:\s*[0-9]+\s+[0-9]+\s+)?[-dl][-rwxsStT]{9}[.+@]?\s|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\s+[0-9]|\s*[0-9]+\s+[0-9]{4}-[0-9]{2}-[0-9]{2}T"
)
"""How an entry of any of the forms begins: asked first, since it spares all lines of other files."""

_HEADING: Final = later(r"(?P<folder>[./~A-Za-z][^:*?\"<>|]*):$")
_BESIDE: Final = later(
    r"total(?: [0-9.,]+[KMGTP]?)?$|\s+PRE |\s*$|TOTAL: |Total (?:Objects|Size): |[^ ]*[$#] |gs://\S+[/:]$"
)
_STEP: Final = later(
    r"(?:^|/)(?P<path>(?:iter_(?P<a>[0-9]{3,12})|(?:global_?)?step[-_=]?(?P<b>[0-9]{1,12})(?:-unsharded)?|checkpoint[-_](?P<c>[0-9]{1,12})"
    r"|ep(?:och)?[-_=]?[0-9]+-(?:ba|step=)(?P<d>[0-9]{1,12})(?:-[^/]*|\.ckpt)?|ckpt[-_](?P<e>[0-9]{1,12})|model[-_.]ckpt-(?P<f>[0-9]{1,12}))"
    r"(?:\.(?:pt|pth|ckpt|distcp|bin|safetensors|tar))?)(?=/|$)"
)


def looks_like_listing(head: str) -> bool:
    """Nearly all lines are of a listing, and one of them at least is a checkpoint's."""
    lines = [line[:_MAX_LINE] for line in head.split("\n")[:400]]
    if not any(_LISTED.match(line) for line in lines):
        return False
    lines = lines[:-1] if len(head) >= 16_000 else lines
    filled = [line for line in lines if line.strip()]
    found = [_entry(line) for line in filled]
    entries = [entry for entry in found if entry]
    beside = sum(
        1
        for line, entry in zip(filled, found, strict=True)
        if not entry and (_BESIDE.match(line) or _HEADING.match(line))
    )
    if not entries or (len(filled) - len(entries) - beside) * 10 > len(filled):
        return False
    folders = [heading["folder"] for line in filled if (heading := _HEADING.match(line))]
    return any(_STEP.search(e["path"].rstrip("/")) for e in entries) or any(map(_STEP.search, folders))


@dataclass(slots=True)
class _Checkpoint:
    """A step's files: the newest with its time and line, and which kinds there are."""

    step: int
    path: str
    line: int = 0
    text: str = ""
    when: datetime | None = None
    resolution_us: int = 1_000_000
    has_shards: bool = False
    has_metadata: bool = False
    is_stored: bool = False

    @property
    def has_year(self) -> bool:
        """Whether the year was printed."""
        return self.when is not None and self.when.year != _LEAP_YEAR


def decode_listing(member: MemberLike) -> Decoded:
    """Rows of events, one per checkpoint, in the order of the listing. A Python loop: entries belong to the folder above them."""
    decoded = Decoded()
    found: dict[str, _Checkpoint] = {}
    shows_hidden = False
    for number, folder, line, entry in _entries(read_text(member, decoded)):
        path = entry["path"].split(" -> ")[0].rstrip("/")
        # `ls` without -a leaves out `.metadata`; what has paths instead of names leaves out nothing.
        shows_hidden |= "mode" not in entry or "/" in path or path.startswith(".")
        if path == "..":
            continue
        whole_path = f"{folder.rstrip('/')}/{path}" if folder and not path.startswith(("/", "gs://")) else path
        step = _STEP.search(whole_path)
        if step is None or (len(found) >= MAX_CHECKPOINTS and whole_path[: step.end()] not in found):
            continue
        value = next(int(v) for k in "abcdef" if (v := step[k]) is not None)
        one = found.setdefault(whole_path[: step.end()], _Checkpoint(value, whole_path[: step.end()]))
        one.has_shards |= path.endswith(".distcp")
        one.has_metadata |= path.rsplit("/", 1)[-1] in {".metadata", "metadata.json"}
        one.is_stored |= "mode" not in entry
        when, resolution = _time(entry)
        if when is not None and (one.when is None or _age(when) >= _age(one.when)):
            one.when, one.resolution_us, one.line, one.text = when, resolution, number, line
    begun = {p for p, c in found.items() if shows_hidden and c.has_shards and not c.has_metadata}
    rows = [_row(member, c) for p, c in found.items() if c.when and p not in begun]
    if begun:
        decoded.notes.append(f"checkpoints without their metadata, not complete: {len(begun)}")
    decoded.put("events", rows)
    return decoded


def _row(member: MemberLike, one: _Checkpoint) -> Row:
    return {
        **evidence(member, one.line, one.text, "trainer"),
        **stamp(one.when, one.resolution_us),
        "stamp_has_year": one.has_year,
        "event": "train.checkpoint_done",
        "severity": "info",
        "step": one.step,
        "path": one.path[:_MAX_LINE],
        "durable": True if one.is_stored else None,
    }


def _age(when: datetime) -> tuple[bool, datetime]:
    """What times are ordered by: `ls` leaves the year out of recent ones."""
    return when.year == _LEAP_YEAR, when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when


def _entries(text: str) -> Iterator[tuple[int, str, str, dict[str, str]]]:
    """(line number, folder that the listing names above it, line, fields) of each entry."""
    folder = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:_MAX_LINE].rstrip("\r")
        if entry := _entry(line):
            yield number, folder, line, entry
        elif heading := _HEADING.match(line):
            folder = heading["folder"]


def _entry(line: str) -> dict[str, str] | None:
    found = next((m for form in _FORMS if (m := form.match(line))), None)
    return {k: v for k, v in found.groupdict().items() if v is not None} if found else None


def _time(entry: dict[str, str]) -> tuple[datetime | None, int]:
    """The time of an entry and its resolution; the year is a leap year's where none is printed."""
    zone = entry.get("zone", "").replace("Z", "+0000")
    if "date" in entry:
        clock = entry["time"] if entry["time"].count(":") == 2 else entry["time"] + ":00"
        resolution = 1_000_000 if entry["time"].count(":") == 2 else 60_000_000
        text, form = f"{entry['date']} {clock}{zone}", "%Y-%m-%d %H:%M:%S" + ("%z" if zone else "")
    elif entry["month"] in _MONTHS:
        year, clock = entry.get("year", str(_LEAP_YEAR)), entry.get("clock", "00:00")
        resolution = 60_000_000 if "clock" in entry else 86_400_000_000
        month = _MONTHS.index(entry["month"]) + 1
        text, form = f"{year}-{month:02d}-{int(entry['day']):02d} {clock}", "%Y-%m-%d %H:%M"
    else:
        return None, 0
    try:
        return datetime.strptime(text, form), resolution
    except ValueError:
        return None, 0


FORMATS: Final = (
    Format(
        "checkpoint_list",
        "listing of a folder of checkpoints: which steps there are, and since when",
        "ls -l, ls -lR, find -ls, aws s3 ls, gsutil ls -l",
        "GNU coreutils ls; names of Megatron-LM, DeepSpeed, transformers, Lightning, Composer, OLMo",
        lambda head: looks_like_listing(head.text),
        lambda member, hints: decode_listing(member),
        in_section=True,
    ),
)
