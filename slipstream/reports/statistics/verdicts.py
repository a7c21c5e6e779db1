"""What an estimate says about a band of values that count as equal.

The band cuts all values into three parts: below, inside and above. An estimate is tested against
all three at once (three-sided testing, Goeman, Solari and Stijnen 2010): `equivalent` rejects below
and above, each one-sided (TOST); `above` rejects below and the band, the band two-sided, so that a
verdict is wrong with a probability of at most alpha wherever the true value lies. Where no part is
left alone, but the value differs from zero two-sided, it is `different`.

A worked example with the band of 0.909 to 1.1, that is +-0.0953 in logarithms, a standard error of
0.02 and 4 degrees of freedom, alpha 5 %. An estimate of 0.03 is 3.3 errors below the upper end and
6.3 above the lower one, t(0.95) is 2.13: equivalent. An estimate of 0.16 is 3.2 errors above the
band, t(0.975) is 2.78: above. Of 0.12 it is 1.2 above the band and 6 from zero: different.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from slipstream.reports.statistics.estimate import Estimate
from slipstream.reports.statistics.student import exceeds

Verdict = Literal["equivalent", "below", "above", "different", "undecided"]
ALPHA = 0.05


@dataclass(frozen=True)
class Band:
    """The values that count as equal, on the scale of the estimates."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"low must be at most high = {self.high}, got {self.low}")

    @classmethod
    def of_ratios(cls, low: float, high: float) -> Band:
        """From ratios to their logarithms."""
        return cls(math.log(low), math.log(high))


@dataclass(frozen=True)
class Weight:
    """The probabilities of data at least as extreme if a verdict were wrong."""

    equivalent: float
    below: float
    above: float
    different: float
    not_above: float
    """One-sided: at most as large as the upper end of the band."""
    not_below: float

    def verdict(self, alpha: float = ALPHA) -> Verdict:
        """The strongest verdict at this level."""
        if self.equivalent <= alpha:
            return "equivalent"
        if self.above <= alpha:
            return "above"
        if self.below <= alpha:
            return "below"
        return "different" if self.different <= alpha else "undecided"

    @property
    def smallest(self) -> float:
        """The smallest level at which there is a verdict."""
        return min(self.equivalent, self.below, self.above, self.different)


NOTHING = Weight(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""Of an estimate whose error is unknown."""


def weigh(estimate: Estimate, band: Band) -> Weight:
    """How much an estimate speaks for each verdict."""
    if estimate.error is None or not math.isfinite(estimate.value):
        return NOTHING
    if estimate.error == 0:
        return _known(estimate.value, band)

    def beyond(bound: float) -> float:
        """P(an estimate at least as large if the true value were `bound`)."""
        return _tail(estimate.value - bound, estimate)

    not_above, not_below = _tail(band.high - estimate.value, estimate), beyond(band.low)
    return Weight(
        equivalent=max(not_above, not_below),
        below=min(1.0, 2 * _tail(band.low - estimate.value, estimate)),
        above=min(1.0, 2 * beyond(band.high)),
        different=min(1.0, 2 * _tail(abs(estimate.value), estimate)),
        not_above=not_above,
        not_below=not_below,
    )


def _known(value: float, band: Band) -> Weight:
    """Of a number without scatter; the ends belong to the band."""
    below, above = value < band.low, value > band.high
    return Weight(
        equivalent=float(below or above),
        below=float(not below),
        above=float(not above),
        different=float(value == 0),
        not_above=float(above),
        not_below=float(below),
    )


def _tail(distance: float, estimate: Estimate) -> float:
    """P(an error at least as large as this distance, with its sign)."""
    assert estimate.error
    return exceeds(distance / estimate.error, estimate.freedom)


def inside(estimate: Estimate, band: Band, alpha: float = ALPHA) -> str:
    """Whether a value lies in a range that somebody else found: inside, below, above, or open."""
    weight = weigh(estimate, band)
    if weight.equivalent <= alpha:
        return "inside"
    if weight.above <= alpha:
        return "above"
    return "below" if weight.below <= alpha else "open"
