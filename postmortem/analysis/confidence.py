"""Two numbers of a finding: its score, which ranks the causes, and its confidence, the chance that the first of them is right.

Score: logit p = base + Σ weight · x over the features of postmortem.analysis.candidates (table `weights`). Confidence: a second such
sum (table `confidence`) over what `standing` gives. The second never changes the order. Both tables stand in weights.toml, which
benchmarks/fit_confidence.py writes from incidents with known causes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from postmortem.prepared import prepared_toml

_DATA: Final[dict[str, Any]] = prepared_toml("postmortem.analysis", "weights.toml")
WEIGHTS: Final[dict[str, float]] = _DATA["weights"]
CONFIDENCE: Final[dict[str, float]] = _DATA["confidence"]
_LIMIT: Final = 6.0
"""Logits beyond this say no more."""
_WEAK: Final = -0.3
"""A score below this logit hardly establishes anything: from here on the confidence falls fast."""
_OPEN: Final = 0.69
"""The highest confidence of a finding that nothing settles."""


def logistic(x: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, x))))


def logit(p: float) -> float:
    """log(p / (1 - p)), at most 6 either way."""
    p = min(1 - 1e-9, max(1e-9, p))
    return max(-_LIMIT, min(_LIMIT, math.log(p / (1 - p))))


def chance(features: Mapping[str, float]) -> float:
    """The score of the features, 0 to 1."""
    return logistic(WEIGHTS["base"] + sum(WEIGHTS[k] * v for k, v in features.items()))


def standing(score: float, might: float, best_rival: float, corrob: float, is_hang: bool) -> dict[str, float]:
    """What the confidence is made of: from the score, the sign's own weight (wherever and whenever it is seen), the best rival's score
    and whether another source says the same.

    `logit` of the score, not below -0.3; `low` what it lies below that; `settled` 0 to 1: the sign is one that settles the matter
    (weight 0.65 and more; at 0.5 it is one of several readings) or another source bears it out, its time and place fit, and no
    rival is near; `hang` 1 where all that is said is that a collective hung.
    """
    firm = max(corrob, min(1.0, max(0.0, (might - 0.5) / 0.15)))
    lead = max(0.0, 1.0 - best_rival / score) if score > 0 else 0.0
    fits = min(1.0, max(0.0, (score - 0.4) / 0.2))
    of = logit(score)
    return {"logit": max(_WEAK, of), "low": min(0.0, of - _WEAK), "settled": firm * lead * fits, "hang": float(is_hang)}


def at_most(settled: float) -> float:
    """The highest confidence of a finding that is so far settled: one of several readings stays a possibility (below 0.7)."""
    return _OPEN + (1 - _OPEN) * min(1.0, 2 * settled)


def confidence(of: Mapping[str, float]) -> float:
    """The chance that a finding with this standing names the right cause, 0 to 1."""
    p = logistic(CONFIDENCE["base"] + sum(CONFIDENCE[k] * of[k] for k in CONFIDENCE if k != "base"))
    return min(p, at_most(of["settled"]))
