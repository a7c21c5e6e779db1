"""Intervals of the differences between designs, from the residuals of calibration samples.

Let e_A and e_1, ..., e_K be the errors (predicted less true) of a coefficient on a baseline and K
other designs. The error of the difference to the baseline is e_k - e_A: what the errors have in
common cancels. If these designs and the n calibration samples are exchangeable, then K + 1 samples
of the calibration in any order are as the designs are. One grouping cuts the samples, in an order
that depends on nothing, into m = floor(n / (K + 1)) groups of a baseline and K others. The score of
a group is its largest |e_k - e_A| / s; the m scores are exchangeable with that of the designs, so
that the ceil((m + 1) level)-th smallest bounds all K differences at once with a probability of at
least the level: for any model and any n (see `calibration`).

The scale s of a pair makes the interval narrow for close variants: designs whose predicted
coefficients hardly differ have errors that hardly differ. It is the distance of the predicted
coefficients over that below which NEAR of all pairs lie, at most 1 and at least LEAST. It needs no
residuals and treats samples and designs alike, so it costs nothing of the promise. Chosen among
several on the data of `slipstream bench compare`: with a larger NEAR, or for all pairs, distant
designs lost verdicts.

A single grouping wastes what the others know, and its bound depends on the draw. The bound here is
the mean over GROUPINGS of them, each interpolated between the two order statistics around
(m + 1) level. Let F be the probability that the score of the designs is at most t. Where F is
concave, F(mean of t_g) is at least the mean of the F(t_g), whose expectation is the level, so the
promise is kept. For one other design (K = 1) without scale F is concave where residuals are
independent draws of a density with one peak: their difference then has a density that falls from 0
on. Otherwise nothing is proven for the mean; tests and `slipstream bench compare` measure it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slipstream.evaluation.calibration import check_level, percent

GROUPINGS = 200
NEAR = 0.1
LEAST = 0.01
_MOST_PAIRS = 1_000_000
"""Pairs whose distances give the scale: 1,400 samples have as many."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groupings:
    """The groups of some samples, and how near to each other their designs are."""

    samples: NDArray[np.intp]
    """(GROUPINGS, groups, 1 + others), a baseline first."""
    scale: Floats
    """(GROUPINGS, groups, others), of each other with its baseline."""
    own: Floats
    """(others,), of the designs that are compared."""


def groupings(
    count: int,
    others: int = 1,
    *,
    predicted: Floats | None = None,
    designs: Floats | None = None,
) -> Groupings:
    """How to group samples for a comparison of `others` designs with a baseline.

    `predicted` (n, c) are the predicted coefficients of the samples, `designs` (1 + others, c)
    those of the baseline and the designs: without them all pairs have the scale 1.
    """
    groups = count // (others + 1)
    samples = _orders(count)[:, : groups * (others + 1)].reshape(GROUPINGS, groups, others + 1)
    if predicted is None or designs is None:
        return Groupings(samples, np.ones((GROUPINGS, groups, others)), np.ones(others))
    near = _near(np.concatenate([predicted, designs]))
    return Groupings(samples, _scale(predicted[samples], near), _scale(designs, near))


def difference_bounds(
    residuals: Sequence[float], level: float, grouped: Groupings
) -> tuple[float, ...] | None:
    """The bound of |e_k - e_A| for each of the other designs; all hold at once.

    None where so few samples cannot promise the level. Infinite residuals are allowed, and bounds
    may be infinite: differences of two of them are infinite too. ValueError for a NaN.
    """
    check_level(level)
    known = np.asarray(residuals, np.float64)
    if np.isnan(known).any():
        raise ValueError("residuals must be numbers, got NaN")
    groups = grouped.samples.shape[1]
    place = (groups + 1) * Fraction(str(level))
    if place > groups:
        return None
    scores = np.sort(_scores(known[grouped.samples], grouped.scale), axis=1)
    below, share = math.floor(place), float(place - math.floor(place))
    bounds = scores[:, below - 1] if below else np.zeros(len(scores))
    if share:
        bounds = (1 - share) * bounds + share * scores[:, below]
    return tuple(float(one) for one in bounds.mean() * grouped.own)


@lru_cache(maxsize=8)
def _orders(count: int) -> NDArray[np.intp]:
    """(GROUPINGS, count): the orders in which samples are grouped, always the same."""
    draw = np.random.Generator(np.random.Philox(key=0))
    return np.argsort(draw.random((GROUPINGS, count)), axis=1)


def _scores(residuals: Floats, scale: Floats) -> Floats:
    """(GROUPINGS, groups): the largest scaled difference from the first of each group."""
    finite = np.isfinite(residuals)
    kept = np.where(finite, residuals, 0.0)
    sizes = (np.abs(kept[..., 1:] - kept[..., :1]) / scale).max(2)
    return np.where(finite.all(2), sizes, np.inf)


def _near(points: Floats) -> float:
    """The distance below which NEAR of all pairs lie."""
    points = points[np.isfinite(points).all(1)]
    one, other = np.triu_indices(len(points), 1) if len(points) < 1400 else _some_pairs(len(points))
    if not len(one):
        return 0.0
    return float(np.quantile(np.linalg.norm(points[one] - points[other], axis=1), NEAR))


def _some_pairs(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    draw = np.random.Generator(np.random.Philox(key=1))
    one = draw.integers(count, size=_MOST_PAIRS)
    return one, (one + draw.integers(1, count, size=_MOST_PAIRS)) % count


def _scale(points: Floats, near: float) -> Floats:
    """(..., K): the scale of each pair of the first of (..., 1 + K, c) points with another."""
    distances = np.linalg.norm(points[..., 1:, :] - points[..., :1, :], axis=-1)
    if not near > 0:
        return np.ones_like(distances)
    return np.clip(np.nan_to_num(distances / near, nan=1.0), LEAST, 1.0)


def samples_needed(level: float, others: int = 1) -> int:
    """The fewest samples that can promise the level for so many designs at once."""
    check_level(level)
    exact = Fraction(str(level))
    return (others + 1) * math.ceil(exact / (1 - exact))


def too_few(count: int, level: float, others: int = 1) -> str:
    """What can be promised where the level asked for cannot; percents are rounded down."""
    groups, needed = count // (others + 1), samples_needed(level, others)
    designs = "one design" if others == 1 else f"{others} designs at once"
    least = f"at most {100 * groups // (groups + 1)} %" if groups else "nothing"
    samples = f"{count} sample{'' if count == 1 else 's'}"
    return (
        f"{least} can be promised for {designs} against a baseline with {samples};"
        f" {percent(level)} needs {needed}"
    )
