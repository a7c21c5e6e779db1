"""Logarithms of errors as samples, and differences of their means with Welch's error bars.

Errors scatter by per cent, so their logarithms are compared: the difference of two mean logarithms
is the logarithm of a ratio of errors. A worked example: two seeds at 0.0099 and 0.0101 and two at
0.0101 and 0.0103. The mean logarithms differ by 0.0198, a ratio of 1.020. Each sample has a
standard deviation of 1.4 %, so the difference has a standard error of 0.014, with 2 degrees of
freedom: the ratio lies between 0.960 and 1.083 with a probability of 95 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slipstream.reports.statistics.student import quantile


@dataclass(frozen=True)
class LogErrors:
    """The mean of the logarithms of some errors, and their scatter."""

    mean: float
    scatter: float | None
    """Standard deviation of one logarithm; None where it is unknown."""
    count: int
    freedom: float
    """Degrees of freedom of `scatter`."""
    rounding: float = 0.0
    """Variance of the mean that is known beforehand: from the digits that were printed."""
    assumed: str = ""
    """Of which other errors the scatter is; empty where it is their own."""

    @classmethod
    def of(cls, errors: Sequence[float]) -> LogErrors:
        """Of measured errors. ValueError unless all are positive."""
        if not errors or not all(error > 0 and math.isfinite(error) for error in errors):
            raise ValueError(f"errors must be positive and at least one, got {list(errors)}")
        logs = [math.log(error) for error in errors]
        scatter = statistics.stdev(logs) if len(logs) > 1 else None
        return cls(statistics.fmean(logs), scatter, len(logs), len(logs) - 1)

    @classmethod
    def stated(cls, mean: float, std: float | None, count: int, *, unit: float) -> LogErrors:
        """Of a printed mean and standard deviation; `unit` is that of the mean's last digit.

        The rounding of the mean is uniform, of variance unit^2 / 12. A standard deviation that is
        printed as zero must be given as half the unit of its own last digit.
        """
        if std == 0:
            raise ValueError("std must be above zero, got 0: give half the unit of its last digit")
        scatter = None if std is None else std / mean
        return cls(math.log(mean), scatter, count, count - 1, unit**2 / 12 / mean**2)

    def scattering_like(self, other: LogErrors, name: str) -> LogErrors:
        """The same mean with the scatter of others."""
        return replace(self, scatter=other.scatter, freedom=other.freedom, assumed=name)


@dataclass(frozen=True)
class Estimate:
    """A number that was measured, mostly the logarithm of a ratio, with its standard error."""

    value: float
    error: float | None
    """None where it is unknown."""
    freedom: float = math.inf
    spread: float | None = None
    """Its standard error if every sample had one seed: with n seeds of each, spread / sqrt(n).
    None where it does not follow from seeds in this way."""
    samples: int = 2
    """How many samples of errors it is made of."""
    assumed: str = ""
    """Of which errors a single seed's scatter was assumed to be; empty where none was."""

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Two-sided; None where the error is unknown."""
        if self.error is None:
            return None
        reach = self.error * quantile((1 + level) / 2, self.freedom) if self.error else 0.0
        return self.value - reach, self.value + reach


def combine(terms: Sequence[tuple[float, LogErrors]]) -> Estimate:
    """A sum of mean logarithms with factors, as +1 and -1 for a ratio.

    Degrees of freedom are Welch's and Satterthwaite's; where a scatter is assumed, no more than it
    has itself, as it then enters several times.
    """
    value = sum(factor * one.mean for factor, one in terms)
    assumed = "; ".join(dict.fromkeys(one.assumed for _, one in terms if one.assumed))
    variances, rounding, spread = [], 0.0, 0.0
    for factor, one in terms:
        if one.scatter is None:
            return Estimate(value, None, 0, None, len(terms), assumed)
        variances.append((factor**2 * one.scatter**2 / one.count, one.freedom))
        spread += (factor * one.scatter) ** 2
        rounding += factor**2 * one.rounding
    total = sum(variance for variance, _ in variances) + rounding
    uncertain = sum(variance**2 / freedom for variance, freedom in variances)
    freedom = total**2 / uncertain if uncertain else math.inf
    if assumed:
        freedom = min(freedom, *(one.freedom for _, one in terms if one.assumed))
    return Estimate(value, math.sqrt(total), freedom, math.sqrt(spread), len(terms), assumed)


def log_ratio(errors: LogErrors, base: LogErrors) -> Estimate:
    return combine([(1, errors), (-1, base)])


def share_of_gap(start: LogErrors, reached: LogErrors, end: LogErrors) -> Estimate:
    """The part of the way from `start` to `end`, in logarithms, that `reached` has gone.

    Of errors of 0.04, 0.02 and 0.01 a half. The error bar is to first order in the scatters:
    d(share) = ((1 - share) d(start) - d(reached) + share d(end)) / gap.
    """
    gap = start.mean - end.mean
    value = (start.mean - reached.mean) / gap
    change = combine([(1 - value, start), (-1, reached), (value, end)])
    error, spread = (
        None if one is None else one / abs(gap) for one in (change.error, change.spread)
    )
    return replace(change, value=value, error=error, spread=spread)


def trend(places: Sequence[float], logs: Sequence[float]) -> Estimate | None:
    """The change of a straight line through the points, from the smallest place to the largest.

    None for fewer than three points or places. Places are logarithms too where what is varied is
    doubled. The scatter about the line gives the error, with n - 2 degrees of freedom.
    """
    count, reach = len(places), max(places, default=0.0) - min(places, default=0.0)
    if count < 3 or len(set(places)) < 3:
        return None
    middle, level = statistics.fmean(places), statistics.fmean(logs)
    width = sum((place - middle) ** 2 for place in places)
    pairs = list(zip(places, logs, strict=True))
    slope = sum((place - middle) * (log - level) for place, log in pairs) / width
    residuals = [log - level - slope * (place - middle) for place, log in pairs]
    scatter = math.sqrt(sum(residual**2 for residual in residuals) / (count - 2))
    return Estimate(slope * reach, scatter * reach / math.sqrt(width), count - 2)
