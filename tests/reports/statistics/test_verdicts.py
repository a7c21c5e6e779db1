"""Verdicts, their levels, the power of their tests, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from slipstream.reports.statistics.correction import levels
from slipstream.reports.statistics.estimate import Estimate, LogErrors, log_ratio
from slipstream.reports.statistics.power import difference_power, equivalence_power, seeds_needed
from slipstream.reports.statistics.verdicts import Band, inside, weigh

TEN = Band.of_ratios(1 / 1.1, 1.1)


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (0.03, 0.02, "equivalent"),
        (0.16, 0.02, "above"),
        (-0.16, 0.02, "below"),
        (0.12, 0.02, "different"),
        (0.03, 0.04, "undecided"),
        (0.05, 0.001, "equivalent"),
        (0.0, None, "undecided"),
        (math.nan, 0.01, "undecided"),
        (0.2, 0.0, "above"),
        (TEN.high, 0.0, "equivalent"),
    ],
)
def test_the_part_of_the_scale_that_an_estimate_lies_in(
    value: float, error: float | None, verdict: str
) -> None:
    assert weigh(Estimate(value, error, 4), TEN).verdict() == verdict


def test_equivalence_is_two_one_sided_tests() -> None:
    one, other = [0.24, 0.25, 0.26], [0.23, 0.25, 0.26]
    weight = weigh(log_ratio(LogErrors.of(one), LogErrors.of(other)), TEN)
    a, b = np.log(one), np.log(other)
    low = stats.ttest_ind(a - TEN.low, b, equal_var=False, alternative="greater").pvalue
    high = stats.ttest_ind(a - TEN.high, b, equal_var=False, alternative="less").pvalue
    assert (weight.not_below, weight.not_above) == pytest.approx((low, high))
    assert weight.equivalent == pytest.approx(max(low, high))
    assert weight.different == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)


def _sample(logs: np.ndarray) -> LogErrors:
    return LogErrors.of(np.exp(logs).tolist())


@pytest.mark.parametrize("true", [0.0, TEN.high, TEN.high + 1e-9, 0.03, -0.2])
def test_a_verdict_is_wrong_in_at_most_five_of_a_hundred_studies(true: float) -> None:
    """4,000 studies of three seeds each that scatter by 4 %, wherever the true ratio lies."""
    draw = np.random.default_rng(1)
    right = {"below"} if true < TEN.low else {"above"} if true > TEN.high else {"equivalent"}
    right |= {"undecided"} | ({"different"} if true else set())
    wrong = 0
    for a, b in draw.standard_normal((4000, 2, 3)) * 0.04:
        estimate = log_ratio(_sample(a + true), _sample(b))
        wrong += weigh(estimate, TEN).verdict() not in right
    assert wrong / 4000 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


def test_a_range_of_somebody_else() -> None:
    paper = Band.of_ratios(0.974, 1.079)
    places = [
        inside(Estimate(math.log(ratio), 0.01, 9), paper) for ratio in (1.03, 0.76, 1.2, 1.07)
    ]
    assert places == ["inside", "below", "above", "open"]
    with pytest.raises(ValueError, match="low must be at most high = 0.9, got 1.0"):
        Band(1.0, 0.9)


def test_levels_are_holms_from_the_largest_down() -> None:
    assert levels([0.01, 0.03, 0.04]) == [0.05] * 3, "all hold where the largest does"
    assert levels([0.2, 0.01, 0.03]) == pytest.approx([0.05, 0.05 / 3, 0.025])
    assert levels([0.03]) == [0.05] and levels([]) == []


def test_power_is_that_of_the_noncentral_t() -> None:
    for freedom in (2, 4, 10):
        expected = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, 3)
        assert difference_power(3, freedom) == pytest.approx(expected, abs=1e-4)
    draw = np.random.default_rng(0)
    normal, scatter = draw.standard_normal(100_000), np.sqrt(draw.chisquare(8, 100_000) / 8)
    reach = stats.t.ppf(0.95, 8) * scatter
    expected = np.mean((normal + 4 > reach) & (normal - 4 < -reach))
    assert equivalence_power(4, 4, 8) == pytest.approx(expected, abs=0.004)


def test_seeds_needed_are_the_fewest_that_suffice() -> None:
    """Scatters of 4 % each and a true ratio of 1, against 3,000 studies of so many seeds."""
    spread = 0.04 * math.sqrt(2)
    count = seeds_needed(Estimate(0.0, 0.03, 4, spread), TEN)
    assert count == 5
    shares = []
    for seeds in (count - 1, count):
        pairs = np.random.default_rng(2).standard_normal((3000, 2, seeds)) * 0.04
        verdicts = [weigh(log_ratio(_sample(a), _sample(b)), TEN).verdict() for a, b in pairs]
        shares.append(verdicts.count("equivalent") / 3000)
    assert shares[0] < 0.8 < shares[1]
    assert seeds_needed(Estimate(0.4, 0.03, 4, spread), TEN) == 3
    assert seeds_needed(Estimate(TEN.high, 0.03, 4, spread), TEN) is None, "no number suffices"
    assert seeds_needed(Estimate(0.0, None), TEN) is None
    assert seeds_needed(Estimate(0.0, 0.03, 2, 0.04, samples=1), TEN) == 4, "of one sample"
    assert seeds_needed(Estimate(0.0, 0.0, 4, 0.0), TEN) == 2
