"""How often is the answer right? Holds verdicts against incidents with known causes.

    python benchmarks/accuracy.py FOLDER [FOLDER ...] [-j 2] [--save ANSWERS] [--same-as ANSWERS] [--page FILE]

A FOLDER holds labelled incidents: folders with a case.json or truth.json (`cause`, `also_accept`, `log_sufficient`, `culprit`,
`culprit_key`, `key_evidence`, `not_the_cause`; `files` beside it, or `bundle` or bundle.tar.gz). Each is copied to a path that tells
nothing, and analysed as `postmortem analyze` does.

Printed, per FOLDER: per cause the incidents, the share whose first and whose first three findings name an accepted cause, the culprits
named and the mean confidence; which wrong cause was named for which; calibration in ten bins and the expected calibration error over
answers that name a cause; false blame: incidents in which nothing failed (none, cancelled, preempted, job_timeout) with another cause of
confidence 0.4 or more, and incidents whose logs can't settle it with a named cause of 0.7 or more; the share in which the first finding
cites a line that matters. --same-as compares the causes with those of an earlier --save, incident by incident (their folders' names).
--page writes the same as a page of the documentation.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from fit_confidence import incidents, unpacked

from postmortem.incident import Options, open_incident
from postmortem.report.document import to_document

QUIET: Final = frozenset({"none", "cancelled", "preempted", "job_timeout"})
NAMES_NOTHING: Final = frozenset({"none", "unknown"})
BLAME: Final = 0.4
"""From this confidence on an answer blames."""
SURE: Final = 0.7
"""The same where the logs can't settle it."""
BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """What one analysis said, held against the truth; `key_line` and `culprit` are None where the truth has none."""

    name: str
    truth: str
    said: str
    confidence: float
    right: bool
    in_three: bool
    sufficient: bool
    quiet: bool
    culprit: bool | None
    key_line: bool | None
    consequence: bool | None


def answer(truth: dict[str, Any], folder: Path) -> Answer:
    """Analyse one labelled incident."""
    with tempfile.TemporaryDirectory(prefix="accuracy-") as work:
        bundle = unpacked(truth, folder, Path(work))
        with open_incident([bundle], Options(workers=1)) as incident:
            document: dict[str, Any] = json.loads(json.dumps(to_document(incident.analysis, "")))
    return judged(truth, folder.name, document)


def judged(truth: dict[str, Any], name: str, document: dict[str, Any]) -> Answer:
    """The answer of a document, right or wrong."""
    accepted = {truth["cause"], *truth.get("also_accept", [])}
    sufficient = bool(truth.get("log_sufficient", True))
    findings = document["findings"]
    said, confidence = document["verdict"]["cause"], float(document["verdict"]["confidence"] or 0.0)
    if said not in NAMES_NOTHING and confidence < BLAME and truth["cause"] in NAMES_NOTHING:
        said = truth["cause"]
    names = [said, *(f["cause"] for f in findings)] if said in NAMES_NOTHING else [f["cause"] for f in findings]
    key_line = consequence = None
    if truth.get("key_evidence") and sufficient and said not in NAMES_NOTHING and findings:
        rows = findings[0]["evidence"]
        first = next((r for r in rows if r["role"] == "cause"), rows[0] if rows else {"text": ""})
        key_line = any(_squeezed(k) in _squeezed(r["text"]) for k in truth["key_evidence"] for r in rows)
        consequence = any(_squeezed(k) in _squeezed(first["text"]) for k in truth.get("not_the_cause") or [])
    culprit = None
    if truth.get("culprit") and sufficient:
        finding = next((f for f in findings[:3] if f["cause"] in accepted), None)
        culprit = finding is not None and names_culprit(truth, finding["culprit"])
    return Answer(
        name,
        truth["cause"],
        said,
        confidence,
        said in accepted,
        said in accepted or any(n in accepted for n in names[:3]),
        sufficient,
        bool(truth.get("quiet", truth["cause"] in QUIET)),
        culprit,
        key_line,
        consequence,
    )


def _squeezed(text: str) -> str:
    return " ".join(str(text).split())


def _host(name: object) -> str:
    return str(name).lower().split(".")[0]


def names_culprit(truth: dict[str, Any], said: dict[str, Any]) -> bool:
    """One of the names that must be right is named, and the host is not another one."""
    real = {k: v for k, v in truth["culprit"].items() if v not in (None, "", [])}
    given = {k: v for k, v in said.items() if v not in (None, "", [])}
    hosts = {_host(real[k]) for k in ("host", "pod") if k in real}
    if hosts and "host" in given and _host(given["host"]) not in hosts:
        return False
    values = {str(v).strip().lower() for v in given.values()}
    for key in truth.get("culprit_key") or real:
        if key in real:
            wanted = str(real[key]).strip().lower()
            if str(given.get(key, "")).strip().lower() == wanted or (len(wanted) > 3 and wanted in values):
                return True
    return False


def share(marks: Iterable[bool | None]) -> str:
    """`0.95 (19 of 20)` over the marks that are not None; `-` when there are none."""
    known = [bool(m) for m in marks if m is not None]
    return f"{sum(known) / len(known):.3f} ({sum(known)} of {len(known)})" if known else "-"


