"""Are the ranks that hung a job named, whatever the dumps are called and whichever of them are there?

    python benchmarks/hangs.py FOLDER [FOLDER ...] [--seed 1] [--only missing] [--keep DIR]

FOLDER holds flight-recorder dumps of one hung job, its `truth.json` says which ranks are guilty (`guilty_ranks`), or it holds such
folders. Variants of each are made: ranks permuted (in names and content, the lists of members in ascending order as PyTorch prints
them), files renamed with and without a rank in the name, JSON for pickle, gzip, one tar; dumps missing or empty, of the guilty and of
the others; and controls in which nothing hangs: all collectives done, counts that differ by a few, a running job where every member
has joined what is open. Only the dumps are analysed. Printed is, for each kind, the share of variants in which exactly the guilty
ranks are named, precision and recall over ranks, and the share of controls that blame somebody. Exit code 1 when less than 0.95 of the
variants are exact or a control blames somebody.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import pickle
import random
import shutil
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from postmortem.decoders.collectives.safe_pickle import RefusedPickleError, load_plain
from postmortem.incident import Options, open_incident

GOAL: Final = 0.95
Dump = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """Files of one made folder by name, and the ranks that must be named."""

    kind: str
    files: dict[str, bytes]
    guilty: frozenset[int]


def pickled(dump: Dump) -> bytes:
    return pickle.dumps(dump, protocol=2)


def printed(dump: Dump) -> bytes:
    """The JSON form: numbers of the status as text, 0 where the pickle has None, no frames, no list of entries when it is empty."""
    out = copy.deepcopy(dump)
    out["pg_status"] = {k: {n: str(v) for n, v in s.items()} for k, s in out["pg_status"].items()}
    out["entries"] = [
        {k: 0 if v is None and k.startswith("time_") else v for k, v in e.items() if k != "frames"}
        for e in out["entries"]
    ]
    if not out["entries"]:
        del out["entries"]
    return json.dumps(out).encode()


def permuted(dumps: dict[int, Dump], to: dict[int, int]) -> dict[int, Dump]:
    """The same job with other numbers: members of a group in ascending order, so the positions in `send 0->3` change too."""
    out: dict[int, Dump] = {}
    for rank, dump in dumps.items():
        new = copy.deepcopy(dump)
        places: dict[str, dict[int, int]] = {}
        for name, group in new["pg_config"].items():
            old = json.loads(group["ranks"])
            members = sorted(to[r] for r in old)
            group["ranks"] = str(members)
            places[name] = {i: members.index(to[r]) for i, r in enumerate(old)}
        for entry in new["entries"]:
            head, _, way = entry["profiling_name"].partition(" ")
            if way:
                arrow = "->" if "->" in way else "<-"
                at = places[entry["process_group"][0]]
                entry["profiling_name"] = head + " " + arrow.join(str(at[int(n)]) for n in way.split(arrow))
        out[to[rank]] = new
    return out


def settled(dumps: dict[int, Dump], pick: random.Random, how: str) -> dict[int, Dump]:
    """The job while nothing hangs. `done`: nothing is open; `apart`: nor is there, but counts differ by up to two; `bare`: no entry.
    `running`: the last collective of a group is open on all its members; `half`: and some of them have seen its end."""
    out = copy.deepcopy(dumps)
    top: dict[str, int] = defaultdict(int)
    names = {r: _numbers(d) for r, d in out.items()}
    for rank, dump in out.items():
        for number, name in names[rank].items():
            top[name] = max(top[name], dump["pg_status"][number]["last_enqueued_collective"])
    open_now = {e["process_group"][0] for d in out.values() for e in d["entries"] if not e["is_p2p"]}
    busy = {n for n in open_now if n in _leaves(out, open_now)}
    for rank, dump in out.items():
        for number, name in names[rank].items():
            last = top[name] - (pick.randrange(3) if how == "apart" else 0)
            is_open = how in {"running", "half"} and name in busy and not (how == "half" and pick.random() < 0.4)
            dump["pg_status"][number].update(last_enqueued_collective=last, last_completed_collective=last - is_open)
        kept: list[Dump] = []
        for entry in dump["entries"]:
            name = entry["process_group"][0]
            if entry["is_p2p"]:
                continue
            state = dump["pg_status"][str(entry["pg_id"])]
            entry.update(collective_seq_id=state["last_enqueued_collective"], state="completed", input_sizes=[[8]])
            entry.update(profiling_name="nccl:all_reduce", output_sizes=[[8]], input_dtypes=["Float"], retired=True)
            if state["last_completed_collective"] < state["last_enqueued_collective"]:
                entry.update(state="scheduled", retired=False)
            if all(k["process_group"][0] != name for k in kept):
                kept.append(entry)
        dump["entries"] = [] if how == "bare" else kept
    if how in {"running", "half"}:
        _fill(out, busy, names, top)
    return out


def _leaves(dumps: dict[int, Dump], names: set[str]) -> set[str]:
    """Groups of which no two share a rank: what a running job may have open at one moment."""
    taken: set[int] = set()
    out: set[str] = set()
    members = {n: json.loads(g["ranks"]) for d in dumps.values() for n, g in d["pg_config"].items()}
    for name in sorted(names, key=lambda n: (-len(members[n]), n)):
        if not taken & set(members[name]):
            taken |= set(members[name])
            out.add(name)
    return out


def _fill(dumps: dict[int, Dump], busy: set[str], names: dict[int, dict[str, str]], top: dict[str, int]) -> None:
    """Every member of a busy group has its last collective in the list."""
    model = next(e for d in dumps.values() for e in d["entries"])
    for rank, dump in dumps.items():
        have = {e["process_group"][0] for e in dump["entries"]}
        for number, name in names[rank].items():
            status = dump["pg_status"][number]
            if name in busy - have and status["last_completed_collective"] < top[name]:
                group = dump["pg_config"][name]
                dump["entries"].append(
                    {
                        **model,
                        "pg_id": int(number),
                        "process_group": (name, group["desc"]),
                        "collective_seq_id": top[name],
                    }
                    | {"state": "scheduled", "retired": False}
                )


def _numbers(dump: Dump) -> dict[str, str]:
    """A process's own number of a group -> its name; both are in one order."""
    return dict(zip(sorted(dump["pg_status"], key=int), sorted(dump["pg_config"], key=int), strict=True))


