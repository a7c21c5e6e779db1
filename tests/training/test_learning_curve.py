"""The mathematics of a forecast, on curves that are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from slipstream.training.forecast_answer import answer
from slipstream.training.learning_curve import (
    FARTHEST,
    Trainings,
    draw_curves,
    interval,
)

Curve = Callable[[int], float]
SIZES = np.repeat([40, 80, 160], 3)


def trained(
    curve: Curve, own: float, *, scatter: float = 0.04, seed: int = 0, validation: int = 48
) -> Trainings:
    """Three trainings of each size on a curve; validation samples differ by 30 %."""
    draw = np.random.default_rng(seed)
    sample = np.exp(0.3 * draw.standard_normal(validation) - 0.045)
    luck = np.exp(scatter * draw.standard_normal(len(SIZES)))
    means = np.array([curve(int(size)) for size in SIZES]) * luck
    errors = means[:, None] * sample * np.exp(0.1 * draw.standard_normal((9, validation)))
    known = own * np.exp(0.3 * draw.standard_normal((9, 40, 1)) - 0.045)
    return Trainings(SIZES, errors[..., None], tuple(known))


@pytest.mark.parametrize(
    ("curve", "own"),
    [
        (lambda n: n**-0.5, 1e-3),
        (lambda n: 0.08 + n**-0.5, 0.05),
        (lambda n: 0.27 * max(1.0, 160 / n) ** 0.18, 0.22),
    ],
    ids=["power", "floor", "power that ends"],
)
def test_ninety_percent_intervals_hold_a_new_training(curve: Curve, own: float) -> None:
    """Four times beyond the largest size, on new samples of which 48 have been seen."""
    inside, widths = 0, []
    for seed in range(50):
        curves = draw_curves(trained(curve, own, seed=seed), resamples=8)
        said = interval(curves.errors_at(640), 0.9)
        luck = 0.04 * np.random.default_rng(1000 + seed).standard_normal()
        inside += said.low <= curve(640) * math.exp(luck) <= said.high
        widths.append(said.high / said.low)
    assert inside >= 42, f"{inside} of 50"
    assert np.median(widths) < 1.9, "or it says nothing"


def test_an_interval_is_wider_the_less_is_known() -> None:
    def width(trainings: Trainings, samples: int) -> float:
        said = interval(draw_curves(trainings, resamples=50).errors_at(samples), 0.9)
        return said.high / said.low

    def curve(n: int) -> float:
        return n**-0.5

    usual = trained(curve, 1e-3)
    assert width(usual, 640) > 1.1 * width(usual, 320) > 1.1 * width(usual, 160)
    assert width(trained(curve, 1e-3, scatter=0.15), 640) > 1.2 * width(usual, 640)
    lucky = width(trained(curve, 1e-3, scatter=0.15), 160)
    assert lucky > 1.4, "of a new training, not of the mean of nine"
    few = trained(curve, 1e-3, validation=4, seed=2)
    many = Trainings(few.sizes, np.tile(few.errors, (1, 100, 1)), few.own)
    assert width(few, 160) > 1.15 * width(many, 160), "the same errors, on 4 samples and on 400"
    one_order = Trainings(usual.sizes[::3], usual.errors[::3], usual.own[::3])
    assert width(one_order, 640) > 1.1 * width(usual, 640)


def test_the_four_answers() -> None:
    def halving(n: int) -> float:  # 0.08 at 160
        return 0.08 * (160 / n) ** 0.5

    steep = trained(halving, 1e-3, scatter=0.005, validation=2000)
    there = answer(steep, 0.1, 0.9)
    assert there.verdict == "reached" and there.needed.high <= 160
    more = answer(steep, 0.07, 0.9)
    assert more.verdict == "needed"
    assert 160 < more.needed.low < 160 * (0.08 / 0.07) ** 2 < more.needed.high < 640
    assert answer(steep, 0.008, 0.9).verdict == "unknown", "a floor cannot be excluded"
    flat = trained(lambda n: 0.3, 0.28)
    never = answer(flat, 0.05, 0.9)
    assert never.verdict == "never" and never.none_suffices > 0.99
    assert math.isinf(never.needed.low) and 0.22 < never.limit.low < never.limit.high < 0.38
    assert there == answer(steep, 0.1, 0.9), "the same to the bit"


def test_a_model_that_knows_its_samples_no_better_has_a_floor() -> None:
    """The same errors on new samples: what the model has on its own decides."""

    def curve(n: int) -> float:
        return 0.3 * (160 / n) ** 0.3

    learns, limited = (answer(trained(curve, own), 0.15, 0.9) for own in (0.01, 0.28))
    assert limited.verdict == "never" and learns.verdict != "never"
    assert learns.none_suffices < 0.6 and limited.own_share == pytest.approx(0.28 / 0.3, rel=0.15)


def test_numbers_of_samples_agree_with_errors() -> None:
    curves = draw_curves(trained(lambda n: n**-0.5, 1e-3), resamples=10)
    needed = curves.samples_for(0.06)
    known = np.isfinite(needed)
    assert 0.3 < known.mean() < 1 and needed[known].max() <= FARTHEST * 160
    enough = np.array([curves.errors_at(n)[k] for k, n in enumerate(needed) if known[k]])
    assert np.all(enough <= 0.06) and np.median(enough) == pytest.approx(0.06, rel=0.05)


def test_undefined_errors_are_left_out_and_bad_ones_refused() -> None:
    usual = trained(lambda n: n**-0.5, 1e-3)
    gaps = usual.errors.copy()
    gaps[:, ::2] = np.nan
    means = Trainings(usual.sizes, gaps, usual.own).means()
    assert means == pytest.approx(usual.errors[:, 1::2, 0].mean(1))
    for errors, sizes, message in (
        (usual.errors * np.inf, usual.sizes, "finite and above 0"),
        (usual.errors[..., 0], usual.sizes, r"shape \(T, V, G\)"),
        (usual.errors, np.repeat([40, 80, 80], 3), "at least three"),
    ):
        with pytest.raises(ValueError, match=message):
            Trainings(sizes, errors, usual.own)
    for target in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="target must be between 0 and 1"):
            answer(usual, target, 0.9)
