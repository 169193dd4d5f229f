"""Does the answer stay the same when people hand the same logs over in another wrapping?

    python benchmarks/wraps.py FOLDER [--only plain] [--every 3] [--wrap NAME ...] [--keep DIR]

FOLDER holds bundles, one folder each, with `bundle.tar.gz` in it. Each is analysed as it is, then once in each wrapping: other line ends
and encodings, each file compressed, folders flattened, all text in one file as `tail` and `grep` print it, labels of `srun -l`, colours, syslog in
the forms of journalctl and of RFC 5424, logs of programs as Docker keeps them. Cause, host, device and switch of the answers are compared.
The last line is the share of the same answers; exit code 1 when it is below 0.98.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import shutil
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from postmortem.incident import Options, open_incident

GOAL: Final = 0.98
Files = dict[str, bytes]
SYSLOG: Final = re.compile(
    r"^(?P<ts>20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})) (?P<host>[^ ]+) (?P<tag>[^ :\[]+)(?:\[(?P<pid>[0-9]+)\])?: (?P<rest>.*)$"
)
STAMP: Final = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9]")


def is_text(name: str, data: bytes) -> bool:
    """A file of lines, no archive, JSON document, table or pickle."""
    return (
        not re.search(r"\.(?:tar|gz|tgz|xz|zip|json|csv|parquet|pkl)$|trace_rank_[0-9]+$", name) and b"\0" not in data
    )


def is_program(name: str, data: bytes) -> bool:
    """The output of ranks, of their launcher or of the trainer."""
    return is_text(name, data) and bool(re.search(r"rank_?[0-9]+|torchrun|train\.log|deepspeed|nccl\.", name))


def each(
    change: Callable[[str, bytes], bytes], which: Callable[[str, bytes], bool] = is_text
) -> Callable[[Files], Files]:
    """The wrapping that changes files one by one."""
    return lambda files: {n: change(n, d) if which(n, d) else d for n, d in files.items()}


def by_line(change: Callable[[str], str], which: Callable[[str, bytes], bool] = is_text) -> Callable[[Files], Files]:
    """The wrapping that changes lines one by one."""

    def whole(_: str, data: bytes) -> bytes:
        return "".join(f"{change(line)}\n" for line in data.decode("utf-8", "replace").splitlines()).encode()

    return each(whole, which)


def packed(files: Files) -> Files:
    """Each file by itself as logrotate leaves it."""
    return {f"{n}.gz" if is_text(n, d) else n: gzip.compress(d) if is_text(n, d) else d for n, d in files.items()}


def flat(files: Files) -> Files:
    """All files in one folder, its name put before theirs."""
    return {n.replace("/", "_"): d for n, d in files.items()}


def joined(line: Callable[[str, int, str], str], head: str = "") -> Callable[[Files], Files]:
    """All text in one file; `line` makes its lines from path, number and text."""

    def wrap(files: Files) -> Files:
        out = io.StringIO()
        for name, data in sorted(files.items()):
            if is_text(name, data) and not name.endswith((".jsonl", "ibnetdiscover.txt", "sacct.txt")):
                if head:
                    out.write(head.format(name))
                for number, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
                    out.write(line(name, number, text) + "\n")
        rest = {
            n: d
            for n, d in files.items()
            if not is_text(n, d) or n.endswith((".jsonl", "ibnetdiscover.txt", "sacct.txt"))
        }
        return {**rest, "all.txt": out.getvalue().encode()}

    return wrap


def _journal_json(line: str) -> str:
    found = SYSLOG.match(line)
    if not found:
        return line
    micros = round(datetime.fromisoformat(found["ts"]).timestamp() * 1e6)
    fields = {
        "__REALTIME_TIMESTAMP": str(micros),
        "_HOSTNAME": found["host"],
        "SYSLOG_IDENTIFIER": found["tag"],
        "MESSAGE": found["rest"],
    }
    fields |= {"_TRANSPORT": "kernel"} if found["tag"] == "kernel" else {"_PID": found["pid"] or "1"}
    return json.dumps(fields)


def _rfc5424(line: str) -> str:
    found = SYSLOG.match(line)
    return (
        f"<30>1 {found['ts']} {found['host']} {found['tag']} {found['pid'] or '-'} - - {found['rest']}"
        if found
        else line
    )


def _short(line: str) -> str:
    """`journalctl -o short`: no year, no zone."""
    found = SYSLOG.match(line)
    if not found:
        return line
    at = datetime.fromisoformat(found["ts"]).astimezone(UTC)
    pid = f"[{found['pid']}]" if found["pid"] else ""
    return f"{at:%b %d %H:%M:%S} {found['host']} {found['tag']}{pid}: {found['rest']}"


def docker(files: Files) -> Files:
    """Docker's json-file, for logs that show when their lines were printed."""

    def wrap(_: str, data: bytes) -> bytes:
        lines, now = [], ""
        for line in data.decode("utf-8", "replace").splitlines():
            if found := STAMP.search(line):
                now = found[0].replace(" ", "T") + ".000000000Z"
            lines.append(json.dumps({"log": line + "\n", "stream": "stderr", "time": now}) if now else line)
        return "".join(f"{line}\n" for line in lines).encode()

    return each(wrap, is_program)(files)