def calibration(answers: Sequence[Answer]) -> tuple[float, list[tuple[str, int, float, float]]]:
    """Expected calibration error, and (bin, incidents, share right, mean confidence) of every filled bin."""
    bins: dict[int, list[Answer]] = defaultdict(list)
    for a in answers:
        if a.said not in NAMES_NOTHING:
            bins[min(BINS - 1, int(a.confidence * BINS))].append(a)
    rows = []
    for k, group in sorted(bins.items()):
        right = sum(a.right for a in group) / len(group)
        sure = sum(a.confidence for a in group) / len(group)
        rows.append((f"{k / BINS:.1f} to {(k + 1) / BINS:.1f}", len(group), right, sure))
    n = sum(row[1] for row in rows)
    return (sum(row[1] * abs(row[2] - row[3]) for row in rows) / n if n else 0.0), rows


def report(title: str, answers: Sequence[Answer]) -> str:
    """One folder's figures as Markdown."""
    error, bins = calibration(answers)
    enough = [a for a in answers if a.sufficient]
    short = [a for a in answers if not a.sufficient]
    wrong = Counter((a.truth, a.said) for a in answers if not a.right)
    figures = [
        ("first finding right, logs sufficient", share(a.right for a in enough)),
        ("one of the first three right, logs sufficient", share(a.in_three for a in enough)),
        ("first finding right, all", share(a.right for a in answers)),
        ("right where a cause is named", share(a.right for a in answers if a.said not in NAMES_NOTHING)),
        ("culprit named", share(a.culprit for a in answers)),
        ("line that matters cited", share(a.key_line for a in answers)),
        ("a mere consequence given as the cause", share(a.consequence for a in answers)),
        ("nothing failed, yet blame", share(a.said not in NAMES_NOTHING and not a.right and a.confidence >= BLAME for a in answers if a.quiet)),
        ("a wrong name, and sure of it", share(not a.right and a.said not in NAMES_NOTHING | {"collective_hang"} and a.confidence >= SURE for a in answers)),
        ("logs can't settle it, yet a sure name", share(a.said not in NAMES_NOTHING | {"collective_hang"} and a.confidence >= SURE for a in short)),
        ("expected calibration error", f"{error:.3f}"),
    ]  # fmt: skip
    lines = [f"## {title}", "", f"{len(answers)} incidents.", "", "| figure | value |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in figures]
    lines += [
        "",
        "| cause | incidents | first | first three | culprit | mean confidence |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    by_cause: dict[str, list[Answer]] = defaultdict(list)
    for a in answers:
        by_cause[a.truth].append(a)
    for cause, group in sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0])):
        n = len(group)
        culprits = [a.culprit for a in group if a.culprit is not None]
        lines.append(
            f"| `{cause}` | {n} | {sum(a.right for a in group) / n:.3f} | {sum(a.in_three for a in group) / n:.3f} "
            f"| {f'{sum(culprits)} of {len(culprits)}' if culprits else '-'} | {sum(a.confidence for a in group) / n:.2f} |"
        )
    if wrong:
        lines += ["", "| truth | first answer | incidents |", "| --- | --- | --- |"]
        lines += [
            f"| `{truth}` | `{said}` | {n} |" for (truth, said), n in sorted(wrong.items(), key=lambda w: (-w[1], w[0]))
        ]
    lines += ["", "| confidence | incidents | right | mean confidence |", "| --- | --- | --- | --- |"]
    lines += [f"| {name} | {n} | {right:.3f} | {sure:.3f} |" for name, n, right, sure in bins]
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, help="take the answers that an earlier run saved instead of running")
    parser.add_argument("--save", type=Path, help="write what was said, one JSON line per incident")
    parser.add_argument("--same-as", type=Path, help="compare with what an earlier run saved")
    parser.add_argument("--page", type=Path, help="write the figures as a page")
    options = parser.parse_args()
    parts: list[str] = []
    everything: list[Answer] = []
    saved = {}
    if options.results:
        for line in options.results.read_text(encoding="utf-8").splitlines():
            one = Answer(**json.loads(line))
            saved[one.name] = one
    with ProcessPoolExecutor(options.jobs) as pool:
        for folder in options.folders:
            found = list(incidents([folder]))
            answers = (
                [saved[place.name] for _, place in found]
                if saved
                else list(pool.map(answer, *zip(*found, strict=True)))
            )
            everything += answers
            parts.append(report(folder.name, answers))
            print(parts[-1], flush=True)
    if len(parts) > 1:
        parts.append(report("all together", everything))
        print(parts[-1], flush=True)
    if options.save:
        options.save.write_text("".join(json.dumps(asdict(a)) + "\n" for a in everything), encoding="utf-8")
    if options.same_as:
        before = {
            a["name"]: a["said"] for a in map(json.loads, options.same_as.read_text(encoding="utf-8").splitlines())
        }
        print("same answer as before:", share(before[a.name] == a.said for a in everything if a.name in before))
        for a in everything:
            if a.name in before and before[a.name] != a.said:
                print(f"  {a.name}: {before[a.name]} became {a.said}")
    if options.page:
        options.page.write_text(_HEAD + "\n".join(parts), encoding="utf-8")
    return 0


_HEAD: Final = """\
<!-- Generated by `python benchmarks/accuracy.py FOLDER ... --page docs/accuracy.md`. -->
# Accuracy

Verdicts held against incidents with known causes: public ones (real logs of issues, papers and chronicles, with the verdict that
their readers reached) and constructed ones (several sources each, the truth known by construction). The rules were mended on these
incidents, so the figures flatter; what unseen kinds cost is estimated by `benchmarks/fit_confidence.py`, which leaves out one cause
class at a time.

"""

if __name__ == "__main__":
    sys.exit(main())
