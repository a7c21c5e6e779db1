"""Runs of one experiment side by side: best validation error of each variant at equal steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.models.variants import BASELINE
from slipstream.runs.folder import RunFolder

NOTHING = 0.95
"""A relative L1 error on normalised outputs at or above this may be that of a constant.

Predicting every field's mean has the error 1; a constant at the median of the training targets was
seen to have 0.975, and a model after 100 steps 0.977.
"""
DIVERGED = 1.5
"""A run whose last validation error is more than this times its best has diverged."""


@dataclass(frozen=True)
class Curve:
    """The validations of one run."""

    experiment: str
    variant: str
    seed: int
    errors: dict[int, float]
    """The validation error by step; those that were not finite are left out."""
    reached: int
    """The last step that was validated."""
    steps: int = 0
    """The steps of its config; 0 where unknown, and then any number counts as finished."""

    @property
    def finished(self) -> bool:
        return 0 < self.reached >= self.steps

    def best_until(self, step: int) -> float:
        return min((e for s, e in self.errors.items() if s <= step), default=math.nan)

    @property
    def failure(self) -> str | None:
        """Why its best error says nothing about the variant: training diverged, or taught nothing.

        Only the baseline fails by learning nothing; other variants may be unable to learn.
        """
        best = self.best_until(self.reached)
        if best >= NOTHING and self.variant == BASELINE and self.reached in self.errors:
            means, constant = "that of predicting means 1", f"and a constant may have {NOTHING:g}"
            reference = means if best >= 1 else constant
            return f"it learned nothing: its best error is {best:.3g}, {reference}"
        return self.divergence

    @property
    def divergence(self) -> str | None:
        """How its training diverged, if it did."""
        if not self.reached:
            return None
        if self.reached not in self.errors:
            return f"its training diverged: the error of step {self.reached} is not finite"
        best, last = self.best_until(self.reached), self.errors[self.reached]
        if last > DIVERGED * best:
            return f"its training diverged: the best error is {best:.3g}, the last {last:.3g}"
        return None


@dataclass(frozen=True)
class Row:
    """A variant in the table of an experiment."""

    experiment: str
    variant: str
    step: int
    """The step up to which the variants are compared: the last that every run has reached."""
    seeds: tuple[int, ...]
    errors: tuple[float, ...]
    """Best validation error of each seed."""
    mean: float
    std: float | None
    """Standard deviation over the seeds; None for a single one."""
    ratio: float | None
    """Mean over the mean of the baseline; None without a baseline."""

    @property
    def learned(self) -> bool:
        """Whether every seed is better than a constant at this step."""
        return max(self.errors) < NOTHING


def ratio_std(row: Row, base: Row) -> float | None:
    """Standard deviation of a ratio of means, to first order; None for a single seed of either."""
    if row.std is None or base.std is None or not (row.mean and base.mean):
        return None
    spread = (row.std / row.mean) ** 2 + (base.std / base.mean) ** 2
    return abs(row.mean / base.mean) * math.sqrt(spread)


def read_curve(folder: RunFolder) -> Curve:
    """The validations of a run so far; ValueError where its files cannot be read."""
    config = folder.read_config()
    rows = folder.history("validation")
    errors = {row["step"]: row["error"] for row in rows if row["error"] is not None}
    reached = max((row["step"] for row in rows), default=0)
    variant = config.model.variant
    return Curve(config.experiment, variant, config.seed, errors, reached, config.steps)


def compare(curves: Sequence[Curve]) -> list[Row]:
    """A row for each experiment and variant, in the order they come.

    Left out are curves without a validation and, if a run of the experiment has finished, those
    that have not. Every error is the best up to the last step that all remaining runs reached; a
    run that was not validated by then is left out too. With runs of 1,000 and 2,000 steps, the
    errors are the best of the first 1,000 steps of each.
    """
    rows = []
    for experiment in dict.fromkeys(curve.experiment for curve in curves):
        own = [curve for curve in curves if curve.experiment == experiment]
        done = [curve for curve in own if curve.finished] or own
        validated = [curve for curve in done if curve.errors]
        if validated:
            rows += _of_experiment(validated)
    return rows


def _of_experiment(curves: Sequence[Curve]) -> list[Row]:
    step = min(curve.reached for curve in curves)
    errors: dict[str, dict[int, float]] = {}
    for curve in curves:
        if min(curve.errors) <= step:
            errors.setdefault(curve.variant, {})[curve.seed] = curve.best_until(step)
    means = {variant: statistics.fmean(by_seed.values()) for variant, by_seed in errors.items()}
    base = means.get(BASELINE)
    return [
        Row(
            curves[0].experiment,
            variant,
            step,
            tuple(by_seed),
            tuple(by_seed.values()),
            means[variant],
            statistics.stdev(by_seed.values()) if len(by_seed) > 1 else None,
            means[variant] / base if base else None,
        )
        for variant, by_seed in errors.items()
    ]
