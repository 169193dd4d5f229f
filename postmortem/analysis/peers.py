"""Which of several peers is slow, and since when: rules I1, I2 and I9 of correlation.md over one table of times.

Peers do the same work (one pipeline stage, one kind of operation), so each is held against the median of the others in the same
step. A slow one is found, set aside and the rest compared again, so that two slow peers don't hide each other.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_RATIO: Final = 1.03
"""Below, a slow peer is no slow peer: the same limit as for a slowdown S that matters."""

MIN_Z: Final = 3.5
MAD_FLOOR: Final = 0.01
MIN_SHARE: Final = 0.5
"""Share of steps in which the peer is the slowest: persistence tells a bad machine from noise."""

MIN_SIGMA: Final = 5.0
"""Standard errors of the median over steps by which it must lie above its peers: unequal inputs make noisy steps."""

MIN_STEPS: Final = 5
SIDE: Final = 10
"""Steps on each side of a change point, at least."""

MIN_RISE: Final = 0.02
MAX_SPLITS: Final = 64
FEW: Final = 8
_SIGMA: Final = 1.4826
_OF_MEDIAN: Final = 1.2533


@dataclass(frozen=True, slots=True)
class SlowPeer:
    """Row `index` of the times: `ratio` to its peers (median over steps), from column `since` on (None: all along)."""

    index: int
    ratio: float
    since: int | None
    z: float
    share: float


def slow_peers(times: Floats) -> list[SlowPeer]:
    """Peers that are slow, slowest first; at most half of them.

    `times` has one row per peer and one column per step, in order, NaN where a peer has none. Needs two peers; of two, the
    slower one is named, for the faster one cannot be the fault.
    """
    found: list[SlowPeer] = []
    active = [i for i in range(len(times)) if np.isfinite(times[i]).sum() >= MIN_STEPS]
    most = len(active) // 2
    while len(active) >= 2 and len(found) < most:
        ratios = _to_others(times[active])
        since = change_points(ratios)
        best = max((_judge(ratios, n, since[n]) for n in _likeliest(ratios, since)), key=lambda p: p.ratio)
        if not _is_slow(best, ratios):
            break
        found.append(SlowPeer(active[best.index], best.ratio, best.since, best.z, best.share))
        del active[best.index]
    return found


def change_points(ratios: Floats) -> list[int | None]:
    """Where each row of ratios rises for good: the split with the largest difference of medians (rule I9).

    None unless both sides have `SIDE` steps and the rise is 2 % and five of its standard errors. Of long rows some splits are
    tried, then those around the best.
    """
    count = ratios.shape[1]
    out: list[int | None] = [None] * len(ratios)
    if count < 2 * SIDE:
        return out
    tried = sorted({int(k) for k in np.linspace(SIDE, count - SIDE, min(MAX_SPLITS, count - 2 * SIDE + 1))})
    rises = np.array([_median(ratios[:, k:]) - _median(ratios[:, :k]) for k in tried])
    gap = max(b - a for a, b in pairwise(tried)) if len(tried) > 1 else 1
    for i in np.flatnonzero(np.nan_to_num(rises, nan=0.0).max(axis=0) > MIN_RISE):
        k = tried[int(np.nanargmax(rises[:, i]))]
        row = ratios[i]
        # The difference of medians is flat around its best; where the two medians fit best is sharp.
        near = range(max(SIDE, k - gap - SIDE), min(count - SIDE, k + gap + SIDE) + 1)
        k = min(near, key=lambda n: (_misfit(row, n), n))
        before, after = row[:k][np.isfinite(row[:k])], row[k:][np.isfinite(row[k:])]
        if min(len(before), len(after)) >= SIDE and float(np.median(after) - np.median(before)) > max(
            MIN_RISE, MIN_SIGMA * float(np.hypot(_error(before), _error(after)))
        ):
            out[i] = int(k)
    return out


def _misfit(row: Floats, k: int) -> float:
    """Sum of distances of a row's ratios from the medians before and after a split."""
    parts = [part[np.isfinite(part)] for part in (row[:k], row[k:])]
    return float(sum(np.abs(part - np.median(part)).sum() for part in parts if len(part)))


def _median(rows: Floats) -> Floats:
    """Median of each row; NaN for a row without any."""
    if np.isfinite(rows).all():
        return np.asarray(np.median(rows, axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(rows, axis=1))


def _to_others(times: Floats) -> Floats:
    """Each time over the median of the other peers in that step; NaN where there is no other.

    Among more than eight the median of all is as good as that of the others, and cheaper.
    """
    if len(times) > FEW:
        return np.asarray(times / _median(times.T))
    out = np.full_like(times, np.nan)
    for i in range(len(times)):
        out[i] = times[i] / _median(np.delete(times, i, axis=0).T)
    return out


def _likeliest(ratios: Floats, since: list[int | None]) -> list[int]:
    """The peers with the highest ratios all along, and those that became slow: one of them is the slowest, if any is."""
    top = np.argsort(-np.nan_to_num(_median(ratios), nan=0.0), kind="stable")[:4]
    return sorted({int(n) for n in top} | {n for n, k in enumerate(since) if k is not None})


def _judge(ratios: Floats, i: int, since: int | None) -> SlowPeer:
    """What row `i` would be as a slow peer."""
    tail = ratios[:, since or 0 :]
    mine = np.isfinite(tail[i])
    if mine.sum() < MIN_STEPS:
        return SlowPeer(i, 0.0, None, 0.0, 0.0)
    ratio = float(np.median(tail[i, mine]))
    rest = np.delete(_median(tail), i)
    rest = rest[np.isfinite(rest)]
    middle = float(np.median(rest)) if len(rest) else 1.0
    spread = max(_SIGMA * float(np.median(np.abs(rest - middle))) if len(rest) else 0.0, MAD_FLOOR)
    slowest = tail[i, mine] >= np.nanmax(tail[:, mine], axis=0)
    # Of two peers the other one's ratio is the inverse of its own: it is held against 1 then.
    return SlowPeer(i, ratio, since, (ratio - max(middle, 1.0)) / spread, float(slowest.mean()))


def _is_slow(peer: SlowPeer, ratios: Floats) -> bool:
    tail = ratios[peer.index, peer.since or 0 :]
    tail = tail[np.isfinite(tail)]
    return (
        len(tail) >= MIN_STEPS
        and peer.ratio >= MIN_RATIO
        and peer.z > MIN_Z
        and peer.share >= MIN_SHARE
        and peer.ratio - 1 > MIN_SIGMA * _error(tail)
    )


def _error(series: Floats) -> float:
    """Standard error of the median, at least a tenth of a percent."""
    spread = _SIGMA * float(np.median(np.abs(series - np.median(series))))
    return max(_OF_MEDIAN * spread / float(np.sqrt(len(series))), 0.001)
