"""Bundles with sources taken away: what is said when the logs of the hosts, the fabric or the job are not there?

    python benchmarks/ablate.py BUNDLES TARGET
    python benchmarks/accuracy.py TARGET

BUNDLES holds folders with `bundle.tar.gz` and `truth.json`. Of each that is whole (its name does not begin with `missing`) TARGET gets up to seven twins:
without host logs, without fabric logs, without rank logs, with the output of NCCL and ranks alone, with host and fabric logs alone, with launcher
and trainer alone, and without anything of the guilty host. Where none of the truth's first-hand rows is left, the twin is one whose logs can't
settle it: then `unknown` or the right name are right, and a sure wrong name is the worst answer. Its loss is not scored.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROLES: Final = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        ("rank", r"rank_[0-9]+\.log$"),
        ("nccl", r"(?:^|/)nccl\."),
        ("recorder", r"flight_recorder/"),
        ("profiler", r"profiler/"),
        ("host", r"(?:^|/)(?:dmesg|messages|journal|sosreport|uptime|kern)"),
        ("launcher", r"torchrun|deepspeed"),
        ("trainer", r"train\.log|step_times"),
        ("scheduler", r"slurm|sacct|k8s|scontrol|kube"),
        ("topology", r"topology/|ibnetdiscover|lldp"),
        ("fabric", r"switch|leaf|spine|opensm|ufm|network-syslog"),
    )
)
ONLY: Final = (("nccl", "rank"), ("host", "fabric"), ("launcher", "trainer"))
WITHOUT: Final = ("host", "fabric", "rank")


def role_of(name: str) -> str:
    """What kind of log a file is, by its path below the bundle."""
    return next((role for role, pattern in ROLES if pattern.search(name)), "other")


def twins(names: list[str], truth: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """(what was done, files that are left) of each twin that differs from the whole."""
    roles = {name: role_of(name) for name in names}
    for role in WITHOUT:
        yield f"no-{role}", [n for n in names if roles[n] != role]
    for some in ONLY:
        yield f"only-{'+'.join(some)}", [n for n in names if roles[n] in some]
    culprit = truth.get("culprit") or {}
    guilty = [v for v in (culprit.get("host") or culprit.get("port_host"), culprit.get("pod")) if v]
    if guilty:
        yield "no-guilty-host", [n for n in names if not any(g in n for g in guilty)]


def is_left(row: dict[str, Any], names: list[str]) -> bool:
    """The file of a row of evidence is among `names`, by itself or as the archive that holds it."""
    return any(row["file"] == n or row["file"].startswith(f"{n}!") for n in names)


def main() -> None:
    """Write the twins."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    count = 0
    for folder in sorted(args.bundles.iterdir()):
        if not (folder / "truth.json").exists() or folder.name.startswith("missing"):
            continue
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        roots = [e for e in truth["evidence"] if e.get("kind") == "root"]
        with tarfile.open(folder / "bundle.tar.gz") as whole:
            members = {m.name.removeprefix("bundle/"): m for m in whole.getmembers() if m.isfile()}
            for what, names in twins(list(members), truth):
                if not names or len(names) == len(members):
                    continue
                twin = args.target / f"{folder.name}--{what}"
                twin.mkdir(parents=True)
                said = {k: v for k, v in truth.items() if k != "lost"}
                said |= {"files": names, "log_sufficient": not roots or any(is_left(e, names) for e in roots)}
                (twin / "truth.json").write_text(json.dumps(said), encoding="utf-8")
                with tarfile.open(twin / "bundle.tar.gz", "w:gz") as packed:
                    for name in names:
                        packed.addfile(members[name], whole.extractfile(members[name]))
                count += 1
    print(f"{count} twins in {args.target}")


if __name__ == "__main__":
    main()
