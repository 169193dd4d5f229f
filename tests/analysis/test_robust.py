"""What must not change the answer: order of files, a file in two parts, noise; and what may only make it unsure: missing files."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from postmortem.incident import Incident, Options, open_incident
from postmortem.report.document import to_document

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = sorted(p.parent.name for p in (ROOT / "sample_logs").glob("*/expected.json"))
SHARED = ["plain-0024-gpu-memory", "plain-0010-software-exception"]
SURE = 0.7


def answer(paths: list[Path]) -> dict[str, Any]:
    with open_incident(paths, Options(workers=1, context=False)) as incident:
        document: dict[str, Any] = json.loads(json.dumps(to_document(incident.analysis, "test")))
    return document


@cache
def untouched(folder: Path) -> dict[str, Any]:
    return answer([folder])


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Callable[[str], Path]:
    """A shared bundle, unpacked once."""
    folder = tmp_path_factory.mktemp("bundles")

    def one(name: str) -> Path:
        if not (folder / name).exists():
            with tarfile.open(shared / "bundles" / name / "bundle.tar.gz") as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
                archive.extractall(folder / name)
        return folder / name / "bundle"

    return one


@pytest.fixture(params=[*SAMPLES, *SHARED])
def bundle(request: pytest.FixtureRequest) -> Path:
    name = str(request.param)
    if name in SAMPLES:
        return ROOT / "sample_logs" / name / "bundle"
    return Path(request.getfixturevalue("unpacked")(name))


def files_of(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def copied(bundle: Path, target: Path) -> Path:
    shutil.copytree(bundle, target / "bundle")
    return target / "bundle"


def shuffled(folder: Path, chance: random.Random) -> list[Path]:
    """Its files and folders one by one, in any order."""
    paths = sorted(folder.iterdir())
    chance.shuffle(paths)
    return paths


def split(folder: Path, _: random.Random) -> list[Path]:
    """The largest log in two parts, as a rotation leaves it: the older lines in `name.1`."""
    logs = [p for p in files_of(folder) if p.suffix in {".log", ".out", ".txt"} and b"\0" not in p.read_bytes()[:4096]]
    largest = max(logs, key=lambda p: (p.stat().st_size, p.name))
    lines = largest.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    largest.with_name(largest.name + ".1").write_bytes(b"".join(lines[:middle]))
    largest.write_bytes(b"".join(lines[middle:]))
    return [folder]


def noisy_and_shuffled(folder: Path, chance: random.Random) -> list[Path]:
    """A hundred warnings more that mean nothing for a job, and its files in any order."""
    warnings = [
        f"/opt/env/lib/python3.11/site-packages/module_{n % 7}/layer.py:{n}: UserWarning: the default of `flag_{n}` will change\n"
        for n in range(100)
    ]
    (folder / "warnings.log").write_text("".join(warnings))
    return shuffled(folder, chance)


def said(document: dict[str, Any]) -> tuple[str, Any]:
    return document["verdict"]["cause"], document["verdict"]["culprit"]["host"]


def test_order_and_noise_change_nothing(bundle: Path, tmp_path: Path) -> None:
    changed = answer(noisy_and_shuffled(copied(bundle, tmp_path), random.Random(7)))
    assert said(changed) == said(untouched(bundle))
    assert changed["verdict"]["confidence"] == pytest.approx(untouched(bundle)["verdict"]["confidence"], abs=0.1)


def test_a_file_in_two_parts_leads_to_nothing_wrong(bundle: Path, tmp_path: Path) -> None:
    """The part without the job's own lines may say less; it must not say something else."""
    changed = answer(split(copied(bundle, tmp_path), random.Random(7)))
    assert changed["verdict"]["cause"] in {untouched(bundle)["verdict"]["cause"], "unknown"}


@pytest.mark.parametrize("seed", [1])
def test_missing_files_lead_to_no_confident_wrong_answer(bundle: Path, seed: int, tmp_path: Path) -> None:
    folder, chance = copied(bundle, tmp_path), random.Random(seed)
    files = files_of(folder)
    for path in chance.sample(files, len(files) // 3):
        path.unlink()
    changed, whole = answer([folder])["verdict"], untouched(bundle)["verdict"]
    unsure = {whole["cause"], "unknown", "none"}
    assert changed["cause"] in unsure or changed["confidence"] < SURE, (changed["cause"], changed["confidence"])


def test_a_second_run_gives_the_same_bytes(bundle: Path) -> None:
    assert json.dumps(answer([bundle])) == json.dumps(untouched(bundle))


def test_a_damaged_rank_overflows_no_sum(analyse: Callable[[Mapping[str, str]], Incident]) -> None:
    most = (1 << 63) - 1
    init = f"node-01:1000:1002 [2] NCCL INFO ncclCommInitRank comm 0x55d0 rank {most} nranks {most} cudaDev 2 nvmlDev 2 busId 3b000 commId 0x3a1c - Init COMPLETE\n"
    raised = f"[rank{most}]: ValueError: x\n[rank{most}]: RuntimeError: y\n"
    found = analyse({"nccl.log": init, f"rank_{most}.log": raised})
    assert found.con.execute("SELECT count(*) FROM events WHERE rank > 1 << 24 OR nranks > 1 << 24").fetchone() == (0,)
