"""Split-conformal calibration: what errors on held-out samples promise for a new one.

Let s_1, ..., s_n be the scores of n samples that the model has not learned from, and s that of a
new sample. If all n + 1 are exchangeable (any order of them is as probable as any other), the rank
of s among them is uniform, so that s is at most the k-th smallest of the n scores with a
probability of at least k / (n + 1). With k = ceil((n + 1) level) that is the level, for any model
and any n; where k > n no finite number can be promised, and the largest level is n / (n + 1).

Three scores are used. Of a field: its relative error, so the quantile is an upper bound of the
error of a new sample. Of a coefficient: |predicted - true|, so the interval is predicted +- the
quantile. Of a pointwise band: `band_score`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BAND_SHARE = 0.9
"""The share of the points of a sample that must lie within its band."""


def check_level(level: float, name: str = "level") -> None:
    if not 0 < level < 1:
        raise ValueError(f"{name} must be between 0 and 1, as 0.9, got {level!r}")


def rank(count: int, level: float) -> int:
    """k = ceil((n + 1) level), of the level as it is written: 0.9 is nine tenths."""
    check_level(level)
    return math.ceil((count + 1) * Fraction(str(level)))


def conformal_quantile(scores: Sequence[float], level: float) -> float | None:
    """The bound of a new sample's score; None where n scores cannot promise the level.

    Infinite scores are allowed, and the bound may be infinite; ValueError where one is NaN or
    negative.
    """
    if not all(score >= 0 for score in scores):
        raise ValueError(f"scores must be numbers of at least 0, got {list(scores)!r}")
    k = rank(len(scores), level)
    return sorted(scores)[k - 1] if k <= len(scores) else None


def largest_level(count: int) -> float:
    """The largest level that n samples can promise: n / (n + 1)."""
    return count / (count + 1)


def too_few(count: int) -> str:
    """What can be promised where the level asked for cannot; percents are rounded down."""
    if count == 0:
        return "nothing can be promised with 0 samples"
    least = 100 * count // (count + 1)
    return f"at most {least} % can be promised with {count} sample{'s' if count > 1 else ''}"


def percent(level: float) -> str:
    """0.9 as "90 %"."""
    return f"{float(100 * Fraction(str(level))):.10g} %"


def promise(count: int, level: float) -> str:
    """What a bound of this level promises, as a sentence."""
    return (
        f"Each bound by itself holds with a probability of at least {percent(level)}, over the"
        f" choice of the {count} calibration samples and of a new design, if the new design is like"
        " them: exchangeable with them, as if all had been drawn from the same set at random. It"
        " is no promise for all bounds at once, or for a design of another kind."
    )


def band_promise(count: int, level: float) -> str:
    """What a pointwise band of this level promises, as a sentence."""
    return (
        f"With a probability of at least {percent(level)}, over the choice of the {count}"
        " calibration samples and of a new design like them, the field lies within the band at"
        f" {percent(BAND_SHARE)} of the design's points or more."
    )


def band_score(residuals: NDArray[Any], scale: Floats | float, share: float = BAND_SHARE) -> float:
    """The least half-width, in units of `scale`, that has a share of a sample's points within it.

    `residuals` (N, c) are those of one field; of a vector their length counts. `scale` is one
    number, or one for each point (runs/band_scale.py). A residual that is not finite is outside of
    every band; inf where too many are.
    """
    lengths = np.linalg.norm(np.asarray(residuals, np.float64), axis=1) / scale
    lengths = np.where(np.isfinite(lengths), lengths, np.inf)
    k = math.ceil(len(lengths) * Fraction(str(share)))
    return float(np.partition(lengths, k - 1)[k - 1])
