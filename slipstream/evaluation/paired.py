"""Intervals of the differences between designs, from the residuals of calibration samples.

Let e_A and e_1, ..., e_K be the errors (predicted less true) of a coefficient on a baseline and K
other designs. The error of the difference to the baseline is e_k - e_A: what the errors have in
common cancels. If these designs and the n calibration samples are exchangeable, then K + 1 samples
of the calibration in any order are as the designs are. One grouping cuts the samples, in an order
that does not depend on their residuals, into m = floor(n / (K + 1)) groups of a baseline and K
others. The score of a group is its largest |e_k - e_A|; the m scores are exchangeable with that of
the designs, so that the ceil((m + 1) level)-th smallest bounds all K differences at once with a
probability of at least the level: for any model and any n (see `calibration`).

A single grouping wastes what the others know, and its bound depends on the draw. The bound here is
the mean over GROUPINGS of them, each interpolated between the two order statistics around
(m + 1) level. Let F be the probability that the score of the designs is at most t. Where F is
concave, F(mean of t_g) is at least the mean of the F(t_g), whose expectation is the level, so the
promise is kept. For one other design (K = 1) F is concave where residuals are independent draws
of a density with one peak: their difference then has a density that falls from 0 on. Otherwise
nothing is proven; tests and `slipstream bench compare` measure it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from slipstream.evaluation.calibration import check_level, percent

GROUPINGS = 200


def difference_bound(residuals: Sequence[float], level: float, others: int = 1) -> float | None:
    """The bound of |e_k - e_A| for all of `others` designs at once.

    None where so few samples cannot promise the level. Infinite residuals are allowed, and the
    bound may be infinite: differences of two of them are infinite too. ValueError for a NaN.
    """
    check_level(level)
    known = np.asarray(residuals, np.float64)
    if np.isnan(known).any():
        raise ValueError("residuals must be numbers, got NaN")
    groups = len(known) // (others + 1)
    place = (groups + 1) * Fraction(str(level))
    if place > groups:
        return None
    scores = np.sort(_scores(known, groups, others + 1), axis=1)
    below, share = math.floor(place), float(place - math.floor(place))
    bounds = scores[:, below - 1] if below else np.zeros(len(scores))
    if share:
        bounds = (1 - share) * bounds + share * scores[:, below]
    return float(bounds.mean())


def _scores(residuals: NDArray[np.float64], groups: int, size: int) -> NDArray[np.float64]:
    """(GROUPINGS, groups): the largest difference from the first of each group."""
    draw = np.random.Generator(np.random.Philox(key=0))
    orders = np.argsort(draw.random((GROUPINGS, len(residuals))), axis=1)[:, : groups * size]
    grouped = residuals[orders].reshape(GROUPINGS, groups, size)
    finite = np.isfinite(grouped)
    kept = np.where(finite, grouped, 0.0)
    sizes = np.abs(kept[..., 1:] - kept[..., :1]).max(2)
    return np.where(finite.all(2), sizes, np.inf)


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
