"""The training sample that is most like another sample, by what a model is given of both.

A sample is described by two vectors:

* its parameters: features that are the same at all of its points, each divided by its standard
  deviation over the training samples;
* its shape: coordinates and the other features at its points, seen along fixed directions; along
  each, 32 quantiles. Two samples differ by how far these quantiles lie apart (a sliced Wasserstein
  distance). Coordinates share one scale, features have each their own.

Either part is divided by its own spread over the training samples, so that both count alike, and
the nearest sample has the least sum of the two squares. Where shapes differ by no more than the
points that happened to be read of a sample make them differ, all shapes count as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.data.store import Store

POINTS = 4096
"""Points that are read of a sample, the first in the store: a random subset."""
MOST_TRAINING = 512
"""Training samples among which the nearest is looked for, evenly over the split."""
LEVELS, DIRECTIONS = 32, 32
"""Quantiles along a direction; directions besides the axes."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Description:
    parameters: Floats
    shape: Floats
    noise: float
    """Square of how much `shape` depends on the points that were read."""


def read_first(store: Store, sample: str, most: int) -> NDArray[np.float32]:
    """The first rows of a sample, which are a random subset of its points."""
    count = min(most, store.rows(sample))
    rows = np.empty((count, store.schema.width), np.float32)
    store.read_spans(sample, [(0, count)], rows)
    return rows


def candidates(store: Store) -> tuple[str, ...]:
    """The training samples that may be nearest: all, or MOST_TRAINING of them."""
    return evenly(store.splits.get("train", ()), MOST_TRAINING)


def evenly(samples: Sequence[str], most: int) -> tuple[str, ...]:
    """All samples, or `most` of them, evenly over their order."""
    if len(samples) <= most:
        return tuple(samples)
    chosen = np.linspace(0, len(samples) - 1, most).round().astype(int)
    return tuple(samples[i] for i in chosen)


def nearest_samples(store: Store, samples: Sequence[str]) -> dict[str, str]:
    """The nearest training sample of each sample, itself excepted.

    Samples without another training sample are left out. Of equally near ones the first counts.
    """
    training = candidates(store)
    if not training:
        return {}
    rows = {sample: read_first(store, sample, POINTS) for sample in training}
    describe = _Describer(store, list(rows.values()))
    known = {sample: describe(own, store.rows(sample)) for sample, own in rows.items()}
    parts = _weighted_parts(list(known.values()))
    nearest = {}
    for sample in samples:
        own = known.get(sample) or describe(read_first(store, sample, POINTS), store.rows(sample))
        squares = np.zeros(len(training))
        for name, vectors, spread in parts:
            squares += ((vectors - getattr(own, name)) ** 2).sum(1) / spread
        squares[[name == sample for name in training]] = np.inf
        if np.isfinite(squares).any():
            nearest[sample] = training[int(squares.argmin())]
    return nearest


def _weighted_parts(training: Sequence[_Description]) -> list[tuple[str, Floats, float]]:
    """Each part with the vectors of the training samples and the square of their spread."""
    noise = float(np.mean([one.noise for one in training]))
    parts = []
    for name, least in (("parameters", 0.0), ("shape", 2 * noise)):
        vectors = np.stack([getattr(one, name) for one in training])
        spread = float(((vectors - vectors.mean(0)) ** 2).sum(1).mean())
        if spread > least:
            parts.append((name, vectors, spread))
    return parts


class _Describer:
    """Describes samples by the columns and scales of the training split."""

    def __init__(self, store: Store, training: Sequence[NDArray[np.float32]]) -> None:
        coords, features = (store.schema.columns(part) for part in ("coords", "features"))
        scale = np.array(store.statistics.std, np.float64)
        scale[coords] = np.sqrt(np.mean(scale[coords] ** 2))
        inputs = [column for column in range(features.stop) if scale[column] > 0]
        self.parameters = [
            column
            for column in inputs
            if column >= features.start and all(np.ptp(rows[:, column]) == 0 for rows in training)
        ]
        self.points = [column for column in inputs if column not in self.parameters]
        self.scale = scale
        draw = np.random.Generator(np.random.Philox(key=0))
        random = draw.standard_normal((DIRECTIONS, len(self.points)))
        both = np.concatenate([np.eye(len(self.points)), random])
        self.directions = both / np.linalg.norm(both, axis=1, keepdims=True)

    def __call__(self, rows: NDArray[np.float32], total: int) -> _Description:
        parameters = rows[0, self.parameters] / self.scale[self.parameters]
        seen = (rows[:, self.points] / self.scale[self.points]) @ self.directions.T
        halves = [_quantiles(seen[first::2]) for first in (0, 1)] if len(rows) > 1 else []
        # A half has twice the variance of the whole, the difference of two halves four times.
        noise = float(((halves[0] - halves[1]) ** 2).sum()) / 4 if halves else 0.0
        noise *= 1 - len(rows) / total  # nothing is left to chance where all points are read
        return _Description(np.asarray(parameters, np.float64), _quantiles(seen), noise)


def _quantiles(seen: Floats) -> Floats:
    """Quantiles along each direction as one vector, whose square is a mean over all of them."""
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    quantiles = np.quantile(seen, levels, axis=0)
    return np.asarray(quantiles.ravel() / np.sqrt(quantiles.size))
