"""How near the bill comes to the truth: `python benchmarks/loss.py FOLDER`.

FOLDER holds bundles with a known loss, one folder each: `truth.json` (key `lost`: `T_lost_s`, `gpu_hours_lost`, `last_durable_step`,
`log_every`) and `bundle.tar.gz`. Prints a line per bundle, and the shares within 1 % and inside the bounds.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postmortem.analysis.model import Loss
from postmortem.incident import Options, open_incident

NEAR = 0.01


@dataclass(frozen=True, slots=True)
class Row:
    """One bundle: error of the GPU-hours (share), whether the truth lies inside the bounds, whether the durable step is right."""

    name: str
    is_every_step: bool
    error: float | None
    is_inside: bool | None
    is_durable_right: bool | None


def measure(name: str, truth: dict[str, Any], loss: Loss) -> Row:
    """The bill against the truth; None where either says nothing."""
    lost, hours = truth["lost"], loss.gpu_hours
    real = lost.get("gpu_hours_lost")
    is_known = hours is not None and bool(real)
    return Row(
        name,
        lost.get("log_every", 1) == 1 and not truth.get("options", {}).get("missing"),
        abs(hours.best - real) / real if hours is not None and is_known else None,
        hours.lo - 1e-6 <= real <= hours.hi + 1e-6 if hours is not None and is_known else None,
        loss.last_durable_step == lost.get("last_durable_step") if loss.last_durable_step is not None else None,
    )


def analysed(folder: Path) -> Loss:
    """The loss of the bundle in `folder`."""
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(folder / "bundle.tar.gz") as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
            packed.extractall(place)
        with open_incident([Path(place)], Options(workers=1, context=False)) as incident:
            return incident.analysis.loss


def share(marks: list[bool | None]) -> str:
    known = [mark for mark in marks if mark is not None]
    return f"{sum(known) / len(known):.3f} of {len(known)}" if known else "none"


def within(rows: list[Row]) -> str:
    return share([row.error <= NEAR if row.error is not None else None for row in rows])


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows: list[Row] = []
    print(f"{'bundle':34}{'error':>9}  within 1 %  inside  durable step")
    for path in sorted(Path(sys.argv[1]).glob("*/truth.json")):
        truth = json.loads(path.read_text())
        if "lost" not in truth:
            continue
        row = measure(path.parent.name, truth, analysed(path.parent))
        rows.append(row)
        error = "-" if row.error is None else f"{100 * row.error:.2f} %"
        marks = ("-" if m is None else "yes" if m else "NO" for m in (row.is_inside, row.is_durable_right))
        near = "-" if row.error is None else "yes" if row.error <= NEAR else "NO"
        inside, durable = marks
        print(f"{row.name:34}{error:>9}  {near:>10}  {inside:>6}  {durable:>12}", flush=True)
    print(f"within 1 %: {within(rows)}; where every step is printed: {within([r for r in rows if r.is_every_step])}")
    print(
        f"inside the bounds: {share([r.is_inside for r in rows])}; durable step: {share([r.is_durable_right for r in rows])}"
    )


if __name__ == "__main__":
    main()
