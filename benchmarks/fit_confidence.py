"""Fits the weights of the score to incidents with known causes, and says how far the confidences can be believed.

    python benchmarks/fit_confidence.py FOLDER [FOLDER ...]                     figures only
    python benchmarks/fit_confidence.py FOLDER [FOLDER ...] --write weights     … and the score's part of postmortem/analysis/weights.toml
    python benchmarks/fit_confidence.py FOLDER [FOLDER ...] --write confidence  … and the confidence's part

A FOLDER holds labelled incidents: folders with a case.json or truth.json (`cause`, `also_accept`, `log_sufficient`; `files` beside
it, or `bundle` or bundle.tar.gz). Each is analysed once with the present weights; every finding that was weighed is a sample,
right when it names an accepted cause. Where the text can't settle the matter a possible cause counts half and any other nothing.
The rules were mended on such incidents, so their hits flatter them: a right finding counts HIT, not 1.

The fit is a logistic regression with a penalty on the distance from the start values below, so that few samples can't turn a
sign. It is tried by leaving out one cause class at a time: all its incidents are predicted by weights that never saw them.
Printed are accuracy, log loss and expected calibration error (10 bins) of the first findings in that run.

There are two fits: of the score, which ranks, and of the confidence, which is made of the score (postmortem.analysis.confidence).
The second takes the scores as they were in the analysis: after new weights of the first run it again. It is of first findings only;
where the text can't settle the matter, a possible cause counts POSSIBLE.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from postmortem.analysis.confidence import CONFIDENCE, WEIGHTS, at_most
from postmortem.incident import Options, open_incident

TARGET = Path(__file__).resolve().parent.parent / "postmortem" / "analysis" / "weights.toml"
START = {
    "base": -1.9, "sign": 3.0, "strong": 1.0, "order": 0.9, "chain": 0.9, "corrob": 0.9,
    "explained": -2.2, "gap": -0.3, "undated": 0.0, "rival": -1.0,
}  # fmt: skip
START_CONFIDENCE = {"base": 0.3, "logit": 0.5, "low": 4.0, "settled": 1.5, "hang": 0.3}
PENALTIES = (0.3, 1.0, 3.0, 10.0)
HIT = 0.975
POSSIBLE = 0.68
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """One finding of one incident: its features in the order of START, how right it is, whether it came first."""

    kind: str
    x: tuple[float, ...]
    right: float
    is_first: bool
    standing: tuple[float, ...] = ()
    """What its confidence is made of, in the order of START_CONFIDENCE."""
    shown_right: float = 0.0
    """How right it is as an answer: POSSIBLE of a possible cause where the text can't settle the matter."""


def incidents(folders: Sequence[Path]) -> Iterator[tuple[dict[str, Any], Path]]:
    """(truth, its folder) of every labelled incident, in the order of their paths."""
    for folder in folders:
        for path in sorted(p for name in ("case.json", "truth.json") for p in folder.rglob(name)):
            yield json.loads(path.read_text(encoding="utf-8")), path.parent


def unpacked(truth: dict[str, Any], folder: Path, work: Path) -> Path:
    """The bundle under a name that tells nothing."""
    packed = folder / "bundle.tar.gz"
    if packed.is_file():
        with tarfile.open(packed) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
            archive.extractall(work)
        return work / "bundle"
    target = work / "bundle"
    for name in truth["files"]:
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes((folder / truth.get("bundle", ".") / name).read_bytes())
    return target


def samples_of(truth: dict[str, Any], bundle: Path) -> list[Sample]:
    """The findings of one incident that features speak for."""
    accepted = {truth["cause"], *truth.get("also_accept", [])}
    worth = HIT if truth.get("log_sufficient", True) else HIT / 2
    with open_incident([bundle], Options(workers=1, context=False)) as incident:
        found = incident.analysis
    if found.job.outcome == "completed":
        return []
    return [
        Sample(
            truth["cause"],
            vector(dict(f.features)),
            worth * (f.cause in accepted),
            number == 0,
            vector(dict(f.features), START_CONFIDENCE),
            (HIT if truth.get("log_sufficient", True) else POSSIBLE) * (f.cause in accepted),
        )
        for number, f in enumerate(found.findings)
        if f.features
    ]


def vector(features: Mapping[str, float], names: Mapping[str, float] = START) -> tuple[float, ...]:
    """Features in the order of `names`."""
    return tuple(1.0 if name == "base" else features.get(name, 0.0) for name in names)


def fit(x: Array, y: Array, penalty: float, start: Mapping[str, float] = START, rounds: int = 60) -> Array:
    """Weights of the penalised regression, by Newton's method."""
    prior = np.array(list(start.values()))
    w = prior.copy()
    for _ in range(rounds):
        p = predict(x, w)
        slope = x.T @ (p - y) + penalty * (w - prior)
        bend = (x * (p * (1 - p))[:, None]).T @ x + penalty * np.eye(len(w))
        step = np.linalg.solve(bend, slope)
        w = w - step
        if float(np.abs(step).max()) < 1e-9:
            break
    return np.asarray(w)


def predict(x: Array, w: Array) -> Array:
    """Chances of the rows of `x`."""
    return np.asarray(1 / (1 + np.exp(-np.clip(x @ w, -30, 30))))


