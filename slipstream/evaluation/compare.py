"""Runs of one experiment side by side: best validation error of each variant at equal steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipstream.models.variants import BASELINE, variant_or_default
from slipstream.runs.folder import RunFolder

NOTHING = 0.95
"""A relative L1 error on normalised outputs at or above this may be that of a constant.

Predicting every field's mean has the error 1; a constant at the median of the training targets was
seen to have 0.975, and a model after 100 steps 0.977.
"""
DIVERGED = 1.5
"""A run whose last validation error is more than this times its best has diverged, or overfits."""
_NEAR_BEST = 5
"""Records of the training loss, up to a step, whose mean is the loss at that step."""


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
    by_group: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """The validation error of each group of targets, by step; empty where it was not recorded."""
    losses: Mapping[int, float] = field(default_factory=dict)
    """The training loss by step."""

    @property
    def finished(self) -> bool:
        return 0 < self.reached >= self.steps

    def best_until(self, step: int) -> float:
        return min((e for s, e in self.errors.items() if s <= step), default=math.nan)

    def best_step(self) -> int | None:
        """The step of the smallest validation error; None without a validation."""
        return min(self.errors, key=lambda step: self.errors[step], default=None)

    @property
    def failure(self) -> str | None:
        """Why its best error says nothing about the variant: training diverged, or taught nothing.

        Variants without coupling do not fail by learning nothing: they may be unable to learn.
        """
        best = self.best_until(self.reached)
        if best >= NOTHING and self.variant == BASELINE and self.reached in self.errors:
            means, constant = "that of predicting means 1", f"and a constant may have {NOTHING:g}"
            reference = means if best >= 1 else constant
            return f"it learned nothing: its best error is {best:.3g}, {reference}"
        return self.divergence or self.unlearned

    @property
    def unlearned(self) -> str | None:
        """Which groups of targets it has not learned at its best step.

        On normalised targets predicting means has the error 1 in every group. A mean over groups
        hides it: slice-once on Poisson has 0.66, of 0.31 in the potential and 1.00 in the field.
        """
        groups = self.by_group.get(self.best_step() or 0, {})
        failed = {name: error for name, error in groups.items() if error >= NOTHING}
        pointwise = variant_or_default(self.variant).stream == "pointwise"
        if pointwise or not failed:
            return None
        errors = ", ".join(f"{name} (error {error:.2f})" for name, error in failed.items())
        return f"it did not learn {errors}; predicting means has 1"

    @property
    def divergence(self) -> str | None:
        """How its training diverged, if it did."""
        if not self.reached:
            return None
        if self.reached not in self.errors:
            return f"its training diverged: the error of step {self.reached} is not finite"
        best, last = self.best_until(self.reached), self.errors[self.reached]
        if last > DIVERGED * best and not self._loss_fell():
            return f"its training diverged: the best error is {best:.3g}, the last {last:.3g}"
        return None

    @property
    def overfitting(self) -> str | None:
        """How its validation error rose while its training loss fell, if it did.

        That is no failure: the best error counts, and the model of that step is kept.
        """
        if not self._loss_fell():
            return None
        best, last = self.best_until(self.reached), self.errors.get(self.reached, math.nan)
        if not last > DIVERGED * best:
            return None
        before, after = self._loss_at(self.best_step() or 0), self._loss_at(self.reached)
        return (
            f"it overfits: from step {self.best_step():,} on its validation error rose from"
            f" {best:.3g} to {last:.3g} while its training loss fell from {before:.3g} to"
            f" {after:.3g}"
        )

    def _loss_fell(self) -> bool:
        """Whether the training loss is lower at the end than at the best validation."""
        return self._loss_at(self.reached) < self._loss_at(self.best_step() or 0)

    def _loss_at(self, step: int) -> float:
        """Mean of the last records until a step; NaN where there are none."""
        until = sorted(own for own in self.losses if own <= step)[-_NEAR_BEST:]
        return statistics.fmean(self.losses[own] for own in until) if until else math.nan


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
    by_group = {row["step"]: _numbers(row.get("by_group")) for row in rows}
    losses = {row["step"]: row.get("loss") for row in folder.history("train")}
    return Curve(
        config.experiment,
        config.model.variant,
        config.seed,
        errors,
        reached,
        config.steps,
        {step: groups for step, groups in by_group.items() if groups},
        _numbers(losses),
    )


def _numbers(value: Any) -> dict[Any, float]:
    """The finite numbers of a mapping; nothing where older records have none."""
    pairs = value.items() if isinstance(value, Mapping) else ()
    return {
        name: number
        for name, number in pairs
        if isinstance(number, int | float) and math.isfinite(number)
    }


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
