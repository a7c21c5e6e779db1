"""What may stand for a design, and how far one may be said to lie from others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.inference.likeness_score import Neighbourhood, describe
from slipstream.models.steps import Steps
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.streaming import PhysicalPoints

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]
"""Designs (m, E) -> how far each lies from the training (m)."""
_LAYERS = 4
_NEAREST, _LEADING = 5, 32
_LEVELS, _DIRECTIONS = 32, 32
VIEWS = (
    "lifted and masses 1, one flow",
    "lifted and masses 1",
    "lifted",
    *(f"masses {layer}" for layer in range(1, _LAYERS + 1)),
    *(f"tokens {layer}" for layer in range(1, _LAYERS + 1)),
    *(f"mixed tokens {layer}" for layer in range(1, _LAYERS + 1)),
    "masses, all layers",
    "mixed tokens, all layers",
    "masses 1 and mixed tokens 1",
    "quantiles of the inputs",
)
"""Masses are slice weights, averaged over the points; the first view has parameters in the middle
of their range, as `slipstream predict` has. The last view needs no model."""


@torch.no_grad()
def see(trained: TrainedModel, coords: torch.Tensor, features: torch.Tensor) -> dict[str, Floats]:
    """All views of one design."""
    steps = Steps(trained.model)
    inputs = trained.normalised_inputs(trained.inputs(coords, features))
    stream = steps.begin(*inputs)
    lifted = stream.x[0].double()
    views = {
        VIEWS[0]: describe(trained, PhysicalPoints.of(coords, features)),
        "lifted": _flat(torch.stack((lifted.mean(0), lifted.std(0, correction=0)))),
    }
    for layer in range(steps.couplings):
        stream, sums = steps.sums(layer, stream)
        mixed = steps.mixed(layer, sums)
        number = layer + 1
        views[f"masses {number}"] = _flat(sums.mass / len(coords))
        views[f"tokens {number}"] = _flat(sums.tokens(1e-5))
        views[f"mixed tokens {number}"] = _flat(mixed)
        stream = steps.apply(layer, stream, mixed)
    for kind in ("masses", "mixed tokens"):
        every = [views[f"{kind} {number}"] for number in range(1, _LAYERS + 1)]
        views[f"{kind}, all layers"] = np.concatenate(every)
    views["masses 1 and mixed tokens 1"] = np.concatenate(
        [views["masses 1"], views["mixed tokens 1"]]
    )
    views["lifted and masses 1"] = np.concatenate([views["lifted"], views["masses 1"]])
    assert inputs[1] is not None, "the problem has features"
    views["quantiles of the inputs"] = _quantiles(torch.cat((inputs[0], inputs[1]), -1)[0])
    return views


def _flat(values: torch.Tensor) -> Floats:
    return np.asarray(values.flatten().cpu().numpy(), np.float64)


def _quantiles(rows: torch.Tensor) -> Floats:
    """Quantiles along the axes and fixed random directions."""
    width = rows.shape[1]
    draw = np.random.Generator(np.random.Philox(key=0))
    directions = np.concatenate([np.eye(width), draw.standard_normal((_DIRECTIONS, width))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
    return np.quantile(rows.cpu().numpy() @ directions.T, levels, axis=0).ravel()


def _nearest(count: int, *, whitened: bool) -> Callable[[Floats], Score]:
    """Mean distance to the nearest training samples."""

    def make(training: Floats) -> Score:
        place = _placing(training, whitened)
        known = place(training)

        def score(designs: Floats) -> Floats:
            here = place(designs)
            squares = (here**2).sum(1)[:, None] + (known**2).sum(1) - 2 * here @ known.T
            nearest = np.sort(np.sqrt(np.maximum(squares, 0)), 1)[:, :count]
            return np.asarray(nearest.mean(1))

        return score

    return make


def _placing(training: Floats, whitened: bool) -> Score:
    middle, spread = training.mean(0), training.std(0)
    spread = np.maximum(spread, 1e-3 * max(float(spread.max()), 1e-12))
    if not whitened:
        return lambda designs: (designs - middle) / spread
    _, sizes, axes = np.linalg.svd((training - middle) / spread, full_matrices=False)
    count = min(_LEADING, int((sizes > 1e-9 * sizes[0]).sum()))
    scaled = axes[:count].T / (sizes[:count] / np.sqrt(len(training) - 1))
    return lambda designs: (designs - middle) / spread @ scaled


def _mahalanobis(training: Floats) -> Score:
    """To the mean, with the covariance of Ledoit and Wolf."""
    place = _placing(training, whitened=False)
    known = place(training)
    count, width = known.shape
    _, sizes, axes = np.linalg.svd(known, full_matrices=False)
    variances = sizes**2 / count
    mean = variances.sum() / width
    distance = max(float((variances**2).sum() - width * mean**2) / width, 1e-12)
    noise = float(((known**2).sum(1) ** 2).sum() / count - (variances**2).sum()) / count / width
    share = min(noise, distance) / distance

    def score(designs: Floats) -> Floats:
        here = place(designs)
        along = here @ axes.T
        rest = np.maximum((here**2).sum(1) - (along**2).sum(1), 0)
        inner = (along**2 / ((1 - share) * variances + share * mean)).sum(1)
        return np.asarray(np.sqrt(inner + rest / max(share * mean, 1e-12)))

    return score


def _local(training: Floats) -> Score:
    neighbours = Neighbourhood(training)
    return lambda designs: neighbours.scores(designs)[0]


DISTANCES: dict[str, Callable[[Floats], Any]] = {
    "nearest": _nearest(1, whitened=False),
    "5 nearest": _nearest(_NEAREST, whitened=False),
    "nearest, whitened": _nearest(1, whitened=True),
    "5 nearest, whitened": _nearest(_NEAREST, whitened=True),
    "Mahalanobis": _mahalanobis,
    "local": _local,
}
"""By name: training (n, E) -> the score. `local` is that of `slipstream predict`."""