Namer = Callable[[int, random.Random], str]
NAMERS: Final[dict[str, Namer]] = {
    "dump": lambda r, p: f"_dump_{r}",
    "trace": lambda r, p: f"nccl_trace_rank_{r}",
    "torch": lambda r, p: f"torch/comm_lib_trace_rank_{r}",
    "host": lambda r, p: f"nccl_trace_rank_container-node{r // 8:02d}_{r}",
    "suffix": lambda r, p: f"rank{r}.pkl",
    "hex": lambda r, p: f"{p.getrandbits(48):012x}.bin",
    "number": lambda r, p: f"fr/{r:05d}",
}


def variants(dumps: dict[int, Dump], guilty: frozenset[int], seed: int) -> Iterator[Variant]:
    """All variants of one labelled folder."""
    pick = random.Random(seed)
    ranks = sorted(dumps)
    innocent = [r for r in ranks if r not in guilty]

    def files(
        some: dict[int, Dump], name: str = "dump", ending: str = "", write: Callable[[Dump], bytes] = pickled
    ) -> dict[str, bytes]:
        return {NAMERS[name](r, pick) + ending: write(d) for r, d in some.items()}

    def without(*gone: int) -> dict[int, Dump]:
        return {r: d for r, d in dumps.items() if r not in gone}

    yield Variant("base", files(dumps), guilty)
    for _ in range(8):
        order = ranks[:]
        pick.shuffle(order)
        to = dict(zip(ranks, order, strict=True))
        yield Variant("permuted", files(permuted(dumps, to)), frozenset(to[r] for r in guilty))
    for name in NAMERS:
        yield Variant("renamed", files(dumps, name), guilty)
    yield Variant("json", files(dumps, write=printed), guilty)
    yield Variant("json", files(dumps, "trace", ".json", printed), guilty)
    yield Variant("json", files(dumps, "hex", "", printed), guilty)
    yield Variant("gz", files(dumps, ending=".gz", write=lambda d: gzip.compress(pickled(d), mtime=0)), guilty)
    yield Variant("gz", files(dumps, ending=".json.gz", write=lambda d: gzip.compress(printed(d), mtime=0)), guilty)
    yield Variant("tar", files(dumps), guilty)
    yield Variant("guilty missing: all", files(without(*guilty)), guilty)
    for r in sorted(guilty):
        yield Variant("guilty missing: one", files(without(r)), guilty)
        yield Variant("guilty empty", {**files(without(r)), NAMERS["dump"](r, pick): b""}, guilty)
    yield Variant("guilty empty", {**files(without(*guilty)), **{NAMERS["dump"](r, pick): b"" for r in guilty}}, guilty)
    for r in innocent:
        yield Variant("innocent missing: one", files(without(r)), guilty)
    for count in (2, 2, 2, 2, 3, 3, 4, 4):
        yield Variant("innocent missing: more", files(without(*pick.sample(innocent, count))), guilty)
    for r in pick.sample(innocent, 4):
        yield Variant("innocent empty", {**files(without(r)), NAMERS["dump"](r, pick): b""}, guilty)
        cut = {**files(without(r)), NAMERS["dump"](r, pick): pickled(dumps[r])[:-1200]}
        yield Variant("innocent cut off", cut, guilty)
    nobody: frozenset[int] = frozenset()
    for how in ("done", "apart", "bare", "running", "half"):
        for _ in range(3):
            made = settled(dumps, pick, how)
            yield Variant(f"control: {how}", files(made), nobody)
            gone = pick.choice(ranks)
            yield Variant(f"control: {how}, one missing", files({r: d for r, d in made.items() if r != gone}), nobody)


