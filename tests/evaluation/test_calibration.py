"""Split-conformal quantiles: by brute force, coverage by simulation, too few samples."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from slipstream.evaluation.calibration import (
    band_promise,
    band_score,
    conformal_quantile,
    largest_level,
    percent,
    promise,
    too_few,
)

LEVELS = (0.8, 0.9, 0.95)


def brute_force(scores: list[float], tenths: Fraction) -> float | None:
    """The least score c such that a share of at least `tenths` of n + 1 places is at or below c."""
    fitting = [
        c for c in scores if Fraction(sum(s <= c for s in scores), len(scores) + 1) >= tenths
    ]
    return min(fitting, default=None)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99])
def test_quantiles_by_brute_force(level: float) -> None:
    random = np.random.default_rng(1)
    exact = Fraction(round(level * 100), 100)
    for count in range(1, 131):
        scores = random.integers(0, 50, count).astype(float).tolist()  # with ties
        assert conformal_quantile(scores, level) == brute_force(scores, exact)


@pytest.mark.parametrize("count", [9, 19, 100])
@pytest.mark.parametrize("level", LEVELS)
def test_coverage_is_what_is_promised(count: int, level: float) -> None:
    """Over draws of calibration and new sample the coverage is k / (n + 1), for any distribution:
    at least the level, and not needlessly more."""
    draws = 8_000
    random = np.random.default_rng(7)
    scores = random.lognormal(0, 2, (draws, count + 1))
    bounds = [conformal_quantile(row[:-1].tolist(), level) for row in scores]
    if largest_level(count) < level:
        assert bounds == [None] * draws
        return
    covered = float(np.mean(scores[:, -1] <= np.array(bounds, float)))
    expected = -int(-(count + 1) * Fraction(str(level)) // 1) / (count + 1)
    assert level <= expected < level + 1 / (count + 1)
    assert abs(covered - expected) < 4 * math.sqrt(expected * (1 - expected) / draws)


def test_too_few_samples_say_what_they_can_promise() -> None:
    assert conformal_quantile([0.1] * 8, 0.9) is None
    assert conformal_quantile([*[0.1] * 8, 0.3], 0.9) == 0.3  # 9 of 10 places: exactly 90 %
    assert too_few(6) == "at most 85 % can be promised with 6 samples"  # 6/7 = 0.857
    assert too_few(1) == "at most 50 % can be promised with 1 sample"
    assert too_few(99) == "at most 99 % can be promised with 99 samples"
    assert too_few(0) == "nothing can be promised with 0 samples"
    assert largest_level(6) == 6 / 7


def test_scores_that_are_infinite_or_none() -> None:
    assert conformal_quantile([1.0, math.inf, 2.0], 0.5) == 2.0
    assert conformal_quantile([1.0, math.inf, 2.0], 0.75) == math.inf
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match="scores must be numbers of at least 0"):
            conformal_quantile([1.0, bad], 0.5)
    for level in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            conformal_quantile([1.0], level)


def test_the_band_has_its_share_of_points_within_and_no_more_than_it_needs() -> None:
    random = np.random.default_rng(3)
    for count in (1, 9, 10, 11, 137):
        residuals = random.normal(size=(count, 3))
        lengths = np.sqrt((residuals**2).sum(1)) / 2.5
        width = band_score(residuals, 2.5)
        assert np.mean(lengths <= width * (1 + 1e-12)) >= 0.9
        assert np.mean(lengths < width * (1 - 1e-12)) < 0.9
    residuals = np.zeros((10, 1))
    residuals[0] = np.nan
    assert band_score(residuals, 1.0) == 0.0
    residuals[1] = np.inf
    assert band_score(residuals, 1.0) == math.inf


def test_what_is_promised_names_level_and_samples() -> None:
    assert percent(0.9) == "90 %" and percent(0.975) == "97.5 %"
    for sentence in (promise(40, 0.9), band_promise(40, 0.9)):
        assert "at least 90 %" in sentence and "40 calibration samples" in sentence
