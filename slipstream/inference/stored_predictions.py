"""Samples of a store as `predict` would predict them, by one model or by several together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.data.batches import count_points
from slipstream.data.store import Store
from slipstream.inference.bands import known_at_points
from slipstream.inference.densities import token_points
from slipstream.runs.ensemble import Ensemble, spread_of
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.streaming import PhysicalPoints, Streaming, gather
from slipstream.runs.tokens import Tokens

BAND_POINTS = 1 << 18
"""Points of a sample on which its band is measured, which are a random subset."""
MOST_TRAINING, MOST_POINTS = 32, 2048
"""Training samples, and points of each, on which it is learned where errors are large."""


@torch.no_grad()
def predict_stored(trained: TrainedModel, sample: StoredSample) -> Tensor:
    """The targets at all rows of a sample, as stored (N, K), as `predict` makes them of a mesh."""
    recipe, rows = trained.recipe, sample.count
    points = trained.config.data.points
    draw = recipe.points.draw.most if recipe else count_points(points, rows, sample.name)
    chosen = token_points(rows, draw, "auto")
    streaming = Streaming(trained, normalised=True)
    values, write = gather(rows, 1, trained.schema.target_dim, trained.config.dtype)
    if chosen.subsets:
        coords, features = sample.rows(0, rows).inputs
        several = [
            streaming.encode(
                PhysicalPoints.of(coords[:, own], None if features is None else features[:, own])
            )
            for own in map(torch.from_numpy, chosen.subsets)
        ]
        streaming.decode(sample.points(), Tokens.mean(several, chosen.text), write)
    else:
        streaming.predict(sample.points(), write)
    whole = values.to(trained.device)
    return trained.normaliser.targets.inverse(whole)[0].float().cpu()


@dataclass(frozen=True, eq=False)
class PredictedSample:
    """A sample as predicted: rows by columns, as stored."""

    name: str
    several: NDArray[np.float32]
    """(models, N, K)"""
    truth: NDArray[np.float32]
    known: NDArray[np.float64]
    """What is known at its first points, see `band_scale.terms`."""

    def first(self, count: int) -> PredictedSample:
        """Its first points, which are a random subset."""
        several, truth, known = self.several[:, :count], self.truth[:count], self.known[:count]
        return PredictedSample(self.name, several, truth, known)

    @property
    def described(self) -> PredictedSample:
        """Those of its points of which `known` is."""
        return self.first(len(self.known))

    def residuals(self, columns: list[int]) -> NDArray[np.float64]:
        mean = self.several[..., columns].mean(0, dtype=np.float64)
        return np.asarray(mean - self.truth[:, columns], np.float64)

    def differing(self, columns: list[int]) -> NDArray[np.float64] | None:
        own = self.several[..., columns]
        return spread_of(own) if len(own) > 1 else None


class PredictedSamples:
    """Predicts samples, and once some of the training."""

    def __init__(self, models: Ensemble, store: Store) -> None:
        self.models, self.store = models, store

    def sample(self, name: str) -> PredictedSample:
        sample, first = StoredSample(self.store, name), self.models.first
        several = np.stack([predict_stored(one, sample).numpy() for one in self.models.members])
        truth = sample.rows(0, sample.count).targets[0].numpy()
        few = sample.rows(0, min(BAND_POINTS, sample.count)).features
        mean = torch.from_numpy(several[:, :BAND_POINTS].mean(0, dtype=np.float64))
        known = known_at_points(first, mean, None if few is None else few[0])
        return PredictedSample(name, several, truth, known)

    def training_names(self) -> list[str]:
        """Some samples of the training, evenly over the split."""
        names = self.store.splits["train"]
        chosen = np.unique(np.linspace(0, len(names) - 1, MOST_TRAINING).round().astype(int))
        return [names[k] for k in chosen]

    @cached_property
    def training(self) -> list[PredictedSample]:
        """The first points of each of these."""
        return [self.sample(name).first(MOST_POINTS) for name in self.training_names()]