def labelled(folders: list[Path]) -> Iterator[tuple[Path, dict[int, Dump], frozenset[int]]]:
    """(folder, dumps by rank, guilty ranks)."""
    for folder in folders:
        for truth in sorted([*folder.glob("truth.json"), *folder.glob("*/truth.json")]):
            dumps: dict[int, Dump] = {}
            for path in sorted(truth.parent.iterdir()):
                number = path.name.rpartition("_")[2]
                if number.isdigit():
                    try:
                        dumps[int(number)] = load_plain(path.read_bytes())
                    except RefusedPickleError as error:
                        print(f"{path}: {error}", file=sys.stderr)
            if dumps:
                yield truth.parent, dumps, frozenset(json.loads(truth.read_text())["guilty_ranks"])


def named(variant: Variant, folder: Path) -> tuple[frozenset[int], str]:
    """(ranks that the verdict blames, its cause) of the variant written into `folder`."""
    for name, content in variant.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    bundle = folder
    if variant.kind == "tar":
        bundle = folder.with_suffix(".tar")
        with tarfile.open(bundle, "w") as archive:
            archive.add(folder, "dumps")
    with open_incident([bundle], Options(workers=1, context=False)) as incident:
        verdict = incident.analysis.verdict
    return frozenset(verdict.culprit.ranks), verdict.cause


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="variants whose kind contains this")
    parser.add_argument("--keep", type=Path, help="leave the made folders here")
    parser.add_argument("-v", action="store_true", help="print each variant that is not exact")
    options = parser.parse_args()
    rows: dict[str, list[tuple[frozenset[int], frozenset[int]]]] = defaultdict(list)
    for folder, dumps, guilty in labelled(options.folders):
        for number, variant in enumerate(variants(dumps, guilty, options.seed)):
            if options.only not in variant.kind:
                continue
            work = Path(tempfile.mkdtemp(prefix="hangs-"))
            try:
                place = options.keep / f"{folder.name}-{number:03d}" if options.keep else work / "bundle"
                place.mkdir(parents=True)
                found, cause = named(variant, place)
            finally:
                shutil.rmtree(work)
            rows[variant.kind].append((found, variant.guilty))
            if options.v and found != variant.guilty:
                print(f"{folder.name} {number} {variant.kind}: {cause} {sorted(found)} for {sorted(variant.guilty)}")
    return table(rows)


def table(rows: dict[str, list[tuple[frozenset[int], frozenset[int]]]]) -> int:
    """Print the figures; the exit code."""
    print(f"{'kind':34} {'n':>4} {'exact':>6} {'precision':>9} {'recall':>7} {'false blame':>11}")
    sure, wrong = [], 0
    for kind, pairs in rows.items():
        exact = sum(found == truth for found, truth in pairs) / len(pairs)
        hits = sum(len(found & truth) for found, truth in pairs)
        said, due = sum(len(found) for found, _ in pairs), sum(len(truth) for _, truth in pairs)
        if kind.startswith("control"):
            blamed = sum(bool(found) for found, _ in pairs)
            wrong += blamed
            print(f"{kind:34} {len(pairs):4} {exact:6.2f} {'':>9} {'':>7} {blamed / len(pairs):11.2f}")
        else:
            sure += [found == truth for found, truth in pairs]
            print(f"{kind:34} {len(pairs):4} {exact:6.2f} {hits / max(1, said):9.2f} {hits / max(1, due):7.2f}")
    share = sum(sure) / max(1, len(sure))
    print(f"exact in {share:.3f} of {len(sure)} variants; {wrong} controls blame somebody")
    return 0 if share >= GOAL and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
