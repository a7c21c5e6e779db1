"""A learning curve from trainings on few sizes, and what may be said beyond them.

    error(n) = level * (floor + (1 - floor) * (n / largest)^-exponent) * luck

`floor` is the share of the error at the largest size that no number of samples removes. It lies
between 1 and what the model has on the samples it was trained with, over what it has on new ones:
as samples are added at equal steps, the one error rises and the other falls, to a common limit.

Three sizes tell an exponent and a floor apart badly, so no single curve is fitted. Exponents and
floors of a grid are weighed by how well the trainings agree with them, with level and scatter
integrated out (a Student t). Each draw is a curve of this posterior, on validation samples drawn
with replacement, and one new training with its luck: an interval holds what is not known of
exponent, floor, level, scatter and validation samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.core.runtime import derive_seed

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]

RESAMPLES, CURVES = 200, 50
"""Draws of validation samples, and curves of each."""
EXPONENTS = np.linspace(0.04, 2.0, 50)
"""Equally likely before the trainings are seen."""
FLOORS = np.linspace(0.0, 0.995, 30) ** 4
"""From the lowest possible floor, 0, to the highest, 1; equally likely before. The powers put half
of them within 6 % of the lowest: many curves have no other."""
PRIOR_COUNT, PRIOR_SCATTER = 2.0, 0.05
"""Of the logarithm of the error of one training: as if two had been seen before, 5 % off."""
BEND = 0.03
"""Standard deviation, for each of the first `BENDS` doublings beyond the largest size, of the
logarithm of the error: curves are of the form above only about."""
BENDS = 3
FARTHEST = 100
"""Numbers above this many times the largest size count as none: nobody can know so far ahead."""


@dataclass(frozen=True)
class Trainings:
    """What trainings on subsets have reached."""

    sizes: Whole
    """Training samples of each, (T,)."""
    errors: Numbers
    """Relative error of each on every validation sample and group, (T, V, G); NaN where it is not
    defined, for all trainings alike."""
    own: tuple[Numbers, ...]
    """Relative error of each on samples that it was trained with, (W, G) each."""

    def __post_init__(self) -> None:
        if self.errors.ndim != 3 or not len(self.errors) == len(self.sizes) == len(self.own):
            raise ValueError(
                f"errors must have shape (T, V, G) with T = {len(self.sizes)}, got"
                f" {self.errors.shape} and {len(self.own)} own ones"
            )
        if len(set(self.sizes.tolist())) < 3:
            raise ValueError(f"sizes must be at least three, got {sorted(set(self.sizes))}")
        defined = self.errors[~np.isnan(self.errors)]
        if not len(defined) or not np.all(np.isfinite(defined)) or not np.all(defined > 0):
            raise ValueError("the errors of all trainings must be finite and above 0, got others")

    @property
    def largest(self) -> int:
        return int(self.sizes.max())

    @property
    def own_share(self) -> float:
        """The error on samples of the training over that on new ones, at the largest size."""
        at = self.sizes == self.largest
        return float(self.own_means()[at].mean() / self.means()[at].mean())

    def own_means(self) -> Numbers:
        """The error of each training on samples that it was trained with."""
        return np.array([np.nanmean(one) for one in self.own])

    def resampled(self, draw: np.random.Generator) -> Trainings:
        """The same trainings on samples drawn with replacement, the same new ones for all."""
        count = self.errors.shape[1]
        while True:
            errors = self.errors[:, draw.integers(count, size=(count,))]
            if not np.isnan(errors[0]).all():
                break
        own = tuple(one[draw.integers(len(one), size=(len(one),))] for one in self.own)
        return Trainings(self.sizes, errors, own)

    def means(self) -> Numbers:
        """The error of each training over the validation samples."""
        return np.asarray(np.nanmean(self.errors, axis=(1, 2)))


@dataclass(frozen=True)
class Interval:
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class CurveDraws:
    """Curves, a number each; see the head of this file."""

    largest: int
    level: Numbers
    exponent: Numbers
    floor: Numbers
    luck: Numbers
    """The logarithm of what a new training adds."""
    bend: Numbers
    """The logarithm of the error over what the form says, for each doubling."""

    def errors_at(self, samples: float | int) -> Numbers:
        """The error of a new training with this many samples, by draw."""
        ratio = float(samples) / self.largest
        shape = self.floor + (1 - self.floor) * ratio**-self.exponent
        doublings = min(max(0.0, float(np.log2(ratio))), BENDS)
        return np.asarray(self.level * shape * np.exp(self.luck + self.bend * doublings))

    def samples_for(self, target: float) -> Numbers:
        """How many samples a new training needs for an error of `target`, by draw.

        Infinite where the error is above it with all numbers up to `FARTHEST` times the largest.
        """
        needed = np.full(len(self.level), np.inf)
        steps = np.arange(-4, np.log2(FARTHEST), 1 / 32)
        for samples in (self.largest * 2.0**steps)[::-1]:
            needed[self.errors_at(samples) <= target] = samples
        return needed


def draw_curves(trainings: Trainings, *, seed: int = 0, resamples: int = RESAMPLES) -> CurveDraws:
    """`resamples` times `CURVES` curves, a pure function of the trainings and the seed."""
    draw = np.random.default_rng(derive_seed(seed, "learning curve"))
    parts = [_posterior(trainings.resampled(draw), draw) for _ in range(resamples)]
    level, exponent, floor, luck = (np.concatenate(part) for part in zip(*parts, strict=True))
    bend = BEND * draw.standard_normal(len(level))
    return CurveDraws(trainings.largest, level, exponent, floor, luck, bend)


def interval(values: Numbers, level: float) -> Interval:
    """The median and the central interval; infinities are values like others."""
    tail = (1 - level) / 2
    low, middle, high = (_quantile(values, share) for share in (tail, 0.5, 1 - tail))
    return Interval(low, middle, high)


def _quantile(values: Numbers, share: float) -> float:
    """Without interpolation, which between a number and infinity is none."""
    ordered = np.sort(values)
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


def _posterior(
    trainings: Trainings, draw: np.random.Generator
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Level, exponent, floor and luck of `CURVES` curves that agree with the trainings."""
    lowest = min(1.0, trainings.own_share)
    floors = lowest + (1 - lowest) * FLOORS
    logs = np.log(trainings.means())
    residuals = logs - _log_shapes(trainings.sizes / trainings.largest, floors)  # [E, F, T]
    offsets = residuals.mean(-1)
    squares = ((residuals - offsets[..., None]) ** 2).sum(-1)
    count = PRIOR_COUNT + len(logs) - 1
    total = PRIOR_COUNT * PRIOR_SCATTER**2 + squares
    weights = (total / total.min()) ** (-count / 2)
    picked = draw.choice(weights.size, CURVES, p=weights.ravel() / weights.sum())
    at_exponent, at_floor = np.unravel_index(picked, weights.shape)
    deviation = np.sqrt(total.ravel()[picked] / draw.chisquare(count, CURVES))
    noise = draw.standard_normal((2, CURVES))
    level = np.exp(offsets.ravel()[picked] + deviation * noise[0] / np.sqrt(len(logs)))
    return level, EXPONENTS[at_exponent], floors[at_floor], deviation * noise[1]


def _log_shapes(ratios: Numbers, floors: Numbers) -> Numbers:
    """Logarithms of errors over that of the largest size, by exponent, floor and training."""
    powers = ratios ** -EXPONENTS[:, None]  # [E, T]
    return np.log(floors[:, None] + (1 - floors[:, None]) * powers[:, None, :])
