"""Student's t against SciPy's, which the package itself does without."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from slipstream.reports.statistics.student import exceeds, quantile


@pytest.mark.parametrize("freedom", [0.7, 1, 2, 2.8, 30, 1e4])
def test_tails_and_quantiles_are_those_of_scipy(freedom: float) -> None:
    for t in (-3, 0, 0.1, 2.92, 15, 300):
        assert exceeds(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-9)
    for probability in (0.01, 0.5, 0.8, 0.975, 0.9999):
        expected = stats.t.ppf(probability, freedom)
        assert quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_without_end_it_is_the_normal_distribution() -> None:
    assert quantile(0.975, math.inf) == pytest.approx(stats.norm.ppf(0.975), abs=1e-9)
    assert exceeds(math.inf, 3) == 0.0 and exceeds(-math.inf, 3) == 1.0


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="probability must be between 0 and 1, got 1"):
        quantile(1.0, 3)
    with pytest.raises(ValueError, match="freedom must be positive, got 0"):
        exceeds(1.0, 0)
