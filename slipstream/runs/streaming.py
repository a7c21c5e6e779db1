"""A trained model in chunks, in physical units: tokens of a cloud, and fields at any points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from slipstream.models.sweep_plan import SweepPlan, plan_sweeps
from slipstream.models.sweeps import Inputs, Points, Watch, decode, encode, stream_through
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.model_inputs import ModelInputs
from slipstream.runs.tokens import Tokens

if TYPE_CHECKING:
    from slipstream.runs.model_file import TrainedModel

Write = Callable[[int, int, Tensor], None]
"""Takes the first point, the end and the fields (B, n, K) of a span."""


@dataclass(frozen=True)
class PhysicalPoints:
    """N points in the units of a model's schema, read some at a time."""

    count: int
    read: Callable[[int, int], tuple[Any, Any]]
    """Coordinates and features, as a trained model takes them, of a span of the points."""

    @classmethod
    def of(cls, coords: Any, features: Any = None) -> PhysicalPoints:
        """Points in memory: arrays, tensors or lists, (N, d) or (B, N, d)."""
        coords = coords if isinstance(coords, Tensor) else np.asarray(coords)
        if coords.ndim not in (2, 3):
            return cls(1, lambda first, end: (coords, features))  # whose check says what is wrong
        count = coords.shape[-2]

        def read(first: int, end: int) -> tuple[Any, Any]:
            return coords[..., first:end, :], _span(features, first, end, count)

        return cls(count, read)


def _span(features: Any, first: int, end: int, count: int) -> Any:
    """The features of a span of points; numbers that all points share stay as they are."""
    if isinstance(features, Mapping):
        return {name: _span_of_one(values, first, end, count) for name, values in features.items()}
    if features is None:
        return None
    array = features if isinstance(features, Tensor) else np.asarray(features)
    if array.ndim < 2 or array.shape[-2] != count:
        return array  # whose check says what is wrong
    return array[..., first:end, :]


def _span_of_one(values: Any, first: int, end: int, count: int) -> Any:
    array = values if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim > 1 and array.shape[-2] == count:
        return array[..., first:end, :]
    return array[..., first:end] if array.ndim and array.shape[-1] == count else values


@dataclass(frozen=True)
class Streaming:
    """A trained model and how points are taken through it."""

    trained: TrainedModel
    chunk: int | None = None
    place: Any = "auto"
    watch: Watch = lambda done, total: None
    normalised: bool = False
    """Whether fields are written as training's targets are normalised, not in physical units."""

    def plan(self, count: int) -> SweepPlan:
        return plan_sweeps(self.trained.model, count, chunk=self.chunk, place=self.place)

    def encode(self, points: PhysicalPoints, note: str = "") -> Tokens:
        how = self.plan(points.count).sweeping
        layers = encode(self.trained.model, self._inputs_of(points), how, self.watch)
        return self._tokens(layers, points.count, note)

    def decode(self, points: PhysicalPoints, tokens: Tokens, write: Write) -> None:
        self._check(tokens)
        model, chunk = self.trained.model, self.plan(points.count).chunk
        layers = [layer.to(self.trained.device) for layer in tokens.layers]
        first = 0
        for part in decode(model, layers, self._inputs_of(points), chunk, self.watch):
            self._write(points, write, first, first + part.shape[1], part)
            first += part.shape[1]

    def predict(self, points: PhysicalPoints, write: Write, note: str = "") -> Tokens:
        """Write the fields at all points, which are those that the tokens come from."""
        how, inputs = self.plan(points.count).sweeping, self._inputs_of(points)
        writing = partial(self._write, points, write)
        layers = stream_through(self.trained.model, inputs, how, writing, self.watch)
        return self._tokens(layers, points.count, note)

    def _tokens(self, layers: list[Tensor], count: int, note: str) -> Tokens:
        weights = weights_hash(dict(self.trained.model.named_parameters()))
        return Tokens(tuple(layers), count, weights, note)

    def _check(self, tokens: Tokens) -> None:
        own = weights_hash(dict(self.trained.model.named_parameters()))
        if tokens.weights != own:
            raise ValueError(
                f"tokens must be of this model, weights {own[:12]}, got those of"
                f" {tokens.weights[:12]}"
            )

    def _inputs_of(self, points: PhysicalPoints) -> Points:
        def read(first: int, end: int) -> Inputs:
            return self.trained.normalised_inputs(self._inputs(points, first, end))

        return Points(points.count, read)

    def _inputs(self, points: PhysicalPoints, first: int, end: int) -> ModelInputs:
        return self.trained.inputs(*points.read(first, end))

    def _write(
        self, points: PhysicalPoints, write: Write, first: int, end: int, outputs: Tensor
    ) -> None:
        trained = self.trained
        values = outputs.to(trained.config.dtype)
        if self.normalised:
            return write(first, end, values)
        values = trained.normaliser.targets.inverse(values)
        if any(field.divided for field in trained.schema.targets):
            features = self._inputs(points, first, end).features
            values = trained.schema.undivided(values, features)
        write(first, end, values)


def gather(count: int, clouds: int, channels: int, dtype: torch.dtype) -> tuple[Tensor, Write]:
    """A tensor (B, N, K) in host memory, and the function that fills it."""
    fields = torch.empty(clouds, count, channels, dtype=dtype)

    def write(first: int, end: int, part: Tensor) -> None:
        fields[:, first:end] = part.cpu()

    return fields, write
