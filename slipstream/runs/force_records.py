"""Force coefficients of a run's model on the samples of a split, as an evaluation records them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SHOWN = ("cd", "cl", "cs")
"""Coefficients of drag, lift and side force."""
ZERO = 1e-3
"""A coefficient is 0 where it is at most this share of the largest."""


@dataclass(frozen=True)
class SampleForces:
    """Coefficients of one sample by name: from the predicted and from the true fields."""

    predicted: dict[str, float]
    true: dict[str, float]


@dataclass(frozen=True)
class ForceErrors:
    """How well one coefficient is predicted over the samples."""

    mean_absolute: float
    correlation: float | None
    """Pearson's, between predicted and true; None for fewer than three samples or equal ones."""
    r2: float | None
    """1 - sum (predicted - true)^2 / sum (true - mean of true)^2; None as above."""
    mean: float | None
    """Mean absolute error of answering with the mean of the training samples."""
    nearest: float | None
    """The same with the coefficient of the nearest training sample."""


@dataclass(frozen=True)
class ForceSection:
    asked: dict[str, Any]
    """What the user gave: reference values, and conventions that were reversed."""
    definition: str
    """Reference values and conventions of the first sample, for people."""
    samples: dict[str, SampleForces]
    errors: dict[str, ForceErrors]
    """By coefficient: cd, and cl and cs where they are not 0."""
    training: dict[str, dict[str, float]]
    """True coefficients of those training samples that the yardsticks are made of."""
    left_out: dict[str, str]
    """Why samples have no forces."""
    warnings: tuple[str, ...]


def force_errors(
    samples: Mapping[str, SampleForces],
    training: Mapping[str, Mapping[str, float]],
    neighbours: Mapping[str, str],
) -> dict[str, ForceErrors]:
    """The errors of each coefficient. A yardstick is None where a coefficient for it is missing.

    A coefficient other than drag that is 0 in truth, as that of the side force on a symmetric body,
    is left out: at most ZERO of the largest.
    """
    sizes = {n: max(abs(f.true[n]) for f in samples.values()) for n in SHOWN} if samples else {}
    errors = {}
    for name, size in sizes.items():
        if name != SHOWN[0] and size <= ZERO * max(sizes.values()):
            continue
        true = np.array([forces.true[name] for forces in samples.values()])
        predicted = np.array([forces.predicted[name] for forces in samples.values()])
        known = [coefficients[name] for coefficients in training.values()]
        nearest = [training.get(neighbours.get(sample, ""), {}).get(name) for sample in samples]
        errors[name] = ForceErrors(
            _mean_absolute(predicted, true),
            _correlation(predicted, true),
            _r2(predicted, true),
            _mean_absolute(np.full(len(true), np.mean(known)), true) if known else None,
            None if None in nearest else _mean_absolute(nearest, true),
        )
    return errors


def _mean_absolute(predicted: Any, true: Any) -> float:
    return float(np.abs(np.asarray(predicted, np.float64) - true).mean())


def _correlation(predicted: Any, true: Any) -> float | None:
    if len(true) < 3 or not (np.ptp(true) > 0 and np.ptp(predicted) > 0):
        return None
    return float(np.corrcoef(predicted, true)[0, 1])


def _r2(predicted: Any, true: Any) -> float | None:
    if len(true) < 3 or not np.ptp(true) > 0:
        return None
    return float(1 - ((predicted - true) ** 2).sum() / ((true - true.mean()) ** 2).sum())
