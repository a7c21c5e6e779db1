"""How many seeds a verdict would need.

The true value is taken to be the estimate, and the scatter what it was estimated as. The answer is
an order of magnitude for planning: of three seeds the scatter itself is known to a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from slipstream.reports.statistics.estimate import Estimate
from slipstream.reports.statistics.student import quantile
from slipstream.reports.statistics.verdicts import ALPHA, Band

POWER = 0.8
MOST = 1000
"""More seeds than this nobody trains."""
_STEPS = 200
"""Intervals in which the density of the sample's scatter is summed up."""


def seeds_needed(
    estimate: Estimate, band: Band, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Seeds of each sample for `equivalent` if the estimate is in the band, else for its side.

    None where the scatter is unknown or more than MOST seeds would be needed.
    """
    if estimate.spread is None:
        return None
    count, step = 2, 1
    while _power(estimate, band, count, alpha) < power:
        if count > MOST:
            return None
        count, step = count + step, 2 * step
    low, high = max(2, count - step // 2), count
    while low < high:
        middle = (low + high) // 2
        if _power(estimate, band, middle, alpha) < power:
            low = middle + 1
        else:
            high = middle
    return high if high <= MOST else None


def _power(estimate: Estimate, band: Band, count: int, alpha: float) -> float:
    assert estimate.spread is not None
    if estimate.spread == 0:
        return 1.0
    # Welch's degrees of freedom are fewer than those of the samples together: of 4 seeds each 5.0
    # on average, not 6.
    freedom = max(1, estimate.samples * (count - 1) - 1)
    error = estimate.spread / math.sqrt(count)
    up, down = (band.high - estimate.value) / error, (estimate.value - band.low) / error
    if up > 0 and down > 0:
        return equivalence_power(down, up, freedom, alpha)
    return difference_power(max(-up, -down), freedom, alpha)


def equivalence_power(down: float, up: float, freedom: float, alpha: float = ALPHA) -> float:
    """P(both one-sided tests reject), the ends of the band this many errors from the true value."""
    threshold = quantile(1 - alpha, freedom)
    normal = NormalDist()

    def given(scatter: float) -> float:
        reach = threshold * scatter
        return max(0.0, normal.cdf(up - reach) - normal.cdf(reach - down))

    return _over_scatter(given, freedom)


def difference_power(distance: float, freedom: float, alpha: float = ALPHA) -> float:
    """P(a two-sided test of a bound rejects it on the right side), that many errors away."""
    threshold = quantile(1 - alpha / 2, freedom)
    return _over_scatter(lambda scatter: NormalDist().cdf(distance - threshold * scatter), freedom)


def _over_scatter(given: Callable[[float], float], freedom: float) -> float:
    """The mean of a function of s / sigma, whose square times `freedom` has a chi-squared law."""
    reach = 6 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - reach), 1 + reach
    points = [low + (high - low) * (step + 0.5) / _STEPS for step in range(_STEPS)]
    heights = [(freedom - 1) * math.log(s) - freedom * s * s / 2 for s in points]
    top = max(heights)
    weights = [math.exp(height - top) for height in heights]
    total = sum(weight * given(s) for weight, s in zip(weights, points, strict=True))
    return total / sum(weights)
