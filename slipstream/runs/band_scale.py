"""How large the error of a field may be at a point: the unit in which a pointwise band is measured.

A band of one width is too wide where a model is good and too narrow where it is not. So the
logarithm of the error's size is fitted by least squares on samples of the training to what is known
at each point of any sample: predicted targets and features, normalised, their squares and sizes
and, of several models, how far they differ there. What a calibration promises holds whatever the
fit is worth, since its samples take no part in it; docs/trust.md has how much narrower bands are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LEAST_ERROR, _LEAST_SPREAD = 0.05, 0.03
"""Added to errors and to spreads before their logarithm is taken, as shares of the field's spread
in training: what is smaller than that is all the same."""
_RIDGE = 1e-3
_SHARE = 0.01
"""The share of the training points at either end beyond whose fitted values none is used."""
_AT_ONCE = 65_536


@dataclass(frozen=True)
class BandScale:
    """The fit of one field."""

    spread: float
    """The spread of the target in training: of a vector, the root of the sum of its variances."""
    weights: tuple[float, ...]
    """Of the terms; none for a band of one width."""
    low: float
    """Least and largest logarithm, of the error's size over `spread`, that the fit may give."""
    high: float
    typical: float
    """The median over the training points of what the fit gives, in the unit of the field."""

    def at(self, known: Floats, differing: Floats | None = None) -> Floats:
        """The scale at each point (N,), in the unit of the field; see `terms`."""
        if not self.weights:
            return np.full(len(known), self.spread)
        weights = np.asarray(self.weights)
        logs = [
            terms(known[own], None if differing is None else differing[own] / self.spread) @ weights
            for own in (slice(k, k + _AT_ONCE) for k in range(0, len(known), _AT_ONCE))
        ]
        return self.spread * np.exp(np.clip(np.concatenate(logs), self.low, self.high))


def terms(known: Floats, differing: Floats | None) -> Floats:
    """(N, T), from what is known at points (N, Z), normalised, and how far several models differ
    there (N,), as a share of the field's spread in training."""
    parts = [np.ones((len(known), 1)), known, known**2, np.abs(known)]
    if differing is not None:
        parts.append(np.log(differing + _LEAST_SPREAD)[:, None])
    return np.concatenate(parts, 1)


def fit_band_scale(
    errors: Sequence[Floats],
    known: Sequence[Floats],
    differing: Sequence[Floats] | None,
    spread: float,
) -> BandScale:
    """Fit on some training samples: at their points the sizes of the errors (N,), what is known
    (N, Z) and, of several models, how far they differ (N,). One width for all where no error is
    finite."""
    sizes, points = np.concatenate(errors) / spread, np.concatenate(known)
    apart = None if differing is None else np.concatenate(differing) / spread
    table = terms(points, apart)
    good = np.isfinite(sizes) & np.isfinite(table).all(1)
    if not good.any():
        return BandScale(spread, (), 0.0, 0.0, spread)
    table, logs = table[good], np.log(sizes[good] + _LEAST_ERROR)
    damping = _RIDGE * len(table) * table.var(0)
    damping[0] = 0
    normal = table.T @ table + np.diag(damping)
    weights = np.linalg.lstsq(normal, table.T @ logs, rcond=None)[0]
    low, middle, high = np.quantile(table @ weights, [_SHARE, 0.5, 1 - _SHARE])
    typical = spread * math.exp(middle)
    return BandScale(spread, tuple(map(float, weights)), float(low), float(high), typical)
