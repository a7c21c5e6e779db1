"""How many samples an error takes, from the curves of a forecast: one of four verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slipstream.training.learning_curve import (
    FARTHEST,
    CurveDraws,
    Interval,
    Trainings,
    draw_curves,
    interval,
)

Verdict = Literal["reached", "needed", "never", "unknown"]
AHEAD = (1, 2, 4)
"""Multiples of the samples there are, at which the error is forecast."""


@dataclass(frozen=True)
class Answer:
    """What can be said; intervals are of one new training with the level's probability."""

    verdict: Verdict
    """reached: the samples there are suffice. needed: the number has a bound. never: no number up
    to `FARTHEST` times those there are suffices. unknown: neither can be told."""
    target: float
    level: float
    samples: int
    """Training samples there are."""
    needed: Interval
    """Training samples altogether for the target; infinite where no number suffices."""
    none_suffices: float
    """The probability that no number suffices."""
    errors: dict[int, Interval]
    """By the number of training samples."""
    limit: Interval
    """The error with `FARTHEST` times the samples."""
    own_share: float
    """The error on samples of the training over that on new ones, with all samples there are."""


def check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value:g}")


def answer(trainings: Trainings, target: float, level: float) -> Answer:
    """The answer at a level; ValueError where target or level is none between 0 and 1."""
    check_share("target", target)
    check_share("level", level)
    curves = draw_curves(trainings)
    samples = trainings.largest
    draws = curves.samples_for(target)
    needed = interval(draws, level)
    return Answer(
        verdict=_verdict(needed, samples),
        target=target,
        level=level,
        samples=samples,
        needed=needed,
        none_suffices=float(np.isinf(draws).mean()),
        errors={samples * k: _at(curves, samples * k, level) for k in AHEAD},
        limit=_at(curves, samples * FARTHEST, level),
        own_share=trainings.own_share,
    )


def _at(curves: CurveDraws, samples: int, level: float) -> Interval:
    return interval(curves.errors_at(samples), level)


def _verdict(needed: Interval, samples: int) -> Verdict:
    if needed.high <= samples:
        return "reached"
    if math.isinf(needed.low):
        return "never"
    return "unknown" if math.isinf(needed.high) else "needed"
