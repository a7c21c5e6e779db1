from __future__ import annotations

import numpy as np
import pytest

from slipstream.reports.statistics.bootstrap import paired_interval


def tables(seeds: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of which the sample explains most: 50 % between samples, 2 % between seeds."""
    draw = np.random.default_rng(0)
    hard = np.exp(0.5 * draw.standard_normal(samples))
    own = [np.exp(0.02 * draw.standard_normal((seeds, 1))) for _ in range(2)]
    noise = [np.exp(0.02 * draw.standard_normal((seeds, samples))) for _ in range(2)]
    return 0.9 * hard * own[0] * noise[0], hard * own[1] * noise[1]


def test_what_is_hard_for_both_cancels() -> None:
    errors, base = tables(8, 40)
    value, low, high = paired_interval(errors, base)
    assert value == errors.mean() / base.mean() and low < value < high
    assert high - low < 0.06, "unpaired samples would give about 0.4"
    order = np.random.default_rng(1).permutation(40)
    _, worse_low, worse_high = paired_interval(errors[:, order], base)
    assert worse_high - worse_low > 5 * (high - low), "of other samples nothing cancels"


def test_the_interval_is_about_that_of_theory_and_always_the_same() -> None:
    errors, base = tables(8, 400)
    value, low, high = paired_interval(errors, base)
    by_seed = np.log(errors.mean(1)).var() / 8 + np.log(base.mean(1)).var() / 8
    assert (high - low) / value == pytest.approx(2 * 1.96 * np.sqrt(by_seed), rel=0.15)
    assert paired_interval(errors, base) == (value, low, high)


def test_a_single_seed_is_not_drawn_anew_and_shapes_must_fit() -> None:
    errors, base = tables(1, 40)
    value, low, high = paired_interval(errors, base)
    assert low < value < high
    same = paired_interval(errors, errors)
    assert same == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"equal samples, got \(1, 40\) and \(1, 39\)"):
        paired_interval(errors, base[:, :39])
