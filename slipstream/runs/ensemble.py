"""Several trained models that predict together: the mean of their fields, and how far they differ.

A single model is an ensemble of one. Members are runs of one setting that differ in their seeds, or
any models with the same inputs and outputs, made in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.store import Schema
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Ensemble:
    """ValueError where members have other inputs or outputs than the first, or equal weights."""

    members: tuple[TrainedModel, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("an ensemble must have at least one model, got none")
        for number, member in enumerate(self.members[1:], start=2):
            differing = ", ".join(_differences(self.first, member))
            if differing:
                raise ValueError(
                    "models that predict together must have the same inputs and outputs, got model"
                    f" {number} with another {differing}"
                )
        if len(set(self._hashes)) < len(self.members):
            raise ValueError("models that predict together must differ, got one of them twice")

    @property
    def first(self) -> TrainedModel:
        return self.members[0]

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _hashes(self) -> tuple[str, ...]:
        return tuple(weights_hash(dict(one.model.named_parameters())) for one in self.members)

    @property
    def weights(self) -> str:
        """The hash of the weights; of several models one that does not depend on their order."""
        if len(self) == 1:
            return self._hashes[0]
        return hashlib.sha256("\n".join(sorted(self._hashes)).encode()).hexdigest()

    @property
    def validation_error(self) -> float | None:
        """Of a single model; that of several together was not measured in training."""
        error: float | None = self.first.metric["error"]
        return error if len(self) == 1 else None


Models = Ensemble | TrainedModel | Path | str | Sequence[TrainedModel | Path | str]
"""What stands for one model, or for several that predict together."""


def as_ensemble(models: Models, *, device: str = "auto") -> Ensemble:
    """An ensemble of loaded models, run folders or model files: one of these, or several."""
    if isinstance(models, Ensemble):
        return models
    several = [models] if isinstance(models, TrainedModel | Path | str) else models
    loaded = (
        one if isinstance(one, TrainedModel) else load_model(one, device=device) for one in several
    )
    return Ensemble(tuple(loaded))


def spread_of(several: Sequence[NDArray[Any]] | NDArray[Any]) -> NDArray[np.float64]:
    """How far several models differ at each row: the standard deviation over them, of a vector the
    root of the sum of its components' variances. `several` are (rows,) or (rows, components)."""
    variances = np.var(several, axis=0, ddof=1, dtype=np.float64)
    return np.asarray(np.sqrt(variances if variances.ndim == 1 else variances.sum(1)))


def _differences(first: TrainedModel, other: TrainedModel) -> Iterator[str]:
    for part in ("coords", "features", "targets"):
        if _fields(first.schema, part) != _fields(other.schema, part):
            yield part
    if (first.recipe is None) != (other.recipe is None):
        yield "recipe (one has none: `slipstream model RUN --store STORE` completes it)"
    elif first.recipe is not None and other.recipe is not None:
        yield from _recipe_differences(first.recipe, other.recipe)


def _fields(schema: Schema, part: str) -> list[tuple[Any, ...]]:
    return [(f.name, f.unit, f.components, f.divided) for f in getattr(schema, part)]


def _recipe_differences(first: Recipe, other: Recipe) -> Iterator[str]:
    for name in ("location", "patches", "density", "speed", "reference"):
        if getattr(first, name) != getattr(other, name):
            yield name
    for name in ("subtract", "box"):
        if getattr(first.coords, name) != getattr(other.coords, name):
            yield f"{name} of coordinates"
    if [f.made for f in first.features] != [f.made for f in other.features]:
        yield "way of making features"
