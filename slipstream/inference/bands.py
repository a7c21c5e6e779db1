"""The pointwise band of a prediction: how far off a field may be at each point of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.inference.prediction import MeshPrediction
from slipstream.runs.band_scale import BandScale
from slipstream.runs.ensemble import Ensemble
from slipstream.runs.model_file import TrainedModel


@dataclass(frozen=True)
class Band:
    """The band of a field at a level: `width` times its scale at each point."""

    field: str
    width: float
    scale: BandScale

    def at(self, models: Ensemble, prediction: MeshPrediction) -> NDArray[np.float32]:
        """The half-width at every row of a prediction, NaN where nothing was predicted."""
        inputs = prediction.inputs
        kept = slice(None) if inputs.kept is None else inputs.kept
        divisors = {
            target.name: _divisor(prediction, target.name) for target in models.first.schema.targets
        }
        stored = [
            prediction.fields[name][kept].reshape(inputs.points, -1) / divisor
            for name, divisor in divisors.items()
        ]
        features = models.first.inputs(*inputs.as_points().read(0, inputs.points)).features
        known = known_at_points(
            models.first,
            torch.from_numpy(np.concatenate(stored, 1).astype(np.float64)),
            None if features is None else features[0].cpu(),
        )
        divisor = np.abs(divisors[self.field][:, 0])
        spread = prediction.spread.get(self.field)
        differing = None if spread is None else spread[kept].astype(np.float64) / divisor
        return inputs.at_all_rows(
            np.asarray(self.width * self.scale.at(known, differing) * divisor, np.float32)
        )


def known_at_points(
    model: TrainedModel, predicted: Tensor, features: Tensor | None
) -> NDArray[np.float64]:
    """What is known at points beside their places, normalised (N, Z): predicted targets as stored
    (N, K), and features (N, F)."""
    parts = [model.normaliser.targets.forward(predicted.double())]
    if features is not None:
        parts.append(model.normaliser.features.forward(features.double()))
    return torch.cat(parts, 1).numpy()


def _divisor(prediction: MeshPrediction, name: str) -> NDArray[Any]:
    """What a target was divided by in the store, (1, 1) or (N, 1) at the predicted rows."""
    divided = prediction.recipe.target(name).divided
    if divided is None:
        return np.ones((1, 1))
    given = {by: np.asarray(prediction.inputs.features[by]) for by in divided.by}
    return np.asarray(divided.value(given), np.float64).reshape(-1, 1)