def calibration_error(p: Array, y: Array, bins: int = 10) -> float:
    """Mean distance between confidence and share of right answers, over bins of confidence."""
    cells = np.minimum(bins - 1, (p * bins).astype(int))
    return float(sum(abs(p[cells == k].mean() - y[cells == k].mean()) * (cells == k).mean() for k in np.unique(cells)))


def log_loss(p: Array, y: Array) -> float:
    """Mean surprise."""
    q = np.clip(p, 1e-6, 1 - 1e-6)
    return float(-(y * np.log(q) + (1 - y) * np.log(1 - q)).mean())


def left_out(
    samples: Sequence[Sample], x: Array, y: Array, penalty: float, start: Mapping[str, float] = START
) -> Array:
    """Chances of all samples, each by weights that saw none of its kind."""
    kinds = np.array([s.kind for s in samples])
    p = np.zeros(len(samples))
    for kind in sorted(set(kinds.tolist())):
        held = kinds == kind
        p[held] = predict(x[held], fit(x[~held], y[~held], penalty, start))
    return p


def report(name: str, p: Array, y: Array) -> None:
    """One line of figures."""
    sure = p >= 0.4
    right = float(y[sure].mean()) if sure.any() else 0.0
    print(
        f"{name:24} n {len(y):4d}  right {y.mean():.3f}  of those named {right:.3f}  log loss {log_loss(p, y):.3f}  calibration error {calibration_error(p, y):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--write", choices=("weights", "confidence"), help="replace this table of weights.toml")
    options = parser.parse_args()
    samples: list[Sample] = []
    count = 0
    for truth, folder in incidents(options.folders):
        with tempfile.TemporaryDirectory(prefix="fit-") as work:
            samples += samples_of(truth, unpacked(truth, folder, Path(work)))
        count += 1
    weights = fitted(samples)
    sureness = fitted_confidence(samples)
    print(
        "\n".join(
            f"{name:10} {START[name]:7.2f} {WEIGHTS.get(name, 0.0):7.2f} -> {w:7.2f}" for name, w in weights.items()
        )
    )
    print("\n".join(f"{name:10} {CONFIDENCE.get(name, 0.0):7.2f} -> {w:7.2f}" for name, w in sureness.items()))
    if options.write:
        tables = {"weights": WEIGHTS, "confidence": CONFIDENCE} | {
            options.write: {"weights": weights, "confidence": sureness}[options.write]
        }
        TARGET.write_text(as_toml(tables["weights"], tables["confidence"], count, len(samples)), encoding="utf-8")


def fitted(samples: Sequence[Sample]) -> dict[str, float]:
    """Weights by name; the penalty is the one whose left-out predictions are best."""
    x = np.array([s.x for s in samples])
    y = np.array([s.right for s in samples])
    first = np.array([s.is_first for s in samples])
    report("present, first findings", predict(x, np.array([WEIGHTS.get(n, 0.0) for n in START]))[first], y[first])
    tried = {penalty: left_out(samples, x, y, penalty) for penalty in PENALTIES}
    for penalty, p in tried.items():
        report(f"left out, penalty {penalty:g}", p[first], y[first])
    best = min(tried, key=lambda penalty: log_loss(tried[penalty], y))
    w = fit(x, y, best)
    report(f"fitted, penalty {best:g}", predict(x, w)[first], y[first])
    return {name: round(float(value), 3) for name, value in zip(START, w, strict=True)}


def fitted_confidence(samples: Sequence[Sample], penalty: float = 0.3) -> dict[str, float]:
    """Weights of the confidence by name, of the first findings."""
    samples = [s for s in samples if s.is_first]
    x = np.array([s.standing for s in samples])
    y = np.array([s.shown_right for s in samples])
    highest = np.array([at_most(settled) for settled in x[:, list(START_CONFIDENCE).index("settled")]])
    w = fit(x, y, penalty, START_CONFIDENCE)
    report("confidence, left out", np.minimum(highest, left_out(samples, x, y, penalty, START_CONFIDENCE)), y)
    report("confidence, fitted", np.minimum(highest, predict(x, w)), y)
    return {name: round(float(value), 3) for name, value in zip(START_CONFIDENCE, w, strict=True)}


def as_toml(weights: Mapping[str, float], sureness: Mapping[str, float], incidents_read: int, findings: int) -> str:
    """The data file."""
    rows = "\n".join(f"{name} = {value}" for name, value in weights.items())
    sure = "\n".join(f"{name} = {value}" for name, value in sureness.items())
    return (
        "# Weights of the score: logit p = base + sum of weight * feature (features: postmortem.analysis.candidates).\n"
        "# Each table is as benchmarks/fit_confidence.py --write last left it; the line below is of the newer one.\n"
        f'source = "{findings} findings of {incidents_read} incidents with known causes, public and constructed"\n'
        f'date = "{datetime.now(UTC):%Y-%m-%d}"\n\n[weights]\n{rows}\n'
        f"\n# Of the confidence: features of `standing` in postmortem.analysis.confidence.\n[confidence]\n{sure}\n"
    )


if __name__ == "__main__":
    main()
