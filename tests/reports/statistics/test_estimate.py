from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from slipstream.reports.statistics.estimate import (
    LogErrors,
    combine,
    log_ratio,
    share_of_gap,
    trend,
)

THREE, FOUR = [0.24, 0.25, 0.28], [0.19, 0.2, 0.22, 0.27]


def test_a_log_ratio_and_its_interval_are_welchs() -> None:
    estimate = log_ratio(LogErrors.of(THREE), LogErrors.of(FOUR))
    welch = stats.ttest_ind(np.log(THREE), np.log(FOUR), equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert estimate.freedom == pytest.approx(welch.df)
    assert estimate.interval() == pytest.approx((interval.low, interval.high))


def test_an_assumed_scatter_has_no_more_freedom_than_where_it_comes_from() -> None:
    """One seed against three that lend it their scatter: s sqrt(1 + 1/3), 2 degrees of freedom."""
    base = LogErrors.of(THREE)
    single = LogErrors.of([0.3])
    assert log_ratio(single, base).error is None and log_ratio(single, base).interval() is None
    estimate = log_ratio(single.scattering_like(base, "the baseline"), base)
    assert base.scatter is not None
    assert estimate.error == pytest.approx(base.scatter * math.sqrt(4 / 3))
    assert estimate.freedom == 2 and estimate.assumed == "the baseline"


def test_printed_digits_widen_an_estimate() -> None:
    """0.089 +- 0.001 of three runs: the digit adds 0.3 % to 0.6 %, with no loss of freedom."""
    coarse = combine([(1, LogErrors.stated(0.089, 0.001, 3, unit=0.001))])
    fine = combine([(1, LogErrors.stated(0.089, 0.001, 3, unit=0))])
    assert coarse.error == pytest.approx(math.hypot(fine.error or 0, 0.001 / math.sqrt(12) / 0.089))
    assert fine.freedom == pytest.approx(2) and coarse.freedom > 3
    with pytest.raises(ValueError, match="std must be above zero, got 0"):
        LogErrors.stated(0.096, 0.0, 3, unit=0.001)


def test_a_share_of_a_gap_scatters_as_drawn_numbers_do() -> None:
    """Against 200,000 draws: a first-order error bar of scatters of 1 % is good to 3 %."""
    known = [LogErrors(math.log(error), 0.01, 1, 9) for error in (0.04, 0.03, 0.01)]
    estimate = share_of_gap(*known)
    draw = np.random.default_rng(0)
    start, reached, end = (one.mean + 0.01 * draw.standard_normal(200_000) for one in known)
    assert estimate.value == pytest.approx(math.log(4 / 3) / math.log(4))
    assert estimate.error == pytest.approx(((start - reached) / (start - end)).std(), rel=0.03)


def test_a_trend_is_a_regression() -> None:
    places, logs = [math.log(n) for n in (2, 4, 8, 8, 16)], [0.1, 0.07, 0.02, 0.03, 0.0]
    line = stats.linregress(places, logs)
    estimate = trend(places, logs)
    reach = math.log(8)
    assert estimate is not None and estimate.freedom == 3
    assert estimate.value == pytest.approx(line.slope * reach)
    assert estimate.error == pytest.approx(line.stderr * reach)
    assert trend([0.0, 1.0, 1.0], [0.0, 1.0, 1.0]) is None, "two places make no trend"


@pytest.mark.parametrize("errors", [[], [0.1, 0.0], [0.1, math.nan]])
def test_errors_without_a_logarithm_are_refused(errors: list[float]) -> None:
    with pytest.raises(ValueError, match="errors must be positive and at least one, got"):
        LogErrors.of(errors)
