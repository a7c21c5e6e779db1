"""How often the intervals of a forecast hold, on learning curves that are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.core.runtime import derive_seed
from slipstream.training.learning_curve import Interval, Trainings, draw_curves, interval

SIZES = (40, 80, 160)
AHEAD = (320, 640)
SAMPLES, SPREAD, TOGETHER = 48, 0.3, 0.1
"""Validation samples; the spread of the logarithms of their errors, and what of a sample's is not
the same in all trainings."""
RESAMPLES = 40


@dataclass(frozen=True)
class KnownCurve:
    error: Callable[[float], float]
    """By the number of training samples."""
    own: float
    """On samples of the training, with the largest size."""


CURVES: dict[str, KnownCurve] = {
    "n^-0.3": KnownCurve(lambda n: n**-0.3, 1e-3),
    "n^-0.5": KnownCurve(lambda n: n**-0.5, 1e-3),
    "1/n": KnownCurve(lambda n: 1 / n, 1e-5),
    "0.08 + n^-0.5": KnownCurve(lambda n: 0.08 + n**-0.5, 0.05),
    "0.05 + 3 n^-0.7": KnownCurve(lambda n: 0.05 + 3 * n**-0.7, 0.01),
    "0.3": KnownCurve(lambda n: 0.3, 0.27),
    "n^-0.18 that ends at 160": KnownCurve(lambda n: 0.27 * max(1.0, 160 / n) ** 0.18, 0.22),
}


def coverage(
    name: str, *, draws: int, orders: int, scatter: float, level: float = 0.9
) -> list[dict[str, Any]]:
    """Of so many forecasts, how many intervals hold a new training; a row for each number ahead."""
    curve, rows = CURVES[name], []
    said: dict[int, list[tuple[Interval, float]]] = {samples: [] for samples in AHEAD}
    for number in range(draws):
        draw = np.random.default_rng(derive_seed(number, "known curve", name, orders, scatter))
        curves = draw_curves(_trainings(curve, orders, scatter, draw), resamples=RESAMPLES)
        for samples, pairs in said.items():
            truth = curve.error(samples) * math.exp(scatter * draw.standard_normal())
            pairs.append((interval(curves.errors_at(samples), level), truth))
    for samples, pairs in said.items():
        widths = [one.high / one.low for one, _ in pairs]
        rows.append(
            {
                "curve": name,
                "samples": samples,
                "orders": orders,
                "scatter": scatter,
                "level": level,
                "forecasts": draws,
                "inside": sum(one.low <= truth <= one.high for one, truth in pairs),
                "below": sum(truth < one.low for one, truth in pairs),
                "high_over_low": float(np.median(widths)),
            }
        )
    return rows


def _trainings(
    curve: KnownCurve, orders: int, scatter: float, draw: np.random.Generator
) -> Trainings:
    sizes = np.repeat(SIZES, orders)
    luck = np.exp(scatter * draw.standard_normal(len(sizes)))
    means = np.array([curve.error(int(size)) for size in sizes]) * luck
    shared = _spread(draw, SPREAD, (1, SAMPLES))
    errors = means[:, None] * shared * _spread(draw, TOGETHER, (len(sizes), SAMPLES))
    own = curve.own * _spread(draw, SPREAD, (len(sizes), SIZES[0], 1))
    return Trainings(sizes, errors[..., None], tuple(own))


def _spread(draw: np.random.Generator, width: float, shape: tuple[int, ...]) -> Any:
    """Factors whose mean is 1."""
    return np.exp(width * draw.standard_normal(shape) - width**2 / 2)
