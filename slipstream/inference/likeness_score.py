"""How far a design lies from those of the training, in units of how far these lie apart.

A design is described by what the first layer of the model makes of its points: the mean and the
standard deviation over the points of each lifted feature, and the mean slice weights, with all
parameters in the middle of their range: these have checks of their own, and would hide the shape.
From deeper layers unseen shapes are hardly told apart (`slipstream bench likeness` compares them).

The score is the mean distance to the NEAREST nearest training samples, divided by the same distance
of those samples: a training set of several kinds of designs is dense here and sparse there.
Distances are Euclidean among LEADING whitened principal components; for fewer than FEWEST_WHITENED
training samples among all standardised numbers, since so few say little about correlations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.models.steps import Steps
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.model_inputs import ModelInputs
from slipstream.runs.streaming import PhysicalPoints

NEAREST = 5
LEADING = 32
FEWEST_WHITENED = 48
POINTS = 32_768
"""Points of a design, at random, that its description is made of."""
_CHUNK = 8_192
_LEAST_SPREAD = 1e-3
"""A number, component or neighbourhood whose spread is less than this share of the largest counts
as one of this share: it holds rounding."""
_ROUNDING = 1e-6
"""The least distance between training samples, in standard deviations."""
Floats = NDArray[np.float64]


@torch.no_grad()
def describe(trained: TrainedModel, points: PhysicalPoints) -> Floats:
    """The description of a design: a mean over its points, chunk by chunk."""
    steps = Steps(trained.model)
    total, squares, masses = None, None, None
    for first in range(0, points.count, _CHUNK):
        end = min(first + _CHUNK, points.count)
        inputs = _at_one_flow(trained, trained.inputs(*points.read(first, end)))
        stream = steps.begin(*trained.normalised_inputs(inputs))
        lifted = stream.x[0].double()
        total = _added(total, lifted.sum(0))
        squares = _added(squares, lifted.square().sum(0))
        sums = steps.sums(0, stream)[1] if steps.couplings else None
        # Weights that are normalised over the points have a mass of one, whatever the points are.
        if sums is not None and sums.log_normalizer is None:
            masses = _added(masses, sums.mass[0].double().flatten())
    assert total is not None and squares is not None, "a cloud has at least one point"
    mean = total / points.count
    spread = (squares / points.count - mean.square()).clamp(min=0).sqrt()
    parts = [mean, spread] if masses is None else [mean, spread, masses / points.count]
    return np.asarray(torch.cat(parts).cpu().numpy(), np.float64)


def _at_one_flow(trained: TrainedModel, inputs: ModelInputs) -> ModelInputs:
    """The inputs with every parameter in the middle of its range in training."""
    recipe, schema = trained.recipe, trained.schema
    if recipe is None or inputs.features is None or not recipe.parameters:
        return inputs
    features, start = inputs.features.clone(), schema.columns("features").start
    for parameter in recipe.parameters:
        columns = schema.columns(parameter.name)
        middle = (np.asarray(parameter.low) + np.asarray(parameter.high)) / 2
        values = torch.as_tensor(middle, dtype=features.dtype, device=features.device)
        features[..., columns.start - start : columns.stop - start] = values
    return replace(inputs, features=features)


def _added(total: torch.Tensor | None, part: torch.Tensor) -> torch.Tensor:
    return part if total is None else total + part


class Neighbourhood:
    """The training samples by their descriptions (n, E), n at least 2."""

    def __init__(self, training: NDArray[Any]) -> None:
        known = np.asarray(training, np.float64)
        if known.ndim != 2 or len(known) < 2:
            raise ValueError(
                f"likeness must have at least 2 training samples, got the shape {known.shape}"
            )
        self._middle, self._axes = _axes(known)
        self._places = self._placed(known)
        self.count = min(NEAREST, max(1, len(known) // 4))
        distances = _distances(self._places, self._places)
        np.fill_diagonal(distances, np.inf)
        own, _ = self._nearest(distances)
        least = max(_LEAST_SPREAD * float(own.max()), _ROUNDING)
        self._own = np.maximum(own, least)
        self._apart = distances

    def scores(self, designs: NDArray[Any]) -> tuple[Floats, NDArray[np.intp]]:
        """The score of each design (m, E), and its nearest training samples (m, k) in order."""
        placed = self._placed(np.asarray(designs, np.float64))
        return self._scored(_distances(placed, self._places))

    def own_scores(self) -> Floats:
        """The score of each training sample among the others."""
        return self._scored(self._apart)[0]

    def _placed(self, designs: Floats) -> Floats:
        return np.asarray((designs - self._middle) @ self._axes)

    def _nearest(self, distances: Floats) -> tuple[Floats, NDArray[np.intp]]:
        order = np.argsort(distances, 1, kind="stable")[:, : self.count]
        return np.take_along_axis(distances, order, 1).mean(1), order

    def _scored(self, distances: Floats) -> tuple[Floats, NDArray[np.intp]]:
        mean, order = self._nearest(distances)
        return mean / self._own[order].mean(1), order


def _axes(known: Floats) -> tuple[Floats, Floats]:
    """The middle of the training, and the matrix (E, c) that gives places in which to measure."""
    middle = known.mean(0)
    spread = _floored(known.std(0))
    if len(known) < FEWEST_WHITENED:
        return middle, np.diag(1 / spread)
    _, sizes, axes = np.linalg.svd((known - middle) / spread, full_matrices=False)
    count = min(LEADING, len(known) // 2, len(sizes))
    deviations = _floored(sizes)[:count] / np.sqrt(len(known) - 1)
    return middle, (axes[:count].T / spread[:, None]) / deviations


def _floored(spread: Floats) -> Floats:
    """Spreads of which none is 0."""
    largest = float(spread.max())
    return np.maximum(spread, _LEAST_SPREAD * largest) if largest > 0 else np.ones_like(spread)


def _distances(some: Floats, others: Floats) -> Floats:
    squares = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * some @ others.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)))