def labelled(files: Files) -> Files:
    """Output of ranks as `srun -l` labels it."""
    out: Files = {}
    for name, data in files.items():
        rank = re.search(r"rank_?0*([0-9]+)\.log$", name)
        if rank and is_text(name, data):
            data = "".join(
                f"{int(rank[1]):2}: {line}\n" for line in data.decode("utf-8", "replace").splitlines()
            ).encode()
        out[name] = data
    return out


WRAPS: Final[dict[str, Callable[[Files], Files]]] = {
    "CRLF": by_line(lambda line: line + "\r"),
    "UTF-16": each(lambda _, data: data.decode("utf-8", "replace").encode("utf-16")),
    "gz": packed,
    "flat": flat,
    "tail": joined(lambda _n, _k, text: text, "\n==> {} <==\n"),
    "grep -r": joined(lambda name, _, text: f"{name}:{text}"),
    "grep -rn": joined(lambda name, k, text: f"{name}:{k}:{text}"),
    "srun -l": labelled,
    "colours": by_line(lambda line: f"\x1b[36m{line}\x1b[0m", is_program),
    "blanks": by_line(lambda line: "    " + line),
    "quoted": by_line(lambda line: "> " + line),
    "bare": by_line(str.strip),
    "journal json": by_line(_journal_json),
    "journal short": by_line(_short),
    "RFC 5424": by_line(_rfc5424),
    "Docker": docker,
}


def answer(files: Files, folder: Path) -> dict[str, str | None]:
    """Cause, sureness and who of the first answer."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with open_incident([folder], Options(workers=1, context=False)) as incident:
        verdict = incident.analysis.verdict
        who = verdict.culprit
        device = who and (who.pci or who.dev or who.gpu)
        keys = {"host": who and who.host, "device": device, "switch": who and who.switch, "port": who and who.port}
        found = {k: str(v) if v is not None else None for k, v in keys.items()}
        return {"cause": verdict.cause, **found, "confidence": f"{verdict.confidence:.2f}"}


def bundles(folder: Path, only: str) -> Iterator[tuple[str, Files]]:
    """(name, files) of each bundle."""
    for path in sorted(folder.glob(f"*{only}*/bundle.tar.gz")):
        with tarfile.open(path) as whole:
            files = {}
            for member in whole.getmembers():
                if member.isfile() and (stream := whole.extractfile(member)):
                    files[member.name.removeprefix("bundle/")] = stream.read()
        yield path.parent.name, files


def main() -> int:
    """Print what differs, then the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the bundles' names")
    parser.add_argument("--every", type=int, default=1, help="take each n-th")
    parser.add_argument("--wrap", action="append", choices=list(WRAPS))
    parser.add_argument("--keep", type=Path, help="keep what differs here")
    args = parser.parse_args()
    same: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for name, files in list(bundles(args.folder, args.only))[:: args.every]:
        with tempfile.TemporaryDirectory() as work:
            plain = answer(files, Path(work, "b"))
        for wrap in args.wrap or WRAPS:
            wrapped = WRAPS[wrap](files)
            # What Docker would have noted as time is made of the program's own, which is no UTC where clocks are skewed.
            if wrapped == files or (wrap == "Docker" and name.startswith("skew")):
                continue
            with tempfile.TemporaryDirectory() as work:
                found = answer(wrapped, Path(work, "b"))
                tried[wrap] += 1
                differing = [k for k in plain if k != "confidence" and plain[k] != found[k]]
                same[wrap] += not differing
                if differing:
                    print(f"{name}, {wrap}: {plain} → {found}", flush=True)
                    if args.keep:
                        shutil.copytree(
                            Path(work, "b"), args.keep / f"{name}-{wrap.replace(' ', '_')}", dirs_exist_ok=True
                        )
    for wrap, count in tried.items():
        print(f"{wrap}: {same[wrap]} of {count}")
    share = same.total() / max(tried.total(), 1)
    print(f"same answers: {same.total()} of {tried.total()} ({share:.3f})")
    return int(share < GOAL)


if __name__ == "__main__":
    sys.exit(main())
